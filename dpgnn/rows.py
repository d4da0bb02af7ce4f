"""Row normalisation of features: it acts on each record by itself, so it changes no neighbouring relation."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from dpgnn.checks import one_of

RowNorm = Literal["none", "l1", "l2"]


def normalize_rows(x: Any, kind: RowNorm) -> Any:
    """Divide each row by its L1 or L2 norm; zero rows stay zero.

    Args:
        x: float32, shape (num_nodes, num_features), dense or CSR.
        kind: "none" gives x back.

    Returns:
        float32, same shape and kind as x.
    """
    one_of("row normalisation", kind, ("none", "l1", "l2"))
    if kind == "none":
        return x
    dense = isinstance(x, np.ndarray)
    # a square beyond float32 is infinite and its row becomes 0; a warning would tell that such a row is there
    with np.errstate(over="ignore"):
        values = abs(x) if kind == "l1" else x * x if dense else x.multiply(x)
    sums = np.asarray(values.sum(axis=1), dtype=np.float64).reshape(-1)
    norms = sums if kind == "l1" else np.sqrt(sums)
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0).astype(np.float32)
    if dense:
        return x * scale[:, None]
    import scipy.sparse as sp

    return sp.csr_array(sp.diags_array(scale) @ x).astype(np.float32)
