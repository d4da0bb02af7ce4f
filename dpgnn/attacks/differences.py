"""Many queries in one pass: only the changes are computed, exactly and in float64.

A query changes the features of one node. Layer by layer it changes few rows; `Differences` holds them for
all queries of a pass, and a sparse product moves them over the edges. All other rows are unchanged, so
nothing is approximated: f(X') - f(X) is that of two full passes, without cancellation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from dpgnn.attacks._spread import merged, read_by, spread

# (nodes, their rows) -> their rows after a layer that acts on each row by itself
RowMap = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Differences:
    """Rows that differ from the unperturbed ones.

    Attributes:
        num_nodes: of the graph.
        key: int64, shape (num_rows,), ascending: query * num_nodes + node.
        value: float64, shape (num_rows, width): changed row minus unchanged row.
    """

    num_nodes: int
    key: np.ndarray
    value: np.ndarray

    @property
    def node(self) -> np.ndarray:
        """int64: the row's node."""
        return self.key % self.num_nodes

    @property
    def query(self) -> np.ndarray:
        """int64: the row's query."""
        return self.key // self.num_nodes

    def times(self, matrix: np.ndarray) -> Differences:
        """Rows after a linear map: value @ matrix."""
        return Differences(num_nodes=self.num_nodes, key=self.key, value=self.value @ matrix)

    def scaled(self, factor: float) -> Differences:
        """Rows times a number."""
        return Differences(num_nodes=self.num_nodes, key=self.key, value=factor * self.value)

    def plus(self, other: Differences) -> Differences:
        """The sum of two sets of rows of the same queries."""
        key, own, others = merged(self.key, other.key)
        value = np.zeros((len(key), self.value.shape[1]))
        value[own] = self.value
        value[others] += other.value
        return Differences(num_nodes=self.num_nodes, key=key, value=value)

    def spread(self, operator: sp.csc_array, *, keep: np.ndarray | None = None) -> Differences:
        """operator @ rows, query by query.

        Args:
            operator: CSC, shape (num_nodes, num_nodes); row v has the nodes that v reads.
            keep: bool, shape (num_queries, num_nodes): needed rows; None keeps all.
        """
        if keep is None:
            last = self.key[-1] // self.num_nodes if len(self.key) else 0
            keep = np.ones((last + 1, self.num_nodes), dtype=bool)
        key, value = spread(
            self.key, self.value, operator.indptr.astype(np.int64), operator.indices,
            operator.data.astype(np.float64, copy=False), keep,
        )  # fmt: skip
        return Differences(num_nodes=self.num_nodes, key=key, value=value)

    def through(
        self, base: np.ndarray, row_map: RowMap, ends: np.ndarray | None = None
    ) -> Differences:
        """Rows after a layer that acts on each row by itself; unchanged rows are dropped.

        Args:
            base: float64, shape (num_nodes, width): the unperturbed rows before the layer.
            row_map: the layer.
            ends: the unperturbed rows after it, usable if rounding of a row does not depend on other rows
                (unlike in a matrix product); computed if not given.
        """
        node = self.node
        before = base[node]
        unchanged = row_map(node, before) if ends is None else ends[node]
        value = row_map(node, before + self.value) - unchanged
        changed = (value != 0).any(axis=1)
        if changed.all():
            return Differences(num_nodes=self.num_nodes, key=self.key, value=value)
        return Differences(num_nodes=self.num_nodes, key=self.key[changed], value=value[changed])

    def norms(self, num_queries: int, read: np.ndarray) -> np.ndarray:
        """L2 norms of the rows of some nodes: float64, shape (num_queries, len(read))."""
        place = np.full(self.num_nodes, -1)
        place[read] = np.arange(len(read))
        column = place[self.node]
        wanted = column >= 0
        found = np.zeros((num_queries, len(read)))
        found[self.query[wanted], column[wanted]] = np.linalg.norm(self.value[wanted], axis=1)
        return found


def at_nodes(nodes: np.ndarray, value: np.ndarray, num_nodes: int) -> Differences:
    """Query q changes the row of nodes[q] by value[q]."""
    key = np.arange(len(nodes), dtype=np.int64) * num_nodes + nodes
    return Differences(num_nodes=num_nodes, key=key, value=np.asarray(value, dtype=np.float64))


def wanted_rows(operator: sp.csr_array, keep: np.ndarray, num_spreads: int) -> list[np.ndarray]:
    """The rows needed after each sparse product of a model to compute the rows `keep` of its output.

    Args:
        operator: CSR, shape (num_nodes, num_nodes): row v has the nodes that v reads.
        keep: bool, shape (num_queries, num_nodes): rows needed after the last product.
        num_spreads: products.

    Returns:
        `num_spreads` masks of the shape of `keep`, the last one `keep`; a row needed after a product is also
        needed before it, for layers that read a node's own row beside its neighbours'.
    """
    masks = [keep]
    while len(masks) < num_spreads:
        masks.append(read_by(masks[-1], operator.indptr.astype(np.int64), operator.indices))
    return masks[::-1]
