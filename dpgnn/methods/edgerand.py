"""EdgeRand: randomised response on every pair of nodes, then a GCN on the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.accountants.plan import Budget, Plan
from dpgnn.methods.base import Entry, Facts, Fitted, Method, PlannedRun, Support
from dpgnn.methods.gcn import GCNConfig, gcn_tensors
from dpgnn.methods.queries import Leaks
from dpgnn.methods.scores import by_unit
from dpgnn.methods.shared.aggregate_answers import answer
from dpgnn.methods.shared.noisy_graph_plan import (
    check_size,
    pure_claim,
    require_private,
    response_mechanism,
    truthful,
)
from dpgnn.methods.shared.noisy_graph_queries import GCN_QUERIES, symmetric_edges

if TYPE_CHECKING:
    from dpgnn.core.randomness import Streams
    from dpgnn.data.graph import Graph
    from dpgnn.methods.releases import Release

MECHANISM = "edges"


@dataclass(frozen=True, kw_only=True)
class EdgeRandConfig:
    """Options of EdgeRand; every value is public.

    Attributes:
        gcn: the model trained on the perturbed graph.
    """

    gcn: GCNConfig = GCNConfig()


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """Keep a cell with probability 1 - s, otherwise draw it uniformly, s = 2/(e^epsilon + 1).

    Guarantee: unit edge, add-remove, pure epsilon: a cell tells the truth with probability 1 - s/2 =
    e^epsilon/(e^epsilon + 1), independently of all others, and an undirected edge is one cell. Public: node
    ids, features, labels, options.

    Source: Wu et al. (2022), LinkTeller, arXiv:2108.06504.
    """
    require_private(budget)
    truth, lie = truthful(budget.epsilon)
    check_size(facts, lie)
    mechanism = response_mechanism(
        MECHANISM, one_if_one=truth, one_if_zero=lie, details={"s": 2 * lie}
    )
    claim = pure_claim(entry, epsilon=budget.epsilon, status="proved")
    return Plan(mechanisms=(mechanism,), claims=(claim,), facts=facts.recorded())


def fit(run: PlannedRun) -> Fitted:
    """Perturb the edges once, train on the result.

    Guarantee: edges enter only through the planned mechanism.
    """
    from dpgnn.methods.shared.graph_training import train_gcn

    run.context.ledger.enter(MECHANISM)
    pairs = _noisy_pairs(run.graph, run.plan, run.context.streams)
    return train_gcn(run, pairs)


def _noisy_pairs(graph: Graph, plan: Plan, streams: Streams) -> np.ndarray:
    from dpgnn.methods.shared.noisy_graph import randomized_response
    from dpgnn.methods.shared.undirected import undirected_pairs

    event = plan.mechanism(MECHANISM).event
    return randomized_response(
        undirected_pairs(graph.edge_index, graph.num_nodes),
        graph.num_nodes,
        one_if_one=event.one_if_one,  # type: ignore[attr-defined]
        one_if_zero=event.one_if_zero,  # type: ignore[attr-defined]
        rng=streams.numpy("response"),
        exactly=streams.is_secret("response"),
    )


def releases() -> tuple[Release[..., Any], ...]:
    """The answered pairs."""
    from dpgnn.methods.shared.noisy_graph import randomized_response

    return (randomized_response,)


METHOD = Method(
    name="edgerand",
    title="EdgeRand",
    config=EdgeRandConfig,
    source="Wu et al. (2022), arXiv:2108.06504",
    modes=("published", "sound"),
    supports=(Support(privacy_unit="edge", relation="add-remove"),),
    plan=plan,
    fit=fit,
    predict=answer,
    score=by_unit,
    tensors=gcn_tensors,
    queries=GCN_QUERIES,
    leaks=Leaks(noisy_edges=symmetric_edges(_noisy_pairs)),
    releases=releases,
    example={"gcn": {"training": {"num_epochs": 5}}},
    citation="wu2022linkteller",
)
