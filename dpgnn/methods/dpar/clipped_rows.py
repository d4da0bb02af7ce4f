"""PageRank rows as clipped by the mechanisms, and their change under a replaced node."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.methods.releases import Calls, Measure, Move, event_of

if TYPE_CHECKING:
    import scipy.sparse as sp

    from dpgnn.methods.dpar.options import DPARConfig


def dense_row(matrix: sp.csr_array, row: int) -> np.ndarray:
    """One row, float64, shape (num_columns,)."""
    dense = np.zeros(matrix.shape[1])
    part = slice(matrix.indptr[row], matrix.indptr[row + 1])
    dense[matrix.indices[part]] = matrix.data[part]
    return dense


def capped(row: np.ndarray, max_entry: float) -> np.ndarray:
    """Entries cut at max_entry."""
    return np.minimum(row, max_entry)


def shortened(row: np.ndarray, max_norm: float) -> np.ndarray:
    """The row, scaled down to a norm of at most max_norm."""
    return row * min(1.0, max_norm / max(float(np.linalg.norm(row)), 1e-300))


def clipped_row(config: DPARConfig, exact: sp.csr_array, row: int) -> np.ndarray:
    """A row clipped as by the entry's mechanism before noise."""
    dense = dense_row(exact, row)
    if config.rows == "gm":
        return shortened(dense, config.max_vector_norm)
    return capped(dense, config.max_entry)


def _rows(size: Callable[[np.ndarray, Any], float], allowed: str) -> Measure:
    """The change of the worst row, since every vector is a separate draw."""

    def measure(seen: Calls) -> Move:
        a, b = seen.only
        limit = float(getattr(event_of(seen.mechanism), allowed))
        if a["exact"].shape != b["exact"].shape:
            return Move(moved=math.inf, allowed=limit)
        config = a["config"]
        moved = 0.0
        for row in range(a["exact"].shape[0]):
            sides = [clipped_row(config, side["exact"], row) for side in (a, b)]
            moved = max(moved, size(sides[0] - sides[1], config))
        return Move(moved=moved, allowed=limit)

    return measure


def _largest_entry(row: np.ndarray, config: Any) -> float:
    return float(np.abs(row).max(initial=0.0))


def _largest_entries(row: np.ndarray, config: Any) -> float:
    """Sum of the K largest entries, which bounds the change of any K chosen entries."""
    k = min(config.top_k, len(row))
    return float(np.sort(np.abs(row))[-k:].sum())


MEASURES = {
    "select": _rows(_largest_entry, "score_sensitivity"),
    "weigh": _rows(_largest_entries, "sensitivity"),
    "perturb": _rows(lambda row, config: float(np.linalg.norm(row)), "sensitivity"),
}
