"""Graph: features, edges and labels, validated once and immutable after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from dpgnn.core.checks import at_least, fail, one_of, require

if TYPE_CHECKING:
    import scipy.sparse as sp

Task = Literal["multiclass", "multilabel"]
TASKS = ("multiclass", "multilabel")
# a dense float32 array or a scipy CSR array; scipy ships no types, so the check is at run time, and
# scipy.sparse is imported only for sparse features, since that takes longer than a small run
Features: TypeAlias = Any


@dataclass(frozen=True, kw_only=True, eq=False)
class Graph:
    """A node-classification graph.

    Attributes:
        name: the data set's name; appears in messages and paths.
        x: float32, shape (num_nodes, num_features), a dense array or a scipy CSR array; finite. Duplicate CSR
            entries are summed, because norms of rows are computed entry by entry.
        edge_index: int64, shape (2, num_edges); row 0 sources, row 1 targets; messages go source to
            target. An undirected edge is stored as both directions.
        y: int64, shape (num_nodes,), -1 where unlabelled; or uint8, shape (num_nodes, num_labels),
            for the multilabel task.
        num_classes: number of classes (or labels); public, so it is declared and not counted.
        task: "multiclass" (cross-entropy, accuracy) or "multilabel" (binary cross-entropy, micro-F1).
        directed: False means that each edge is stored in both directions, which is checked.
        splits: the publisher's own splits by name ("public"), each a mapping train/val/test -> int64
            node positions; {} when there are none.
        allow_self_loops: whether self-loops are allowed; otherwise they are an error.

    Raises:
        ValueError: a shape, dtype, id, label or value is wrong; the message names the first offender.
    """

    name: str
    x: Features
    edge_index: np.ndarray
    y: np.ndarray
    num_classes: int
    task: Task = "multiclass"
    directed: bool = False
    splits: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    allow_self_loops: bool = False

    def __post_init__(self) -> None:
        one_of("task", self.task, TASKS)
        if _is_csr(self.x):
            object.__setattr__(self, "x", with_sums(self.x))
        _check_features(self.name, self.x)
        at_least(f"graph {self.name}: num_nodes", self.num_nodes, 1)
        at_least(f"graph {self.name}: num_classes", self.num_classes, 1)
        _check_edges(self)
        _check_labels(self)
        frozen = {}
        for name, parts in self.splits.items():
            checked = {p: _check_split_part(self, name, p, idx) for p, idx in parts.items()}
            _check_disjoint(self.name, name, checked)
            frozen[name] = MappingProxyType(checked)
        object.__setattr__(self, "splits", MappingProxyType(frozen))
        for array in (self.edge_index, self.y, *_arrays(self.x)):
            array.setflags(write=False)

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return int(self.x.shape[0])

    @property
    def num_edges(self) -> int:
        """Number of stored directed edges (an undirected edge counts twice, a self-loop once)."""
        return int(self.edge_index.shape[1])

    @property
    def num_features(self) -> int:
        """Number of columns of x."""
        return int(self.x.shape[1])

    def adjacency(self) -> sp.csr_array:
        """CSR of shape (num_nodes, num_nodes), float32; entry [target, source] is 1 per edge."""
        import scipy.sparse as sp

        source, target = self.edge_index
        ones = np.ones(self.num_edges, dtype=np.float32)
        shape = (self.num_nodes, self.num_nodes)
        return sp.csr_array((ones, (target, source)), shape=shape)

    def dense_x(self) -> np.ndarray:
        """x as a dense float32 array (a copy when x is sparse)."""
        return np.asarray(self.x) if isinstance(self.x, np.ndarray) else self.x.toarray()

    def edges_within(self, node_mask: np.ndarray) -> np.ndarray:
        """edge_index of the edges with both ends in `node_mask`; ids are kept.

        Args:
            node_mask: bool, shape (num_nodes,).

        Returns:
            int64, shape (2, n).
        """
        source, target = self.edge_index
        return self.edge_index[:, node_mask[source] & node_mask[target]]


def with_sums(x: sp.csr_array) -> sp.csr_array:
    """CSR with repeated entries added up and columns in order; itself if it is so already.

    Args:
        x: not changed.
    """
    if x.has_canonical_format:
        return x
    once = x.copy()
    once.sum_duplicates()
    return once


def distinct_keys(keys: np.ndarray) -> np.ndarray:
    """The distinct keys, ascending; numpy's unique is ten times slower, because it hashes integers.

    Args:
        keys: int64, any order.
    """
    keys = np.sort(keys)
    return keys[np.diff(keys, prepend=keys[:1] - 1) != 0]


def clean_edges(
    source: np.ndarray,
    target: np.ndarray,
    num_nodes: int,
    *,
    undirected: bool = True,
    drop_self_loops: bool = True,
) -> np.ndarray:
    """Sort edges by (source, target), keep each once, drop self-loops, add reverse edges.

    Args:
        source, target: integer node ids in 0..num_nodes-1, shape (num_raw_edges,).
        num_nodes: number of nodes.
        undirected: add the reverse of every edge.
        drop_self_loops: drop edges from a node to itself.

    Returns:
        int64, shape (2, num_edges).
    """
    source, target = source.astype(np.int64, copy=False), target.astype(np.int64, copy=False)
    if drop_self_loops:
        keep = source != target
        source, target = source[keep], target[keep]
    keys = source * num_nodes + target
    if undirected:
        keys = np.concatenate([keys, target * num_nodes + source])
    keys = distinct_keys(keys)
    return np.stack([keys // num_nodes, keys % num_nodes])


def arcs_of(graph: Graph, *, symmetrize: bool) -> np.ndarray:
    """The graph's arcs without self-loops, each once; int64, shape (2, num_arcs).

    Args:
        graph: any.
        symmetrize: add the reverse of each edge of a directed graph.
    """
    edges = graph.edge_index
    # a large graph's edges are copied only if necessary
    if graph.allow_self_loops:
        edges = edges[:, edges[0] != edges[1]]
    if symmetrize and graph.directed:
        edges = np.unique(np.concatenate([edges, edges[::-1]], axis=1), axis=1)
    return edges


def is_symmetric(edge_index: np.ndarray, num_nodes: int) -> bool:
    """Whether each directed edge is also stored in the other direction, with the same multiplicity.

    Args:
        edge_index: int64, shape (2, num_edges).
        num_nodes: larger than every id.
    """
    source, target = edge_index
    forward = _sorted_keys(source, target, num_nodes)
    return np.array_equal(forward, _sorted_keys(target, source, num_nodes))


def _sorted_keys(source: np.ndarray, target: np.ndarray, num_nodes: int) -> np.ndarray:
    """One number for each pair, ascending; computed in place, since edges may take most of the memory."""
    keys = source * num_nodes
    keys += target
    # graph files are already sorted
    if (keys[1:] < keys[:-1]).any():
        keys.sort()
    return keys


def _arrays(x: Features) -> tuple[np.ndarray, ...]:
    return (x,) if isinstance(x, np.ndarray) else (x.data, x.indices, x.indptr)


def _is_csr(x: Any) -> bool:
    if isinstance(x, np.ndarray):
        return False
    import scipy.sparse as sp

    return sp.issparse(x) and x.format == "csr"


def _check_features(name: str, x: Features) -> None:
    dense = isinstance(x, np.ndarray)
    require(
        dense or _is_csr(x),
        f"graph {name}: x",
        "be a numpy array or a scipy CSR array",
        type(x).__name__,
    )
    require(x.ndim == 2, f"graph {name}: x", "have two dimensions", x.shape)
    require(x.dtype == np.float32, f"graph {name}: x", "be float32", str(x.dtype))
    values = x if dense else x.data
    bad = ~np.isfinite(values)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        node = where[0] if dense else int(np.searchsorted(x.indptr, where[0], "right") - 1)
        place, remedy = f"graph {name}: x of node {node}", "replace or drop that value"
        fail(place, "be finite", float(values[where]), remedy)


def _check_edges(graph: Graph) -> None:
    edges, name = graph.edge_index, f"graph {graph.name}: edge_index"
    require(
        isinstance(edges, np.ndarray) and edges.ndim == 2 and edges.shape[0] == 2,
        name,
        "have shape (2, num_edges)",
        getattr(edges, "shape", type(edges).__name__),
    )
    require(edges.dtype == np.int64, name, "be int64", str(edges.dtype))
    if edges.size == 0:
        return
    outside = (edges < 0) | (edges >= graph.num_nodes)
    if outside.any():
        row, column = (int(i) for i in np.argwhere(outside)[0])
        rule, remedy = f"be a node in 0..{graph.num_nodes - 1}", "add the node or drop the edge"
        fail(f"{name}[{row}, {column}]", rule, int(edges[row, column]), remedy)
    loops = edges[0] == edges[1]
    if loops.any() and not graph.allow_self_loops:
        node = int(edges[0, np.argmax(loops)])
        fail(name, "hold no self-loop", f"{node} -> {node}", "drop self-loops")
    keys = _sorted_keys(edges[0], edges[1], graph.num_nodes)
    repeated = keys[1:] == keys[:-1]
    if repeated.any():
        source, target = divmod(int(keys[np.argmax(repeated)]), graph.num_nodes)
        fail(name, "hold each edge once", f"{source} -> {target} twice", "drop duplicates")
    if not graph.directed:
        require(
            np.array_equal(keys, _sorted_keys(edges[1], edges[0], graph.num_nodes)),
            name,
            "hold both directions of each edge of an undirected graph",
            "one direction is missing",
            "add reverse edges or set directed",
        )


def _check_labels(graph: Graph) -> None:
    y, name = graph.y, f"graph {graph.name}: y"
    if graph.task == "multiclass":
        require(y.ndim == 1 and len(y) == graph.num_nodes, name, "have shape (num_nodes,)", y.shape)
        require(y.dtype == np.int64, name, "be int64", str(y.dtype))
        bad = (y < -1) | (y >= graph.num_classes)
        if bad.any():
            node = int(np.argmax(bad))
            rule = f"be a class in 0..{graph.num_classes - 1}, or -1 for unlabelled"
            fail(f"{name} of node {node}", rule, int(y[node]))
    else:
        shape = (graph.num_nodes, graph.num_classes)
        require(y.shape == shape, name, f"have shape {shape}", y.shape)
        require(y.dtype == np.uint8, name, "be uint8", str(y.dtype))
        require(bool((y <= 1).all()), name, "hold 0 and 1 only", int(y.max()))


def _check_split_part(graph: Graph, name: str, part: str, idx: np.ndarray) -> np.ndarray:
    where = f"graph {graph.name}: split {name}, {part}"
    one_of("part of a split", part, ("train", "val", "test"))
    idx = np.asarray(idx)
    require(idx.dtype == np.int64 and idx.ndim == 1, where, "be int64 node positions", idx.dtype)
    inside = len(idx) == 0 or (idx.min() >= 0 and idx.max() < graph.num_nodes)
    require(bool(inside), where, f"lie in 0..{graph.num_nodes - 1}", "a position outside")
    idx = np.sort(idx)
    idx.setflags(write=False)
    return idx


def _check_disjoint(graph: str, name: str, parts: Mapping[str, np.ndarray]) -> None:
    joined = np.sort(np.concatenate([*parts.values(), np.zeros(0, dtype=np.int64)]))
    twice = joined[1:] == joined[:-1]
    if twice.any():
        node = int(joined[np.argmax(twice)])
        fail(f"graph {graph}: split {name}", "have disjoint parts", f"node {node} twice")
