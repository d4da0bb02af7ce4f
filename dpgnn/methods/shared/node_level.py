"""One budget over a private encoder, a noisy aggregation and a private head: node-level plans.

Why a node's own row costs nothing when weights are released. Let node u be emptied, removed or replaced.
Write r_k for u's own row of the k-th noisy aggregate. Rows v != u of an aggregate read u's record only
through r_{k-1} (or u's features, for k = 1), and move by at most the stated sensitivity whatever r_{k-1}
is; u's record enters the head's training only as the one root u, whose clipped gradient has norm at most C
whatever r_1..r_K are. Now let both worlds reveal more: the rows v != u, and a copy of r_k drawn, given all
rows v != u so far, by the law it has in G. Where u is absent or without edges, the rows v != u do not
depend on r_k, so adding the copy there is post-processing. Given the copy, every step is a Gaussian release
of the rows v != u with that sensitivity, or a DP-SGD step with one changed root: the composition of these
dominates, and the weights are a function of it. (A replaced node has a copy for each world; both are drawn
in both.) So the released weights cost what encoder, aggregation without u's row, and head cost together;
neither u's own row nor the number of rows appears. The rows v != u are revealed with the weights, and
the answer to v reads nothing else but v's own features: the answers to all nodes but u are covered too
(`own-record`). What is not is a release of u's own noisy row, or of u's answer to somebody else than u.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

from dpgnn.accountants.events import (
    Event,
    FixedSizeRoots,
    PoissonRoots,
    compose,
    compose_all,
    parts,
)
from dpgnn.accountants.plan import Budget, Mechanism, Plan, Spent
from dpgnn.core.checks import require
from dpgnn.methods.shared.node_level_options import NodeConfig, Rule, StageConfig
from dpgnn.methods.shared.planning import claim_for

if TYPE_CHECKING:
    from dpgnn.accountants.allocation import Allocation
    from dpgnn.accountants.claims import Claim
    from dpgnn.methods.base import Entry, Facts

ENCODER, AGGREGATE, HEAD = "encoder", "aggregate", "head"
NODE_PUBLIC = ("node ids", "number of training nodes", "split", "all options")
# changed roots of a root-wise loss when one node changes
CHANGED = {"add-remove": (1, 0), "null-one": (1, 1), "replace-one": (1, 1)}


@dataclass(frozen=True, kw_only=True)
class Aggregation:
    """The noisy aggregation as the budget sees it.

    Attributes:
        build: (noise_stddev, sensitivity) -> event.
        sensitivity: reference of the noise.
        proved: the proved sensitivity of the run; None if nothing finite is proved.
        num_hops: recorded.
        released: released by the run.
        details: recorded.
    """

    build: Callable[[float, float], Event[Any]]
    sensitivity: float
    proved: float | None
    num_hops: int
    released: Literal["weights", "noisy-state"] = "weights"
    details: Mapping[str, Any] = field(default_factory=dict)


def sound_plan(
    entry: Entry,
    facts: Facts,
    budget: Budget,
    config: NodeConfig,
    aggregation: Aggregation,
    *,
    with_encoder: bool = True,
    encoder_changes: tuple[int, int] | None = None,
) -> Plan:
    """Noise for all mechanisms from one budget, counted by composed losses.

    Guarantee: unit and relation of the entry; see the module's proof. Public: node ids, the split and its
    size, all options. Batches are Poisson; the last step of each stage is used.

    Args:
        encoder_changes: changed roots of an encoder that reads edges; None is one root.
        entry, facts, budget, config, aggregation: see the classes.
        with_encoder: whether an encoder is trained.

    Raises:
        ValueError: no noise meets the budget.
    """
    assert entry.relation is not None
    changes = CHANGED[entry.relation]
    require(budget.is_private, "epsilon", "be finite at node level", budget.epsilon,
            "use mode nonprivate")  # fmt: skip
    stages = {ENCODER: (config.encoder, encoder_changes or changes), HEAD: (config.head, changes)}

    def made(name: str, z: float) -> Mechanism:
        if name == AGGREGATE:
            return _aggregate_mechanism(aggregation, z)
        stage, changed = stages[name]
        return poisson_stage(entry, name, stage, changed, facts.num_train, z)

    parts = list(zip((ENCODER, AGGREGATE, HEAD), config.shares))[0 if with_encoder else 1 :]
    shares = tuple((name, made(name, 1.0).event, weight) for name, weight in parts)
    allocation = allocated(shares, config.rule, budget)
    mechanisms = tuple(made(name, z) for name, z in allocation.noise_multipliers.items())
    return _plan(facts, mechanisms, (_claim(entry, budget, config, aggregation, spent=allocation),))


def published_plan(
    entry: Entry,
    facts: Facts,
    budget: Budget,
    config: NodeConfig,
    aggregation: Aggregation,
    *,
    caveats: tuple[str, ...],
    with_encoder: bool = True,
    encoder_factor: float = 1.0,
    encoder_changed: int = 1,
    stated_release: Literal["weights", "weights+predictions"] = "weights",
) -> Plan:
    """One noise multiplier for encoder, hops and head, calibrated by Renyi DP, as published.

    Under add-remove batches are Poisson and the noise is z C. Otherwise batches have a fixed size
    and the noise is 2 z C, counted as if batches were Poisson with noise z C (caveat fixed-size-as-poisson).
    The second claim composes the losses of what is run with the proved sensitivity, or is infinite.

    Guarantee: the first claim is the publication's number, not a guarantee; the second holds for the weights,
    for unit and relation of the entry, or is infinite.

    Args:
        caveats: of the first claim.
        encoder_factor: multiplies the encoder's noise (an encoder that reads edges).
        encoder_changed: proved number of changed roots of the encoder on each side.
        stated_release: release that the publication's epsilon covers; the second claim is about the weights.
        entry, facts, budget, config, aggregation, with_encoder: as for `sound_plan`.

    Source: Sajadmanesh et al. (2023), arXiv:2203.00949, node-level privacy; CARIBOU, Theorem 6.
    """
    fixed = entry.relation != "add-remove"
    stages = {ENCODER: config.encoder, HEAD: config.head}
    if not with_encoder:
        del stages[ENCODER]
    counted = [aggregation.build(aggregation.sensitivity, aggregation.sensitivity)]
    counted += [counted_steps(stage, facts.num_train) for stage in stages.values()]
    z, stated = published_multiplier(tuple(counted), budget)
    of_stage = {ENCODER: (encoder_factor * z, encoder_changed), HEAD: (z, 1)}
    mechanisms = [
        _published_stage(entry, name, stage, facts.num_train, *of_stage[name])
        for name, stage in stages.items()
    ]
    mechanisms.insert(int(with_encoder), _aggregate_mechanism(aggregation, z))
    if fixed:
        caveats = (*caveats, "fixed-size-as-poisson")
    first = _claim(
        entry, budget, config, aggregation, spent=Spent(epsilon=stated, accountant="rdp"),
        status="as-published", caveats=caveats, released=stated_release,
    )  # fmt: skip
    proved = _proved(entry, budget, mechanisms, aggregation)
    second = _claim(
        entry, budget, config, aggregation, spent=proved, status="proved",
    )  # fmt: skip
    return _plan(facts, tuple(mechanisms), (first, second))


@lru_cache(maxsize=256)
def allocated(
    shares: tuple[tuple[str, Event[Any], float], ...], rule: Rule, budget: Budget
) -> Allocation:
    """Multipliers for events given at multiplier 1, or the budget's own for all; cached."""
    from dpgnn.accountants.allocation import Allocation, Share, allocate
    from dpgnn.accountants.composition import spent

    given, relation = budget.noise_multiplier, shares[0][1].relation
    if given is not None:
        whole = compose_all(*(_scaled(event, given) for _, event, _ in shares))
        found = spent(whole, delta=budget.delta, relation=relation)
        return Allocation(
            noise_multipliers={name: given for name, *_ in shares},
            epsilon=found.epsilon,
            accountant=found.accountant,
        )
    return allocate(
        [
            Share(name=name, build=partial(_scaled, event), weight=weight)
            for name, event, weight in shares
        ],
        rule=rule,
        target_epsilon=budget.epsilon,
        delta=budget.delta,
        relation=relation,
    )


def _scaled(event: Event[Any], multiplier: float) -> Event[Any]:
    """The same mechanism with its noise times a multiplier."""
    scaled = []
    for part, count in parts(event):
        noise: Any = {"noise_stddev": part.noise_stddev * multiplier}  # type: ignore[attr-defined]
        scaled.append(compose(replace(part, **noise), count))
    return compose_all(*scaled)


def _claim(
    entry: Entry, budget: Budget, config: NodeConfig, aggregation: Aggregation, **words: Any
) -> Claim:
    bound = config.max_degree if entry.privacy_unit == "node-bounded" else None
    common = {"assumed_public": NODE_PUBLIC, "released": aggregation.released}
    return claim_for(entry, budget, degree_bound=bound, **(common | words))


def _plan(facts: Facts, mechanisms: tuple[Mechanism, ...], claims: tuple[Claim, ...]) -> Plan:
    return Plan(
        mechanisms=mechanisms,
        claims=claims,
        num_steps=mechanisms[-1].num_steps,
        facts=facts.recorded(),
    )


def _aggregate_mechanism(aggregation: Aggregation, z: float) -> Mechanism:
    noise = z * aggregation.sensitivity
    return Mechanism(
        name=AGGREGATE,
        event=aggregation.build(noise, aggregation.proved or aggregation.sensitivity),
        noise_stddev=noise,
        sensitivity=aggregation.sensitivity,
        num_steps=aggregation.num_hops,
        details={"noise_multiplier": z, **aggregation.details},
    )


def poisson_stage(
    entry: Entry, name: str, stage: StageConfig, changed: tuple[int, int], num_train: int, z: float
) -> Mechanism:
    """A stage of Poisson DP-SGD with noise z times its sensitivity C (d_plus + d_minus)."""
    rate = min(1.0, stage.batch_size / num_train)
    sensitivity = stage.clipping_norm * sum(changed)
    relation: Any = entry.relation
    step: PoissonRoots[Any] = PoissonRoots(
        relation=relation,
        noise_stddev=z * sensitivity,
        clipping_norm=stage.clipping_norm,
        sampling_probability=rate,
        d_plus=changed[0],
        d_minus=changed[1],
    )
    return _stage(
        name, stage, step, stage.num_steps(num_train, drop_last=False), z, rate * num_train
    )


def _published_stage(
    entry: Entry, name: str, stage: StageConfig, num_train: int, z: float, changed: int
) -> Mechanism:
    """A stage with noise z C on Poisson batches (add-remove), 2 z C on fixed-size batches (otherwise)."""
    if entry.relation == "add-remove":
        roots = (changed, changed - 1)
        return poisson_stage(entry, name, stage, roots, num_train, z / sum(roots))
    num_steps = stage.num_steps(num_train, drop_last=True)
    relation: Any = entry.relation
    step: FixedSizeRoots[Any] = FixedSizeRoots(
        relation=relation,
        noise_stddev=2 * z * stage.clipping_norm,
        clipping_norm=stage.clipping_norm,
        population=num_train,
        batch_size=stage.batch_size,
        changed_roots=min(changed, num_train),
    )
    return _stage(name, stage, step, num_steps, z, float(stage.batch_size))


def _stage(
    name: str, stage: StageConfig, step: Any, num_steps: int, z: float, divisor: float
) -> Mechanism:
    return Mechanism(
        name=name,
        event=compose(step, num_steps),
        noise_stddev=step.noise_stddev,
        sensitivity=step.noise_stddev / z,
        num_steps=num_steps,
        clipping_norm=stage.clipping_norm,
        divisor=divisor,
        details={"noise_multiplier": z},
    )


def counted_steps(stage: StageConfig, num_train: int) -> Event[Any]:
    """A stage as publications count it, at multiplier 1: Poisson batches, one added root, noise C."""
    step: PoissonRoots[Any] = PoissonRoots(
        relation="add-remove",
        noise_stddev=stage.clipping_norm,
        clipping_norm=stage.clipping_norm,
        sampling_probability=min(1.0, stage.batch_size / num_train),
        d_plus=1,
        d_minus=0,
    )
    return compose(step, stage.num_steps(num_train, drop_last=False))


@lru_cache(maxsize=256)
def published_multiplier(events: tuple[Event[Any], ...], budget: Budget) -> tuple[float, float]:
    """The shared multiplier of events given at multiplier 1 (or the budget's own), and the stated epsilon."""
    from dpgnn.accountants import calibration, published

    def spent(z: float) -> float:
        return published.summed_rdp_epsilon((_scaled(event, z) for event in events), budget.delta)

    if budget.noise_multiplier is not None:
        return budget.noise_multiplier, spent(budget.noise_multiplier)
    z = calibration.smallest_meeting(
        spent, budget.epsilon, start=1.0, tolerance=1e-4, name="target_epsilon"
    )
    return z, spent(z)


def _proved(
    entry: Entry, budget: Budget, mechanisms: list[Mechanism], aggregation: Aggregation
) -> Spent:
    from dpgnn.accountants.composition import spent
    from dpgnn.accountants.plan import NOTHING_PROVED

    if aggregation.proved is None:
        return NOTHING_PROVED
    whole = compose_all(*(mechanism.event for mechanism in mechanisms))
    relation: Any = entry.relation
    found = spent(whole, delta=budget.delta, relation=relation)
    return found if math.isfinite(found.epsilon) else NOTHING_PROVED
