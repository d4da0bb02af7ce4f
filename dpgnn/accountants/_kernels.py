"""A compiled loop for loss distributions; importing scipy.signal for it would cost a second."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def discounted_sums(values: np.ndarray, factor: float) -> np.ndarray:
    """y[k] = values[k] + factor y[k - 1], with y[-1] = 0.

    Args:
        values: float64, shape (n,).
        factor: in [0, 1].

    Returns:
        float64, shape (n,); bitwise equal to scipy.signal.lfilter([1], [1, -factor], values).
    """
    found = np.empty(len(values))
    last = 0.0
    for k in range(len(values)):
        last = values[k] + factor * last
        found[k] = last
    return found
