"""DPDGC: a linear embedding of adjacency rows, released once with noise, joined to features in a head.

h_i = sum of s w_j/||w_j|| over the neighbours j of i, plus noise. The embedding weights are trained by DP-SGD
on the adjacency rows, through that normalisation; the head reads no edge. See docs/methods/gap.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.accountants.events import Event, GaussianRelease
from dpgnn.accountants.plan import Budget, Plan
from dpgnn.core.checks import positive, require
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
from dpgnn.methods.dpdgc import plan as dpdgc_plan
from dpgnn.methods.dpdgc.queries import LEAKS, QUERIES
from dpgnn.methods.gap.method import node_sensitivity
from dpgnn.methods.shared.head_options import HeadConfig, check_node_level
from dpgnn.methods.shared.node_level import CHANGED, Aggregation, published_plan, sound_plan
from dpgnn.methods.shared.node_level_options import NodeConfig

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.releases import Release


@dataclass(frozen=True, kw_only=True)
class DPDGCConfig:
    """Options of DPDGC; every value is public.

    Attributes:
        norm_scale: s, the norm of each neighbour's embedding in the forward pass, in training and release
            alike; the noise is relative to it. Of order one: it is also the scale the training sees.
        normalized: False leaves the normalisation out, as the released code does; published mode only.
        head: stacks on features and embedding, and their training at edge level.
        node: `encoder` trains the embedding (at edge level too), the rest is for node level.
    """

    norm_scale: float = 1.0
    normalized: bool = True
    head: HeadConfig = HeadConfig(base_layers=2, head_layers=2)
    node: NodeConfig = NodeConfig()

    def __post_init__(self) -> None:
        positive("norm_scale", self.norm_scale)


def changed_rows(max_degree: int, relation: str) -> tuple[int, int]:
    """Adjacency rows (roots of the embedding's training) that one node changes: its own and D others.

    The rows that read the node are at most D (declared bound, or slots of its own list); replaced, it is
    read by D rows of either world. Returns (d_plus, d_minus).
    """
    if relation == "add-remove":
        return max_degree + 1, max_degree
    if relation == "null-one":
        return max_degree + 1, max_degree + 1
    return 2 * max_degree + 1, 2 * max_degree + 1


def sampler(entry: Entry) -> SamplerSpec | None:
    """Degree-bounded edges at node level."""
    from dpgnn.methods.shared import aggregate_bounds as _aggregate_bounds

    config: DPDGCConfig = entry.options
    return _aggregate_bounds.sampler(entry, config.node)


def prepare(graph: Graph, split: Split, spec: SamplerSpec, rng: np.random.Generator) -> Prepared:
    """The edges that are read; see `_aggregate_bounds`."""
    from dpgnn.methods.shared import aggregate_bounds as _aggregate_bounds

    return _aggregate_bounds.prepare(graph, spec, rng=rng)


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """One budget over the embedding's training, the release and, at node level, the head.

    Guarantee (sound, edge): `plan.edge_plan`. Guarantee (sound, node): `node_level.sound_plan`
    with `changed_rows` roots of the embedding and release sensitivity s sqrt(D): a node stands in at most
    D other rows, each term of norm s. Published mode counts one changed gradient of norm 2 C sqrt(D + 1);
    its second claim composes what is run.

    Source: Chien et al. (2023), arXiv:2309.06645.
    """
    config: DPDGCConfig = entry.options
    if entry.mode == "nonprivate":
        return nonprivate_plan(entry, facts, budget)
    if entry.mode == "sound":
        require(config.normalized, "normalized", "be true in sound mode", config.normalized)
        bounding = config.node.bounding
        require(bounding == "declared", "node.bounding", "be declared in sound mode", bounding)
    made = dpdgc_plan.edge_plan if entry.privacy_unit == "edge" else _node_plan
    return made(entry, facts, budget)


def _node_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    config: DPDGCConfig = entry.options
    assert entry.relation is not None
    relation: Any = entry.relation

    def build(noise_stddev: float, sensitivity: float) -> Event[Any]:
        return GaussianRelease(
            relation=relation, noise_stddev=noise_stddev, sensitivity=sensitivity
        )

    size = config.norm_scale * node_sensitivity(config.node.max_degree, entry.relation)
    stated = size
    if entry.mode == "published" and entry.relation == "replace-one":
        stated = config.norm_scale * math.sqrt(2 * config.node.max_degree)  # as the released code
    rows = changed_rows(config.node.max_degree, entry.relation)
    stable = config.node.bounding == "declared" and config.normalized
    aggregation = Aggregation(
        build=build,
        sensitivity=stated,
        proved=size if stable else None,
        num_hops=1,
        details={"norm_scale": config.norm_scale},
    )
    if entry.mode == "sound":
        return sound_plan(entry, facts, budget, config.node, aggregation, encoder_changes=rows)
    caveats = ["batch-sensitivity", "own-row-uncounted"]
    if config.node.bounding == "sampled":
        caveats.append("degree-bound-unstable")
    if not config.normalized:
        caveats.append("normalization-not-applied")
    return published_plan(
        entry,
        facts,
        budget,
        config.node,
        aggregation,
        caveats=tuple(caveats),
        encoder_factor=math.sqrt(config.node.max_degree + 1),
        encoder_changed=max(rows),
        stated_release="weights+predictions",
    )


def fit(
    entry: Entry,
    graph: Graph,
    split: Split,
    prepared: Prepared | None,
    plan: Plan,
    context: Context,
) -> Fitted:
    """Train the embedding, release it with noise, train the head.

    Guarantee: edges (and at node level features and labels) enter through planned mechanisms alone.
    """
    from dpgnn.methods.dpdgc import fit as dpdgc_fit

    if entry.mode == "nonprivate":
        return dpdgc_fit.fit_plain(entry, graph, split, context)
    return dpdgc_fit.fit_private(entry, graph, split, prepared, plan, context)


def predict(entry: Entry, fitted: Fitted, graph: Graph, node_idx: np.ndarray) -> Prediction:
    """Logits of the nodes asked for, made from what the run released and, at node level, kept."""
    from dpgnn.methods.shared.aggregate_answers import answer

    return answer(entry, fitted, node_idx)


def releases() -> tuple[Release[..., Any], ...]:
    """The noisy sums of embeddings."""
    from dpgnn.methods.dpdgc.fit import released_sums

    return (released_sums,)


def degrees(entry: Entry) -> Degrees:
    """The slots of node level."""
    return Degrees(slots=entry.options.node.max_degree)


METHOD = Method(
    name="dpdgc",
    title="DPDGC",
    config=DPDGCConfig,
    source="Chien et al. (2023), arXiv:2309.06645",
    modes=("nonprivate", "published", "sound"),
    supports=(
        Support(privacy_unit="edge", relation="add-remove"),
        *(
            Support(privacy_unit=unit, relation=relation)
            for unit in ("node-bounded", "node-record")
            for relation in CHANGED
        ),
    ),
    sampler=sampler,
    prepare=prepare,
    check=check_node_level,
    plan=plan,
    fit=fit,
    asked=Asked(
        flags={
            "norm-scale": "norm_scale",
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
        "head": {"hidden": 8, "training": {"num_epochs": 5}},
        "node": {
            "max_degree": 30,
            "encoder": {"batch_size": 10, "num_epochs": 3},
            "head": {"batch_size": 10, "num_epochs": 3},
        },
    },
    citation="chien2023dpdgc",
)
