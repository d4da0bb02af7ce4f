"""Cut a batch of roots into chunks and lay out the rows of a chunk by levels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numba import njit
from torch import Tensor

from dpgnn.models.forward import SumRows
from dpgnn.models.trees import Trees


def chunks_of(trees: Trees, roots: np.ndarray, max_rows: int) -> Iterator[np.ndarray]:
    """Consecutive pieces of `roots` with at most `max_rows` rows each; a larger root is a piece.

    A clipped sum may be computed in chunks; they decide how much memory a step takes.
    """
    start = 0
    for stop in _ends(trees.row_ptr, roots, max_rows):
        yield roots[start:stop]
        start = stop


@njit(cache=True, nogil=True)
def _ends(row_ptr, roots, max_rows):  # type: ignore[no-untyped-def]
    """Where each piece ends; one pass, since a step on a GPU waits for it."""
    ends, start, rows = [], 0, 0
    for i in range(len(roots)):
        more = row_ptr[roots[i] + 1] - row_ptr[roots[i]]
        if i > start and rows + more > max_rows:
            ends.append(i)
            start, rows = i, 0
        rows += more
    if len(roots):
        ends.append(len(roots))
    return ends


@njit(cache=True, nogil=True)
def summed_rows(table, rows):  # type: ignore[no-untyped-def]
    """Sum of some rows of an int64 table; one pass, since a step on a GPU waits for it."""
    total = np.zeros(table.shape[1], np.int64)
    for row in rows:
        total += table[row]
    return total


def level_ptr(trees: Trees, roots: np.ndarray) -> np.ndarray:
    """int64, shape (r + 1, num_roots + 1): where each root's rows start in a chunk, per level."""
    ptr = np.zeros((trees.num_hops + 1, len(roots) + 1), dtype=np.int64)
    np.cumsum(trees.level_rows[roots].T, axis=1, out=ptr[:, 1:])
    return ptr


@njit(cache=True, nogil=True)
def row_nodes(roots, ptr, row_ptr, node, out):  # type: ignore[no-untyped-def]
    """Positions in x of a chunk's rows of level 0."""
    for i in range(len(roots)):
        first = row_ptr[roots[i]]
        for t in range(ptr[i + 1] - ptr[i]):
            out[ptr[i] + t] = node[first + t]


@njit(cache=True, nogil=True)
def tree_entries(roots, source_ptr, target_ptr, row_ptr, entry_ptr, entry_row, entry_weight):  # type: ignore[no-untyped-def]
    """Entries of one hop as (target row, source row, weight), by chunk position."""
    total = 0
    for i in range(len(roots)):
        first = row_ptr[roots[i]]
        total += entry_ptr[first + target_ptr[i + 1] - target_ptr[i]] - entry_ptr[first]
    target, source = np.empty(total, np.int64), np.empty(total, np.int64)
    weight = np.empty(total, np.float32)
    at = 0
    for i in range(len(roots)):
        first = row_ptr[roots[i]]
        for t in range(target_ptr[i + 1] - target_ptr[i]):
            for e in range(entry_ptr[first + t], entry_ptr[first + t + 1]):
                target[at] = target_ptr[i] + t
                source[at] = source_ptr[i] + entry_row[e]
                weight[at] = entry_weight[e]
                at += 1
    return target, source, weight


@njit(cache=True, nogil=True)
def _kept(source_ptr, target_ptr):  # type: ignore[no-untyped-def]
    """Rows of the previous level that are kept: the first rows of each root."""
    rows = np.empty(target_ptr[-1], np.int64)
    for i in range(len(target_ptr) - 1):
        for t in range(target_ptr[i + 1] - target_ptr[i]):
            rows[target_ptr[i] + t] = source_ptr[i] + t
    return rows


@dataclass(frozen=True, kw_only=True, eq=False)
class ChunkLayout:
    """Layout (see `models.forward`) of the trees of some roots on a device."""

    ptr: np.ndarray
    node: Tensor
    hop_entries: tuple[tuple[Tensor, Tensor, Tensor], ...]
    kept: tuple[Tensor, ...]

    def keep(self, hop: int, h: Tensor) -> Tensor:
        """Rows within r - hop hops of their root."""
        return h.index_select(0, self.kept[hop - 1])

    def aggregate(self, hop: int, h: Tensor) -> Tensor:
        """Weighted sum over each target's entries."""
        target, source, weight = self.hop_entries[hop - 1]
        num_targets = int(self.ptr[hop, -1])
        summed: Tensor = SumRows.apply(h, target, source, weight.to(h.dtype), num_targets)
        return summed

    def entries(self, hop: int) -> tuple[Tensor, Tensor, int]:
        """Entries of the hop."""
        target, source, _ = self.hop_entries[hop - 1]
        return target, source, int(self.ptr[hop, -1])


def chunk_layout(
    trees: Trees, roots: np.ndarray, device: str | torch.device = "cpu"
) -> ChunkLayout:
    """Lay out the trees of some roots by levels.

    Args:
        trees: trees of all roots.
        roots: int64 positions among the roots, in any order.
        device: where the tensors go.
    """
    ptr = level_ptr(trees, roots)
    node = np.empty(ptr[0, -1], dtype=np.int64)
    row_nodes(roots, ptr[0], trees.row_ptr, trees.node, node)
    hop_entries, kept = [], []
    for hop in range(1, trees.num_hops + 1):
        lists = (trees.row_ptr, trees.entry_ptr, trees.entry_row, trees.entry_weight)
        found = tree_entries(roots, ptr[hop - 1], ptr[hop], *lists)
        hop_entries.append(tuple(torch.from_numpy(a).to(device) for a in found))
        kept.append(torch.from_numpy(_kept(ptr[hop - 1], ptr[hop])).to(device))
    return ChunkLayout(
        ptr=ptr,
        node=torch.from_numpy(node).to(device),
        hop_entries=tuple(hop_entries),  # type: ignore[arg-type]
        kept=tuple(kept),
    )
