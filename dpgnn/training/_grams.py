"""Inner products of rows that do not depend on parameters, kept between steps.

The first layer reads features or sums of features over the trees' entries, which are the same at every step.
So are the products a_t . a_u of one root's rows, on which its norm depends; they are computed at the root's
first step. They are as sensitive as the features, and are kept in memory only, until the run ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpgnn.training import _kernels as kernels

# products kept for one layer; if there are more, none is kept
MOST_BYTES = 256 * 2**20


class InputGrams:
    """Products of each root's rows at one level of its tree.

    Args:
        rows: int64, shape (num_roots,): rows of each root there.
        limit: only the squares are kept of roots with more rows; None keeps all products of every root.
    """

    def __init__(self, rows: np.ndarray, limit: int | None) -> None:
        self.limit = int(rows.max(initial=0)) if limit is None else limit
        self._start = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(_num_products(rows, self.limit), out=self._start[1:])
        self._known = np.zeros(len(rows), dtype=bool)
        self._terms = np.zeros(len(rows), dtype=np.int64)
        self._products = np.empty(self._start[-1])

    @staticmethod
    def fit(rows: np.ndarray, limit: int | None) -> bool:
        """Whether the products of all roots take at most `MOST_BYTES`."""
        most = int(rows.max(initial=0)) if limit is None else limit
        return 8 * int(_num_products(rows, most).sum()) <= MOST_BYTES

    def norms(
        self, roots: np.ndarray, inputs: tuple[Any, ...], g: np.ndarray, ptr: np.ndarray
    ) -> np.ndarray:
        """Bitwise equal to `_kernels.dense_norms` or `sparse_norms` for these roots.

        Args:
            inputs: (a,), or (node, indptr, indices, data) where rows of a CSR matrix are read.

        Returns:
            float64, shape (4, num_roots): squared_w, spread_w, squared_b, spread_b.
        """
        kept = (self._start, self._known, self._terms, self._products)
        fill: Any = kernels.dense_grams if len(inputs) == 1 else kernels.sparse_grams
        fill(*inputs, roots, ptr, self.limit, *kept)
        found = np.empty((4, len(roots)))
        kernels.gram_norms(
            roots, self.limit, self._start, self._terms, self._products, g, ptr, *found
        )
        return found


def _num_products(rows: np.ndarray, limit: int) -> np.ndarray:
    """Number of products kept for each root."""
    pairs: np.ndarray = np.where(rows > limit, rows, rows * (rows + 1) // 2)
    return pairs
