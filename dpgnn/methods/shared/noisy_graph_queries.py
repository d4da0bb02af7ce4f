"""Queries of a model on a perturbed graph, whose answers are post-processing of that graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpgnn.methods.queries import FittedRun, Queries, Query
from dpgnn.methods.shared.aggregate_queries import noise_in_answers
from dpgnn.methods.shared.layers import Layers, normalized_features, relu_convolutions
from dpgnn.methods.tensors import ANSWERS_FOR

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse as sp
    from torch import Tensor

    from dpgnn.accountants.plan import Plan
    from dpgnn.core.randomness import Streams
    from dpgnn.data.graph import Graph


def queries(
    answer: Callable[[FittedRun, Query], Tensor], layers: Callable[[FittedRun], Layers]
) -> Queries:
    """Queries of any model on a perturbed graph."""
    return Queries(noise=noise_in_answers, answer=answer, covered=True, layers=layers)


def symmetric_edges(
    noisy_pairs: Callable[[Graph, Plan, Streams], np.ndarray],
) -> Callable[[FittedRun, Graph, Streams], sp.csr_array]:
    """`Leaks.noisy_edges` of a method that perturbs undirected pairs."""

    def edges(run: FittedRun, graph: Graph, streams: Streams) -> sp.csr_array:
        from dpgnn.methods.shared.undirected import symmetric_adjacency

        return symmetric_adjacency(noisy_pairs(graph, run.plan, streams), graph.num_nodes)

    return edges


def edges_of(run: FittedRun, query: Query) -> sp.csr_array:
    """The perturbed adjacency of a query: that of the run, or one with fresh noise."""
    if query.frozen:
        return run.noisy_edges
    assert run.leaks.noisy_edges is not None
    return run.leaks.noisy_edges(run, query.graph, query.streams)


def weights_of(run: FittedRun) -> dict[str, Tensor]:
    """The state without the answers."""
    return {name: value for name, value in run.state.items() if name not in ("logits", ANSWERS_FOR)}


def _answer(run: FittedRun, query: Query) -> Tensor:
    from dpgnn.methods.shared.graph_training import gcn_logits

    config = run.entry.options.gcn
    return gcn_logits(config, weights_of(run), edges_of(run, query), query.graph)


def _layers(run: FittedRun) -> Layers:
    from dpgnn.methods.shared.aggregate import symmetric_operator

    features = normalized_features(run.graph.x, run.entry.options.gcn.row_norm)
    return relu_convolutions(run.state, features, symmetric_operator(run.noisy_edges))


GCN_QUERIES = queries(_answer, _layers)
