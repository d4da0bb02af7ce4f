"""Plans of DP-GNN: noise or steps from public facts, in published and in sound mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpgnn.accountants.events import Event, FixedSizeRoots, GumbelTopK, compose, compose_all
from dpgnn.accountants.plan import Budget, Mechanism, Plan
from dpgnn.checks import fail
from dpgnn.methods._dp_gnn_options import (
    DPGNNConfig,
    part_names,
    sampler_of,
    threshold_rule,
)
from dpgnn.methods.planning import Calibrated, claim_for, poisson_dp_sgd

if TYPE_CHECKING:
    from dpgnn.accountants.claims import Claim
    from dpgnn.methods.base import Entry, Facts
    from dpgnn.samplers.promise import Change

ASSUMED_PUBLIC = ("number of training nodes", "membership of the split", "node ids", "all options")
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
    thresholds = _threshold_mechanisms(entry, change)
    chosen: Callable[[Event[Any]], Event[Any]] | None = None
    if thresholds:

        def chosen(steps: Event[Any]) -> Event[Any]:
            return compose_all(steps, *(mechanism.event for mechanism in thresholds))

    reference = 2 * config.training.clipping_norm * _max_occurrences(config, entry)
    details = _details(entry, change)
    if config.counting == "theorem-1":
        counted = _fixed_size(entry, facts, budget, change.d_plus, reference, chosen, details)
    else:
        counted = poisson_dp_sgd(
            entry, config.training, budget, num_roots=facts.num_train, d_plus=change.d_plus,
            d_minus=change.d_minus, reference_sensitivity=reference, accountant=config.counting,
            also=chosen, details=details,
        )  # fmt: skip
    claim = _claim(
        entry, facts, budget, epsilon=counted.epsilon, accountant=counted.accountant,
        caveats=_inference(config), status="proved",
    )  # fmt: skip
    return Plan(
        mechanisms=(*thresholds, counted.mechanism),
        claims=(claim, *_as_the_paper_counts(entry, facts, budget, counted)),
        num_steps=counted.mechanism.num_steps,
        facts=facts.recorded(),
        details={"accountant": counted.accountant},
    )


def _proved_change(entry: Entry) -> Change:
    """How many roots change, by the sampler's proof; an MLP has one root per node."""
    from dpgnn.methods.dp_mlp import CHANGED_ROOTS
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


def _max_occurrences(config: DPGNNConfig, entry: Entry) -> int:
    return sampler_of(entry).promise.max_occurrences if config.num_hops else 1


def _details(entry: Entry, change: Change) -> dict[str, Any]:
    config: DPGNNConfig = entry.options
    return {
        "max_occurrences": _max_occurrences(config, entry),
        "d_plus": change.d_plus,
        "d_minus": change.d_minus,
        "thresholds": threshold_rule(entry),
        "lr": config.training.optimizer.lr,
        "optimizer": config.training.optimizer.name,
    }


def _threshold_mechanisms(entry: Entry, change: Change) -> tuple[Mechanism, ...]:
    """One private quantile for each part, or none.

    Guarantee: each changed root moves a count by at most one, so every candidate's score moves by at
    most max(d+, d-); the parts share quantile_epsilon by pure composition.
    """
    config: DPGNNConfig = entry.options
    if threshold_rule(entry) != "private-quantile":
        return ()
    parts = part_names(entry)
    moved = max(change.d_plus, change.d_minus)
    scale = 2.0 * moved * len(parts) / config.quantile_epsilon
    relation: Any = entry.relation
    event = GumbelTopK(
        relation=relation, scale=scale, score_sensitivity=float(moved), num_selected=1
    )
    return tuple(
        Mechanism(
            name=threshold_name(part), event=event, noise_stddev=scale * math.pi / math.sqrt(6),
            sensitivity=float(moved), details={"scale": scale, "quantile": config.quantile},
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
    """Fixed-size batches whose affected count is revealed: DP-GNN's Theorem 1 on our orders."""
    from dpgnn.accountants.calibration import calibrate_noise, epsilon, max_steps

    training = entry.options.training
    relation: Any = entry.relation

    def steps(noise: float, count: int) -> Event[Any]:
        whole = compose(_batch_event(entry, facts, noise, changed), count)
        return also(whole) if also is not None else whole

    if training.noise_multiplier is None:
        count = training.num_steps
        noise = calibrate_noise(
            lambda value: steps(value, count), target_epsilon=budget.epsilon, delta=budget.delta,
            relation=relation, accountant="rdp", start=reference,
        )  # fmt: skip
    else:
        noise = training.noise_multiplier * reference
        count = max_steps(
            _batch_event(entry, facts, noise, changed), target_epsilon=budget.epsilon,
            delta=budget.delta, relation=relation, accountant="rdp", also=also,
            limit=training.num_steps,
        )  # fmt: skip
    spent = epsilon(steps(noise, count), delta=budget.delta, relation=relation, accountant="rdp")
    event = _batch_event(entry, facts, noise, changed)
    mechanism = fixed_size_mechanism(event, count, reference, details)
    return Calibrated(mechanism=mechanism, epsilon=spent, accountant="theorem-1")


def _batch_event(
    entry: Entry, facts: Facts, noise_stddev: float, changed: int
) -> FixedSizeRoots[Any]:
    """One step on a batch of exactly m of N roots."""
    training = entry.options.training
    # the paper also states add and remove, under which N itself would change: see `population-changes`
    relation: Any = "replace-one" if entry.relation == "add-remove" else entry.relation
    return FixedSizeRoots(
        relation=relation, noise_stddev=noise_stddev, clipping_norm=training.clipping_norm,
        population=facts.num_train,
        batch_size=min(training.expected_batch_size, facts.num_train),
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
    """The same noise and steps by the paper's formula: what the tight count gains is the difference."""
    from dpgnn.accountants.published import dpgnn_epsilon

    if entry.options.counting == "theorem-1" or entry.options.num_hops == 0:
        return ()
    mechanism, details = counted.mechanism, counted.mechanism.details
    event = _batch_event(entry, facts, mechanism.noise_stddev, int(details["max_occurrences"]))
    epsilon = dpgnn_epsilon(event, mechanism.num_steps, budget.delta)
    caveats = ("fixed-size-as-poisson", "order-grid-floor")
    claim = _claim(
        entry, facts, budget, epsilon=epsilon, accountant="dpgnn-theorem-1", caveats=caveats,
        status="as-published",
    )  # fmt: skip
    return (claim,)


def published_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """The paper's own plan: Theorem 1 gives T from lambda, or lambda from T.

    The first claim is the paper's; the second the best we can prove for what is run; where thresholds are
    measured, a third says what would hold for features alone if they had been public.

    Source: Daigavane et al. (2021), arXiv:2111.15521, Theorem 1, Algorithms 4 and 5.
    """
    config: DPGNNConfig = entry.options
    changed = _max_occurrences(config, entry)
    reference = 2 * config.training.clipping_norm * changed
    stated, num_steps, epsilon = _stated(entry, facts, budget, changed, reference)
    parts = part_names(entry)
    # one deviation per part is a joint release with a sqrt(L) smaller multiplier
    split = 1 if config.reference_code else len(parts)
    run = replace(stated, noise_stddev=stated.noise_stddev / math.sqrt(split))
    details = {
        "max_occurrences": changed,
        "stated_noise_multiplier": stated.noise_stddev / reference,
        "num_parts": len(parts),
        "thresholds": threshold_rule(entry),
        "unit_of_clipping_norm": "measured" if _measures(entry) else "gradient",
        "lr": config.training.optimizer.lr,
        "optimizer": config.training.optimizer.name,
    }
    claim = _claim(
        entry, facts, budget, epsilon=epsilon, accountant="dpgnn-theorem-1",
        caveats=_published_caveats(entry, facts, split), status="as-published",
    )  # fmt: skip
    return Plan(
        mechanisms=(fixed_size_mechanism(run, num_steps, reference, details),),
        claims=(claim, *_best_proved(entry, facts, budget, run, num_steps)),
        num_steps=num_steps,
        facts=facts.recorded(),
        details={"accountant": "dpgnn-theorem-1"},
    )


def _stated(
    entry: Entry, facts: Facts, budget: Budget, changed: int, reference: float
) -> tuple[FixedSizeRoots[Any], int, float]:
    """The step as the paper counts it, the number of steps, and the epsilon it states."""
    from dpgnn.accountants import rdp
    from dpgnn.accountants.calibration import smallest_meeting
    from dpgnn.accountants.published import dpgnn_epsilon, dpgnn_num_steps

    training = entry.options.training
    orders = rdp.REFERENCE_ORDERS if entry.options.reference_code else rdp.WIDE_ORDERS

    def step(noise: float) -> FixedSizeRoots[Any]:
        return _batch_event(entry, facts, noise, changed)

    def spent(noise: float, count: int) -> float:
        return dpgnn_epsilon(step(noise), count, budget.delta, orders=orders)

    if training.noise_multiplier is None:
        count = training.num_steps
        noise = smallest_meeting(
            lambda value: spent(value, count), budget.epsilon, start=reference, tolerance=1e-4,
            name="target_epsilon",
        )  # fmt: skip
    else:
        noise = training.noise_multiplier * reference
        allowed = dpgnn_num_steps(step(noise), budget.epsilon, budget.delta, orders=orders)
        if allowed == 0:
            fail(
                "epsilon", f"be at least {spent(noise, 1):.6g}, what one step costs",
                budget.epsilon, "raise epsilon or noise_multiplier",
            )  # fmt: skip
        count = min(allowed, training.num_steps)
    return step(noise), count, spent(noise, count)


def _best_proved(
    entry: Entry, facts: Facts, budget: Budget, run: FixedSizeRoots[Any], num_steps: int
) -> tuple[Claim, ...]:
    """What holds for the run: counted by the roots that can really change, or nothing finite."""
    from dpgnn.accountants.calibration import epsilon
    from dpgnn.accountants.published import gaussian_epsilon_by_rdp

    def counted(event: FixedSizeRoots[Any]) -> float:
        whole = compose(event, num_steps)
        return epsilon(whole, delta=budget.delta, relation=event.relation)

    if _measures(entry):
        nothing = _claim(entry, facts, budget, epsilon=math.inf, accountant="none", status="proved")
        if_public = _claim(
            entry, facts, budget, epsilon=counted(run), accountant="pld",
            caveats=("clip-thresholds-from-data",), status="as-published",
        )  # fmt: skip
        features = {"privacy_unit": "node-features", "relation": "replace-one"}
        return (nothing, replace(if_public, **features))  # type: ignore[arg-type]
    if entry.relation == "add-remove":  # a batch of fixed size from another number of roots
        return (_claim(entry, facts, budget, epsilon=math.inf, accountant="none", status="proved"),)
    roots = _proved_roots(entry, facts)
    if roots < facts.num_train:
        proved, accountant = counted(replace(run, changed_roots=roots)), "pld"
    else:
        # nothing bounds the changed roots, so all m clipped gradients of a batch may move: finite, and
        # so large that the elementary conversion is as good as any
        shift = 2 * run.clipping_norm * run.batch_size / run.noise_stddev
        proved = gaussian_epsilon_by_rdp(shift * math.sqrt(num_steps), budget.delta)
        accountant = "rdp"
    return (_claim(entry, facts, budget, epsilon=proved, accountant=accountant, status="proved"),)


def _proved_roots(entry: Entry, facts: Facts) -> int:
    """Roots that a change of the unit can reach, as far as it is proved: all, where nothing is."""
    if entry.options.num_hops == 0:
        return 1
    pair = (str(entry.privacy_unit), str(entry.relation))
    found = sampler_of(entry).promise.changes.get(pair)
    return found.d_plus if found is not None and found.proved else facts.num_train


def _measures(entry: Entry) -> bool:
    return threshold_rule(entry) == "percentile"


def _published_caveats(entry: Entry, facts: Facts, split: int) -> tuple[str, ...]:
    config: DPGNNConfig = entry.options
    caveats = list(_inference(config))
    if _measures(entry):
        caveats.append("clip-thresholds-from-data")
    if split > 1:
        caveats.append("layerwise-noise")
    if _proved_roots(entry, facts) > _max_occurrences(config, entry):
        caveats += ["sampler-ripple", "undirected-edges"]
    if entry.relation == "add-remove":
        caveats.append("population-changes")
    if config.reference_code:
        caveats.append("order-grid-floor")
    return tuple(caveats)


def _inference(config: DPGNNConfig) -> tuple[str, ...]:
    return ("inference-reads-private-graph",) if config.num_hops else ()


def _claim(
    entry: Entry,
    facts: Facts,
    budget: Budget,
    *,
    epsilon: float,
    accountant: str,
    status: Any,
    caveats: tuple[str, ...] = (),
) -> Claim:
    """A claim of the entry, with the caveat on a delta that is too large for the graph."""
    if budget.delta > 1.001 / (10 * facts.num_nodes):
        caveats = (*caveats, "delta-too-large")
    return claim_for(
        entry, budget, epsilon=epsilon, accountant=accountant, assumed_public=ASSUMED_PUBLIC,
        degree_bound=entry.options.degree_bound if entry.privacy_unit == "node-bounded" else None,
        caveats=caveats, status=status,
    )  # fmt: skip
