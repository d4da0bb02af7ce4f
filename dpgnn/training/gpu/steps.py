"""Clipped sums with everything on the device: features, trees, norms, factors and sums."""

from __future__ import annotations

import importlib.util
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from dpgnn.core.checks import fail, require
from dpgnn.models.forward import evaluate, per_root_loss, plain_linear
from dpgnn.models.network import Attend, Linear, Network
from dpgnn.models.trees import Trees
from dpgnn.training.chunks import chunks_of
from dpgnn.training.gpu import norms as plain
from dpgnn.training.gpu.features import Features
from dpgnn.training.gpu.graphs import Graph, Staging
from dpgnn.training.gpu.layout import FixedLayout, ResidentTrees
from dpgnn.training.gpu.norms import Bounds, Operations
from dpgnn.training.gpu.shapes import Shape, Shapes

Kernels = Literal["auto", "torch", "triton"]
# more shapes than this are rare; the least recently used one is captured again when needed
NUM_GRAPHS = 12
# largest fraction of the free memory for features and trees
RESIDENT_SHARE = 0.7
# torch's setting: whether uninitialised memory is filled with NaN, which costs a pass over it
FILLED = "fill_uninitialized_memory"


def check_precision() -> None:
    """Refuse products of float32 in TensorFloat-32.

    Raises:
        ValueError: torch is set to them.
    """
    precision = torch.get_float32_matmul_precision()
    require(
        precision == "highest", "float32_matmul_precision", "be highest", precision,
        "the error of a sum in TensorFloat-32 would exceed what noise and bounds cover",
    )  # fmt: skip


class ResidentSteps:
    """Clipped sums over roots of some trees that stay on a GPU.

    Guarantee: as `gradients.RootGradients`. Trees of more than `shapes.LARGEST_TREE` rows are passed to
    `by_itself`. On one device the sum is repeatable bit for bit: additions have a fixed order, and sizes
    depend only on the batch and the trees.

    Args:
        network: the network.
        x: features, dense float32 or scipy CSR.
        trees: trees of all roots.
        dtype: of rows and weights.
        device: a CUDA device.
        kernels: "torch" uses torch's own operations, "triton" the fused kernels, "auto" the latter if Triton
            is installed and they agree with torch's.
        graphs: whether steps of equal shape are captured and replayed.

    Raises:
        ValueError: features and trees do not fit into the free memory, products would be computed in
            TensorFloat-32, or Triton's kernels are requested but missing or wrong.
    """

    def __init__(
        self,
        network: Network,
        x: Any,
        trees: Trees,
        dtype: torch.dtype,
        device: torch.device,
        *,
        kernels: Kernels = "auto",
        graphs: bool = True,
    ) -> None:
        check_precision()
        _check_memory(x, trees, device)
        self.network, self.dtype, self.device, self.capture = network, dtype, device, graphs
        self.shapes = Shapes(trees)
        self.features = Features(x, device)
        self.trees = ResidentTrees(trees, device, blank=self.features.blank)
        self._y = torch.from_numpy(trees.y).to(device)
        self._parameters = torch.zeros(network.num_parameters, dtype=dtype, device=device)
        self._named = network.views(self._parameters)
        self.loss = torch.zeros((), dtype=dtype, device=device)
        self.kernels, self._operations = chosen_operations(kernels, device)
        self._attends = any(isinstance(op, Attend) for op in network.operations)
        self._graphs: OrderedDict[Shape, tuple[Graph, Tensor]] = OrderedDict()
        self._pool: Any = None
        self._staging: Staging | None = None
        self._settings: tuple[Any, ...] = ()
        self._bounds: Bounds | None = None

    def add(
        self,
        parameters: Tensor,
        roots: np.ndarray,
        sums: Tensor,
        parts: tuple[np.ndarray, np.ndarray] | None,
        *,
        chunk_rows: int,
        spread_share: float,
        by_itself: Callable[[np.ndarray], Tensor | None],
    ) -> Tensor:
        """Add the clipped sum over `roots` to `sums`.

        Args:
            parameters: flat, on the device.
            roots: int64 positions.
            sums: flat, on the device, the same tensor in all calls until `parts` change.
            parts: from `Clipping.parts`; None adds plain gradients.
            chunk_rows: rows handled at once.
            spread_share: as in `clip_factors`.
            by_itself: adds roots of large trees to `sums` and returns their loss.

        Returns:
            the batch's summed loss, a scalar on the device, overwritten by the next call; sensitive.
        """
        self._parameters.copy_(parameters)
        self.loss.zero_()
        self._set_bounds(sums, parts, spread_share)
        fits = self.shapes.fits[roots]
        for chunk in chunks_of(self.shapes.trees, roots[fits], chunk_rows):
            self._add_chunk(chunk, sums)
        with repeatable(not fits.all()):
            for chunk in chunks_of(self.shapes.trees, roots[~fits], chunk_rows):
                loss = by_itself(chunk)
                if loss is not None:
                    self.loss += loss
        return self.loss

    def _set_bounds(
        self, sums: Tensor, parts: tuple[np.ndarray, np.ndarray] | None, spread_share: float
    ) -> None:
        """Set the bounds of the parts; captured graphs contain them, so a change drops the graphs."""
        stated = (sums.data_ptr(), spread_share, None if parts is None else parts[0].tobytes(),
                  None if parts is None else parts[1].tobytes())  # fmt: skip
        if stated == self._settings:
            return
        self._graphs.clear()
        self._settings, self._bounds = stated, None
        if parts is not None:
            unit = torch.finfo(self.dtype).eps / 2
            self._bounds = Bounds(parts, unit, spread_share, self.device)

    def _add_chunk(self, roots: np.ndarray, sums: Tensor) -> None:
        """Add roots that fit, with the graph of their shape."""
        shape = self.shapes.shape_of(roots)
        held = self._graphs.pop(shape, None)
        if held is None:
            packed = torch.zeros(shape.packed_size, dtype=torch.int64, device=self.device)
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            held = (Graph(self._pool, capture=self.capture), packed)
        self._graphs[shape] = held
        if len(self._graphs) > NUM_GRAPHS:
            self._graphs.popitem(last=False)
        graph, packed = held
        if self._staging is None or self._staging.size < shape.packed_size:
            self._staging = Staging(2 * shape.packed_size)
        # the fused kernels read no classes of roots
        size = shape.num_slots if self.kernels == "triton" else shape.packed_size
        self._staging.send(
            lambda out: self.shapes.pack(shape, roots, out, members=size > shape.num_slots),
            packed[:size],
        )
        with repeatable(self._attends):
            graph(lambda: self._body(shape, packed, self.network.views(sums)))

    def _body(self, shape: Shape, packed: Tensor, sums: dict[str, Tensor]) -> None:
        """One chunk, from its roots to its terms in the sums, without waiting for the device."""
        do, bounds = self._operations, self._bounds
        layout = FixedLayout(self.trees, shape, packed, do.sum_rows)
        records = self._records(layout)
        if bounds is None:
            for op, a, g in records:
                _add_product(sums, op, a, g, g)
            return
        levels = [self.network.levels[op.source] for op, _, _ in records]
        squared, spread = [], []
        for (op, a, g), level in zip(records, levels):
            found = do.slot_norms(a, g, layout.ptr[level], shape, packed, level)
            squared += [found[0], found[2]][: 1 + op.bias]
            spread += [found[1], found[3]][: 1 + op.bias]
        factors, bad = do.clip_factors(
            torch.stack(squared), torch.stack(spread), bounds, self.dtype
        )
        index = 0
        for (op, a, g), level in zip(records, levels):
            owner, bias = layout.owner[level], None
            if op.bias and bounds.part_of[index + 1] != bounds.part_of[index]:
                bias = do.scaled(a, g.clone(), owner, factors[index + 1], bad)[1]
            a, g = do.scaled(a, g, owner, factors[index], bad)
            _add_product(sums, op, a, g, g if bias is None else bias)
            index += 1 + op.bias

    def _records(self, layout: FixedLayout) -> list[tuple[Linear, Tensor, Tensor]]:
        """Inputs and output gradients of every linear layer; adds the chunk's loss to `loss`."""
        outputs: list[tuple[Linear, Tensor, Tensor]] = []

        def linear(op: Linear, a: Tensor) -> Tensor:
            z = plain_linear(self._named, op, a)
            if not z.requires_grad:
                z.requires_grad_()
            outputs.append((op, a.detach(), z))
            return z

        x, y = self.features.rows(layout.node, self.dtype), self._y[layout.root]
        with torch.enable_grad():
            losses = per_root_loss(
                self.network, evaluate(self.network, self._named, layout, x, linear), y
            )
            # an empty slot has no loss, so padding has no gradient
            loss = losses.masked_fill(~layout.filled, 0.0).sum()
        grads = torch.autograd.grad(loss, [z for _, _, z in outputs])
        self.loss.add_(loss.detach())
        # layers whose outputs are added share one gradient, whose rows are scaled in place
        addresses = [g.data_ptr() for g in grads]
        alone = [
            g.clone() if addresses.index(g.data_ptr()) < place else g
            for place, g in enumerate(grads)
        ]
        return [(op, a, g) for (op, a, _), g in zip(outputs, alone)]


def _add_product(sums: dict[str, Tensor], op: Linear, a: Tensor, g: Tensor, bias_g: Tensor) -> None:
    weight = sums[f"{op.name}.weight"]
    weight.addmm_(a.to(weight.dtype).T, g.to(weight.dtype))
    if op.bias:
        bias = sums[f"{op.name}.bias"]
        bias.add_(bias_g.to(bias.dtype).sum(dim=0))


def chosen_operations(kernels: Kernels, device: torch.device) -> tuple[str, Operations]:
    """The operations that a choice of kernels gives on a device, and their name.

    Raises:
        ValueError: Triton's are requested but missing or different from torch's.
    """
    if kernels != "torch" and importlib.util.find_spec("triton") is not None:
        from dpgnn.training.gpu import kernels as fused

        if fused.trusted(device):
            return "triton", fused
    if kernels == "triton":
        fail("kernels", "be torch if Triton's are missing or differ from torch's", kernels)
    return "torch", plain


def _check_memory(x: Any, trees: Trees, device: torch.device) -> None:
    """Refuse features that would not leave memory for a step, before anything is copied."""
    stored = x.nbytes if isinstance(x, np.ndarray) else x.data.nbytes + 8 * (x.nnz + x.shape[0])
    arrays = (trees.node, trees.row_ptr, trees.entry_ptr, trees.entry_row, trees.entry_weight)
    needed = stored + sum(a.nbytes for a in arrays) + 2 * trees.level_rows.nbytes + trees.y.nbytes
    free, _ = torch.cuda.mem_get_info(device)
    require(
        needed <= RESIDENT_SHARE * free, "features and trees",
        f"take at most {RESIDENT_SHARE:.0%} of the GPU memory that is free ({free / 1e9:.1f} GB)",
        f"{needed / 1e9:.1f} GB", "train with --device cpu, or run fewer runs at once",
    )  # fmt: skip


@contextmanager
def repeatable(needed: bool) -> Iterator[None]:
    """Use operations of torch that add in a fixed order."""
    if not needed:
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before, memory = torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic
    filled = getattr(memory, FILLED)
    torch.use_deterministic_algorithms(True)
    setattr(memory, FILLED, False)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        setattr(memory, FILLED, filled)
