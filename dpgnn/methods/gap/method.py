"""GAP: perturbed sums over neighbours, hop by hop, between an encoder and a head that read no edge.

Edge level (GAP-EDP): one Gaussian release per hop, sensitivity sqrt 2 for an undirected edge. Node level
(GAP-NDP): encoder and head by DP-SGD, sensitivity sqrt(D). See docs/methods/gap.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpgnn.methods.base import Asked, Fitted, Method, PlannedRun
from dpgnn.methods.gap.options import GapConfig
from dpgnn.methods.gap.plan import plan
from dpgnn.methods.gap.queries import LEAKS, QUERIES
from dpgnn.methods.queries import at_node_level
from dpgnn.methods.scores import by_unit
from dpgnn.methods.shared import aggregate_bounds
from dpgnn.methods.shared.aggregate_answers import answer, for_this_graph
from dpgnn.methods.shared.head_options import EXAMPLE, FLAGS, check_node_level
from dpgnn.methods.shared.head_tensors import encoded, on_channels
from dpgnn.methods.tensors import Tensors, Trained

if TYPE_CHECKING:
    from dpgnn.methods.releases import Release


def fit(run: PlannedRun) -> Fitted:
    """Encode, aggregate with noise, train the head.

    Guarantee: edges (and at node level features and labels) enter only through planned mechanisms.
    """
    from dpgnn.methods.gap import fit as gap_fit

    if at_node_level(run.entry):
        return gap_fit.fit_node(run)
    return for_this_graph(gap_fit.fit_edge(run), run.graph)


def releases() -> tuple[Release[..., Any], ...]:
    """The noisy sums over neighbours, hop by hop."""
    from dpgnn.methods.shared.aggregate import noisy_sums

    return (noisy_sums,)


def tensors(trained: Trained) -> Tensors:
    """Encoder and head; at edge level also the noisy sums and the answers."""
    width = encoded(trained)
    states = {f"noisy_state.{hop}": width for hop in range(1, trained.entry.options.num_hops + 1)}
    return on_channels(trained, [width, *states.values()], states)


METHOD = Method(
    name="gap",
    title="GAP",
    config=GapConfig,
    source="Sajadmanesh et al. (2023), arXiv:2203.00949",
    modes=("nonprivate", "published", "sound"),
    supports=aggregate_bounds.SUPPORTS,
    sampler=aggregate_bounds.sampler_of_node,
    prepare=aggregate_bounds.prepare,
    check=check_node_level,
    plan=plan,
    fit=fit,
    asked=Asked(steps="num_hops", counted="hops", flags=FLAGS),
    predict=answer,
    score=by_unit,
    tensors=tensors,
    queries=QUERIES,
    leaks=LEAKS,
    releases=releases,
    degrees=aggregate_bounds.degrees,
    example={"num_hops": 2, **EXAMPLE},
    citation="sajadmanesh2023gap",
)
