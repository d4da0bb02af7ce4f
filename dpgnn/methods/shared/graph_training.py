"""Training on a perturbed graph without further noise: post-processing at edge level."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from dpgnn.data.rows import normalize_rows
from dpgnn.methods.base import Fitted, PlannedRun
from dpgnn.methods.shared.aggregate import symmetric_operator
from dpgnn.methods.shared.aggregate_answers import for_this_graph
from dpgnn.methods.shared.nonprivate import at_inference, train_on_graph
from dpgnn.methods.shared.undirected import symmetric_adjacency
from dpgnn.models.gcn import GCN, Operator
from dpgnn.models.inputs import as_input
from dpgnn.models.masks import Masks

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.methods.gcn import GCNConfig
    from dpgnn.training.options import AdamConfig

# a matrix with a larger share of non-zeros is multiplied faster as a dense one
DENSE_SHARE = 0.03


def as_operator(matrix: sp.csr_array) -> Operator:
    """A float32 operator with its transpose: CSR, or dense if many entries are non-zero."""
    rows, columns = matrix.shape
    if matrix.nnz > DENSE_SHARE * rows * columns:
        dense = torch.from_numpy(matrix.toarray().astype(np.float32))
        return Operator(dense, dense.T.contiguous())
    return Operator(_csr(matrix), _csr(sp.csr_array(matrix.T)))


def _csr(matrix: sp.csr_array) -> Tensor:
    pointers = torch.from_numpy(matrix.indptr.astype(np.int64))
    columns = torch.from_numpy(matrix.indices.astype(np.int64))
    values = torch.from_numpy(matrix.data.astype(np.float32))
    return torch.sparse_csr_tensor(pointers, columns, values, size=matrix.shape)


def train_gcn(run: PlannedRun, pairs: np.ndarray) -> Fitted:
    """Train a GCN on undirected pairs; only features and labels of `graph` are read.

    Returns:
        the weights and "logits" of all nodes.
    """
    config: GCNConfig = run.entry.options.gcn
    model = _gcn(config, run.graph, config.dropout, run.context.streams.torch("weights"))
    x, operator = _inputs(config, symmetric_adjacency(pairs, run.graph.num_nodes), run.graph)
    return train_on(run, model, lambda masks: model(x, operator, masks), config.training)


def gcn_logits(
    config: GCNConfig, weights: Mapping[str, Tensor], adjacency: sp.csr_array, graph: Graph
) -> Tensor:
    """Logits of all nodes by a trained GCN on a symmetric adjacency; `graph` gives the features."""
    model = at_inference(_gcn(config, graph, 0.0, torch.Generator()), weights)
    with torch.no_grad():
        logits: Tensor = model(*_inputs(config, adjacency, graph))
    return logits


def _gcn(config: GCNConfig, graph: Graph, dropout: float, generator: torch.Generator) -> GCN:
    sizes = graph.num_features, config.hidden, graph.num_classes
    return GCN(*sizes, dropout=dropout, generator=generator)


def _inputs(config: GCNConfig, adjacency: sp.csr_array, graph: Graph) -> tuple[Any, Operator]:
    x = as_input(normalize_rows(graph.x, config.row_norm))
    return x, as_operator(symmetric_operator(adjacency))


def train_on(
    run: PlannedRun,
    model: nn.Module,
    forward: Callable[[Masks | None], Tensor],
    training: AdamConfig,
) -> Fitted:
    """Full-batch training of a model on all nodes' inputs; returns weights and "logits"."""
    state, history = train_on_graph(run, model, forward, training)
    at_inference(model, state)
    with torch.no_grad():
        logits = forward(None)
    study = run.context.streams.randomness == "study"
    fitted = Fitted(state=state | {"logits": logits}, history=tuple(history) if study else ())
    return for_this_graph(fitted, run.graph)
