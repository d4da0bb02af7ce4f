"""DPAR's plans: the published chain, the proved composition, and what can be proved of the first."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpgnn.accountants import allocation, amplification, composition, published_dpar, rdp
from dpgnn.accountants.events import (
    Event,
    FixedSizeRoots,
    GaussianRelease,
    GumbelTopK,
    LaplaceRelease,
    PoissonRoots,
    compose,
    compose_all,
)
from dpgnn.accountants.plan import Budget, Mechanism, Plan
from dpgnn.checks import require
from dpgnn.methods._dpar_options import (
    EXACT_ROWS,
    PRIVATE_ROWS,
    DPARConfig,
    is_control_of_sound,
    resolved,
)
from dpgnn.methods.planning import claim_for

if TYPE_CHECKING:
    from dpgnn.accountants.claims import Claim
    from dpgnn.methods.base import Entry, Facts

ASSUMED_PUBLIC = ("number of nodes", "number of training nodes", "membership of the split",
                  "which nodes have a vector", "all options")  # fmt: skip
# above this many changed roots the curve of a fixed-size batch is counted by Renyi divergence alone
MOST_ROOTS_BY_PLD = 12
RELATION: Any = "replace-one"


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Public sizes of a run.

    Attributes:
        num_members: N, nodes of the subsample.
        num_vectors: M.
        num_selected: K, at most N.
        num_roots: roots that training draws from.
        batch_size: B, at most that.
        num_steps: T.
        rate: N / n_train, the part of the training nodes that is used.
    """

    num_members: int
    num_vectors: int
    num_selected: int
    num_roots: int
    batch_size: int
    num_steps: int
    rate: float


def sizes_of(config: DPARConfig, num_train: int) -> Sizes:
    """Sizes from resolved options and the public number of training nodes."""
    members = config.num_members(num_train)
    roots = config.num_roots(members)
    return Sizes(
        num_members=members,
        num_vectors=config.vectors_of(members),
        num_selected=min(config.top_k, members),
        num_roots=roots,
        batch_size=min(config.batch_size, roots),
        num_steps=config.steps(roots),
        rate=members / num_train,
    )


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """Noise of both stages from the budget, and what is claimed for it.

    Guarantee (sound mode): unit node, replace-one, (epsilon, delta) as claimed. Rows: M selections with
    Gumbel noise or M Gaussian releases at the true sensitivity (sqrt(2) C1), composed on one curve with
    Poisson batches in which at most s + 1 roots change, because a node is in at most s of the M rows
    and in its own root's loss. With a secret subsample the curve is amplified by theorem 7 of
    docs/accounting.md.

    Raises:
        ValueError: no noise meets the budget, or delta / q' is not below 1.

    Source: Zhang et al. (2024), DPAR, sections 4 and 5.
    """
    config = resolved(entry)
    sizes = sizes_of(config, facts.num_train)
    if entry.mode == "nonprivate":
        return Plan(facts=facts.recorded(), num_steps=sizes.num_steps)
    if entry.mode == "sound":
        mechanisms, claims = _sound(entry, config, sizes, budget)
    elif is_control_of_sound(entry):
        mechanisms, claims = _control_of_sound(entry, config, sizes, budget)
    else:
        mechanisms, claims = _published(entry, config, sizes, budget)
    return Plan(
        mechanisms=mechanisms,
        claims=claims,
        num_steps=sizes.num_steps,
        facts=facts.recorded(),
        details={"members": sizes.num_members, "vectors": sizes.num_vectors,
                 "amplification": config.amplification},
    )  # fmt: skip


# --- the published chain


@dataclass(frozen=True, kw_only=True)
class Chain:
    """The published chain for one budget.

    Attributes:
        epsilon, delta: before amplification.
        rows_epsilon, rows_delta: what the rows get.
        vector: what one vector gets.
        training_epsilon, training_delta: what training gets.
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


def published_rows(
    config: DPARConfig, sizes: Sizes, vector: published_dpar.VectorBudget
) -> list[tuple[str, Event[Any]]]:
    """One vector's mechanisms with the noise of the published chain, at their true sensitivities."""
    if config.rows == "gm":
        norm = config.max_vector_norm
        stddev = published_dpar.gaussian_noise_stddev(vector.epsilon, vector.delta, norm)
        return [("perturb", _gaussian(norm, stddev))]
    parts = 2 if config.rows == "em1" else 1
    epsilon = vector.epsilon / parts
    gumbel = published_dpar.gumbel_epsilon(epsilon, vector.delta, sizes.num_selected)
    rows = [("select", _gumbel(config, sizes, config.max_entry / gumbel))]
    if config.rows == "em1":
        scale = sizes.num_selected * config.max_entry / epsilon
        rows.append(("weigh", _laplace(config, sizes, scale)))
    return rows


def _published(
    entry: Entry, config: DPARConfig, sizes: Sizes, budget: Budget
) -> tuple[tuple[Mechanism, ...], tuple[Claim, ...]]:
    chain = published_chain(config, sizes, budget)
    rows: list[tuple[str, Event[Any]]] = []
    if config.rows in PRIVATE_ROWS:
        assert chain.vector is not None
        rows = published_rows(config, sizes, chain.vector)
    changed = 1 if config.rows == "none" else min(sizes.num_roots, sizes.num_vectors + 1)
    noise = chain.multiplier * config.clipping_norm
    training: Event[Any] = FixedSizeRoots(
        relation=RELATION, noise_stddev=noise, clipping_norm=config.clipping_norm,
        population=sizes.num_roots, batch_size=sizes.batch_size, changed_roots=changed,
    )  # fmt: skip
    mechanisms = _mechanisms(config, sizes, rows, training, claimed_changed=1)
    training_epsilon = chain.training_epsilon
    spent = chain.rows_epsilon if config.rows in PRIVATE_ROWS else 0.0
    stated = claim_for(
        entry, budget, epsilon=_amplified_as_stated(config, spent + training_epsilon),
        accountant="dpar chain", caveats=_published_caveats(config), assumed_public=ASSUMED_PUBLIC,
    )  # fmt: skip
    return mechanisms, (stated, _best_proved(entry, config, sizes, budget, rows, training))


def _amplified_as_stated(config: DPARConfig, epsilon: float) -> float:
    assert config.subsample_rate is not None
    if config.amplification == "multiply":
        return config.subsample_rate * epsilon
    if config.amplification == "correct":
        return amplification.amplified(epsilon, 0.5, config.subsample_rate)[0]
    return epsilon


def _published_caveats(config: DPARConfig) -> tuple[str, ...]:
    caveats = ["expectation-argument", "output-universe", "fixed-size-as-poisson"]
    if config.amplification == "multiply":
        caveats.append("epsilon-times-rate")
    if config.rows != "none":
        caveats.append("batch-sensitivity")
    if config.rows == "gm":
        caveats += ["appr-sensitivity", "classical-gaussian-range"]
    if config.rows in EXACT_ROWS:
        caveats.append("exact-neighbours")
    return tuple(caveats)


def _best_proved(
    entry: Entry,
    config: DPARConfig,
    sizes: Sizes,
    budget: Budget,
    rows: Sequence[tuple[str, Event[Any]]],
    training: Event[Any],
) -> Claim:
    """The smallest epsilon we can prove for what is run, under replace-one."""
    epsilon = math.inf
    if config.rows not in EXACT_ROWS:
        whole = _whole(sizes, rows, training)
        # a published subsample is one uniform draw that is not released
        secret = config.amplification != "none"
        delta = budget.delta / sizes.rate if secret else budget.delta
        by_rdp = isinstance(training, FixedSizeRoots) and training.changed_roots > MOST_ROOTS_BY_PLD
        if delta < 1:
            epsilon = rdp.epsilon(whole, delta) if by_rdp else composition.epsilon(
                whole, delta=delta, relation=RELATION
            )  # fmt: skip
            if secret:
                epsilon = amplification.amplified(epsilon, delta, sizes.rate)[0]
    replaced = dataclasses.replace(entry, relation="replace-one")
    return claim_for(
        replaced, budget, epsilon=epsilon, accountant="pld and rdp", status="proved",
        assumed_public=ASSUMED_PUBLIC,
    )  # fmt: skip


# --- the proved plan


def _sound(
    entry: Entry, config: DPARConfig, sizes: Sizes, budget: Budget
) -> tuple[tuple[Mechanism, ...], tuple[Claim, ...]]:
    inner = budget
    if config.amplification == "correct":
        epsilon, delta = amplification.before(budget.epsilon, budget.delta, sizes.rate)
        inner = Budget(epsilon=epsilon, delta=delta)
    rows, training, spent = _allocated(config, sizes, inner)
    if config.amplification == "correct":
        spent = amplification.amplified(spent, inner.delta, sizes.rate)[0]
    claim = claim_for(
        entry, budget, epsilon=spent, accountant="pld", assumed_public=_public(config)
    )
    changed = changed_roots(config)
    return _mechanisms(config, sizes, rows, training, claimed_changed=changed), (claim,)


def changed_roots(config: DPARConfig) -> int:
    """Roots that one node changes in sound mode: s rows and its own root; itself alone for Features."""
    return 1 if config.rows == "none" else config.column_cap + 1


def _allocated(
    config: DPARConfig, sizes: Sizes, budget: Budget
) -> tuple[list[tuple[str, Event[Any]]], Event[Any], float]:
    """(rows, one training step, epsilon): noise shared by `rows_share`, delta spent once."""
    shares = [
        allocation.Share(
            name="train",
            build=lambda z: compose(_sound_step(config, sizes, z), sizes.num_steps),
            weight=1 - config.rows_share,
        )
    ]
    if config.rows in PRIVATE_ROWS:
        shares.append(
            allocation.Share(
                name="rows",
                build=lambda z: _repeated(sizes, sound_rows(config, sizes, z)),
                weight=config.rows_share,
            )
        )
    elif config.rows == "random":
        # public rows cost nothing; training gets its share only, as beside private rows
        budget = Budget(epsilon=(1 - config.rows_share) * budget.epsilon, delta=budget.delta)
    found = allocation.allocate(
        shares, rule="epsilon-ratio", target_epsilon=budget.epsilon, delta=budget.delta,
        relation=RELATION,
    )  # fmt: skip
    rows = []
    if config.rows in PRIVATE_ROWS:
        rows = sound_rows(config, sizes, found.noise_multipliers["rows"])
    return rows, _sound_step(config, sizes, found.noise_multipliers["train"]), found.epsilon


def sound_rows(config: DPARConfig, sizes: Sizes, multiplier: float) -> list[tuple[str, Event[Any]]]:
    """One vector's mechanisms with noise in units of its sensitivity."""
    if config.rows == "gm":
        norm = config.max_vector_norm
        return [("perturb", _gaussian(norm, multiplier * math.sqrt(2) * norm))]
    rows = [("select", _gumbel(config, sizes, multiplier * config.max_entry))]
    if config.rows == "em1":
        scale = multiplier * sizes.num_selected * config.max_entry
        rows.append(("weigh", _laplace(config, sizes, scale)))
    return rows


def _sound_step(config: DPARConfig, sizes: Sizes, multiplier: float) -> Event[Any]:
    changed, norm = changed_roots(config), config.clipping_norm
    if config.batches == "fixed":
        return FixedSizeRoots(
            relation=RELATION, noise_stddev=multiplier * norm, clipping_norm=norm,
            population=sizes.num_roots, batch_size=sizes.batch_size, changed_roots=changed,
        )  # fmt: skip
    return PoissonRoots(
        relation=RELATION, noise_stddev=multiplier * norm, clipping_norm=norm,
        sampling_probability=sizes.batch_size / sizes.num_roots, d_plus=changed, d_minus=changed,
    )  # fmt: skip


def _control_of_sound(
    entry: Entry, config: DPARConfig, sizes: Sizes, budget: Budget
) -> tuple[tuple[Mechanism, ...], tuple[Claim, ...]]:
    """Exact rows with the training noise that em0 leaves in sound mode."""
    twin = dataclasses.replace(config, rows="em0")
    rate = sizes.rate if config.amplification == "correct" else 1.0
    epsilon, delta = amplification.before(budget.epsilon, budget.delta, rate)
    _, training, _ = _allocated(twin, sizes, Budget(epsilon=epsilon, delta=delta))
    caveats = ("exact-neighbours",)
    stated = claim_for(entry, budget, epsilon=budget.epsilon, accountant="pld", caveats=caveats,
                       assumed_public=ASSUMED_PUBLIC)  # fmt: skip
    best = _best_proved(entry, config, sizes, budget, [], training)
    mechanisms = _mechanisms(config, sizes, [], training, claimed_changed=changed_roots(twin))
    return mechanisms, (stated, best)


# --- mechanisms


def _mechanisms(
    config: DPARConfig,
    sizes: Sizes,
    rows: Sequence[tuple[str, Event[Any]]],
    training: Event[Any],
    *,
    claimed_changed: int,
) -> tuple[Mechanism, ...]:
    found = [_row_mechanism(name, event, sizes) for name, event in rows]
    assert isinstance(training, FixedSizeRoots | PoissonRoots)
    noise, norm = training.noise_stddev, config.clipping_norm
    train = Mechanism(
        name="train", event=compose(training, sizes.num_steps), noise_stddev=noise,
        sensitivity=2 * norm * claimed_changed, num_steps=sizes.num_steps, clipping_norm=norm,
        divisor=float(sizes.batch_size),
        details={"noise_multiplier": noise / norm, "reference_sensitivity": norm,
                 "batch_size": sizes.batch_size, "num_roots": sizes.num_roots},
    )  # fmt: skip
    return (*found, train)


def _row_mechanism(name: str, event: Event[Any], sizes: Sizes) -> Mechanism:
    """A mechanism that is run once on each of the M vectors."""
    if isinstance(event, GaussianRelease):
        noise, sensitivity, scale = event.noise_stddev, event.sensitivity, event.noise_stddev
    elif isinstance(event, GumbelTopK):
        # a Gumbel variable of scale b has deviation pi b / sqrt(6)
        noise, sensitivity = math.pi / math.sqrt(6) * event.scale, event.score_sensitivity
        scale = event.scale
    else:
        assert isinstance(event, LaplaceRelease)
        noise, sensitivity, scale = math.sqrt(2) * event.scale, event.sensitivity, event.scale
    return Mechanism(
        name=name, event=compose(event, sizes.num_vectors), noise_stddev=noise,
        sensitivity=sensitivity, num_steps=sizes.num_vectors,
        details={"scale": scale, "num_vectors": sizes.num_vectors,
                 "num_selected": sizes.num_selected},
    )  # fmt: skip


def _gumbel(config: DPARConfig, sizes: Sizes, scale: float) -> Event[Any]:
    return GumbelTopK(
        relation=RELATION, scale=scale, score_sensitivity=config.max_entry,
        num_selected=sizes.num_selected,
    )  # fmt: skip


def _laplace(config: DPARConfig, sizes: Sizes, scale: float) -> Event[Any]:
    """K clipped entries, each moved by at most C2."""
    sensitivity = sizes.num_selected * config.max_entry
    return LaplaceRelease(relation=RELATION, scale=scale, sensitivity=sensitivity)


def _gaussian(norm: float, stddev: float) -> Event[Any]:
    """Two nonnegative vectors of norm at most C1 are at most sqrt(2) C1 apart."""
    return GaussianRelease(relation=RELATION, noise_stddev=stddev, sensitivity=math.sqrt(2) * norm)


def _repeated(sizes: Sizes, rows: Sequence[tuple[str, Event[Any]]]) -> Event[Any]:
    return compose_all(*(compose(event, sizes.num_vectors) for _, event in rows))


def _whole(
    sizes: Sizes, rows: Sequence[tuple[str, Event[Any]]], training: Event[Any]
) -> Event[Any]:
    steps = compose(training, sizes.num_steps)
    return compose_all(_repeated(sizes, rows), steps) if rows else steps


def _public(config: DPARConfig) -> tuple[str, ...]:
    if config.amplification == "correct":
        return (*ASSUMED_PUBLIC[:3], "all options; which nodes are used is secret")
    return (*ASSUMED_PUBLIC[:3], "which nodes are used and which have a vector", "all options")
