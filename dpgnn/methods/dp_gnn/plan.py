"""The sound plan of DP-GNN, and code of both modes' plans: batches of fixed size, claims."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dpgnn.accountants.events import Event, FixedSizeRoots, GumbelTopK, compose, compose_all
from dpgnn.accountants.plan import Budget, Mechanism, Plan, Spent
from dpgnn.core.checks import fail
from dpgnn.methods.dp_gnn.options import DPGNNConfig, part_names, sampler_of, threshold_rule
from dpgnn.methods.shared.own_root import CHANGED_ROOTS
from dpgnn.methods.shared.planning import Calibrated, claim_for, poisson_dp_sgd

if TYPE_CHECKING:
    from dpgnn.accountants.claims import Claim
    from dpgnn.methods.base import Entry, Facts
    from dpgnn.samplers.promise import Change

ASSUMED_PUBLIC = ("number of training nodes", "membership of the split", "node ids", "all options")
MODULE_PUBLIC = "code, arguments, initial weights and buffers of the module"
# candidates of a private quantile: gradient norms from 1e-4 to 1e4
NUM_CANDIDATES = 161
TRAIN = "train"


def threshold_name(part: str) -> str:
    """The mechanism that chooses a part's clipping norm."""
    return f"threshold/{part}"


def sound_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """Poisson roots, public or privately chosen clipping norms, one release per step.

    Guarantee: the entry's unit and relation at (epsilon, delta) as claimed. The sampler's promise bounds
    the changed roots (proof in its module); docs/accounting.md, theorem 1, bounds one step for any
    dependence on earlier steps; theorem-1 counting takes the paper's own formula, which is right for a
    sampler that keeps its promise. Public: training ids and their number, ids, options.

    Raises:
        ValueError: the sampler proves nothing for the pair, or the budget cannot be met.
    """
    config: DPGNNConfig = entry.options
    change = _proved_change(entry)
    thresholds = _threshold_mechanisms(entry, facts, change)

    def with_thresholds(steps: Event[Any]) -> Event[Any]:
        return compose_all(steps, *(mechanism.event for mechanism in thresholds))

    chosen = with_thresholds if thresholds else None
    reference = 2 * config.training.clipping_norm * max_occurrences_of(config, entry)
    details = _details(entry, change)
    if config.counting == "theorem-1":
        counted = _fixed_size(entry, facts, budget, change.d_plus, reference, chosen, details)
    else:
        counted = poisson_dp_sgd(
            entry, config.training, budget, num_roots=facts.num_train, d_plus=change.d_plus,
            d_minus=change.d_minus, reference_sensitivity=reference, accountant=config.counting,
            also=chosen, details=details,
        )  # fmt: skip
    claim = claim_of(
        entry, budget, counted.spent,
        caveats=inference_caveats(config), status="proved",
    )  # fmt: skip
    return Plan(
        mechanisms=(*thresholds, counted.mechanism),
        claims=(claim, *_as_the_paper_counts(entry, facts, budget, counted)),
        num_steps=counted.mechanism.num_steps,
        facts=facts.recorded(),
        details={"accountant": counted.spent.accountant},
    )


def _proved_change(entry: Entry) -> Change:
    """Number of changed roots by the sampler's proof; an MLP has one root per node."""
    from dpgnn.samplers.promise import Change

    config: DPGNNConfig = entry.options
    assert entry.privacy_unit is not None
    assert entry.relation is not None
    if config.num_hops == 0:
        plus, minus = CHANGED_ROOTS[entry.relation]
        return Change(d_plus=plus, d_minus=minus, proved=True, why="no edge is read")
    change = sampler_of(entry).promise.change(entry.privacy_unit, entry.relation)
    if not change.proved:
        fail("sampler", "have a proof for the unit and relation", config.sampler, change.why)
    return change


def max_occurrences_of(config: DPGNNConfig, entry: Entry) -> int:
    """N(K, r) of the entry's sampler; 1 for an MLP."""
    return sampler_of(entry).promise.max_occurrences if config.num_hops else 1


def _details(entry: Entry, change: Change) -> dict[str, Any]:
    config: DPGNNConfig = entry.options
    return {
        "max_occurrences": max_occurrences_of(config, entry),
        "d_plus": change.d_plus,
        "d_minus": change.d_minus,
        "thresholds": threshold_rule(entry),
        "lr": config.training.optimizer.lr,
        "optimizer": config.training.optimizer.name,
    }


def _threshold_mechanisms(entry: Entry, facts: Facts, change: Change) -> tuple[Mechanism, ...]:
    """One private quantile for each part, or none.

    Guarantee: each changed root changes a count by at most one and the target rank is a public constant, so
    every candidate's score changes by at most max(d+, d-); the parts share quantile_epsilon by pure
    composition.
    """
    config: DPGNNConfig = entry.options
    if threshold_rule(entry) != "private-quantile":
        return ()
    parts = part_names(entry)
    moved = max(change.d_plus, change.d_minus)
    scale = 2.0 * moved * len(parts) / config.quantile_epsilon
    relation: Any = entry.relation
    details = {"scale": scale, "wanted_rank": config.quantile * facts.num_train}
    event = GumbelTopK(
        relation=relation, scale=scale, score_sensitivity=float(moved), num_selected=1
    )
    return tuple(
        Mechanism(
            name=threshold_name(part), event=event, noise_stddev=scale * math.pi / math.sqrt(6),
            sensitivity=float(moved), details=details,
        )
        for part in parts
    )  # fmt: skip


def _fixed_size(
    entry: Entry,
    facts: Facts,
    budget: Budget,
    changed: int,
    reference: float,
    also: Callable[[Event[Any]], Event[Any]] | None,
    details: dict[str, Any],
) -> Calibrated:
    """Fixed-size batches with a revealed number of changed roots: DP-GNN's Theorem 1 on our orders."""
    from dpgnn.accountants.calibration import calibrate_noise, max_steps

    training = entry.options.training
    relation: Any = entry.relation

    def steps(noise: float, count: int) -> Event[Any]:
        whole = compose(batch_event(entry, facts, noise, changed), count)
        return also(whole) if also is not None else whole

    given = budget.noise_multiplier or training.noise_multiplier
    spent: Spent
    if given is None:
        count = training.num_steps
        spent = found = calibrate_noise(
            lambda value: steps(value, count), target_epsilon=budget.epsilon, delta=budget.delta,
            relation=relation, accountant="rdp", start=reference,
        )  # fmt: skip
        noise = found.value
    else:
        noise = given * reference
        spent = allowed = max_steps(
            batch_event(entry, facts, noise, changed), target_epsilon=budget.epsilon,
            delta=budget.delta, relation=relation, accountant="rdp", also=also,
            limit=training.num_steps,
        )  # fmt: skip
        count = allowed.value
    event = batch_event(entry, facts, noise, changed)
    mechanism = fixed_size_mechanism(event, count, reference, details)
    return Calibrated(mechanism=mechanism, spent=spent)


def batch_event(
    entry: Entry, facts: Facts, noise_stddev: float, changed: int
) -> FixedSizeRoots[Any]:
    """One step on a batch of exactly m of N roots."""
    training = entry.options.training
    # the paper also states add and remove, under which N itself would change: see `population-changes`
    relation: Any = "replace-one" if entry.relation == "add-remove" else entry.relation
    return FixedSizeRoots(
        relation=relation, noise_stddev=noise_stddev, clipping_norm=training.clipping_norm,
        population=facts.num_train,
        batch_size=training.batch_size(facts.num_train),
        changed_roots=min(changed, facts.num_train),
    )  # fmt: skip


def fixed_size_mechanism(
    event: FixedSizeRoots[Any], num_steps: int, reference: float, details: dict[str, Any]
) -> Mechanism:
    """The mechanism of T steps on fixed-size batches."""
    return Mechanism(
        name=TRAIN,
        event=compose(event, num_steps),
        noise_stddev=event.noise_stddev,
        sensitivity=2 * event.clipping_norm * event.changed_roots,
        num_steps=num_steps,
        clipping_norm=event.clipping_norm,
        divisor=float(event.batch_size),
        details={
            "batch_size": event.batch_size,
            "noise_multiplier": event.noise_stddev / reference,
            "reference_sensitivity": reference,
            **details,
        },
    )


def _as_the_paper_counts(
    entry: Entry, facts: Facts, budget: Budget, counted: Calibrated
) -> tuple[Claim, ...]:
    """The same noise and steps by the paper's formula, to show the gain of the tight count.

    The formula takes N(K, r) changed roots for every relation, which is too few if a record is replaced. It
    does not cover thresholds released with noise, so with those there is no such claim.
    """
    from dpgnn.accountants import rdp
    from dpgnn.accountants.published import THEOREM_1, dpgnn_epsilon

    options = entry.options
    if (
        options.counting == "theorem-1"
        or options.num_hops == 0
        or options.thresholds == "private-quantile"
    ):
        return ()
    mechanism, details = counted.mechanism, counted.mechanism.details
    counted_roots = int(details["max_occurrences"])
    event = batch_event(entry, facts, mechanism.noise_stddev, counted_roots)
    epsilon = dpgnn_epsilon(event, mechanism.num_steps, budget.delta, orders=rdp.WIDE_ORDERS)
    caveats = inference_caveats(entry.options)
    if details["d_plus"] > counted_roots:
        caveats = (*caveats, "sampler-ripple")
    claim = claim_of(
        entry, budget, Spent(epsilon=epsilon, accountant=THEOREM_1), caveats=caveats,
        status="as-published",
    )  # fmt: skip
    return (claim,)


def inference_caveats(config: DPGNNConfig) -> tuple[str, ...]:
    """Caveats on predictions in a claim about weights: with a hop they read the graph afresh."""
    return ("inference-reads-private-graph",) if config.num_hops else ()


def claim_of(
    entry: Entry, budget: Budget, spent: Spent, *, status: Any, caveats: tuple[str, ...] = ()
) -> Claim:
    """A claim of the entry."""
    public = (*ASSUMED_PUBLIC, MODULE_PUBLIC) if entry.options.module else ASSUMED_PUBLIC
    return claim_for(
        entry, budget, spent, assumed_public=public,
        degree_bound=entry.options.degree_bound if entry.privacy_unit == "node-bounded" else None,
        caveats=caveats, status=status,
    )  # fmt: skip
