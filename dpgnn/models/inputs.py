"""Node features as model input: a linear layer on dense or sparse rows."""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    import scipy.sparse as sp

    from dpgnn.models.masks import Masks


class SparseRows:
    """CSR rows as a model input: `rows @ weight` with a gradient for the weight only.

    Args:
        x: float32 CSR, shape (num_rows, num_features).
    """

    def __init__(self, x: sp.csr_array) -> None:
        import scipy.sparse as sp

        self.shape = x.shape
        order = sp.csr_array(
            (np.arange(x.nnz, dtype=np.int64), x.indices, x.indptr), shape=x.shape
        ).T.tocsr()
        self._order = torch.from_numpy(order.data)
        self._forward = (torch.from_numpy(x.indptr.astype(np.int64)), x.indices.astype(np.int64))
        self._backward = (torch.from_numpy(order.indptr.astype(np.int64)), order.indices)
        self._indices = torch.from_numpy(self._forward[1])
        self._indices_t = torch.from_numpy(order.indices.astype(np.int64))
        self.values = torch.from_numpy(np.array(x.data))

    def dropout(self, rate: float, masks: Masks) -> Tensor:
        """Values after inverted dropout, shape (nnz,)."""
        return dropped(self.values, rate, masks)

    def matmul(self, weight: Tensor, values: Tensor | None = None) -> Tensor:
        """rows @ weight, shape (num_rows, width); `values` replaces the stored values."""
        rows, columns = self.stored if values is None else self._matrices(values)
        result: Tensor = _SparseMatmul.apply(rows, columns, weight)
        return result

    @cached_property
    def stored(self) -> tuple[Tensor, Tensor]:
        """The stored values as a sparse matrix of the rows, and its transpose."""
        return self._matrices(self.values)

    def _matrices(self, values: Tensor) -> tuple[Tensor, Tensor]:
        rows = torch.sparse_csr_tensor(self._forward[0], self._indices, values, self.shape)
        columns = torch.sparse_csr_tensor(
            self._backward[0], self._indices_t, values[self._order], self.shape[::-1]
        )
        return rows, columns


class _SparseMatmul(torch.autograd.Function):
    """rows @ weight; the gradient of the weight is columns @ gradient."""

    @staticmethod
    def forward(ctx, rows: Tensor, columns: Tensor, weight: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.columns = columns
        return rows @ weight

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[None, None, Tensor]:  # type: ignore[no-untyped-def]
        return None, None, ctx.columns @ gradient


def as_input(x: np.ndarray | sp.csr_array) -> Tensor | SparseRows:
    """Rows as a model input: SparseRows for CSR, a float32 tensor for a dense array."""
    if isinstance(x, np.ndarray):
        return torch.from_numpy(np.array(x, dtype=np.float32))
    return SparseRows(x)


def linear_stack(widths: tuple[int, ...], generator: torch.Generator) -> list[nn.Linear]:
    """Linear layers between consecutive widths: Glorot uniform weights, zero biases.

    Args:
        widths: input, hidden and output widths.
        generator: the weights' stream.

    Source: Glorot and Bengio (2010), equation 16.
    """
    layers = [nn.Linear(before, after) for before, after in itertools.pairwise(widths)]
    for layer in layers:
        nn.init.xavier_uniform_(layer.weight, generator=generator)
        nn.init.zeros_(layer.bias)
    return layers


def input_linear(
    x: Tensor | SparseRows,
    weight: Tensor,
    bias: Tensor | None,
    *,
    dropout: float = 0.0,
    masks: Masks | None = None,
) -> Tensor:
    """x @ weight.T + bias with dropout on x when masks are given.

    Args:
        x: shape (num_rows, num_features).
        weight: shape (width, num_features), as torch.nn.Linear holds it.
        bias: shape (width,), or None.
        dropout: rate in [0, 1).
        masks: from the dropout stream; None at inference.

    Returns:
        shape (num_rows, width).
    """
    active = masks if dropout > 0 else None
    if isinstance(x, SparseRows):
        values = None if active is None else x.dropout(dropout, active)
        result = x.matmul(weight.T, values)
    else:
        if active is not None:
            x = dropped(x, dropout, active)
        result = x @ weight.T
    return result if bias is None else result + bias


def dropped(x: Tensor, rate: float, masks: Masks) -> Tensor:
    """x after inverted dropout; where no gradient needs x, in the memory of the mask."""
    mask = masks.draw(tuple(x.shape), rate)
    return x * mask if x.requires_grad or x.dtype != mask.dtype else mask.mul_(x)
