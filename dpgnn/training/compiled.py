"""The CPU path: forward, backward, norms and clipped sums of a chunk in reused buffers.

It evaluates the tape of `models.network` with matrix products into preallocated outputs and compiled loops
for everything else. Attention has no compiled form; `gradients` then takes the torch path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpgnn.data.stored import StoredRows
from dpgnn.models.forward import per_root_loss
from dpgnn.models.network import (
    SELU_ALPHA,
    SELU_SCALE,
    Activate,
    Add,
    Aggregate,
    Attend,
    Keep,
    Linear,
    Network,
    RowWise,
)
from dpgnn.models.trees import Trees
from dpgnn.training import _kernels as kernels
from dpgnn.training import products
from dpgnn.training._grams import InputGrams
from dpgnn.training.chunks import level_ptr, row_nodes
from dpgnn.training.clipping import clip_factors
from dpgnn.training.ghost import form_large, formed_from, norm_array
from dpgnn.training.softmax import softmax

# smallest probability of a class in the displayed loss
_LEAST = 1e-38
# positions of a chunk's roots among the trees, and the lists of these trees
_Read = tuple[np.ndarray, tuple[np.ndarray, ...]]
_ACTIVATION_CODE = {"relu": 0, "tanh": 1, "selu": 2}


def supports(network: Network) -> bool:
    """Whether every operation has a compiled form."""
    return not any(isinstance(op, (Attend, RowWise)) for op in network.operations)


class CompiledEngine:
    """Adds clipped sums of chunks; one object for each run, not shared between threads.

    Args:
        network: without attention.
        x: dense tensor, rows in a file, or scipy CSR with sorted indices if a linear layer reads it first.
        trees: the roots' trees.
        dtype: float32 or float64, of parameters, features and sums.

    Attributes:
        by_rows: compute matrix products row by row, so that a root's rows do not depend on other roots to the
            last bit; for releases. (All other steps treat one row or root at a time.)
    """

    def __init__(self, network: Network, x: Any, trees: Trees, dtype: torch.dtype) -> None:
        self.network, self.x, self.trees, self.dtype = network, x, trees, dtype
        self.sparse = not isinstance(x, (Tensor, StoredRows))
        if self.sparse:
            self.csr = (x.indptr, x.indices, x.data.astype(_numpy_dtype(dtype), copy=False))
        self.y = torch.from_numpy(trees.y)
        self._buffers: dict[tuple[str, int], Tensor] = {}
        number = _numpy_dtype(dtype).type
        code = _ACTIVATION_CODE[network.config.activation]
        self._activation = (code, number(SELU_SCALE), number(SELU_ALPHA))
        first = min(i for i, op in enumerate(network.operations, 1) if isinstance(op, Linear))
        self._trained_from = first  # earlier values need no gradient
        self._grams = self._input_grams()
        self.by_rows = False
        self._bias_sums = {op.name: np.zeros(op.num_out) for op in network.linears}

    def add_clipped_sum(
        self,
        parameters: Mapping[str, Tensor],
        roots: np.ndarray,
        parts: tuple[np.ndarray, np.ndarray] | None,
        sums: Mapping[str, Tensor],
        *,
        with_loss: bool = False,
        spread_share: float = 0.0,
    ) -> Tensor | None:
        """As `ghost.add_clipped_sum`, for the chunk of `roots`; the loss is computed on request."""
        ptr, node, values, grads, loss = self._passes(parameters, roots, with_loss=with_loss)
        bad = np.zeros(len(roots), dtype=bool)
        factors = None
        if parts is not None:
            squared, spread = self._norms(roots, ptr, node, values, grads)
            unit = torch.finfo(self.dtype).eps / 2
            factors, bad = clip_factors(squared, spread, *parts, unit, spread_share)
        self._add(ptr, node, values, grads, factors, bad, sums)
        return loss

    def squared_norms(self, parameters: Mapping[str, Tensor], roots: np.ndarray) -> np.ndarray:
        """float64, shape (num_tensors, num_roots): upper bounds on squared norms; sensitive.

        Guarantee: with `by_rows`, those of a root are a function of its own tree, to the last bit.
        """
        with torch.no_grad():
            return self._norms(roots, *self._passes(parameters, roots, with_loss=False)[:4])[0]

    def _passes(
        self, parameters: Mapping[str, Tensor], roots: np.ndarray, *, with_loss: bool
    ) -> tuple[np.ndarray, np.ndarray, list[Any], dict[int, Tensor], Tensor | None]:
        """Pointers and nodes of a chunk, all values, their gradients, and the loss on request."""
        ptr = level_ptr(self.trees, roots)
        node = self._buffer("node", 0, int(ptr[0, -1]), 1, torch.int64)[:, 0].numpy()
        trees, places = self.trees.of(roots)
        row_nodes(places, ptr[0], trees.row_ptr, trees.node, node)
        lists = (trees.row_ptr, trees.entry_ptr, trees.entry_row, trees.entry_weight)
        values = self._forward(parameters, (places, lists), ptr, node)
        gradient, loss = self._loss_gradient(values[-1], roots, with_loss=with_loss)
        grads = self._backward(parameters, gradient, (places, lists), ptr, values)
        return ptr, node, values, grads, loss

    def _buffer(
        self, kind: str, index: int, rows: int, width: int, dtype: torch.dtype | None = None
    ) -> Tensor:
        """The first `rows` rows of a buffer that grows when needed and is never freed."""
        held = self._buffers.get((kind, index))
        if held is None or held.shape[0] < rows:
            held = torch.empty(rows + rows // 4, width, dtype=dtype or self.dtype)
            self._buffers[kind, index] = held
        return held[:rows]

    def _forward(
        self, parameters: Mapping[str, Tensor], read: _Read, ptr: np.ndarray, node: np.ndarray
    ) -> list[Any]:
        """Every value of the tape; an activation overwrites its input."""
        values: list[Any] = [None]
        if not self.sparse:
            out = self._buffer("value", 0, len(node), self.x.shape[1])
            values[0] = self._read(node, out)
        for index, op in enumerate(self.network.operations, start=1):
            rows = int(ptr[self.network.levels[index], -1])
            match op:
                case Linear():
                    out = self._buffer("value", index, rows, op.num_out)
                    value = self._linear(parameters, op, values[op.source], node, out)
                case Activate():
                    value = self._activate(values[op.source])
                case Aggregate():
                    source = values[op.source]
                    value = self._buffer("value", index, rows, source.shape[1])
                    levels = (ptr[op.hop - 1], ptr[op.hop])
                    kernels.aggregate(source.numpy(), value.numpy(), read[0], *levels, *read[1])
                case Keep():
                    source = values[op.source]
                    value = self._buffer("value", index, rows, source.shape[1])
                    kernels.keep(source.numpy(), value.numpy(), ptr[op.hop - 1], ptr[op.hop])
                case Add():
                    left, right = values[op.left], values[op.right]
                    out = self._buffer("value", index, rows, left.shape[1])
                    value = torch.add(left, right, out=out)
            values.append(value)
        return values

    def _read(self, node: np.ndarray, out: Tensor) -> Tensor:
        """Features of a chunk's rows."""
        if isinstance(self.x, StoredRows):
            return out.copy_(torch.from_numpy(self.x.gather(node)))
        return torch.index_select(self.x, 0, torch.from_numpy(node), out=out)

    def _activate(self, h: Tensor) -> Tensor:
        """The activation, in place."""
        name = self.network.config.activation
        if self.by_rows and (name == "selu" or (name == "tanh" and h.dtype == torch.float64)):
            products.apply_by_rows(*self._activation, h.numpy())
            return h
        return _activate(name, h)

    def _linear(
        self, parameters: Mapping[str, Tensor], op: Linear, a: Any, node: np.ndarray, out: Tensor
    ) -> Tensor:
        weight = parameters[f"{op.name}.weight"]
        bias = parameters[f"{op.name}.bias"] if op.bias else None
        if a is None:
            start = bias if bias is not None else torch.zeros(op.num_out, dtype=self.dtype)
            products.sparse_linear(node, *self.csr, weight.numpy(), start.numpy(), out.numpy())
            return out
        if self.by_rows:
            out.copy_(bias) if bias is not None else out.zero_()
            products.row_products(a.numpy(), weight.contiguous().numpy(), out.numpy())
            return out
        if bias is None:
            return torch.mm(a, weight, out=out)
        return torch.addmm(bias, a, weight, out=out)

    def _backward(
        self,
        parameters: Mapping[str, Tensor],
        gradient: Tensor,
        read: _Read,
        ptr: np.ndarray,
        values: list[Any],
    ) -> dict[int, Tensor]:
        """Gradients of the summed loss by all values; those of linear outputs are not overwritten."""
        operations = self.network.operations
        grads = {len(operations): gradient}
        for index in range(len(operations), 0, -1):
            if index not in grads:
                continue  # nothing trainable comes before this value
            op, g = operations[index - 1], grads[index]
            match op:
                case Linear():
                    if self._needs_gradient(op.source):
                        target = self._gradient(grads, op.source, values)
                        self._linear_back(parameters[f"{op.name}.weight"], g, *target)
                case Activate():
                    kernels.activate_back(*self._activation, values[index].numpy(), g.numpy())
                    grads[op.source] = g
                case Aggregate() | Keep():
                    if self._needs_gradient(op.source):
                        out, fresh = self._gradient(grads, op.source, values)
                        levels = (ptr[op.hop - 1], ptr[op.hop])
                        if isinstance(op, Keep):
                            kernels.keep_back(g.numpy(), out.numpy(), fresh, *levels)
                        else:
                            lists = (*levels, *read[1])
                            kernels.aggregate_back(g.numpy(), out.numpy(), fresh, read[0], *lists)
                case Add():
                    # the left side keeps this buffer and may change it, so copy for the right side first
                    out, fresh = self._gradient(grads, op.right, values)
                    out.copy_(g) if fresh else out.add_(g)
                    grads[op.left] = g
        return grads

    def _linear_back(self, weight: Tensor, g: Tensor, out: Tensor, fresh: bool) -> None:
        """Add g W^T to `out`, or write it if nothing is there yet."""
        if self.by_rows:
            out.zero_() if fresh else None
            products.row_products(g.numpy(), weight.T.contiguous().numpy(), out.numpy())
        else:
            torch.mm(g, weight.T, out=out) if fresh else out.addmm_(g, weight.T)

    def _needs_gradient(self, index: int) -> bool:
        """Whether there is a linear layer before value `index`."""
        return index >= self._trained_from

    def _gradient(
        self, grads: dict[int, Tensor], index: int, values: list[Any]
    ) -> tuple[Tensor, bool]:
        fresh = index not in grads
        if fresh:
            grads[index] = self._buffer("gradient", index, *values[index].shape)
        return grads[index], fresh

    def _loss_gradient(
        self, logits: Tensor, roots: np.ndarray, *, with_loss: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Gradient of the summed loss by the logits, which it may overwrite; the loss on request."""
        y = self.y[torch.from_numpy(roots)]
        if self.network.config.task == "multilabel":
            loss = per_root_loss(self.network, logits, y).sum() if with_loss else None
            if self.by_rows:
                products.apply_by_rows(3, *self._activation[1:], logits.numpy())
                return logits.sub_(y).div_(y.shape[1]), loss
            return torch.sigmoid(logits).sub_(y).div_(y.shape[1]), loss
        g = softmax(logits)
        loss = -g.gather(1, y[:, None]).clamp_(min=_LEAST).log_().sum() if with_loss else None
        kernels.take_one(g.numpy(), y.numpy())
        return g, loss

    def _norms(
        self,
        roots: np.ndarray,
        ptr: np.ndarray,
        node: np.ndarray,
        values: list[Any],
        grads: dict[int, Tensor],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Squared norms and spreads, float64 (num_tensors, num_roots), in tensor order."""
        squared, spread = [], []
        for op, g, rows in self._linear_outputs(ptr, grads):
            a, grams = values[op.source], self._grams.get(op.name)
            if grams is not None:
                inputs = (node, *self.csr) if a is None else (a.numpy(),)
                found = grams.norms(roots, inputs, g.numpy(), rows)
                if a is not None:
                    form_large(found, a, g, rows, grams.limit)
            elif a is None:
                found = np.empty((4, len(roots)))
                kernels.sparse_norms(node, *self.csr, g.numpy(), rows, *found)
            else:
                found = norm_array(a, g, rows)
            squared += [found[0], found[2]][: 1 + op.bias]
            spread += [found[1], found[3]][: 1 + op.bias]
        return np.stack(squared), np.stack(spread)

    def _input_grams(self) -> dict[str, InputGrams]:
        """Linear layer -> kept products, for layers whose inputs do not depend on parameters."""
        kept = {}
        for index, op in enumerate(self.network.operations, start=1):
            if not isinstance(op, Linear) or self._needs_gradient(op.source):
                continue
            rows = self.trees.level_rows[:, self.network.levels[index]].astype(np.int64)
            read_sparse = self.sparse and op.source == 0
            limit = None if read_sparse else formed_from(op.num_in, op.num_out)
            if InputGrams.fit(rows, limit):
                kept[op.name] = InputGrams(rows, limit)
        return kept

    def _linear_outputs(
        self, ptr: np.ndarray, grads: dict[int, Tensor]
    ) -> list[tuple[Linear, Tensor, np.ndarray]]:
        found = []
        for index, op in enumerate(self.network.operations, start=1):
            if isinstance(op, Linear):
                found.append((op, grads[index], ptr[self.network.levels[index]]))
        return found

    def _add(
        self,
        ptr: np.ndarray,
        node: np.ndarray,
        values: list[Any],
        grads: dict[int, Tensor],
        factors: np.ndarray | None,
        bad: np.ndarray,
        sums: Mapping[str, Tensor],
    ) -> None:
        """sums += a^T diag(factor) g, layer by layer."""
        tensor = 0
        for op, g, rows in self._linear_outputs(ptr, grads):
            a, weight_sum = values[op.source], sums[f"{op.name}.weight"]
            if bad.any():
                kernels.zero_rows(g.numpy(), rows, bad)
                if a is not None:
                    kernels.zero_rows(a.numpy(), rows, bad)
            if factors is not None:
                bias_sum = self._bias_sums[op.name]
                bias_sum[:] = 0.0
                kernels.scale_rows(
                    g.numpy(), rows, factors[tensor], factors[tensor + op.bias], bias_sum
                )
                if op.bias:
                    sums[f"{op.name}.bias"].add_(torch.from_numpy(bias_sum))
            elif op.bias:
                sums[f"{op.name}.bias"].add_(g.sum(dim=0))
            g = g.to(weight_sum.dtype)  # a product in float32 would be rounded
            if a is None:
                self._add_sparse(node, g, rows, bad, weight_sum)
            else:
                weight_sum.addmm_(a.to(weight_sum.dtype).T, g)
            tensor += 1 + op.bias

    def _add_sparse(
        self, node: np.ndarray, g: Tensor, rows: np.ndarray, bad: np.ndarray, weight_sum: Tensor
    ) -> None:
        """weight_sum += x^T g for a CSR x.

        In a release a chunk is summed by itself: added row by row to the sum of the batch, an entry would
        take as many operations as the batch has rows, and `rounding_share` counts one for each product.
        """
        by_itself = self.by_rows and self.trees.num_hops > 0
        total = torch.zeros_like(weight_sum) if by_itself else weight_sum
        products.sparse_outer(node, *self.csr, g.numpy(), rows, bad, total.numpy())
        if by_itself:
            weight_sum.add_(total)


def _activate(name: str, h: Tensor) -> Tensor:
    """The activation, in place."""
    if name == "relu":
        return torch.relu_(h)
    if name == "tanh" and h.dtype == torch.float32:
        kernels.tanh32(h.numpy())
        return h
    return torch.tanh_(h) if name == "tanh" else torch.selu_(h)


def _numpy_dtype(dtype: torch.dtype) -> np.dtype:
    return torch.empty(0, dtype=dtype).numpy().dtype
