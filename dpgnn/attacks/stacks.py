"""A model ready for queries: what every model that `differences` can follow has in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from dpgnn.attacks.differences import Differences, at_nodes, wanted_rows

# a difference below this share of its row is rounding
ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class Stack:
    """A model ready for queries.

    Attributes:
        run: (perturbed nodes, their rows before, their rows after, rows wanted after each product) -> changed
            logits.
        columns: CSC: the sparse operator; None where there is none.
        num_spreads: how often it is applied.
        width: of the widest layer.
    """

    run: Callable[[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]], Differences]
    columns: sp.csc_array | None
    num_spreads: int
    width: int

    @cached_property
    def rows_of_a_query(self) -> int:
        """How many rows one query may change in a layer."""
        return 1 if self.columns is None else reach(self.columns, self.num_spreads)

    @cached_property
    def _rows(self) -> sp.csr_array:
        return sp.csr_array(self.columns)

    def ask(
        self, nodes: np.ndarray, before: np.ndarray, after: np.ndarray, keep: np.ndarray
    ) -> Differences:
        """Changed logits of the queries, at the rows that each wants.

        Args:
            nodes: int64, shape (num_queries,): perturbed.
            before, after: float64, shape (num_queries, num_features): their rows.
            keep: bool, shape (num_queries, num_nodes): rows that are read.
        """
        wanted = [keep]
        if self.columns is not None:
            wanted = wanted_rows(self._rows, keep, self.num_spreads)
        return self.run(nodes, before, after, wanted)


def start(nodes: np.ndarray, before: np.ndarray, after: np.ndarray, num_nodes: int) -> Differences:
    """Changed rows of the first layer; what is only rounding counts as unchanged."""
    value = after - before
    value[np.abs(value) <= ROUNDING * np.abs(before).max(axis=1, keepdims=True)] = 0.0
    return at_nodes(nodes, value, num_nodes)


def row_norm(kind: str) -> Callable[[np.ndarray], np.ndarray]:
    """Dense rows divided by their norms; zero rows stay zero."""

    def normalize(rows: np.ndarray) -> np.ndarray:
        if kind == "none":
            return rows
        sizes = np.abs(rows).sum(1) if kind == "l1" else np.linalg.norm(rows, axis=1)
        scale = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)
        return rows * scale[:, None]

    return normalize


def normalize_all(x: Any, kind: str) -> Any:
    """All features normalised in float64, CSR where they are CSR."""
    if not sp.issparse(x):
        return row_norm(kind)(np.asarray(x, dtype=np.float64))
    wide = sp.csr_array(x).astype(np.float64)
    if kind == "none":
        return wide
    size = abs(wide).sum(axis=1) if kind == "l1" else np.sqrt(wide.multiply(wide).sum(axis=1))
    size = np.asarray(size).reshape(-1)
    scale = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    return sp.csr_array(sp.diags_array(scale) @ wide)


def reach(columns: sp.csc_array, hops: int) -> int:
    """A generous mean number of rows that a query changes, at most all."""
    degree = columns.nnz / columns.shape[0] + 1
    # a node is reached by its degree: the mean over edges of the degree, not the mean over nodes
    counts = np.diff(columns.indptr).astype(np.float64)
    weighted = float((counts**2).sum() / max(counts.sum(), 1.0)) + 1
    return int(min(columns.shape[0], degree * weighted ** max(hops - 1, 0)))
