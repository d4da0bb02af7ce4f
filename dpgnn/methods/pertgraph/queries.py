"""Queries of PertGraph's network on its perturbed graph, or on a newly perturbed one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dpgnn.methods.shared import noisy_graph_queries
from dpgnn.methods.shared.aggregate_queries import raw_features
from dpgnn.methods.shared.layers import (
    Features,
    Joined,
    Layers,
    Offset,
    Product,
    RowMap,
    RowWise,
    Spread,
    Step,
    Sum,
)

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.data.graph import Graph
    from dpgnn.methods.queries import FittedRun, Query


def _model(run: FittedRun, graph: Graph) -> Any:
    import torch

    from dpgnn.methods.pertgraph.network import SumSage
    from dpgnn.methods.shared.nonprivate import at_inference

    model = SumSage(run.entry.options, graph, dropout=0.0, generator=torch.Generator())
    return at_inference(model, noisy_graph_queries.weights_of(run))


def answer(run: FittedRun, query: Query) -> Tensor:
    """Logits of the network on the perturbed graph."""
    import torch

    from dpgnn.methods.shared.graph_training import as_operator
    from dpgnn.models.inputs import as_input

    operator = as_operator(noisy_graph_queries.edges_of(run, query))
    with torch.no_grad():
        logits: Tensor = _model(run, query.graph)(as_input(query.graph.x), operator)
    return logits


def layers(run: FittedRun) -> Layers:
    """Sums over the perturbed graph beside the own row, normalised."""
    from torch.nn.functional import normalize

    graph = run.graph
    model = _model(run, graph).double()
    encode = _row_wise(lambda rows: model.between(0, model.base(rows), None))
    rows = encode(np.arange(graph.num_nodes), raw_features(graph).rows)
    value: Step = Features(rows=rows, encode=encode)
    for hop, (own, near) in enumerate(zip(model.own, model.neighbours), start=1):
        own_weight, weight = (part.weight.detach().numpy().T for part in (own, near))
        both = Sum(
            left=Product(source=Spread(source=value), weight=weight),
            right=Product(source=value, weight=own_weight),
        )
        bias = own.bias.detach().numpy() + near.bias.detach().numpy()
        value = RowWise(
            source=Offset(source=both, value=bias),
            layer=_row_wise(lambda rows, hop=hop: model.between(hop, normalize(rows, dim=1), None)),
        )
    head = _row_wise(lambda rows: model.head(rows))
    return Layers(
        logits=RowWise(source=Joined(sources=(value,)), layer=head),
        operator=sp.csr_array(run.noisy_edges),
    )


def _row_wise(layer: Callable[..., Any]) -> RowMap:
    import torch

    def apply(node: np.ndarray, rows: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return np.asarray(layer(torch.from_numpy(np.ascontiguousarray(rows))).numpy())

    return apply


QUERIES = noisy_graph_queries.queries(answer, layers)
