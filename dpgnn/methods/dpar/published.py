"""DPAR's published chain of budgets, and what can be proved for its run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpgnn.accountants import amplification, composition, published_dpar, rdp
from dpgnn.accountants.events import Event, FixedSizeRoots, GaussianRelease, GumbelTopK
from dpgnn.accountants.plan import NOTHING_PROVED, Budget, Mechanism, Spent
from dpgnn.core.checks import require
from dpgnn.methods.dpar.mechanisms import (
    RELATION,
    Sizes,
    gaussian,
    gumbel,
    laplace,
    mechanisms_of,
    public_facts,
    whole,
)
from dpgnn.methods.dpar.options import EXACT_ROWS, PRIVATE_ROWS, DPARConfig
from dpgnn.methods.dpar.proved import (
    changed_roots_but_for,
    gaussian_selection_probability,
    gumbel_selection_probability,
)
from dpgnn.methods.shared.planning import claim_for

if TYPE_CHECKING:
    from dpgnn.accountants.claims import Claim
    from dpgnn.methods.base import Entry

# part of delta for the event that a node is in more rows than counted
SLACK_SHARE = 0.1


@dataclass(frozen=True, kw_only=True)
class Chain:
    """The published chain for one budget.

    Attributes:
        epsilon, delta: before amplification.
        rows_epsilon, rows_delta: for the rows.
        vector: for one vector.
        training_epsilon, training_delta: for training.
        multiplier: sigma / C of training.
    """

    epsilon: float
    delta: float
    rows_epsilon: float
    rows_delta: float
    vector: published_dpar.VectorBudget | None
    training_epsilon: float
    training_delta: float
    multiplier: float


def published_chain(config: DPARConfig, sizes: Sizes, budget: Budget) -> Chain:
    """Budget / q' (or the right inverse), shares, M vectors, sampled Gaussian with sensitivity C.

    Args:
        config: resolved options.
        sizes: public sizes; the nominal q' of the options is used, as in the paper.
        budget: of the whole.
    """
    rate = config.subsample_rate
    assert rate is not None
    if config.amplification == "multiply":
        epsilon, delta = published_dpar.before_amplification(budget.epsilon, budget.delta, rate)
        require(delta < 1, "delta / subsample_rate", "be < 1", delta)
    elif config.amplification == "correct":
        epsilon, delta = amplification.before(budget.epsilon, budget.delta, rate)
    else:
        epsilon, delta = budget.epsilon, budget.delta
    share = 0.0 if config.rows == "none" else config.rows_share
    vector = None
    if share:
        vector = published_dpar.vector_budget(share * epsilon, share * delta, sizes.num_vectors)
    multiplier = published_dpar.sgd_noise_multiplier(
        target_epsilon=(1 - share) * epsilon,
        delta=(1 - share) * delta,
        sampling_probability=sizes.batch_size / sizes.num_roots,
        num_steps=sizes.num_steps,
    )
    return Chain(
        epsilon=epsilon, delta=delta, rows_epsilon=share * epsilon, rows_delta=share * delta,
        vector=vector, training_epsilon=(1 - share) * epsilon, training_delta=(1 - share) * delta,
        multiplier=multiplier,
    )  # fmt: skip


def chain_details(config: DPARConfig, sizes: Sizes, budget: Budget) -> dict[str, float]:
    """The chain's numbers for the record; `amplified_epsilon` is what the correct rule would give."""
    chain = published_chain(config, sizes, budget)
    assert config.subsample_rate is not None
    rate = 1.0 if config.amplification == "none" else config.subsample_rate
    found = {
        "epsilon_before_amplification": chain.epsilon,
        "delta_before_amplification": chain.delta,
        "amplified_epsilon": amplification.amplified(chain.epsilon, chain.delta, rate)[0],
        "training_epsilon": chain.training_epsilon,
        "training_delta": chain.training_delta,
    }
    if chain.vector is not None:
        found |= {
            "rows_epsilon": chain.rows_epsilon,
            "rows_delta": chain.rows_delta,
            "vector_epsilon": chain.vector.epsilon,
            "vector_delta": chain.vector.delta,
        }
    return found


def published_rows(
    config: DPARConfig, sizes: Sizes, vector: published_dpar.VectorBudget
) -> list[tuple[str, Event[Any]]]:
    """One vector's mechanisms with the noise of the published chain, at their true sensitivities."""
    if config.rows == "gm":
        norm = config.max_vector_norm
        stddev = published_dpar.gaussian_noise_stddev(vector.epsilon, vector.delta, norm)
        return [("perturb", gaussian(norm, stddev))]
    parts = 2 if config.rows == "em1" else 1
    epsilon = vector.epsilon / parts
    parameter = published_dpar.gumbel_epsilon(epsilon, vector.delta, sizes.num_selected)
    rows = [("select", gumbel(config, sizes, config.max_entry / parameter))]
    if config.rows == "em1":
        scale = sizes.num_selected * config.max_entry / epsilon
        rows.append(("weigh", laplace(config, sizes, scale)))
    return rows


def published(
    entry: Entry, config: DPARConfig, sizes: Sizes, budget: Budget
) -> tuple[tuple[Mechanism, ...], tuple[Claim, ...]]:
    """Mechanisms with the paper's noise, the paper's claim, and the best that we can prove."""
    chain = published_chain(config, sizes, budget)
    rows: list[tuple[str, Event[Any]]] = []
    if config.rows in PRIVATE_ROWS:
        assert chain.vector is not None
        rows = published_rows(config, sizes, chain.vector)
    noise = chain.multiplier * config.clipping_norm
    training = FixedSizeRoots(
        relation=RELATION, noise_stddev=noise, clipping_norm=config.clipping_norm,
        population=sizes.num_roots, batch_size=sizes.batch_size,
        changed_roots=1 if config.rows == "none" else min(sizes.num_roots, sizes.num_vectors + 1),
    )  # fmt: skip
    mechanisms = mechanisms_of(config, sizes, rows, training, claimed_changed=1)
    training_epsilon = chain.training_epsilon
    spent = chain.rows_epsilon if config.rows in PRIVATE_ROWS else 0.0
    stated = claim_for(
        entry, budget,
        Spent(epsilon=_amplified_as_stated(config, spent + training_epsilon), accountant="dpar chain"),
        caveats=_published_caveats(config, sizes, chain),
        assumed_public=public_facts(config),
    )  # fmt: skip
    return mechanisms, (stated, best_proved(entry, config, sizes, budget, rows, training))


def _amplified_as_stated(config: DPARConfig, epsilon: float) -> float:
    assert config.subsample_rate is not None
    if config.amplification == "multiply":
        return config.subsample_rate * epsilon
    if config.amplification == "correct":
        return amplification.amplified(epsilon, 0.5, config.subsample_rate)[0]
    return epsilon


def _published_caveats(config: DPARConfig, sizes: Sizes, chain: Chain) -> tuple[str, ...]:
    caveats = ["expectation-argument", "output-universe", "fixed-size-as-poisson"]
    if config.amplification == "multiply":
        caveats.append("epsilon-times-rate")
    if config.rows != "none":
        caveats.append("batch-sensitivity")
    if config.rows in EXACT_ROWS:
        caveats.append("exact-neighbours")
    if config.rows in PRIVATE_ROWS and chain.vector is not None:
        by_theorem = published_dpar.composition_theorem(
            chain.vector.epsilon, chain.rows_delta / 2, sizes.num_vectors
        )
        if by_theorem > chain.rows_epsilon:
            caveats.append("corollary-range")
        if config.rows == "gm":
            caveats.append("appr-sensitivity")
            if chain.vector.epsilon >= 1:
                caveats.append("classical-gaussian-range")
    return tuple(caveats)


def best_proved(
    entry: Entry,
    config: DPARConfig,
    sizes: Sizes,
    budget: Budget,
    rows: Sequence[tuple[str, Event[Any]]],
    training: Event[Any],
) -> Claim:
    """The smallest epsilon that we can prove for the run, under replace-one (`proved.py`)."""
    # as published the subsample is a file of the workflow and nodes with a vector are public: nothing is
    # amplified. With the right rule it is drawn in the run and kept secret
    rate = sizes.rate if config.amplification == "correct" else 1.0
    delta, proved = budget.delta / rate, NOTHING_PROVED
    if config.rows not in EXACT_ROWS and delta < 1:
        inner = _proved_before_amplification(config, sizes, rows, training, delta)
        epsilon = amplification.amplified(inner.epsilon, delta, rate)[0]
        proved = dataclasses.replace(inner, epsilon=epsilon)
    return claim_for(
        dataclasses.replace(entry, relation="replace-one"), budget, proved, status="proved",
        assumed_public=public_facts(config),
    )  # fmt: skip


def _proved_before_amplification(
    config: DPARConfig,
    sizes: Sizes,
    rows: Sequence[tuple[str, Event[Any]]],
    training: Event[Any],
    delta: float,
) -> Spent:
    if config.rows == "none" and not _keeps_the_batch_secret(config):
        assert isinstance(training, FixedSizeRoots)
        divergences = sizes.num_steps * rdp.revealed_rdp(training, rdp.OUR_ORDERS)
        epsilon, _ = rdp.to_epsilon(rdp.OUR_ORDERS, divergences, delta, conversion="improved")
        return Spent(epsilon=epsilon, accountant="rdp")
    if config.rows == "none":
        return composition.spent(whole(sizes, rows, training), delta=delta, relation=RELATION)
    slack = SLACK_SHARE * delta
    changed = changed_roots_but_for(
        slack, _probability_in_a_row(config, sizes, rows), sizes.num_vectors, sizes.num_roots
    )
    assert isinstance(training, FixedSizeRoots)
    if config.dropout > 0:
        # a secret batch would count only one changed root
        changed = max(changed, min(2, sizes.num_roots))
    fewer = dataclasses.replace(training, changed_roots=changed)
    return Spent(epsilon=rdp.epsilon(whole(sizes, rows, fewer), delta - slack), accountant="rdp")


def _keeps_the_batch_secret(config: DPARConfig) -> bool:
    """Whether the proof for Features may keep the batch secret; dropout's masks depend on the batch."""
    return config.rows == "none" and config.dropout == 0


def _probability_in_a_row(
    config: DPARConfig, sizes: Sizes, rows: Sequence[tuple[str, Event[Any]]]
) -> float:
    """The largest probability that a vector's row contains a given node."""
    for _, event in rows:
        if isinstance(event, GumbelTopK):
            return gumbel_selection_probability(event, sizes.num_members)
        if isinstance(event, GaussianRelease):
            return gaussian_selection_probability(
                event, config.max_vector_norm, sizes.num_members, sizes.num_selected
            )
    return sizes.num_selected / sizes.num_members
