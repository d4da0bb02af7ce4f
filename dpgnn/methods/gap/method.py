"""GAP: perturbed sums over neighbours, hop by hop, between an encoder and a head that read no edge.

Edge level (GAP-EDP): one Gaussian release per hop, sensitivity sqrt 2 for an undirected edge. Node level
(GAP-NDP): encoder and head by DP-SGD, sensitivity sqrt(D). See docs/methods/gap.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpgnn.accountants.events import Event, GaussianRelease, compose
from dpgnn.accountants.plan import Budget, Plan
from dpgnn.core.checks import at_least, one_of, require
from dpgnn.methods.base import (
    Asked,
    Context,
    Degrees,
    Entry,
    Facts,
    Fitted,
    Method,
    Prediction,
    Prepared,
    SamplerSpec,
    Support,
    nonprivate_plan,
)
from dpgnn.methods.gap.queries import LEAKS, QUERIES
from dpgnn.methods.shared.edge_level import gaussian_mechanism, gdp_claim
from dpgnn.methods.shared.head_options import HeadConfig, check_node_level
from dpgnn.methods.shared.node_level import (
    AGGREGATE,
    Aggregation,
    published_plan,
    sound_plan,
)
from dpgnn.methods.shared.node_level_options import NodeConfig

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.releases import Release

SQRT2 = math.sqrt(2)


@dataclass(frozen=True, kw_only=True)
class GapConfig:
    """Options of GAP; every value is public.

    Attributes:
        num_hops: K.
        normalization: "l2" (GAP's own), or "columns-l1" (the re-implementation in CARIBOU's code).
        directed: published mode, edge level: count one stored direction (sensitivity 1), as published, and
            aggregate over stored edges; False counts the undirected edge (sqrt 2).
        head: encoder and head.
        node: node-level options.
    """

    num_hops: int = 2
    normalization: Literal["l2", "columns-l1"] = "l2"
    directed: bool = True
    head: HeadConfig = HeadConfig()
    node: NodeConfig = NodeConfig()

    def __post_init__(self) -> None:
        at_least("num_hops", self.num_hops, 1)
        one_of("normalization", self.normalization, ("l2", "columns-l1"))


def edge_sensitivity(*, directed: bool) -> float:
    """L2 change of the sums A X, rows of X in the unit ball: 1 for one stored direction, sqrt 2 undirected.

    Proof. One entry of A adds one row of norm at most 1 to one row of A X; an undirected edge adds two
    entries in two rows, and rows are orthogonal blocks. []
    """
    return 1.0 if directed else SQRT2


def node_sensitivity(max_degree: int, relation: str) -> float:
    """L2 change of all rows of A X but the changed node's own, rows of X in the unit ball.

    At most D rows read the node (declared degree bound, or D slots in its own list): sqrt(D) when it is
    removed or emptied, and 2 sqrt(D) when it is replaced, attained when the same D rows read x and -x.
    """
    at_least("max_degree", max_degree, 1)
    root = math.sqrt(max_degree)
    return 2 * root if relation == "replace-one" else root


def own_row_sensitivity(max_degree: int) -> float:
    """The same with the node's own row released too, when it is emptied: sqrt(D + D^2)."""
    return math.sqrt(max_degree + max_degree**2)


def sampler(entry: Entry) -> SamplerSpec | None:
    """Degree-bounded edges at node level; nothing at edge level."""
    from dpgnn.methods.shared import aggregate_bounds as _aggregate_bounds

    config: GapConfig = entry.options
    return _aggregate_bounds.sampler(entry, config.node)


def prepare(graph: Graph, split: Split, spec: SamplerSpec, rng: np.random.Generator) -> Prepared:
    """The edges that are aggregated over; see `_aggregate_bounds`."""
    from dpgnn.methods.shared import aggregate_bounds as _aggregate_bounds

    return _aggregate_bounds.prepare(graph, spec, rng=rng)


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """Noise from the budget.

    Guarantee (sound, edge): K adaptive Gaussian releases, exactly mu-GDP with mu = sqrt(2 K)/noise_stddev.
    Guarantee (sound, node): `node_level.sound_plan`. Published mode states one direction, or the noise
    multiplier shared by encoder, hops and head; its second claim is what is proved for the same noise.

    Source: Sajadmanesh et al. (2023), arXiv:2203.00949, Theorems 1 and 2.
    """
    if entry.mode == "nonprivate":
        return nonprivate_plan(entry, facts, budget)
    made = _edge_plan if entry.privacy_unit == "edge" else _node_plan
    return made(entry, facts, budget)


def _node_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    config: GapConfig = entry.options
    assert entry.relation is not None
    relation: Any = entry.relation
    size = node_sensitivity(config.node.max_degree, entry.relation)
    sound = entry.mode == "sound"
    _check_sound(entry, config)
    bounded = sound or config.node.bounding == "declared"
    # columns are divided by norms over all rows, the changed node's own among them: every row moves
    stable = bounded and config.normalization == "l2"

    def build(noise_stddev: float, sensitivity: float) -> Event[Any]:
        hop: GaussianRelease[Any] = GaussianRelease(
            relation=relation, noise_stddev=noise_stddev, sensitivity=sensitivity
        )
        return compose(hop, config.num_hops)

    aggregation = Aggregation(
        build=build,
        sensitivity=size,
        proved=size if stable else None,
        num_hops=config.num_hops,
        details={"max_degree": config.node.max_degree},
    )
    with_encoder = config.head.encoder_layers > 0
    if sound:
        return sound_plan(entry, facts, budget, config.node, aggregation, with_encoder=with_encoder)
    # the publication answers for every node from the noisy rows, the changed node's own row among them
    caveats = ("own-row-uncounted",) if bounded else ("own-row-uncounted", "degree-bound-unstable")
    return published_plan(
        entry, facts, budget, config.node, aggregation, caveats=caveats, with_encoder=with_encoder,
        stated_release="weights+predictions",
    )  # fmt: skip


def _edge_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    config: GapConfig = entry.options
    directed = entry.mode == "published" and config.directed
    size = edge_sensitivity(directed=directed)

    def event(noise_stddev: float, sensitivity: float = size) -> Event[Any]:
        hop: GaussianRelease[Any] = GaussianRelease(
            relation="add-remove", noise_stddev=noise_stddev, sensitivity=sensitivity
        )
        return compose(hop, config.num_hops)

    mechanism = gaussian_mechanism(
        AGGREGATE, event, budget, sensitivity=size, num_hops=config.num_hops, details={}
    )
    caveats = ("directed-sensitivity",) if directed else ()
    claims = [gdp_claim(entry, budget, mechanism.event, caveats=caveats)]
    if entry.mode == "published":
        actual = event(mechanism.noise_stddev, SQRT2)
        claims.append(gdp_claim(entry, budget, actual, status="proved"))
    return Plan(
        mechanisms=(mechanism,),
        claims=tuple(claims),
        num_steps=config.num_hops,
        facts=facts.recorded(),
    )


def _check_sound(entry: Entry, config: GapConfig) -> None:
    """Options that only a published run may have, and units that only a sound one has."""
    if entry.mode == "sound":
        for name, wanted, value in (
            ("normalization", "l2", config.normalization),
            ("node.bounding", "declared", config.node.bounding),
            ("node.drop_last_node", False, config.node.drop_last_node),
        ):
            require(value == wanted, name, f"be {wanted} in sound mode", value)


def fit(
    entry: Entry,
    graph: Graph,
    split: Split,
    prepared: Prepared | None,
    plan: Plan,
    context: Context,
) -> Fitted:
    """Encode, aggregate with noise, train the head.

    Guarantee: edges (and at node level features and labels) enter through planned mechanisms alone.
    """
    from dpgnn.methods.gap import fit as gap_fit

    if entry.mode == "nonprivate" or entry.privacy_unit == "edge":
        return gap_fit.fit_edge(entry, graph, split, plan, context)
    assert prepared is not None
    return gap_fit.fit_node(entry, graph, split, prepared, plan, context)


def predict(entry: Entry, fitted: Fitted, graph: Graph, node_idx: np.ndarray) -> Prediction:
    """Logits of the nodes asked for, made from what the run released and, at node level, kept."""
    from dpgnn.methods.shared.aggregate_answers import answer

    return answer(entry, fitted, node_idx)


def releases() -> tuple[Release[..., Any], ...]:
    """The noisy sums over neighbours, hop by hop."""
    from dpgnn.methods.shared.aggregate import noisy_sums

    return (noisy_sums,)


def degrees(entry: Entry) -> Degrees:
    """The slots of node level."""
    return Degrees(slots=entry.options.node.max_degree)


METHOD = Method(
    name="gap",
    title="GAP",
    config=GapConfig,
    source="Sajadmanesh et al. (2023), arXiv:2203.00949",
    modes=("nonprivate", "published", "sound"),
    supports=(
        Support(privacy_unit="edge", relation="add-remove"),
        Support(privacy_unit="node-bounded", relation="add-remove"),
        Support(privacy_unit="node-bounded", relation="null-one"),
        Support(privacy_unit="node-bounded", relation="replace-one"),
        Support(privacy_unit="node-record", relation="add-remove"),
        Support(privacy_unit="node-record", relation="null-one"),
        Support(privacy_unit="node-record", relation="replace-one"),
    ),
    sampler=sampler,
    prepare=prepare,
    check=check_node_level,
    plan=plan,
    fit=fit,
    asked=Asked(
        steps="num_hops",
        counted="hops",
        flags={
            "max-degree": "node.max_degree",
            "encoder-batch-size": "node.encoder.batch_size",
            "encoder-epochs": "node.encoder.num_epochs",
            "head-batch-size": "node.head.batch_size",
            "head-epochs": "node.head.num_epochs",
        },
    ),
    predict=predict,
    queries=QUERIES,
    leaks=LEAKS,
    releases=releases,
    degrees=degrees,
    example={
        "num_hops": 2,
        "head": {
            "hidden": 8,
            "encoder_training": {"num_epochs": 5},
            "training": {"num_epochs": 5},
        },
        "node": {
            "max_degree": 30,
            "encoder": {"batch_size": 10, "num_epochs": 3},
            "head": {"batch_size": 10, "num_epochs": 3},
        },
    },
    citation="sajadmanesh2023gap",
)
