"""The rows that a batch reads, found on the device from the roots, in arrays of fixed sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpgnn.models.trees import Trees
from dpgnn.training.gpu.shapes import Shape

# rows, offsets, source rows, weights -> weighted sums of rows
SumRows = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class ResidentTrees:
    """The trees of all roots on a device; as sensitive as the graph.

    Args:
        trees: trees of all roots.
        device: where they go.
        blank: position in x of a row of zeros, for padding.
    """

    def __init__(self, trees: Trees, device: torch.device, blank: int) -> None:
        self.num_hops, self.blank = trees.num_hops, blank

        def moved(array: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device)

        self.node, self.row_ptr = moved(trees.node), moved(trees.row_ptr)
        self.level_rows = moved(trees.level_rows.astype(np.int64).T)
        self.entry_ptr = moved(trees.entry_ptr)
        # one more, for padding to read if no tree has an entry
        self.entry_row = moved(np.append(trees.entry_row, np.int32(0)))
        self.entry_weight = moved(np.append(trees.entry_weight, np.float32(0)))
        self.ascending = _ascending(trees)


def _ascending(trees: Trees) -> bool:
    """Whether the entries of every tree read its rows in order, so that they are sorted by source too."""
    if len(trees.entry_row) < 2:
        return True
    steps = np.diff(trees.entry_row.astype(np.int64))
    firsts = trees.entry_ptr[trees.row_ptr[1:-1]] - 1
    inside = np.ones(len(steps), dtype=bool)
    inside[firsts[(firsts >= 0) & (firsts < len(steps))]] = False
    return bool((steps[inside] >= 0).all())


@dataclass(frozen=True, eq=False)
class Hop:
    """The entries of one hop: sorted by target, and sorted by source for the backward pass."""

    offsets: Tensor
    target: Tensor
    source: Tensor
    weight: Tensor
    back_offsets: Tensor
    back_target: Tensor
    back_weight: Tensor


class WeightedSum(torch.autograd.Function):
    """out[t] = sum of weight * h[source] over the entries of t; both passes add in a fixed order."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, hop: Hop, sum_rows: SumRows) -> Tensor:
        ctx.hop, ctx.sum_rows = hop, sum_rows
        return sum_rows(h, hop.offsets, hop.source, hop.weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        hop = ctx.hop
        grad = grads[0].contiguous()
        return ctx.sum_rows(grad, hop.back_offsets, hop.back_target, hop.back_weight), None, None


def sum_rows(h: Tensor, offsets: Tensor, source: Tensor, weight: Tensor) -> Tensor:
    """Weighted sums of rows by torch's own operations, segment by segment, without atomic additions.

    Args:
        h: (num_rows, width).
        offsets: int64 (num_targets + 1,): where each target's entries start.
        source: int64 (num_entries,); weight: float32 (num_entries,).

    Returns:
        (num_targets, width).
    """
    read = h.index_select(0, source).mul_(weight.to(h.dtype)[:, None])
    return torch.segment_reduce(read, "sum", offsets=offsets, axis=0, unsafe=True)


class FixedLayout:
    """Layout (see `models.forward`) of a batch in arrays of a fixed shape, computed on the device.

    Padding is one more root with rows of zeros, which enters no sum. No operation here waits for the device
    or depends on a value, so all of them can be captured.

    Attributes:
        ptr: for each level, int64 (num_slots + 1,): where each slot's rows start.
        owner: for each level, the slot of each row; num_slots for padding.
        root: position of each slot's root, 0 if it is empty; `filled` marks the others.
        node: position in x of each row of level 0.
    """

    def __init__(
        self, trees: ResidentTrees, shape: Shape, packed: Tensor, sum_rows: SumRows = sum_rows
    ) -> None:
        self.shape, self._sum_rows = shape, sum_rows
        self.packed, slots = packed, packed[: shape.num_slots]
        self.filled = slots >= 0
        self.root = slots.clamp(min=0)
        self._last = shape.num_slots - 1
        start = trees.row_ptr[self.root]
        self.ptr: list[Tensor] = []
        self.owner: list[Tensor] = []
        self._rows: list[Tensor] = []
        self._local: list[Tensor] = []
        for level in range(trees.num_hops + 1):
            self._add_level(trees, level, start)
        inside = self.owner[0] <= self._last
        self.node = trees.node[self._rows[0]].masked_fill(~inside, trees.blank)
        self._kept = [self._kept_rows(hop) for hop in range(1, trees.num_hops + 1)]
        self._hops = [self._entries_of(trees, hop) for hop in range(1, trees.num_hops + 1)]

    def _add_level(self, trees: ResidentTrees, level: int, start: Tensor) -> None:
        """Rows of a level: slots, positions among the root's rows and among all rows."""
        shape, device = self.shape, start.device
        place = torch.arange(shape.rows[level], device=device)
        if level == trees.num_hops:
            ptr = torch.arange(shape.num_slots + 1, device=device)
            owner = place.masked_fill(~self.filled, shape.num_slots)
        else:
            counts = trees.level_rows[level][self.root].masked_fill(~self.filled, 0)
            ptr = _from_zero(counts)
            owner = torch.searchsorted(ptr[1:], place, right=True)
        held = owner.clamp(max=self._last)
        outside = owner > self._last
        local = (place - ptr[held]).masked_fill(outside, 0)
        self.ptr.append(ptr)
        self.owner.append(owner)
        self._local.append(local)
        self._rows.append((start[held] + local).masked_fill(outside, 0))

    def _kept_rows(self, hop: int) -> Tensor:
        """Rows of level hop-1 that are rows of level hop; padding reads padding."""
        owner = self.owner[hop]
        found = self.ptr[hop - 1][owner.clamp(max=self._last)] + self._local[hop]
        return found.masked_fill(owner > self._last, self.shape.rows[hop - 1] - 1)

    def _entries_of(self, trees: ResidentTrees, hop: int) -> Hop:
        size, num_targets = self.shape.entries[hop - 1], self.shape.rows[hop]
        num_sources, owner, row = self.shape.rows[hop - 1], self.owner[hop], self._rows[hop]
        start = trees.entry_ptr[row]
        length = (trees.entry_ptr[row + 1] - start).masked_fill(owner > self._last, 0)
        offsets = _from_zero(length)
        # entries from here on are padding, which no row reads: one row would read all of it, in order
        total = offsets[-1:]
        place = torch.arange(size, device=row.device)
        target = torch.searchsorted(offsets[1:], place, right=True).clamp(max=num_targets - 1)
        outside = place >= total
        entry = (start[target] + place - offsets[target]).masked_fill(outside, 0)
        source = self.ptr[hop - 1][owner[target].clamp(max=self._last)] + trees.entry_row[entry]
        source = source.masked_fill(outside, num_sources - 1)
        weight = trees.entry_weight[entry].masked_fill(outside, 0.0)
        if trees.ascending:
            ordered, back_target, back_weight = source, target, weight
        else:
            ordered, order = torch.sort(source, stable=True)
            back_target, back_weight = target[order], weight[order]
        edges = torch.arange(num_sources + 1, device=row.device)
        back_offsets = torch.minimum(torch.searchsorted(ordered, edges), total)
        return Hop(offsets, target, source, weight, back_offsets, back_target, back_weight)

    def keep(self, hop: int, h: Tensor) -> Tensor:
        """Rows within r - hop hops of their root."""
        return h.index_select(0, self._kept[hop - 1])

    def aggregate(self, hop: int, h: Tensor) -> Tensor:
        """Weighted sum over each target's entries."""
        summed: Tensor = WeightedSum.apply(h, self._hops[hop - 1], self._sum_rows)
        return summed

    def entries(self, hop: int) -> tuple[Tensor, Tensor, int]:
        """Entries of the hop."""
        found = self._hops[hop - 1]
        return found.target, found.source, self.shape.rows[hop]


def _from_zero(counts: Tensor) -> Tensor:
    """Starts of consecutive pieces, and the end of the last."""
    ptr = counts.new_zeros(len(counts) + 1)
    torch.cumsum(counts, dim=0, out=ptr[1:])
    return ptr
