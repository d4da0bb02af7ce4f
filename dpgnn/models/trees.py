"""Ragged trees of roots: the rows of x that each root reads, and their aggregation.

The rows of a root are sorted by distance from it, so the rows needed after hop k (those within r - k hops)
are a prefix. Weights of a convolution are part of the tree: they use degrees inside the tree only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from dpgnn.core.checks import at_least, one_of, require
from dpgnn.models.network import CONVS, Conv
from dpgnn.samplers.adjacency import induced_adjacency
from dpgnn.samplers.subgraphs import Subgraphs

_CODES = {name: code for code, name in enumerate(CONVS)}
_GCN, _GIN, _SAGE, _GAT, _SYMMETRIC = range(5)


@dataclass(frozen=True, kw_only=True, eq=False)
class Trees:
    """The trees of all training roots, ragged.

    Attributes:
        num_hops: depth r.
        node: int64, shape (num_rows,): position in x of each row; a root's rows are contiguous.
        row_ptr: int64, shape (num_roots + 1,): where each root's rows start; the first is the root.
        level_rows: int32, shape (num_roots, r + 1): rows needed after hop k; column r is 1.
        entry_ptr: int64, shape (num_rows + 1,): where each row's list starts.
        entry_row: int32, shape (num_entries,): which row of the same root is read.
        entry_weight: float32, shape (num_entries,): the aggregation weight.
        y: int64, shape (num_roots,), or float32, shape (num_roots, num_labels), 0 or 1.

    All of it is as sensitive as the graph.
    """

    num_hops: int
    node: np.ndarray
    row_ptr: np.ndarray
    level_rows: np.ndarray
    entry_ptr: np.ndarray
    entry_row: np.ndarray
    entry_weight: np.ndarray
    y: np.ndarray

    def __post_init__(self) -> None:
        num_roots, num_rows = len(self.row_ptr) - 1, len(self.node)
        at_least("num_hops", self.num_hops, 0)
        require(len(self.y) == num_roots, "y", f"have {num_roots} rows", len(self.y))
        require(int(self.row_ptr[-1]) == num_rows, "row_ptr", "end at the number of rows", num_rows)
        shape = (num_roots, self.num_hops + 1)
        require(
            self.level_rows.shape == shape, "level_rows", f"have shape {shape}",
            self.level_rows.shape,
        )  # fmt: skip

    @property
    def num_roots(self) -> int:
        """Number of roots."""
        return len(self.row_ptr) - 1

    def of(self, roots: np.ndarray) -> tuple[Trees, np.ndarray]:
        """Trees that contain those of some roots, and the positions of the roots in them."""
        return self, roots


def lone_roots(node: np.ndarray, y: np.ndarray) -> Trees:
    """Trees of depth 0: each root is its own only row (a plain MLP).

    Guarantee: a root's tree depends only on its own record.

    Args:
        node: int64, shape (num_roots,): positions in x.
        y: int64, shape (num_roots,), or 0/1, shape (num_roots, num_labels).
    """
    num_roots = len(node)
    return Trees(
        num_hops=0,
        node=np.asarray(node, dtype=np.int64),
        row_ptr=np.arange(num_roots + 1, dtype=np.int64),
        level_rows=np.ones((num_roots, 1), dtype=np.int32),
        entry_ptr=np.zeros(num_roots + 1, dtype=np.int64),
        entry_row=np.zeros(0, dtype=np.int32),
        entry_weight=np.zeros(0, dtype=np.float32),
        y=_labels(y),
    )


def weighted_rows(weights: Any, y: np.ndarray) -> Trees:
    """Trees for `conv="weighted"`: root i reads the rows of x named by row i of a sparse matrix.

    Args:
        weights: scipy CSR, shape (num_roots, num_nodes): fixed weights, e.g. noisy APPR rows. A root whose
            row is empty reads row 0 of x with weight 0, so its logits are zero.
        y: labels of the roots, as in `Trees`.
    """
    ptr = weights.indptr.astype(np.int64)
    empty = np.diff(ptr) == 0
    counts = np.maximum(np.diff(ptr), 1)
    row_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    node = np.zeros(row_ptr[-1], dtype=np.int64)
    weight = np.zeros(row_ptr[-1], dtype=np.float32)
    real = np.repeat(~empty, counts)
    node[real], weight[real] = weights.indices, weights.data
    entry_ptr = np.repeat(row_ptr[1:], counts)
    entry_ptr[row_ptr[:-1]] = row_ptr[:-1]
    return Trees(
        num_hops=1,
        node=node,
        row_ptr=row_ptr,
        level_rows=np.stack([counts, np.ones_like(counts)], axis=1).astype(np.int32),
        entry_ptr=np.append(entry_ptr, row_ptr[-1]),
        entry_row=(np.arange(row_ptr[-1]) - np.repeat(row_ptr[:-1], counts)).astype(np.int32),
        entry_weight=weight,
        y=_labels(y),
    )


def build_trees(
    *,
    node_ptr: np.ndarray,
    node: np.ndarray,
    edge_ptr: np.ndarray,
    edge_source: np.ndarray,
    edge_target: np.ndarray,
    y: np.ndarray,
    num_hops: int,
    conv: Conv,
) -> Trees:
    """Trees from sampled subgraphs with local edges.

    Args:
        node_ptr: int64, shape (num_roots + 1,): where each root's nodes start.
        node: int64, positions in x; the first of each root is the root itself.
        edge_ptr: int64, shape (num_roots + 1,): where each root's edges start.
        edge_source, edge_target: int, positions inside the root's own nodes; messages go source to
            target. No self-loops: convolutions that read the node itself add it.
        y: labels of the roots.
        num_hops: depth r; rows further than r hops from the root are dropped (after weights were made).
        conv: decides entries and weights; `weighted` is made by `weighted_rows`.

    Returns:
        trees with the rows of each root sorted by distance from it.

    Raises:
        ValueError: a root has no node, or a local position is out of range.
    """
    one_of("conv", conv, CONVS[:5])
    at_least("num_hops", num_hops, 1)
    _check_subgraphs(np.diff(node_ptr), np.diff(edge_ptr), edge_source, edge_target)
    arrays = (node_ptr, node, edge_ptr, edge_source, edge_target)
    wide = [np.ascontiguousarray(array, dtype=np.int64) for array in arrays]
    found: Any = _sort_by_distance(
        wide[0], wide[1], wide[2], wide[3], wide[4], num_hops, _CODES[conv]
    )
    names = ("node", "row_ptr", "level_rows", "entry_ptr", "entry_row", "entry_weight")
    return Trees(num_hops=num_hops, y=_labels(y), **dict(zip(names, found, strict=True)))


def _check_subgraphs(
    num_nodes: np.ndarray, num_edges: np.ndarray, source: np.ndarray, target: np.ndarray
) -> None:
    """Check that each root has a node, and that its edges join its own nodes."""
    ok = len(num_nodes) == 0 or bool(num_nodes.min() >= 1)
    require(ok, "node_ptr", "give each root a node", "0")
    limit = np.repeat(num_nodes, num_edges)
    ok = all(bool(((end >= 0) & (end < limit)).all()) for end in (source, target))
    require(ok, "edge_source and edge_target", "be positions inside their root's nodes", "outside")
    require(not (source == target).any(), "edge_source", "hold no self-loop", "one")


def graph_lists(
    edge_index: np.ndarray, num_nodes: int, conv: Conv
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each node's list of rows it reads, with the weights of `conv`, over a whole graph.

    Args:
        edge_index: int64, shape (2, num_edges); messages go from row 0 to row 1; no self-loops.
        num_nodes: number of nodes.
        conv: one of `CONVS` except "weighted".

    Returns:
        entry_ptr int64 (num_nodes + 1,), entry_row int64, entry_weight float32: CSR by target.

    Raises:
        ValueError: another `conv`; lists the known ones.
    """
    one_of("conv", conv, CONVS[:5])
    everyone = np.arange(num_nodes)
    graph = induced_adjacency(edge_index, num_nodes=num_nodes, node_idx=everyone)
    return _lists(graph.pointer, graph.neighbours.astype(np.int64), num_nodes, _CODES[conv])


def trees_of(subgraphs: Subgraphs, graph_y: np.ndarray, *, num_hops: int, conv: Conv) -> Trees:
    """Trees of sampled subgraphs, with the labels of their roots.

    Args:
        subgraphs: from a sampler or `samplers.subgraphs.from_table`.
        graph_y: labels of all nodes.
        num_hops: depth r; 0 keeps only the roots.
        conv: as for `build_trees`.

    Returns:
        one tree per subgraph, in their order; sensitive.

    Raises:
        ValueError: as `build_trees`.
    """
    y = graph_y[subgraphs.roots]
    if num_hops == 0:
        return lone_roots(subgraphs.roots, y)
    return build_trees(
        node_ptr=subgraphs.node_ptr, node=subgraphs.nodes, edge_ptr=subgraphs.edge_ptr,
        edge_source=subgraphs.edge_source, edge_target=subgraphs.edge_target, y=y,
        num_hops=num_hops, conv=conv,
    )  # fmt: skip


def _labels(y: np.ndarray) -> np.ndarray:
    return np.array(y, dtype=np.int64 if np.ndim(y) == 1 else np.float32)


@njit(cache=True)
def _lists(in_ptr, source, num_rows, conv):  # type: ignore[no-untyped-def]
    """Entries of rows 0..num_rows-1 from their in-edges; a node that reads itself comes first."""
    with_self = 0 if conv == _SAGE else 1
    total = in_ptr[num_rows] + with_self * num_rows
    ptr = np.zeros(num_rows + 1, np.int64)
    row = np.empty(total, np.int64)
    weight = np.empty(total, np.float32)
    at = 0
    for target in range(num_rows):
        degree = in_ptr[target + 1] - in_ptr[target]
        if with_self == 1:
            row[at] = target
            plain = conv in (_GIN, _GAT)
            weight[at] = 1.0 if plain else 1.0 / (degree + 1.0)
            at += 1
        for e in range(in_ptr[target], in_ptr[target + 1]):
            row[at] = source[e]
            if conv == _GCN:
                weight[at] = 1.0 / (degree + 1.0)
            elif conv == _SAGE:
                weight[at] = 1.0 / degree
            elif conv == _SYMMETRIC:
                other = in_ptr[source[e] + 1] - in_ptr[source[e]]
                weight[at] = 1.0 / np.sqrt((degree + 1.0) * (other + 1.0))
            else:
                weight[at] = 1.0
            at += 1
        ptr[target + 1] = at
    return ptr, row, weight


@njit(cache=True)
def _by_target(source, target, size):  # type: ignore[no-untyped-def]
    """Local edges of one root as lists by target: pointers and sources, in the order of the edges."""
    in_ptr = np.zeros(size + 1, np.int64)
    for e in range(len(target)):
        in_ptr[target[e] + 1] += 1
    for u in range(size):
        in_ptr[u + 1] += in_ptr[u]
    fill = in_ptr[:-1].copy()
    sources = np.empty(len(source), np.int64)
    for e in range(len(source)):
        sources[fill[target[e]]] = source[e]
        fill[target[e]] += 1
    return in_ptr, sources


@njit(cache=True)
def _breadth_first(in_ptr, source, num_hops, distance, order, rank):  # type: ignore[no-untyped-def]
    """Nodes within num_hops of node 0 along incoming edges; fills distance, order, rank; their number."""
    distance[: len(in_ptr) - 1] = -1
    distance[0], order[0], rank[0] = 0, 0, 0
    count, head = 1, 0
    while head < count:
        u = order[head]
        head += 1
        if distance[u] == num_hops:
            continue
        for e in range(in_ptr[u], in_ptr[u + 1]):
            s = source[e]
            if distance[s] < 0:
                distance[s] = distance[u] + 1
                order[count] = s
                rank[s] = count
                count += 1
    return count


@njit(cache=True)
def _sort_by_distance(  # type: ignore[no-untyped-def]
    node_ptr, node, edge_ptr, edge_source, edge_target, num_hops, conv
):
    """The arrays of `Trees` from local edges: rows of each root by distance, their lists renumbered."""
    num_roots = len(node_ptr) - 1
    row_ptr = np.zeros(num_roots + 1, np.int64)
    level_rows = np.zeros((num_roots, num_hops + 1), np.int32)
    out_node, entry_ptr = np.empty(len(node), np.int64), np.zeros(len(node) + 1, np.int64)
    entry_row = np.empty(len(edge_source) + len(node), np.int32)
    entry_weight = np.empty(len(edge_source) + len(node), np.float32)
    largest = np.diff(node_ptr).max() if num_roots else 1
    distance, order, rank = np.empty((3, largest), np.int64)
    at_row, at_entry = 0, 0
    for root in range(num_roots):
        first, last = edge_ptr[root], edge_ptr[root + 1]
        size = node_ptr[root + 1] - node_ptr[root]
        in_ptr, source = _by_target(edge_source[first:last], edge_target[first:last], size)
        ptr, row, weight = _lists(in_ptr, source, size, conv)
        for position in range(_breadth_first(in_ptr, source, num_hops, distance, order, rank)):
            u = order[position]
            out_node[at_row] = node[node_ptr[root] + u]
            for hop in range(num_hops - distance[u] + 1):
                level_rows[root, hop] += 1
            if distance[u] < num_hops:
                for e in range(ptr[u], ptr[u + 1]):
                    entry_row[at_entry] = rank[row[e]]
                    entry_weight[at_entry] = weight[e]
                    at_entry += 1
            at_row += 1
            entry_ptr[at_row] = at_entry
        row_ptr[root + 1] = at_row
    return (
        out_node[:at_row].copy(), row_ptr, level_rows, entry_ptr[: at_row + 1].copy(),
        entry_row[:at_entry].copy(), entry_weight[:at_entry].copy(),
    )  # fmt: skip
