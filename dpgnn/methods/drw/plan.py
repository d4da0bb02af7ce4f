"""DRW's plan: the number of steps that a budget allows, by the paper's accountant or ours, and the claims.

The paper counts m of M_min walks without replacement, one changed walk, noise lambda 2C. For feature-level
neighbours the structure is public, so the actual number M of walks is public too, and q = m/M is valid.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.accountants import calibration, rdp
from dpgnn.accountants.events import FixedSizeRoots, PoissonRoots, compose
from dpgnn.accountants.plan import NOTHING_PROVED, Budget, Mechanism, Plan, Spent
from dpgnn.accountants.published_drw import DRW_ORDERS, wang_rdp
from dpgnn.core.checks import fail, require
from dpgnn.methods.drw.options import Accountant, DRWConfig, resolved
from dpgnn.methods.shared.planning import DPSGDConfig, claim_for, poisson_dp_sgd
from dpgnn.samplers.walks import record_chains

if TYPE_CHECKING:
    from dpgnn.accountants.claims import Claim
    from dpgnn.methods.base import Entry, Facts

# steps if neither the budget nor the options limit them
LARGEST_NUM_STEPS = 1 << 20
NONPRIVATE_NUM_STEPS = 200
# orders of the accountants without the paper's grid: 1.1 1.25 1.5 1.75, 2 .. 11.75, 12 .. 128
REAL_ORDERS = np.concatenate(
    ([1.1, 1.25, 1.5, 1.75], np.arange(2.0, 12.0, 0.25), np.arange(12.0, 129.0, 4.0))
)
PUBLIC = ("number of training nodes", "membership of the split", "all options")
PUBLIC_STRUCTURE = ("every edge of the graph", "number of walks", *PUBLIC)


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """Noise or steps from the budget, and the claims.

    Guarantee (sound mode): (epsilon, delta) as claimed, by docs/accounting.md. Walks: unit node-features,
    replace-one; one row of features and its label are in one walk, so d+ = d- = 1; all edges are public.
    Own-list: the unit and relation of the entry with the numbers of changed roots that `OwnList` proves for
    K = 1 and depth L.

    Raises:
        ValueError: the batch is larger than the number of walks, the accountant is of the other mode, or
            the budget allows no step.

    Source: Ayle et al. (2023), section 4.1 and appendix A; Wang, Balle and Kasiviswanathan (2019).
    """
    config = resolved(entry)
    if entry.mode == "nonprivate":
        steps = config.num_steps or NONPRIVATE_NUM_STEPS
        return Plan(facts=facts.recorded(), num_steps=steps)
    if config.sampler == "own-list":
        return _own_list_plan(entry, facts, budget)
    accountant = _accountant(entry)
    step = step_event(entry, facts)
    multiplier, num_steps = noise_and_steps(config, step, budget, accountant)
    counted = with_multiplier(step, multiplier)
    done = with_multiplier(event_of_run(entry, facts), multiplier)
    mechanism = Mechanism(
        name="train", event=compose(done, num_steps), noise_stddev=done.noise_stddev,
        sensitivity=2 * done.clipping_norm, num_steps=num_steps, clipping_norm=done.clipping_norm,
        divisor=float(config.subgraphs_in_batch(facts.num_train)),
        details=_details(config, facts, counted, multiplier, accountant),
    )  # fmt: skip
    return Plan(
        mechanisms=(mechanism,),
        claims=_claims(entry, budget, counted, done, num_steps, accountant),
        num_steps=num_steps,
        facts=facts.recorded(),
    )


def step_event(entry: Entry, facts: Facts) -> FixedSizeRoots[Any] | PoissonRoots[Any]:
    """One step as counted: q = m / M_min as published, m / M in sound mode."""
    if entry.mode == "published" and resolved(entry).population == "smallest":
        return _event(entry, facts, _smallest(entry, facts))
    return event_of_run(entry, facts)


def event_of_run(entry: Entry, facts: Facts) -> FixedSizeRoots[Any] | PoissonRoots[Any]:
    """One step as run: m of the M walks.

    Every redraw has at least M_min walks, and the loss grows with q, so M_min is used for all of them.
    """
    config = resolved(entry)
    if config.sampler == "nodes":
        return _event(entry, facts, facts.num_train)
    if config.resample_every:
        return _event(entry, facts, _smallest(entry, facts))
    # without a graph at hand (planning ahead), M_min bounds M from below
    drawn = facts.structure.get("num_subgraphs", _smallest(entry, facts))
    return _event(entry, facts, int(drawn))


def num_steps_for(
    event: FixedSizeRoots[Any] | PoissonRoots[Any],
    target_epsilon: float,
    delta: float,
    accountant: Accountant,
    *,
    limit: int = LARGEST_NUM_STEPS,
) -> int:
    """The largest T that meets (target_epsilon, delta): the paper's stop rule.

    Raises:
        ValueError: a single step exceeds the budget.
    """
    if math.isinf(target_epsilon):
        return limit
    if accountant == "pld":
        return calibration.max_steps(
            event, target_epsilon=target_epsilon, delta=delta, relation="replace-one", limit=limit
        ).value
    orders, divergence = _divergence(event, accountant)
    steps = rdp.max_runs(
        orders, divergence, target_epsilon, delta, conversion="improved", limit=limit
    )
    if steps < 1:
        one = rdp.to_epsilon(orders, divergence, delta, conversion="improved")[0]
        rule = f"be at least {one:.6g}, the epsilon of a single step"
        fail("target_epsilon", rule, target_epsilon, "raise epsilon or the noise")
    return steps


def epsilon_after(
    event: FixedSizeRoots[Any] | PoissonRoots[Any],
    num_steps: int,
    delta: float,
    accountant: Accountant,
) -> float:
    """epsilon of `num_steps` steps by an accountant of either mode."""
    if accountant == "pld":
        return calibration.epsilon(compose(event, num_steps), delta=delta, relation="replace-one")
    orders, divergence = _divergence(event, accountant)
    return rdp.to_epsilon(orders, num_steps * divergence, delta, conversion="improved")[0]


def _spent(
    event: FixedSizeRoots[Any] | PoissonRoots[Any], steps: int, delta: float, accountant: Accountant
) -> Spent:
    return Spent(epsilon=epsilon_after(event, steps, delta, accountant), accountant=accountant)


def _divergence(
    event: FixedSizeRoots[Any] | PoissonRoots[Any], accountant: Accountant
) -> tuple[rdp.Floats, rdp.Floats]:
    """Orders, and the Renyi divergence of one step at each."""
    if accountant == "rdp":
        return REAL_ORDERS, rdp.event_rdp(event, REAL_ORDERS)[0]
    assert isinstance(event, FixedSizeRoots)
    if accountant == "unamplified":
        whole = dataclasses.replace(event, batch_size=event.population)
        return REAL_ORDERS, rdp.event_rdp(whole, REAL_ORDERS)[0]
    variant: Any = "basic" if accountant == "wang" else "forward-difference"
    return DRW_ORDERS, wang_rdp(event, DRW_ORDERS, variant=variant)


def noise_and_steps(
    config: DRWConfig,
    step: FixedSizeRoots[Any] | PoissonRoots[Any],
    budget: Budget,
    accountant: Accountant,
) -> tuple[float, int]:
    """(lambda, T): one of them from the options, the other from the budget."""
    given = budget.noise_multiplier or config.noise_multiplier
    if given is not None:
        event = with_multiplier(step, given)
        limit = config.num_steps or LARGEST_NUM_STEPS
        steps = num_steps_for(event, budget.epsilon, budget.delta, accountant, limit=limit)
        return given, steps
    num_steps = config.num_steps
    assert num_steps is not None  # `check` refused it

    def spent(multiplier: float) -> float:
        event = with_multiplier(step, multiplier)
        return epsilon_after(event, num_steps, budget.delta, accountant)

    multiplier = calibration.smallest_meeting(
        spent, budget.epsilon, start=1.0, tolerance=1e-4, name="target_epsilon"
    )
    return multiplier, num_steps


def with_multiplier(
    event: FixedSizeRoots[Any] | PoissonRoots[Any], multiplier: float
) -> FixedSizeRoots[Any] | PoissonRoots[Any]:
    """The step with noise lambda * 2C."""
    return dataclasses.replace(event, noise_stddev=multiplier * 2 * event.clipping_norm)


def planned_clipping_norm(config: DRWConfig) -> float:
    """C in the plan; 1, as a unit, if the norm is read from private gradients later."""
    return config.clipping_norm if config.clip_reading == "constant" else 1.0


def _event(entry: Entry, facts: Facts, population: int) -> FixedSizeRoots[Any] | PoissonRoots[Any]:
    config = resolved(entry)
    batch, norm = config.subgraphs_in_batch(facts.num_train), planned_clipping_norm(config)
    require(
        batch <= population, "batch_size", f"be <= the number of subgraphs, {population}", batch,
        "lower batch_size; m <= ceil(N / (1 + R L)) always fits",
    )  # fmt: skip
    if config.batches == "poisson":
        return PoissonRoots(
            relation="replace-one", noise_stddev=2 * norm, clipping_norm=norm,
            sampling_probability=batch / population, d_plus=1, d_minus=1,
        )  # fmt: skip
    return FixedSizeRoots(
        relation="replace-one", noise_stddev=2 * norm, clipping_norm=norm,
        population=population, batch_size=batch, changed_roots=1,
    )  # fmt: skip


def _smallest(entry: Entry, facts: Facts) -> int:
    config = resolved(entry)
    return config.smallest_population(facts.num_train)


def _accountant(entry: Entry) -> Accountant:
    default: Accountant = "wang" if entry.mode == "published" else "pld"
    return resolved(entry).accountant or default


def _claims(
    entry: Entry,
    budget: Budget,
    counted: FixedSizeRoots[Any] | PoissonRoots[Any],
    done: FixedSizeRoots[Any] | PoissonRoots[Any],
    num_steps: int,
    accountant: Accountant,
) -> tuple[Claim, ...]:
    config = resolved(entry)
    spent = _spent(counted, num_steps, budget.delta, accountant)
    from_data = config.clip_reading != "constant"
    narrows = () if config.sampler == "nodes" else ("feature-level-only",)
    public = PUBLIC if config.sampler == "nodes" else PUBLIC_STRUCTURE
    if entry.mode == "sound":
        claim = claim_for(entry, budget, spent, caveats=narrows,
                          assumed_public=public)  # fmt: skip
        return (claim,)
    caveats = (*narrows, "validation-unaccounted")
    if counted != done:
        caveats += ("population-estimate",)
    if from_data:
        caveats += ("clip-thresholds-from-data",)
    stated = claim_for(
        entry, budget, spent, caveats=caveats,
        assumed_public=public, selection="validation-unaccounted",
    )  # fmt: skip
    proved = NOTHING_PROVED if from_data else _spent(done, num_steps, budget.delta, "pld")
    best = claim_for(
        entry, budget, proved, caveats=narrows, assumed_public=public,
        status="proved",
    )  # fmt: skip
    return stated, best


def _details(
    config: DRWConfig,
    facts: Facts,
    counted: FixedSizeRoots[Any] | PoissonRoots[Any],
    multiplier: float,
    accountant: Accountant,
) -> dict[str, Any]:
    rate = (
        counted.batch_size / counted.population
        if isinstance(counted, FixedSizeRoots)
        else counted.sampling_probability
    )
    return {
        "accountant": accountant,
        "batch_size": config.subgraphs_in_batch(facts.num_train),
        "counted_rate": rate,
        "smallest_population": config.smallest_population(facts.num_train),
        "noise_multiplier": multiplier,
        "reference_sensitivity": 2 * counted.clipping_norm,
        "clip_reading": config.clip_reading,
    }


def _own_list_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """Poisson roots over all training nodes, changed roots from the sampler's promise."""
    config = resolved(entry)
    change = record_chains(config.num_layers).promise.change(
        str(entry.privacy_unit), str(entry.relation)
    )
    training = DPSGDConfig(
        expected_batch_size=config.subgraphs_in_batch(facts.num_train),
        num_steps=config.num_steps or LARGEST_NUM_STEPS,
        noise_multiplier=config.noise_multiplier,
        clipping_norm=config.clipping_norm,
        optimizer=config.optimizer,
    )
    counted = poisson_dp_sgd(
        entry, training, budget, num_roots=facts.num_train, d_plus=change.d_plus,
        d_minus=change.d_minus, reference_sensitivity=2 * config.clipping_norm,
        accountant="rdp" if config.accountant == "rdp" else "pld",
        details={"changed_roots": [change.d_plus, change.d_minus]},
    )  # fmt: skip
    claim = claim_for(
        entry, budget, counted.spent,
        assumed_public=PUBLIC,
    )  # fmt: skip
    return Plan(
        mechanisms=(counted.mechanism,), claims=(claim,), num_steps=counted.mechanism.num_steps,
        facts=facts.recorded(),
    )  # fmt: skip
