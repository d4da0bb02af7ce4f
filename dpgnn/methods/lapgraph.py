"""LapGraph: Laplace noise on every cell of the adjacency, the largest cells kept, then a GCN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.accountants.plan import Budget, Plan
from dpgnn.core.checks import open_probability
from dpgnn.methods.base import Asked, Entry, Facts, Fitted, Method, PlannedRun, Support
from dpgnn.methods.gcn import GCNConfig, gcn_tensors
from dpgnn.methods.queries import Leaks
from dpgnn.methods.scores import by_unit
from dpgnn.methods.shared.aggregate_answers import answer
from dpgnn.methods.shared.noisy_graph_plan import laplace_mechanism, pure_claim, require_private
from dpgnn.methods.shared.noisy_graph_queries import GCN_QUERIES, symmetric_edges

if TYPE_CHECKING:
    from dpgnn.core.randomness import Streams
    from dpgnn.data.graph import Graph
    from dpgnn.methods.releases import Release

COUNT, CELLS = "count", "cells"


@dataclass(frozen=True, kw_only=True)
class LapGraphConfig:
    """Options of LapGraph; every value is public.

    Attributes:
        count_share: share of epsilon that goes to the number of edges, in (0, 1).
        gcn: the model trained on the perturbed graph.
    """

    count_share: float = 0.01
    gcn: GCNConfig = GCNConfig()

    def __post_init__(self) -> None:
        open_probability("count_share", self.count_share)


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """The two Laplace releases of `laplace_top_cells`.

    Guarantee: unit edge, add-remove, pure epsilon. Public: node ids, features, labels, options.

    Source: Wu et al. (2022), LinkTeller, arXiv:2108.06504.
    """
    config: LapGraphConfig = entry.options
    require_private(budget)
    count = config.count_share * budget.epsilon
    mechanisms = (
        laplace_mechanism(COUNT, scale=1 / count, sensitivity=1.0),
        laplace_mechanism(CELLS, scale=1 / (budget.epsilon - count), sensitivity=1.0),
    )
    claim = pure_claim(entry, epsilon=budget.epsilon, status="proved")
    return Plan(mechanisms=mechanisms, claims=(claim,), facts=facts.recorded())


def fit(run: PlannedRun) -> Fitted:
    """Perturb the edges once, train on the result.

    Guarantee: edges enter only through the planned mechanisms.
    """
    from dpgnn.methods.shared.graph_training import train_gcn

    for name in (COUNT, CELLS):
        run.context.ledger.enter(name)
    pairs = _noisy_pairs(run.graph, run.plan, run.context.streams)
    return train_gcn(run, pairs)


def _noisy_pairs(graph: Graph, plan: Plan, streams: Streams) -> np.ndarray:
    from dpgnn.methods.shared.noisy_graph import laplace_top_cells
    from dpgnn.methods.shared.undirected import undirected_pairs

    scales = {name: plan.mechanism(name).details["scale"] for name in (COUNT, CELLS)}
    return laplace_top_cells(
        undirected_pairs(graph.edge_index, graph.num_nodes),
        graph.num_nodes,
        epsilon_count=1 / scales[COUNT],
        epsilon_cells=1 / scales[CELLS],
        rng=streams.numpy("laplace"),
        exactly=streams.is_secret("laplace"),
    )


def releases() -> tuple[Release[..., Any], ...]:
    """The pairs of the largest noisy cells."""
    from dpgnn.methods.shared.noisy_graph import laplace_top_cells

    return (laplace_top_cells,)


METHOD = Method(
    name="lapgraph",
    title="LapGraph",
    config=LapGraphConfig,
    source="Wu et al. (2022), arXiv:2108.06504",
    modes=("published", "sound"),
    supports=(Support(privacy_unit="edge", relation="add-remove"),),
    plan=plan,
    fit=fit,
    asked=Asked(flags={"count-share": "count_share"}),
    predict=answer,
    score=by_unit,
    tensors=gcn_tensors,
    queries=GCN_QUERIES,
    leaks=Leaks(noisy_edges=symmetric_edges(_noisy_pairs)),
    releases=releases,
    example={"gcn": {"training": {"num_epochs": 5}}},
    citation="wu2022linkteller",
)
