"""Centred rows without storing them: sparse rows stay sparse, and the weights are centred instead.

A centred row is x P, P = I - 1 1^T / F an orthogonal projection of its F columns. Since (x P) W = x (P W),
the model reads x itself with the weights' column means taken out, and its gradient is P x^T g.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dpgnn.data.rows import inverse
from dpgnn.training.step_gradients import LossOfStep

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.training.gradients import RootGradients

# a row's norm is at most this many times that of the centred row, so that rounding stays small
LONGEST = 2.0


class CentredGradients(LossOfStep):
    """Clipped sums of a linear layer's gradients in which the first `columns` rows of its weight are centred.

    Guarantee: a term of the sum has norm at most the clipping's `total_norm`. Proof. The map G -> P G on
    these rows is linear, the same for all roots, and an orthogonal projection, so it increases no norm. [] It
    reads only the current weights. In float64 its sums of at most `linear.CENTRED_COLUMNS` terms round by
    less than products of 2^16 rows would, which `rounding.rounding_share` counts and lone roots do not make.

    Args:
        current: clipped sums of uncentred rows.
        columns: F, the inputs that are features.
    """

    def __init__(self, current: RootGradients, columns: int) -> None:
        self.current, self.clipping, self.columns = current, current.clipping, columns

    def __call__(self, parameters: Tensor, roots: np.ndarray) -> Tensor:
        """The sum over `roots`, flat; overwritten by the next call; sensitive until noise is added."""
        views = self.current.network.views
        forward = parameters.detach().clone()
        centre_weights(views(forward), self.columns)
        total = super().__call__(forward, roots)
        centre_weights(views(total), self.columns)
        return total


def centre_weights(named: Mapping[str, Tensor], columns: int) -> None:
    """Subtract from the first `columns` rows of the only weight their mean, in place."""
    (weight,) = named.values()
    weight[:columns] -= weight[:columns].mean(dim=0)


def sparse_rows(x: Any) -> sp.csr_array:
    """Rows divided by the norm of the centred row, or by half their own norm if that is larger.

    Each row is processed alone; zero rows stay zero.

    Args:
        x: CSR, shape (num_rows, F).

    Returns:
        float64 CSR of the same shape; its rows have norm at most `LONGEST`, centred at most 1.
    """
    x = sp.csr_array(x).astype(np.float64)
    largest = abs(x).max(axis=1).toarray().ravel() if x.nnz else np.zeros(x.shape[0])
    x = sp.csr_array(sp.diags_array(inverse(largest)) @ x)
    row, count = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr)), np.diff(x.indptr)

    def sums(values: np.ndarray) -> np.ndarray:
        # without entries it would return integer counts
        return np.bincount(row, weights=values, minlength=x.shape[0]).astype(np.float64)

    mean = sums(x.data) / x.shape[1]
    # stored entries, and the others, which are -mean after centring
    square = sums((x.data - mean[row]) ** 2) + (x.shape[1] - count) * mean**2
    own = sums(x.data**2)
    norm = np.maximum(np.sqrt(square), np.sqrt(own) / LONGEST)
    return sp.csr_array(sp.diags_array(inverse(norm)) @ x)
