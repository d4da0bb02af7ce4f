"""DPDGC: a linear embedding of adjacency rows, released once with noise, joined to features in a head.

h_i = sum of s w_j/||w_j|| over the neighbours j of i, plus noise. The embedding weights are trained by DP-SGD
on the adjacency rows, through that normalisation; the head reads no edge. See docs/methods/gap.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpgnn.accountants.plan import Plan
from dpgnn.methods.base import Asked, Context, Entry, Fitted, Method, Prepared
from dpgnn.methods.dpdgc.node_plan import plan
from dpgnn.methods.dpdgc.options import DPDGCConfig
from dpgnn.methods.dpdgc.queries import LEAKS, QUERIES
from dpgnn.methods.scores import by_unit
from dpgnn.methods.shared import aggregate_bounds
from dpgnn.methods.shared.aggregate_answers import answer
from dpgnn.methods.shared.head_options import EXAMPLE, FLAGS, check_node_level

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.releases import Release


def fit(
    entry: Entry,
    graph: Graph,
    split: Split,
    prepared: Prepared | None,
    plan: Plan,
    context: Context,
) -> Fitted:
    """Train the embedding, release it with noise, train the head.

    Guarantee: edges (and at node level features and labels) enter only through planned mechanisms.
    """
    from dpgnn.methods.dpdgc import fit as dpdgc_fit

    if entry.mode == "nonprivate":
        return dpdgc_fit.fit_plain(entry, graph, split, context)
    return dpdgc_fit.fit_private(entry, graph, split, prepared, plan, context)


def releases() -> tuple[Release[..., Any], ...]:
    """The noisy sums of embeddings."""
    from dpgnn.methods.dpdgc.fit import released_sums

    return (released_sums,)


METHOD = Method(
    name="dpdgc",
    title="DPDGC",
    config=DPDGCConfig,
    source="Chien et al. (2023), arXiv:2309.06645",
    modes=("nonprivate", "published", "sound"),
    supports=aggregate_bounds.SUPPORTS,
    sampler=aggregate_bounds.sampler_of_node,
    prepare=aggregate_bounds.prepare,
    check=check_node_level,
    plan=plan,
    fit=fit,
    asked=Asked(flags={"norm-scale": "norm_scale", **FLAGS}),
    predict=answer,
    score=by_unit,
    queries=QUERIES,
    leaks=LEAKS,
    releases=releases,
    degrees=aggregate_bounds.degrees,
    shows_nodes=lambda entry: True,
    example={**EXAMPLE, "head": {"hidden": 8, "training": {"num_epochs": 5}}},
    citation="chien2023dpdgc",
)
