"""Noisy cells of an adjacency for releases: exact randomised response and Laplace noise.

The distributions of `noisy_graph`, unaffected by rounding (docs/accounting.md, theorem 16). For non-edges
only the number of ones is drawn; which of them is uniform.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from dpgnn.core.exact_coins import (
    coins,
    hazard_of,
    interval,
    multiple_below,
    number_on,
    waiting_times,
)
from dpgnn.core.rounded_noise import LAPLACE, LONGER, add_rounded, grid_of


def noisy_count(count: int, scale: float, *, rng: np.random.Generator) -> int:
    """count + exact Laplace noise, rounded to an integer, see `rounded_noise.add_rounded`."""
    total = np.array([float(count)])
    return int(add_rounded(total, scale * LONGER, rng=rng, law=LAPLACE, grid=1.0)[0])


def answers(
    ones: int,
    zeros: int,
    *,
    one_if_one: float,
    one_if_zero: float,
    keep: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, int]:
    """Randomised response on cells whose answered ones are kept with a further probability.

    Guarantee: every cell is answered independently, with exactly these probabilities; keeping is
    post-processing. `keep` is rounded down to a multiple of 2^-53.

    Args:
        ones, zeros: numbers of cells that are 1 and 0; below 2^47.
        one_if_one: a multiple of 2^-53.
        one_if_zero: in [0, 1), read as an exact number.
        keep: in [0, 1].
        rng: secret.

    Returns:
        bool, shape (ones,): ones that are kept; and number of zeros that become ones.
    """
    keep = multiple_below(keep)
    kept = coins(ones, one_if_one, rng=rng) & coins(ones, keep, rng=rng)
    rate = Fraction(one_if_zero) * Fraction(keep)
    return kept, number_on(zeros, hazard_of(rate), rng=rng) if rate else 0


def largest_cells(
    edges: int, gaps: int, wanted: int, scale: float, *, rng: np.random.Generator
) -> tuple[np.ndarray, int]:
    """The `wanted` largest of edges (1 + noise) and non-edges (noise); Laplace, rounded to a public grid.

    Guarantee: post-processing of the cells with exact Laplace noise. Ties are broken uniformly, so only a
    cell's noisy value decides.

    Args:
        edges, gaps: numbers of cells that are 1 and 0.
        wanted: 0..edges + gaps.
        scale: of the noise.
        rng: secret.

    Returns:
        bool, shape (edges,): edges among them; and number of non-edges among them.
    """
    if wanted == 0:
        return np.zeros(edges, dtype=bool), 0
    scale *= LONGER
    grid = float(grid_of(scale))
    of_edges = add_rounded(np.ones(edges), scale, rng=rng, law=LAPLACE, grid=grid)
    of_gaps = largest_gaps(gaps, min(wanted, gaps), scale, grid, rng=rng)
    values = np.concatenate([of_edges, of_gaps])
    last = np.partition(values, -wanted)[-wanted]
    chosen = values > last
    equal = np.flatnonzero(values == last)
    chosen[rng.choice(equal, wanted - int(chosen.sum()), replace=False, shuffle=False)] = True
    return chosen[:edges], int(chosen[edges:].sum())


def largest_gaps(
    count: int, wanted: int, scale: float, grid: float, *, rng: np.random.Generator
) -> np.ndarray:
    """At least the `wanted` largest of `count` values of rounded Laplace noise, including ties.

    Only values above a level are drawn: their number by exact coins, and their excess as waiting times,
    because the tail of rounded Laplace noise is geometric. The level is such that they are too few with
    probability at most e^-50; then the others are also drawn, conditioned to be below the level.

    Returns:
        float64, multiples of the grid.
    """
    target = _drawn(wanted)
    if count <= 4 * target:
        return _noise(count, scale, grid, rng)
    step = Fraction(grid) / Fraction(scale)
    level = 1 + int(math.log(count / (4 * target)) / float(step))

    def off(iv: Any) -> Any:
        """-log(1 - P(a value is at least the level))."""
        tail = iv.exp(-interval(iv, (level - Fraction(1, 2)) * step)) / 2
        return -iv.log(1 - tail)

    above = number_on(count, off, rng=rng)
    values = grid * (level + waiting_times(lambda iv: interval(iv, step), above, rng=rng))
    if above >= wanted:
        return values
    below = np.zeros(0)
    while len(below) < count - above:
        fresh = _noise(count - above - len(below), scale, grid, rng)
        below = np.concatenate([below, fresh[fresh < level * grid]])
    return np.concatenate([values, below])


def _drawn(wanted: int) -> int:
    """A mean of which a binomial number is below `wanted` with probability at most e^-50 (Chernoff)."""
    return wanted + math.ceil(10 * math.sqrt(wanted)) + 100


def _noise(count: int, scale: float, grid: float, rng: np.random.Generator) -> np.ndarray:
    return add_rounded(np.zeros(count), scale, rng=rng, law=LAPLACE, grid=grid)
