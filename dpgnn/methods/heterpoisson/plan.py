"""HeterPoisson's plans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpgnn.accountants.events import PoissonRoots, compose
from dpgnn.accountants.plan import NOTHING_PROVED, Budget, Mechanism, Plan, Spent
from dpgnn.core.checks import require
from dpgnn.methods.base import Entry, Facts, nonprivate_plan
from dpgnn.methods.heterpoisson.options import HeterPoissonConfig
from dpgnn.methods.shared.planning import DPSGDConfig, claim_for, poisson_dp_sgd
from dpgnn.samplers.own_list import OwnList

TRAIN = "train"
PUBLIC = ("node ids", "number of training nodes", "split", "all options", "the keys of all steps")


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """Noise for the budget.

    Guarantee (sound): unit node-record; T Poisson steps, in each of which at most as many roots change as the
    own-list sampler promises for its key (docs/accounting.md, theorems 1, 4 and 15). Answers read the graph
    afresh and are not covered. Published: the authors' one-dimensional count; its second claim is infinite.

    Raises:
        ValueError: a batch is larger than the training set, or no noise meets the budget.

    Source: Xiang, Wang and Wang (2024), arXiv:2311.06888.
    """
    config: HeterPoissonConfig = entry.options
    config.rate(facts.num_train)
    if entry.mode == "nonprivate":
        return replace(
            nonprivate_plan(entry, facts, budget), num_steps=config.steps_run(facts.num_train)
        )
    require(budget.is_private, "heterpoisson: epsilon", "be finite", budget.epsilon,
            "use mode nonprivate")  # fmt: skip
    return (_sound if entry.mode == "sound" else _published)(entry, facts, budget)


def _sound(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    config: HeterPoissonConfig = entry.options
    promise = OwnList(max_degree=config.max_degree).promise
    change = promise.change(str(entry.privacy_unit), str(entry.relation))
    training = DPSGDConfig(
        expected_batch_size=config.batch_size,
        num_steps=config.steps_run(facts.num_train),
        clipping_norm=config.clipping_norm,
        optimizer=config.optimizer,
    )
    found = poisson_dp_sgd(
        entry, training, budget, num_roots=facts.num_train, d_plus=change.d_plus,
        d_minus=change.d_minus,
        reference_sensitivity=config.clipping_norm * (change.d_plus + change.d_minus),
        name=TRAIN, details={"max_degree": config.max_degree},
    )  # fmt: skip
    claim = claim_for(
        entry, budget, found.spent, assumed_public=PUBLIC,
        caveats=("inference-reads-private-graph",),
    )  # fmt: skip
    return _plan(facts, found.mechanism, claim)


def _published(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """Deviation by the published count. The event is that of the draws, as if the noise were Gaussian."""
    from dpgnn.accountants.published_heterpoisson import stated_epsilon, stated_stddev

    config: HeterPoissonConfig = entry.options
    rate = config.rate(facts.num_train)
    counted = config.steps_counted(facts.num_train)
    words = {"rate": rate, "max_degree": config.max_degree, "population": facts.num_train}
    if budget.noise_multiplier is not None:
        deviation = budget.noise_multiplier
    else:
        deviation = stated_stddev(budget.epsilon, counted, budget.delta, **words)
    stated = stated_epsilon(deviation, counted, budget.delta, **words)  # type: ignore[arg-type]
    run, norm = config.steps_run(facts.num_train), config.clipping_norm
    step: PoissonRoots[Any] = PoissonRoots(
        relation="add-remove", noise_stddev=deviation * norm, clipping_norm=norm / 2,
        sampling_probability=rate, d_plus=1 + config.max_degree, d_minus=config.max_degree,
    )  # fmt: skip
    mechanism = Mechanism(
        name=TRAIN, event=compose(step, run), noise_stddev=deviation * norm,
        sensitivity=norm / 2 * (2 * config.max_degree + 1), num_steps=run, clipping_norm=norm / 2,
        divisor=float(config.batch_size),
        details={
            "sampling_probability": rate, "noise_multiplier": deviation, "steps_counted": counted,
            "law": config.noise, "max_degree": config.max_degree,
        },
    )  # fmt: skip
    first = claim_for(
        entry, budget, Spent(epsilon=stated, accountant="heterpoisson"), assumed_public=PUBLIC[:-1],
        caveats=published_caveats(config, facts.num_train),
    )  # fmt: skip
    second = claim_for(
        entry, budget, NOTHING_PROVED, assumed_public=PUBLIC[:-1], status="proved",
        caveats=("inference-reads-private-graph",),
    )  # fmt: skip
    return _plan(facts, mechanism, first, second)


def published_caveats(config: HeterPoissonConfig, num_train: int) -> tuple[str, ...]:
    """Caveats of the published count, by the options."""
    more_steps = config.steps_run(num_train) > config.steps_counted(num_train)
    said = {
        "sampler-ripple": config.sampler == "coins",
        "inference-reads-private-graph": True,
        "sml-as-univariate": config.noise == "laplace",
        "batch-padding": config.padding,
        "dedupe-order": config.dedupe,
        "steps-undercounted": more_steps,
        "preprocessing": config.preprocessing,
    }
    return tuple(name for name, holds in said.items() if holds)


def _plan(facts: Facts, mechanism: Mechanism, *claims: Any) -> Plan:
    return Plan(
        mechanisms=(mechanism,), claims=claims, num_steps=mechanism.num_steps,
        facts=facts.recorded(),
    )  # fmt: skip
