"""Graph convolutional network (Kipf and Welling, 2017)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from dpgnn.models.inputs import SparseRows, input_linear
from dpgnn.models.masks import Masks
from dpgnn.models.mlp import Stack

# from this width and this many products on, the compiled loop is faster
COMPILED_WIDTH, COMPILED_PRODUCTS = 16, 2**23


class Operator(NamedTuple):
    """A fixed sparse operator and its transpose, CSR tensors of shape (num_nodes, num_nodes)."""

    matrix: Tensor
    transposed: Tensor


def normalized_adjacency(edge_index: np.ndarray, num_nodes: int) -> Operator:
    """D^-1/2 (A + I) D^-1/2 as sparse CSR tensors; rows are targets.

    Args:
        edge_index: int64, shape (2, num_edges), sources then targets; its self-loops count once.
        num_nodes: number of nodes.

    Returns:
        the operator and its transpose, float32, shape (num_nodes, num_nodes).

    Source: Kipf and Welling (2017), arXiv:1609.02907, equation 8; bit for bit as torch_geometric's
    gcn_norm, whose import takes longer than a small run.
    """
    edges = torch.from_numpy(np.array(edge_index))
    loops = torch.arange(num_nodes).repeat(2, 1)
    edges = torch.cat([edges[:, edges[0] != edges[1]], loops], dim=1)
    source, target = edges
    degree = torch.zeros(num_nodes).scatter_add_(0, target, torch.ones(len(target)))
    scale = degree.pow(-0.5)  # at least one edge ends in each node: its self-loop
    weight = scale[source] * scale[target]
    shape = (num_nodes, num_nodes)
    matrix = torch.sparse_coo_tensor(edges.flip(0), weight, shape).coalesce()
    return Operator(matrix.to_sparse_csr(), matrix.t().coalesce().to_sparse_csr())


class GCN(Stack):
    """Graph convolutions with ReLU and dropout between them; arguments as for `Stack`."""

    def forward(
        self, x: Tensor | SparseRows, adjacency: Operator, masks: Masks | None = None
    ) -> Tensor:
        """Logits of all nodes, shape (num_nodes, num_classes).

        Args:
            x: features of all nodes.
            adjacency: operator of `normalized_adjacency`.
            masks: for dropout; None at inference.

        Source: Kipf and Welling (2017), arXiv:1609.02907, equation 2.
        """
        hidden: Tensor | SparseRows = x
        for depth, layer in enumerate(cast("Iterable[nn.Linear]", self.layers)):
            if isinstance(hidden, Tensor) and depth:
                hidden = torch.relu(hidden)
            hidden = input_linear(hidden, layer.weight, None, dropout=self.dropout, masks=masks)
            hidden = propagate(adjacency, hidden) + layer.bias
        assert isinstance(hidden, Tensor)
        return hidden


def propagate(adjacency: Operator, h: Tensor) -> Tensor:
    """adjacency.matrix @ h with a gradient for h; h and the result are float32, (num_nodes, width)."""
    result: Tensor = _Propagate.apply(*adjacency, h)
    return result


class _Propagate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, matrix: Tensor, transposed: Tensor, h: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.transposed = transposed
        return _product(matrix, h)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[None, None, Tensor]:  # type: ignore[no-untyped-def]
        return None, None, _product(ctx.transposed, gradient)


def _product(matrix: Tensor, h: Tensor) -> Tensor:
    """matrix @ h; large ones by our own loop, whose import takes longer than a small run."""
    compiled = (
        matrix.layout == torch.sparse_csr
        and h.device.type == "cpu"
        and h.shape[1] >= COMPILED_WIDTH
        and len(matrix.values()) * h.shape[1] >= COMPILED_PRODUCTS
    )
    if not compiled:
        return matrix @ h
    from dpgnn.models._sparse import product

    return product(matrix, h)
