"""Row normalisation of features; each record is processed alone, so neighbouring relations are unchanged."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from dpgnn.core.checks import one_of

RowNorm = Literal["none", "l1", "l2", "centred"]


# Norms within them are exact to float32's rounding as they are summed below; beyond them squares underflow or
# overflow, or 1 / norm does. Ordinary rows keep the bytes they always had.
SMALL_NORM, LARGE_NORM = 2.0**-40, 2.0**40


def normalize_rows(x: Any, kind: RowNorm) -> Any:
    """Divide each row by its L1 or L2 norm, or subtract its mean and divide by the L2 norm of the result.

    Guarantee: the norm of every row is 1 up to float32 rounding, for values of any size; rows of zeros
    (centred: of equal values) become zero. Each row is processed alone.

    Args:
        x: float32, shape (num_nodes, num_features), dense or CSR.
        kind: "none" returns x; "centred" subtracts the row's mean over its features, then divides by the L2
            norm.

    Returns:
        float32, same shape and type as x; dense if centred, because zeros become non-zero.

    Raises:
        ValueError: `kind` is unknown.
    """
    one_of("row normalisation", kind, get_args(RowNorm))
    if kind == "none":
        return x
    if kind == "centred":
        return _centred(x)
    # no warning may reveal that a row has huge or tiny values
    with np.errstate(over="ignore", under="ignore"):
        norms = _norms(x, kind)
        extreme = _extreme_rows(x, norms)
        norms[extreme] = 0
        scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0).astype(np.float32)
        if isinstance(x, np.ndarray):
            scaled = x * scale[:, None]
            scaled[extreme] = _in_float64(x[extreme], kind)
            return scaled
        return _scaled_sparse(x, scale, extreme, kind)


def _scaled_sparse(x: Any, scale: np.ndarray, extreme: np.ndarray, kind: RowNorm) -> Any:
    """CSR rows times `scale`; rows with `extreme` norms are computed in float64."""
    import scipy.sparse as sp

    scaled = sp.csr_array(sp.diags_array(scale) @ x).astype(np.float32)
    if not len(extreme):
        return scaled
    ones = np.ones(len(extreme), dtype=np.float32)
    places = (extreme, np.arange(len(extreme)))
    place = sp.csr_array((ones, places), shape=(x.shape[0], len(extreme)))
    return sp.csr_array(scaled + place @ _in_float64(x[extreme], kind))


ROWS_AT_ONCE = 4096  # centred in float64
# a row of equal values is zero up to the rounding of its mean
NOTHING_LEFT = 2.0**-40


def centred_rows(rows: np.ndarray) -> np.ndarray:
    """Dense float64 rows minus their means, of norm 1; rows of equal values become zero."""
    rest = rows - rows.mean(axis=1, keepdims=True)
    sizes, whole = (np.linalg.norm(part, axis=1, keepdims=True) for part in (rest, rows))
    return np.divide(rest, sizes, out=np.zeros_like(rest), where=sizes > NOTHING_LEFT * whole)


def inverse(sizes: np.ndarray) -> np.ndarray:
    """1 / sizes; 0 of a size 0."""
    return np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)


def _centred(x: Any) -> np.ndarray:
    """Rows of float32 or CSR, centred; no square of a float32 leaves float64's range."""
    made = np.zeros(x.shape, np.float32)
    for first in range(0, x.shape[0], ROWS_AT_ONCE):
        rows = x[first : first + ROWS_AT_ONCE]
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        made[first : first + ROWS_AT_ONCE] = centred_rows(dense.astype(np.float64))
    return made


def _norms(x: Any, kind: RowNorm) -> np.ndarray:
    """float64, shape (num_nodes,); sums are taken in the dtype of x."""
    if kind == "l1":
        values = abs(x)
    else:
        values = x * x if isinstance(x, np.ndarray) else x.multiply(x)
    sums = np.asarray(values.sum(axis=1), dtype=np.float64).reshape(-1)
    return sums if kind == "l1" else np.sqrt(sums)


def _extreme_rows(x: Any, norms: np.ndarray) -> np.ndarray:
    """Positions of non-zero rows whose float32 norm is inaccurate, int64, ascending."""
    rows = np.flatnonzero((norms < SMALL_NORM) | (norms > LARGE_NORM))
    return rows[np.asarray(abs(x[rows]).sum(axis=1)).ravel() > 0]


def _in_float64(x: Any, kind: RowNorm) -> Any:
    """Rows of float32 normalised in float64, where no square underflows or overflows."""
    x = x.astype(np.float64)
    norms = _norms(x, kind)
    if isinstance(x, np.ndarray):
        return (x / norms[:, None]).astype(np.float32)
    import scipy.sparse as sp

    return sp.csr_array(x.multiply(1 / norms[:, None])).astype(np.float32)
