"""DPDGC: a linear embedding of adjacency rows, released once with noise, joined to features in a head.

h_i = sum of s w_j/||w_j|| over the neighbours j of i, plus noise. The embedding weights are trained by DP-SGD
on the adjacency rows, through that normalisation; the head reads no edge. See docs/methods/gap.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpgnn.methods.base import Asked, Fitted, Method, PlannedRun
from dpgnn.methods.dpdgc.node_plan import plan
from dpgnn.methods.dpdgc.options import DPDGCConfig
from dpgnn.methods.dpdgc.queries import LEAKS, QUERIES
from dpgnn.methods.scores import by_unit
from dpgnn.methods.shared import aggregate_bounds
from dpgnn.methods.shared.aggregate_answers import answer
from dpgnn.methods.shared.head_options import EXAMPLE, FLAGS, check_node_level
from dpgnn.methods.shared.head_tensors import plain_head, private_head
from dpgnn.methods.tensors import Tensors, Trained

if TYPE_CHECKING:
    from dpgnn.methods.releases import Release


def fit(run: PlannedRun) -> Fitted:
    """Train the embedding, release it with noise, train the head.

    Guarantee: edges (and at node level features and labels) enter only through planned mechanisms.
    """
    from dpgnn.methods.dpdgc import fit as dpdgc_fit

    if run.entry.mode == "nonprivate":
        return dpdgc_fit.fit_plain(run)
    return dpdgc_fit.fit_private(run)


def releases() -> tuple[Release[..., Any], ...]:
    """The noisy sums of embeddings."""
    from dpgnn.methods.dpdgc.fit import released_sums

    return (released_sums,)


def tensors(trained: Trained) -> Tensors:
    """Embedding weights, a row a node, and the head; at edge level also the noisy sums and the answers."""
    config, facts = trained.entry.options.head, trained.facts
    rows = facts.num_nodes, config.hidden
    channels = [facts.num_features, config.hidden]
    if not trained.is_edge:
        state = {"encoder.weight": rows} | private_head(trained, sum(channels))
        return Tensors(state=state, kept=trained.answers)
    head = plain_head(config, channels, facts)
    state = {"encoder.weight": rows, "noisy_state": rows} | head | trained.released_answers
    return Tensors(state=state)


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
    tensors=tensors,
    queries=QUERIES,
    leaks=LEAKS,
    releases=releases,
    degrees=aggregate_bounds.degrees,
    shows_nodes=lambda entry: True,
    example={**EXAMPLE, "head": {"hidden": 8, "training": {"num_epochs": 5}}},
    citation="chien2023dpdgc",
)
