"""ProGAP's one release: noisy sums of unit rows, once between two stages."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import scipy.sparse as sp

from dpgnn.methods.releases import (
    Arguments,
    Draw,
    RoundedDraw,
    Where,
    common_rows,
    gaussian,
    noised,
    release,
    rows_with_room,
    summable,
)
from dpgnn.methods.shared.aggregate import unit_rows
from dpgnn.methods.shared.every_call import every_call
from dpgnn.methods.shared.node_level import AGGREGATE


def _trials(
    first: Arguments, second: Arguments, where: Where
) -> Iterable[tuple[Arguments, Arguments]]:
    """The run's own rows, and rows of other norms that are equal in both worlds."""
    yield first, second
    for seed in (0, 1):
        a, b = common_rows(first["x0"].shape, where, seed)
        if where.absent:
            b[where.own] = 0.0
        yield {**first, "x0": 3.0 * a}, {**second, "x0": 3.0 * b}


@release({AGGREGATE: every_call(gaussian(_trials))})
def noisy_sum(
    adjacency: sp.csr_array, x0: np.ndarray, *, hop: int, noise_stddev: float, draw: Draw
) -> np.ndarray:
    """A times the rows scaled to norm 1, plus noise; the sums are not normalised again.

    Guarantee: a Gaussian release whose sensitivity is that of A in rows of norm 1: sqrt 2 for an undirected
    edge, sqrt D for the rows that one node sends to.

    Args:
        adjacency: entry [v, u] is the weight with which v reads u; float64 CSR.
        x0: rows of the last stage, any norm.
        hop: 1..K, names the draw.
        noise_stddev: per coordinate; 0 without privacy.
        draw: standard normal noise of a step.

    Source: Sajadmanesh and Gatica-Perez (2024), arXiv:2304.08928, normalise, aggregate, perturb (NAP).
    """
    rows = unit_rows(x0)
    exact = isinstance(draw, RoundedDraw)
    sums = adjacency @ (summable(rows, rows_with_room(len(rows))) if exact else rows)
    return noised(sums, noise_stddev, draw, hop) if noise_stddev > 0 else np.asarray(sums)
