"""The published plan of DP-GNN: Theorem 1 as the paper applies it, and the proved claim of the same run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpgnn.accountants.events import FixedSizeRoots, compose
from dpgnn.accountants.plan import NOTHING_PROVED, Budget, Plan, Spent
from dpgnn.accountants.published import THEOREM_1, layerwise_event
from dpgnn.core.checks import fail
from dpgnn.methods.dp_gnn.options import DPGNNConfig, part_names, sampler_of, threshold_rule
from dpgnn.methods.dp_gnn.plan import (
    batch_event,
    claim_of,
    fixed_size_mechanism,
    inference_caveats,
    max_occurrences_of,
)

if TYPE_CHECKING:
    from dpgnn.accountants.claims import Claim
    from dpgnn.methods.base import Entry, Facts


def published_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """The paper's own plan: Theorem 1 gives T from lambda, or lambda from T.

    The first claim is the paper's; the second is the best that we can prove for the run; with measured
    thresholds, a third states what would hold for features alone if the thresholds were public.

    Guarantee: the first claim is the paper's number, not a guarantee; the second holds for the run, for unit
    and relation of the entry, or is infinite.

    Args:
        entry: unit, relation and options.
        facts: public ones.
        budget: epsilon and delta, or given noise.

    Source: Daigavane et al. (2021), arXiv:2111.15521, Theorem 1, Algorithms 4 and 5.
    """
    config: DPGNNConfig = entry.options
    changed = max_occurrences_of(config, entry)
    reference = 2 * config.training.clipping_norm * changed
    step, num_steps, stated = _stated(entry, facts, budget, changed, reference)
    split = 1 if config.reference_code else len(part_names(entry))
    run = layerwise_event(step, split)
    details = {
        "max_occurrences": changed,
        "stated_noise_multiplier": step.noise_stddev / reference,
        **_recorded(entry),
    }
    claim = claim_of(
        entry, budget, stated,
        caveats=_published_caveats(entry, facts, split), status="as-published",
    )  # fmt: skip
    return Plan(
        mechanisms=(fixed_size_mechanism(run, num_steps, reference, details),),
        claims=(claim, *_best_proved(entry, facts, budget, run, num_steps)),
        num_steps=num_steps,
        facts=facts.recorded(),
        details={"accountant": stated.accountant},
    )


def _recorded(entry: Entry) -> dict[str, Any]:
    """Clipping and optimiser for the mechanism's record."""
    optimizer = entry.options.training.optimizer
    return {
        "num_parts": len(part_names(entry)),
        "thresholds": threshold_rule(entry),
        "unit_of_clipping_norm": "measured" if _measures(entry) else "gradient",
        "lr": optimizer.lr,
        "optimizer": optimizer.name,
    }


def _stated(
    entry: Entry, facts: Facts, budget: Budget, changed: int, reference: float
) -> tuple[FixedSizeRoots[Any], int, Spent]:
    """The step as counted by the paper, the number of steps, and the stated epsilon."""
    from dpgnn.accountants import rdp
    from dpgnn.accountants.calibration import smallest_meeting
    from dpgnn.accountants.published import dpgnn_epsilon, dpgnn_num_steps

    training = entry.options.training
    orders = rdp.REFERENCE_ORDERS if entry.options.reference_code else rdp.WIDE_ORDERS

    def step(noise: float) -> FixedSizeRoots[Any]:
        return batch_event(entry, facts, noise, changed)

    def spent(noise: float, count: int) -> float:
        return dpgnn_epsilon(step(noise), count, budget.delta, orders=orders)

    def found(noise: float, count: int) -> tuple[FixedSizeRoots[Any], int, Spent]:
        return step(noise), count, Spent(epsilon=spent(noise, count), accountant=THEOREM_1)

    given = budget.noise_multiplier or training.noise_multiplier
    if given is None:
        count = training.num_steps
        noise = smallest_meeting(
            lambda value: spent(value, count), budget.epsilon, start=reference, tolerance=1e-4,
            name="target_epsilon",
        )  # fmt: skip
    else:
        noise = given * reference
        if math.isinf(budget.epsilon):
            return found(noise, training.num_steps)
        allowed = dpgnn_num_steps(step(noise), budget.epsilon, budget.delta, orders=orders)
        if allowed == 0:
            fail(
                "epsilon", f"be at least {spent(noise, 1):.6g}, what one step costs",
                budget.epsilon, "raise epsilon or noise_multiplier",
            )  # fmt: skip
        count = min(allowed, training.num_steps)
    return found(noise, count)


def _best_proved(
    entry: Entry, facts: Facts, budget: Budget, run: FixedSizeRoots[Any], num_steps: int
) -> tuple[Claim, ...]:
    """The proved claim of the run, from the roots that can change; infinite if there is no bound."""
    from dpgnn.accountants.composition import spent
    from dpgnn.accountants.published import gaussian_epsilon_by_rdp

    def counted(event: FixedSizeRoots[Any]) -> Spent:
        whole = compose(event, num_steps)
        return spent(whole, delta=budget.delta, relation=event.relation)

    if _measures(entry):
        nothing = claim_of(entry, budget, NOTHING_PROVED, status="proved")
        if_public = claim_of(
            entry, budget, counted(run),
            caveats=("clip-thresholds-from-data",), status="as-published",
        )  # fmt: skip
        features = {"privacy_unit": "node-features", "relation": "replace-one"}
        return (nothing, replace(if_public, **features))  # type: ignore[arg-type]
    if entry.relation == "add-remove":  # a batch of fixed size from another number of roots
        return (claim_of(entry, budget, NOTHING_PROVED, status="proved"),)
    roots = _proved_roots(entry, facts)
    if roots < facts.num_train:
        proved = counted(replace(run, changed_roots=roots))
    else:
        # nothing bounds the changed roots, so all m clipped gradients of a batch may move: finite, and
        # so large that the elementary conversion is as good as any
        shift = 2 * run.clipping_norm * run.batch_size / run.noise_stddev
        epsilon = gaussian_epsilon_by_rdp(shift * math.sqrt(num_steps), budget.delta)
        proved = Spent(epsilon=epsilon, accountant="rdp")
    return (claim_of(entry, budget, proved, status="proved"),)


def _proved_roots(entry: Entry, facts: Facts) -> int:
    """Proved bound on the roots that a change of the unit can reach; all roots without a proof."""
    if entry.options.num_hops == 0:
        return 1
    pair = (str(entry.privacy_unit), str(entry.relation))
    found = sampler_of(entry).promise.changes.get(pair)
    return found.d_plus if found is not None and found.proved else facts.num_train


def _measures(entry: Entry) -> bool:
    return threshold_rule(entry) == "percentile"


def _published_caveats(entry: Entry, facts: Facts, split: int) -> tuple[str, ...]:
    config: DPGNNConfig = entry.options
    caveats = list(inference_caveats(config))
    if _measures(entry):
        caveats.append("clip-thresholds-from-data")
    if split > 1:
        caveats.append("layerwise-noise")
    if _proved_roots(entry, facts) > max_occurrences_of(config, entry):
        caveats += ["sampler-ripple", "undirected-edges"]
    if entry.relation == "add-remove":
        caveats.append("population-changes")
    if config.reference_code:
        caveats.append("order-grid-floor")
    return tuple(caveats)
