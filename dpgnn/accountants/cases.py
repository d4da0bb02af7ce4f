"""One method's accounting without its data: what it costs as published, and what is proved of its sound mode.

A case knows its events as functions of (noise_stddev, num_steps), with clipping norms and sensitivities in
units of one. `answers.py` solves for whichever of noise, steps and epsilon is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dpgnn.accountants import amplification, composition, published, published_drw, rdp
from dpgnn.accountants.claims import PrivacyUnit, Released
from dpgnn.accountants.composition import Accountant
from dpgnn.accountants.events import (
    ContractiveIteration,
    Event,
    FixedSizeRoots,
    GaussianRelease,
    PoissonRoots,
    Relation,
    compose,
    compose_all,
)
from dpgnn.accountants.implications import Notion
from dpgnn.accountants.rdp import Conversion
from dpgnn.core import checks

EventOf = Callable[[float, int], Event[Any]]
EpsilonOf = Callable[[float, int, float], float]


@dataclass(frozen=True, kw_only=True)
class Stated:
    """What a paper claims: its notion, the name of its formula, what is open."""

    notion: Notion
    accountant: str
    caveats: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A method's accounting.

    Attributes:
        method: its name.
        counted: what the number of steps counts: "steps", "hops" or "releases".
        reference_sensitivity: noise_stddev / noise_multiplier, in units of the clipping norm.
        published_epsilon: (noise_stddev, num_steps, delta) -> the paper's epsilon.
        stated: the paper's claim.
        event: (noise_stddev, num_steps) -> the event of the sound mode.
        notion: what the sound mode protects.
        assumed_public: what its proof takes as public.
        also_proved: (noise_stddev, num_steps) -> event of the published algorithm, and the weaker notion
            under which that event is right; None when nothing is proved of it.
        caveats: what is open in the sound mode too; a voiding one makes the claim as published.
        released: what leaves the run under the sound claim.
        outer_rate: rate of one outer subsample of the nodes; 1 for none. The sound epsilon is that of the
            event amplified by the correct rule (`amplification.py`).
        num_units: the fewest units there can be, for what is said of delta; 1 where no number is asked.
        details: public parameters worth showing.
    """

    method: str
    counted: str = "steps"
    reference_sensitivity: float
    published_epsilon: EpsilonOf
    stated: Stated
    event: EventOf
    notion: Notion
    assumed_public: tuple[str, ...] = ()
    also_proved: tuple[EventOf, Notion, tuple[str, ...]] | None = None
    caveats: tuple[str, ...] = ()
    released: Released = "weights"
    outer_rate: float = 1.0
    num_units: int = 1
    details: Mapping[str, Any] = field(default_factory=dict)

    def epsilon(
        self, noise_stddev: float, num_steps: int, delta: float, accountant: Accountant = "pld"
    ) -> float:
        """What is proved of the sound mode at this noise and number of steps."""
        event = self.event(noise_stddev, num_steps)
        relation = self.notion.relation
        inner = composition.epsilon(
            event, delta=delta / self.outer_rate, relation=relation, accountant=accountant
        )
        return amplification.amplified(inner, delta / self.outer_rate, self.outer_rate)[0]


def dp_gnn(
    *,
    num_train_nodes: int,
    batch_size: int,
    max_degree: int,
    num_hops: int,
    unit: PrivacyUnit = "node-record",
    relation: Relation = "add-remove",
    degree_bound: int | None = None,
    conversion: Conversion = "improved",
    wide_orders: bool = False,
) -> Case:
    """DP-GNN: Theorem 1 on fixed-size batches; sound: the own-list sampler and Poisson roots.

    Source: Daigavane et al. (2021), arXiv:2111.15521.
    """
    from dpgnn.samplers.own_list import OwnList

    bound = degree_bound if unit == "node-bounded" else None
    promise = OwnList(max_degree=max_degree, num_hops=num_hops, degree_bound=bound).promise
    change, changed = promise.change(unit, relation), promise.max_occurrences
    orders = rdp.WIDE_ORDERS if wide_orders else rdp.REFERENCE_ORDERS

    def fixed(noise_stddev: float) -> FixedSizeRoots[Any]:
        return _fixed(noise_stddev, num_train_nodes, batch_size, changed)

    return Case(
        method="dp_gnn",
        reference_sensitivity=2.0 * changed,
        published_epsilon=lambda noise, steps, delta: published.dpgnn_epsilon(
            fixed(noise), steps, delta, orders=orders, conversion=conversion
        ),
        stated=Stated(
            notion=Notion(privacy_unit="node", relation="add-remove"),
            accountant=f"dp-gnn theorem 1, {conversion} conversion",
            caveats=(
                "sampler-ripple",
                "undirected-edges",
                "clip-thresholds-from-data",
                "population-changes",
            ),
        ),
        event=lambda noise, steps: compose(
            _poisson(noise, relation, num_train_nodes, batch_size, change.d_plus, change.d_minus),
            steps,
        ),
        notion=Notion(privacy_unit=unit, relation=relation, degree_bound=bound),
        assumed_public=(*promise.public_facts, "number of training nodes", "all options"),
        also_proved=(
            lambda noise, steps: compose(fixed(noise), steps),
            Notion(privacy_unit="node-features", relation="replace-one"),
            ("structure", "clipping norms", "number of training nodes"),
        ),
        num_units=num_train_nodes,
        details={"d_plus": change.d_plus, "d_minus": change.d_minus, "max_occurrences": changed},
    )


def dp_mlp(*, num_train_nodes: int, batch_size: int, relation: Relation = "add-remove") -> Case:
    """Plain DP-SGD on nodes without edges (Abadi et al. 2016)."""
    plus, minus = {"add-remove": (1, 0), "replace-one": (1, 1), "null-one": (1, 1)}[relation]

    def one(noise_stddev: float) -> PoissonRoots[Any]:
        return _poisson(noise_stddev, "add-remove", num_train_nodes, batch_size, 1, 0)

    notion = Notion(privacy_unit="node", relation=relation)
    return Case(
        method="dp_mlp",
        reference_sensitivity=1.0,
        published_epsilon=lambda noise, steps, delta: published.dp_sgd_epsilon(
            one(noise), steps, delta
        ),
        stated=Stated(
            notion=Notion(privacy_unit="node", relation="add-remove"),
            accountant="sampled Gaussian by RDP",
            caveats=("fixed-size-as-poisson",),
        ),
        event=lambda noise, steps: compose(
            _poisson(noise, relation, num_train_nodes, batch_size, plus, minus), steps
        ),
        notion=notion,
        assumed_public=("number of training nodes", "membership of the split", "all options"),
        num_units=num_train_nodes,
        details={"d_plus": plus, "d_minus": minus},
    )


def drw(
    *,
    num_train_nodes: int,
    batch_size: int,
    walk_length: int,
    restarts: int = 1,
    num_walks: int | None = None,
    variant: published_drw.Variant = "basic",
) -> Case:
    """DRW: amplification by Wang et al. (2019) over M_min walks; sound: the exact profile over the drawn M.

    Args:
        num_walks: M of the drawn partition, public because the structure is; M_min when None.
    """
    fewest = published_drw.smallest_population(num_train_nodes, walk_length, restarts)
    walks = fewest if num_walks is None else num_walks
    checks.require(walks >= fewest, "num_walks", f"be >= M_min = {fewest}", walks)
    notion = Notion(privacy_unit="node-features", relation="replace-one")
    return Case(
        method="drw",
        reference_sensitivity=2.0,
        published_epsilon=lambda noise, steps, delta: published_drw.drw_epsilon(
            _fixed(noise, fewest, batch_size, 1), steps, delta, variant=variant
        ),
        stated=Stated(
            notion=notion,
            accountant=f"Wang et al. (2019), {variant}",
            caveats=("feature-level-only", "population-estimate"),
        ),
        event=lambda noise, steps: compose(_fixed(noise, walks, batch_size, 1), steps),
        notion=notion,
        assumed_public=("structure", "number of walks", "all options"),
        num_units=num_train_nodes,
        details={"smallest_population": fewest, "num_walks": walks},
    )


def gaussian(*, sensitivity: float, unit: PrivacyUnit, relation: Relation) -> Case:
    """Gaussian releases of one sensitivity: the textbook RDP conversion against the exact one."""
    notion = Notion(privacy_unit=unit, relation=relation)

    def event(noise_stddev: float, releases: int) -> Event[Any]:
        return compose(_release(noise_stddev, sensitivity, relation), releases)

    return Case(
        method="gaussian",
        counted="releases",
        reference_sensitivity=sensitivity,
        published_epsilon=lambda noise, releases, delta: published.gaussian_epsilon_by_rdp(
            _mu(sensitivity, noise, releases), delta
        ),
        stated=Stated(notion=notion, accountant="RDP, best order", caveats=()),
        event=event,
        notion=notion,
        details={"sensitivity": sensitivity},
    )


def caribou(
    *,
    contraction: float,
    sensitivity: float,
    unit: PrivacyUnit,
    relation: Relation,
    degree_bound: int | None = None,
    training: Event[Any] | None = None,
    proved_training: Event[Any] | None = None,
) -> Case:
    """CARIBOU: Theorems 3 and 6; sound: the same K_eff, converted exactly, composed with the training.

    Args:
        training: DP-SGD as the publication counts it; None where it is not counted.
        proved_training: the same as it is proved; `training` when None.
    """
    proved = training if proved_training is None else proved_training
    notion = Notion(privacy_unit=unit, relation=relation, degree_bound=degree_bound)

    def hops(noise_stddev: float, num_hops: int) -> ContractiveIteration[Any]:
        return ContractiveIteration(
            relation=relation,
            noise_stddev=noise_stddev,
            sensitivity=sensitivity,
            num_hops=num_hops,
            contraction=contraction,
        )

    def stated_epsilon(noise: float, num_hops: int, delta: float) -> float:
        if training is None:
            return published.caribou_theorem3_epsilon(hops(noise, num_hops), delta)
        return published.caribou_theorem6_epsilon(hops(noise, num_hops), training, delta)

    caveats = ["unnoised-last-layer", "minimum-degree-from-data", "operator-without-self-loops"]
    if unit != "edge":
        caveats += ["node-sensitivity", "head-not-private"]
    return Case(
        method="caribou",
        counted="hops",
        reference_sensitivity=sensitivity,
        published_epsilon=stated_epsilon,
        stated=Stated(notion=notion, accountant="caribou theorem 3 or 6", caveats=tuple(caveats)),
        event=lambda noise, num_hops: _with(hops(noise, num_hops), proved),
        notion=notion,
        assumed_public=_public("hop", sensitivity, proved),
        released=_released(unit, proved),
        details={"contraction": contraction, "sensitivity": sensitivity},
    )


def aggregation(
    *,
    method: str,
    sensitivity: float,
    unit: PrivacyUnit,
    relation: Relation,
    degree_bound: int | None = None,
    training: Event[Any] | None = None,
    proved_training: Event[Any] | None = None,
    whole: bool = True,
) -> Case:
    """GAP (`num_steps` hops) and DPDGC (one release): RDP as published; sound: one composed curve.

    Args:
        training, proved_training: as for `caribou`; of DPDGC's embedding (and head, at node level).
        whole: whether the training that is given is all that reads private records.
    """
    checks.one_of("method", method, ("gap", "dpdgc"))
    proved = training if proved_training is None else proved_training
    # the embedding is trained on the edges themselves
    untrained = method == "dpdgc" and proved is None
    released = "noisy-state" if untrained else _released(unit, proved if whole else None)
    notion = Notion(privacy_unit=unit, relation=relation, degree_bound=degree_bound)

    def stated_epsilon(noise: float, releases: int, delta: float) -> float:
        one = _release(noise, sensitivity, relation)
        if method == "gap":
            return published.gap_epsilon(one, releases, training, delta)
        checks.require(releases == 1, "num_steps", "be 1 for dpdgc", releases)
        return published.dpdgc_epsilon(one, training, delta)

    caveats = {
        ("gap", "edge"): ("directed-sensitivity",),
        ("dpdgc", "edge"): ("normalization-not-applied",),
        ("gap", "node"): ("degree-bound-unstable", "own-row-uncounted"),
        ("dpdgc", "node"): (
            "normalization-not-applied",
            "degree-bound-unstable",
            "own-row-uncounted",
        ),
    }[method, "edge" if unit == "edge" else "node"]
    return Case(
        method=method,
        counted="hops" if method == "gap" else "releases",
        reference_sensitivity=sensitivity,
        published_epsilon=stated_epsilon,
        stated=Stated(notion=notion, accountant="sum of RDP", caveats=caveats),
        event=lambda noise, releases: _with(
            compose(_release(noise, sensitivity, relation), releases), proved
        ),
        notion=notion,
        assumed_public=_public("release", sensitivity, proved),
        # weights trained with a counted head pay nothing for the node's own row (shared/node_level.py);
        # the rows themselves, released, would: sqrt(D + D^2) in place of sqrt(D)
        caveats=() if unit == "edge" or released == "weights" else ("own-row-uncounted",),
        released=released,
        details={"sensitivity": sensitivity},
    )


def _with(event: Event[Any], training: Event[Any] | None) -> Event[Any]:
    return event if training is None else compose_all(event, training)


def _public(what: str, sensitivity: float, training: Event[Any] | None) -> tuple[str, ...]:
    """What the proof of a noisy aggregation takes as public."""
    nodes = "number of nodes" if training is None else "number of nodes and of training nodes"
    return (f"sensitivity of one {what} = {sensitivity:.8g}", nodes, "all options")


def _released(unit: PrivacyUnit, training: Event[Any] | None) -> Released:
    """Without the training counted, only an edge claim extends to weights trained on the noisy state."""
    return "weights" if unit == "edge" or training is not None else "noisy-state"


def _mu(sensitivity: float, noise_stddev: float, count: int) -> float:
    return sensitivity / noise_stddev * math.sqrt(count)


def _release(noise_stddev: float, sensitivity: float, relation: Relation) -> GaussianRelease[Any]:
    return GaussianRelease(relation=relation, noise_stddev=noise_stddev, sensitivity=sensitivity)


def _fixed(noise: float, population: int, batch_size: int, changed: int) -> FixedSizeRoots[Any]:
    return FixedSizeRoots(
        relation="replace-one",
        noise_stddev=noise,
        clipping_norm=1.0,
        population=population,
        batch_size=batch_size,
        changed_roots=changed,
    )


def _poisson(
    noise: float, relation: Relation, num_roots: int, batch_size: int, plus: int, minus: int
) -> PoissonRoots[Any]:
    remedy = "lower the batch size or train on more nodes"
    rule = f"be <= num_train_nodes = {num_roots}"
    checks.require(batch_size <= num_roots, "batch_size", rule, batch_size, remedy)
    return PoissonRoots(
        relation=relation,
        noise_stddev=noise,
        clipping_norm=1.0,
        sampling_probability=batch_size / num_roots,
        d_plus=plus,
        d_minus=minus,
    )
