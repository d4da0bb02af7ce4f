"""Subgraphs of roots as ragged arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.core.checks import at_least, fail, require
from dpgnn.samplers import _ragged

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("root", "nodes", "edge_source", "edge_target")
_RULES = {
    1: "start with its root",
    2: "hold ids of nodes of the graph only",
    3: "hold arcs between its own nodes only",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Subgraphs:
    """One subgraph for each root, stored contiguously.

    Attributes:
        roots: int64, shape (num_roots,), global ids, in the order of the subgraphs.
        node_ptr: int64, shape (num_roots + 1,); subgraph i has the nodes node_ptr[i]:node_ptr[i + 1].
        nodes: int64 global ids; the root is first in its subgraph, each node occurs once in a subgraph.
        edge_ptr: int64, shape (num_roots + 1,).
        edge_source, edge_target: int32 positions inside the subgraph (0 is the root); messages go
            source to target. No self-loops.
        depth: int8 per node: length of the shortest path to the root; -1 if there is none.
        max_occurrences: the sampler's bound on the subgraphs that one node is in.

    In the trees of a sampler of depth r, a node of depth d needs the layers 1..r - d only, and arcs into
    nodes of depth r are absent.
    """

    roots: np.ndarray
    node_ptr: np.ndarray
    nodes: np.ndarray
    edge_ptr: np.ndarray
    edge_source: np.ndarray
    edge_target: np.ndarray
    depth: np.ndarray
    max_occurrences: int

    @property
    def num_roots(self) -> int:
        """Number of subgraphs."""
        return len(self.roots)

    def __len__(self) -> int:
        return len(self.roots)

    @property
    def num_nodes(self) -> np.ndarray:
        """int64, shape (num_roots,): nodes of each subgraph; sensitive."""
        return np.diff(self.node_ptr)

    def select(self, positions: np.ndarray) -> Subgraphs:
        """The subgraphs at `positions` (0..num_roots-1), in that order: a batch.

        Args:
            positions: integers, shape (num_chosen,); may repeat.

        Raises:
            ValueError: a position is out of range.
        """
        positions = np.ascontiguousarray(positions, dtype=np.int64)
        inside = not len(positions) or (positions.min() >= 0 and positions.max() < len(self))
        require(bool(inside), "positions", f"lie in 0..{len(self) - 1}", "a position outside")
        node_ptr = _pointer(self.node_ptr[positions + 1] - self.node_ptr[positions])
        edge_ptr = _pointer(self.edge_ptr[positions + 1] - self.edge_ptr[positions])
        return Subgraphs(
            roots=self.roots[positions],
            node_ptr=node_ptr,
            nodes=_taken(positions, self.node_ptr, self.nodes, node_ptr),
            edge_ptr=edge_ptr,
            edge_source=_taken(positions, self.edge_ptr, self.edge_source, edge_ptr),
            edge_target=_taken(positions, self.edge_ptr, self.edge_target, edge_ptr),
            depth=_taken(positions, self.node_ptr, self.depth, node_ptr),
            max_occurrences=self.max_occurrences,
        )

    def edge_index(self) -> np.ndarray:
        """Arcs between rows of `nodes`: int64, shape (2, num_edges); subgraphs are disjoint."""
        offset = np.repeat(self.node_ptr[:-1], np.diff(self.edge_ptr))
        return np.stack([self.edge_source + offset, self.edge_target + offset])

    def arcs_into_roots(self) -> np.ndarray:
        """The sampled arcs that end in a root, as global ids: int64, shape (2, num_arcs).

        With every training node as a root these are all sampled arcs: the graph on which non-private
        baselines run and training nodes are evaluated.
        """
        arcs = self.edge_index()[:, self.edge_target == 0]
        return self.nodes[arcs]

    def occurrences(self, num_nodes: int) -> np.ndarray:
        """int64, shape (num_nodes,): number of subgraphs that contain each node; sensitive.

        Args:
            num_nodes: size of the id universe.
        """
        return np.bincount(self.nodes, minlength=num_nodes)

    def check(self, num_nodes: int) -> Subgraphs:
        """Return self if every subgraph is well formed and no node is in more than max_occurrences.

        Guarantee: the result satisfies the sampler's bound on occurrences, which scales the noise.

        Args:
            num_nodes: size of the id universe.

        Raises:
            ValueError: names the first root that breaks a rule.
        """
        row, reason = _ragged.first_broken_row(
            self.node_ptr, self.edge_ptr, self.nodes, self.roots, self.edge_source,
            self.edge_target, num_nodes, self.depth,
        )  # fmt: skip
        if row >= 0:
            fail(f"subgraph {row}", _RULES[reason], f"root {int(self.roots[row])}")
        largest = int(self.occurrences(num_nodes).max(initial=0))
        rule = f"hold every node at most max_occurrences = {self.max_occurrences} times"
        require(largest <= self.max_occurrences, "subgraphs", rule, largest)
        return self

    def to_table(self) -> pa.Table:
        """A pyarrow table of kind `subgraphs`: root, nodes, edge_source, edge_target (list columns)."""
        import pyarrow as pa

        return pa.table(
            {
                "root": pa.array(self.roots),
                "nodes": list_array(self.node_ptr, self.nodes),
                "edge_source": list_array(self.edge_ptr, self.edge_source),
                "edge_target": list_array(self.edge_ptr, self.edge_target),
            }
        )


def from_table(table: pa.Table, *, max_occurrences: int) -> Subgraphs:
    """Subgraphs from a table of kind `subgraphs`.

    Args:
        table: columns root, nodes, edge_source, edge_target.
        max_occurrences: from the sampler's promise, stored in the file's metadata.

    Raises:
        ValueError: a column is missing, or the two edge columns have lists of different lengths.
    """
    missing = sorted(set(COLUMNS) - set(table.column_names))
    require(not missing, "table of subgraphs", f"have the columns {', '.join(COLUMNS)}", missing)
    at_least("max_occurrences", max_occurrences, 0)
    node_ptr, nodes = list_column(table.column("nodes"), np.int64)
    edge_ptr, edge_source = list_column(table.column("edge_source"), np.int32)
    other_ptr, edge_target = list_column(table.column("edge_target"), np.int32)
    same = np.array_equal(edge_ptr, other_ptr)
    require(same, "edge_source and edge_target", "have lists of equal lengths", "different ones")
    depth = np.empty(len(nodes), np.int8)
    _ragged.depths(node_ptr, edge_ptr, edge_source, edge_target, depth)
    return Subgraphs(
        roots=np.asarray(table.column("root").to_numpy(), dtype=np.int64),
        node_ptr=node_ptr,
        nodes=nodes,
        edge_ptr=edge_ptr,
        edge_source=edge_source,
        edge_target=edge_target,
        depth=depth,
        max_occurrences=max_occurrences,
    )


def _pointer(lengths: np.ndarray) -> np.ndarray:
    pointer = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=pointer[1:])
    return pointer


def _taken(
    positions: np.ndarray, pointer: np.ndarray, values: np.ndarray, new_pointer: np.ndarray
) -> np.ndarray:
    out = np.empty(new_pointer[-1], values.dtype)
    _ragged.take(positions, pointer, values, new_pointer, out)
    return out


def list_array(pointer: np.ndarray, values: np.ndarray) -> pa.LargeListArray:
    """A list column: list i holds values[pointer[i]:pointer[i + 1]]."""
    import pyarrow as pa

    return pa.LargeListArray.from_arrays(pa.array(pointer), pa.array(values))


def list_column(column: pa.ChunkedArray, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Pointers from 0 and flat values of a list column with any chunks and offsets."""
    import pyarrow as pa

    chunks = column.chunks or [pa.array([], type=column.type)]
    lengths = [np.diff(chunk.offsets.to_numpy()) for chunk in chunks]
    values = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in chunks]
    pointer = _pointer(np.concatenate(lengths).astype(np.int64))
    return pointer, np.concatenate(values).astype(dtype, copy=False)
