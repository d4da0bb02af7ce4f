"""Sparse rows over nodes (diffusion weights of roots), and their processing before training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from dpgnn.core.checks import at_least, positive, require
from dpgnn.samplers import _appr_kernels
from dpgnn.samplers.hashing import draw_key, pair_hashes
from dpgnn.samplers.subgraphs import list_array, list_column

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """One sparse row of weights for each root.

    Attributes:
        roots: int64, shape (num_roots,), global ids.
        pointer: int64, shape (num_roots + 1,).
        columns: int32 global ids, ascending inside a row.
        values: float64 weights.
        num_nodes: size of the id universe, the number of columns.
    """

    roots: np.ndarray
    pointer: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    num_nodes: int

    def __len__(self) -> int:
        return len(self.roots)

    def matrix(self) -> sp.csr_array:
        """CSR of shape (num_roots, num_nodes), float64."""
        shape = (len(self), self.num_nodes)
        return sp.csr_array((self.values, self.columns, self.pointer), shape=shape)

    def to_table(self) -> pa.Table:
        """A pyarrow table of kind `rows`: root, column and value (list columns)."""
        import pyarrow as pa

        names = {"column": self.columns, "value": self.values}
        lists = {name: list_array(self.pointer, values) for name, values in names.items()}
        return pa.table({"root": self.roots, **lists})


def rows_from_table(table: pa.Table, *, num_nodes: int) -> Rows:
    """Rows from a table of kind `rows` (see `Rows.to_table`); `num_nodes` is the number of columns.

    Args:
        table: columns root, column, value.
        num_nodes: number of columns.
    """
    pointer, columns = list_column(table.column("column"), np.int32)
    _, values = list_column(table.column("value"), np.float64)
    roots = table.column("root").to_numpy().astype(np.int64)
    return Rows(roots=roots, pointer=pointer, columns=columns, values=values, num_nodes=num_nodes)


def rows_of(matrix: sp.csr_array, roots: np.ndarray) -> Rows:
    """Rows from a CSR matrix; explicit zeros are dropped.

    Args:
        matrix: shape (num_roots, num_nodes).
        roots: int64, shape (num_roots,).

    Raises:
        ValueError: matrix does not have a row for each root.
    """
    matrix = sp.csr_array(matrix, dtype=np.float64, copy=True)
    require(matrix.shape[0] == len(roots), "matrix", "have a row for each root", matrix.shape)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return Rows(
        roots=np.asarray(roots, dtype=np.int64),
        pointer=matrix.indptr.astype(np.int64),
        columns=matrix.indices.astype(np.int32),
        values=matrix.data,
        num_nodes=matrix.shape[1],
    )


def top_k(rows: Rows, k: int) -> Rows:
    """The k largest values of every row; among equal values the smaller id (no privacy).

    Args:
        rows: float64 weights.
        k: >= 0; a row with fewer entries keeps them all.

    Raises:
        ValueError: k is negative.
    """
    at_least("k", k, 0)
    keep = np.zeros(len(rows.values), np.bool_)
    _appr_kernels.largest_entries(rows.pointer, rows.values, k, keep)
    return _kept(rows, keep)


def cap_columns(rows: Rows, max_rows: int, *, rng: np.random.Generator) -> Rows:
    """Keep every column in at most `max_rows` rows: those of smallest keyed priority.

    Guarantee: no node's features reach more than max_rows + 1 roots' losses (the + 1 is the root's own
    label). On rows that were released under a guarantee this is post-processing and costs nothing.

    Args:
        max_rows: s >= 0, the most nonzero entries a column keeps (its L0 norm).
        rng: gives the key; the priorities may be published.

    Raises:
        ValueError: max_rows is negative.
    """
    at_least("max_rows", max_rows, 0)
    row = np.repeat(np.arange(len(rows)), np.diff(rows.pointer))
    priority = pair_hashes(draw_key(rng), rows.columns.astype(np.int64), rows.roots[row])
    order = np.lexsort((row, priority, rows.columns))
    sizes = np.bincount(rows.columns, minlength=rows.num_nodes)
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    rank = np.arange(len(row)) - np.repeat(first, sizes)
    keep = np.zeros(len(row), np.bool_)
    keep[order[rank < max_rows]] = True
    return _kept(rows, keep)


def clip_columns(rows: Rows, max_norm: float = 1.0, *, rescale: bool = False) -> Rows:
    """Divide every column by max(1, its L1 norm / max_norm).

    Guarantee: afterwards a node's features enter the weighted sums of all roots with total weight at most
    max_norm. On rows released under a guarantee this is post-processing.

    Args:
        max_norm: tau > 0; the paper gives no value.
        rescale: scale every nonzero column to norm max_norm, up or down (as in the authors' code).

    Raises:
        ValueError: max_norm is not > 0.

    Source: Zhang et al. (2024), DPAR, Algorithm 2.
    """
    positive("max_norm", max_norm)
    norms = np.bincount(rows.columns, weights=np.abs(rows.values), minlength=rows.num_nodes)
    factor = max_norm / np.maximum(norms, 1e-300)
    if not rescale:
        factor = np.minimum(1.0, factor)
    return replace(rows, values=rows.values * factor[rows.columns])


def _kept(rows: Rows, keep: np.ndarray) -> Rows:
    row = np.repeat(np.arange(len(rows)), np.diff(rows.pointer))
    sizes = np.bincount(row[keep], minlength=len(rows))
    pointer = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return replace(rows, pointer=pointer, columns=rows.columns[keep], values=rows.values[keep])
