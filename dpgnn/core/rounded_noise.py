"""Exact noise added to a sum and rounded to a public grid, so that no floating-point artefact is released.

Proof (docs/accounting.md, theorem 16). Z is the real number F^-1(U), U uniform with unlimited secret bits, F
the distribution function. The result is g round((S + sigma Z) / g), a function of the real mechanism's output
S + sigma Z, so it is post-processing of it. The first 64 bits of U nearly always decide; if the error bound
of floating point reaches a rounding boundary, more bits of the same U are drawn and compared with F in
interval arithmetic until they decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpgnn.core.checks import require
from dpgnn.core.exact_coins import interval, intervals

# sigma / g lies in [2^GRID_BITS, 2^(GRID_BITS + 1))
GRID_BITS = 20
# the inverse in float64 is wrong by less than this where U and 1 - U are at least SMALLEST_HALF (measured:
# a sixteenth of it); bits that are not drawn yet move Z by less than 2^-63 / min(U, 1 - U) more
INVERSE_ERROR = 2.0**-44
SMALLEST_HALF = 2.0**-34
# sums are clipped here, in steps of the grid, so that every result is a float64 exactly
LARGEST_SUM = 2.0**51
# scales that were divided in float64 are enlarged by more than their rounding error
LONGER = 1 + 2.0**-30


@dataclass(frozen=True, kw_only=True)
class Law:
    """A distribution that is symmetric around 0, of scale 1.

    Attributes:
        inverse: float64 p in (0, 1/2) -> z with P(Z < z) = p, with an error below `INVERSE_ERROR` for p >=
            `SMALLEST_HALF`.
        below: (interval context, interval x <= 0) -> interval that contains P(Z < x).
    """

    inverse: Callable[[np.ndarray], np.ndarray]
    below: Callable[[Any, Any], Any]


def _gaussian_inverse(p: np.ndarray) -> np.ndarray:
    from dpgnn.core._rounded_kernels import gaussian_inverse

    z = np.empty_like(p)
    gaussian_inverse(p, z)
    return z


def _gaussian_below(iv: Any, x: Any) -> Any:
    """1/2 - phi(x) sum_k |x|^(2k+1) / (2k+1)!!: positive terms, the rest bounded by a geometric series."""
    square, term = x * x, -x
    total, odd = iv.mpf(0), 1
    while odd <= 2 * square.b or term.b >= iv.mpf(2) ** -iv.prec:
        total += term
        odd += 2
        term = term * square / odd
    total += iv.mpf([0, 2 * term.b])
    return iv.mpf(1) / 2 - iv.exp(-square / 2) / iv.sqrt(2 * iv.pi) * total


GAUSSIAN = Law(inverse=_gaussian_inverse, below=_gaussian_below)
LAPLACE = Law(inverse=lambda p: np.log(2.0 * p), below=lambda iv, x: iv.exp(x) / 2)


def grid_of(scale: np.ndarray | float) -> np.ndarray:
    """The public grid g of noise of a scale: the power of two with scale / g in [2^20, 2^21).

    Args:
        scale: > 0; public.
    """
    _, exponent = np.frexp(np.asarray(scale, dtype=np.float64))
    return np.ldexp(1.0, exponent - 1 - GRID_BITS)


def add_rounded(
    total: np.ndarray,
    scale: np.ndarray | float,
    *,
    rng: np.random.Generator,
    law: Law = GAUSSIAN,
    grid: np.ndarray | float | None = None,
) -> np.ndarray:
    """g round((S + scale Z) / g), coordinate by coordinate, for exact Z.

    Guarantee: post-processing of S + scale Z over real numbers, so every accountant of the noise applies,
    with the L2 (Gaussian) or L1 (Laplace) sensitivity of the float64 values S. Assumed: the generator is
    secret and uniform, and the inverse in float64 errs by less than 2^-44 (measured: 2^-50). Sums are clipped
    at 2^51 steps of the grid, which does not increase the distance of two sums.

    Args:
        total: S, float64, finite, any shape; sensitive.
        scale: deviation (Gaussian) or scale (Laplace), > 0; one number, or the shape of `total`; public.
        rng: the stream of the noise.
        law: of Z.
        grid: g, powers of two, public; None takes `grid_of(scale)`.

    Returns:
        float64, the shape of `total`; multiples of g; the released values.

    Raises:
        ValueError: a scale is not > 0, or a sum is not finite.

    Source: Mironov (2012), doi:10.1145/2382196.2382264 (the grid); Knuth and Yao (1976) (more bits).
    """
    flat = np.asarray(total, dtype=np.float64).ravel()
    scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), total.shape).ravel()
    require(bool((scales > 0).all()), "scale of the noise", "be > 0", "another")
    require(bool(np.isfinite(flat).all()), "the sum", "be finite", "another")
    steps = grid_of(scales) if grid is None else np.broadcast_to(np.float64(grid), flat.shape)
    out = np.empty_like(flat)
    for first in range(0, len(flat), 16384):  # what fits a cache
        part = slice(first, first + 16384)
        out[part] = _rounded(flat[part], scales[part], steps[part], law, rng)
    return out.reshape(total.shape)


def _rounded(
    total: np.ndarray, scale: np.ndarray, grid: np.ndarray, law: Law, rng: np.random.Generator
) -> np.ndarray:
    """`add_rounded` of a few thousand coordinates."""
    from dpgnn.core import _rounded_kernels as kernels

    bits = rng.integers(0, 2**64, size=len(total), dtype=np.uint64)
    half, ratio = np.empty(len(total)), scale / grid
    scaled = np.clip(total / grid, -LARGEST_SUM, LARGEST_SUM)
    kernels.halves(bits, half)
    z, nearest = law.inverse(half), np.empty(len(total))
    unsure = kernels.nearest(scaled, bits, half, z, ratio, (SMALLEST_HALF, INVERSE_ERROR), nearest)
    for i in np.flatnonzero(unsure):
        uniform, whole = Uniform(int(bits[i]), 64, rng), np.rint(scaled[i])
        guess, rest = int(nearest[i] - whole), float(scaled[i] - whole)  # exact
        nearest[i] = whole + nearest_step(uniform, rest, float(ratio[i]), law, guess)
    return np.asarray(nearest * grid)


@dataclass(frozen=True, kw_only=True)
class Ahead:
    """Noise for a sum that is not yet computed: `add_rounded` up to the addition; as secret as noise.

    Attributes:
        bits: uint64, the first 64 bits of each U.
        moved: float64, scale Z / g.
        room: float64, in steps of g; a sum is decided if scaled + moved is within it of an integer.
        scale, grid: float64, shapes that broadcast to `bits`; public.
        law: of Z.
        rng: source of further bits.
    """

    bits: np.ndarray
    moved: np.ndarray
    room: np.ndarray
    scale: np.ndarray
    grid: np.ndarray
    law: Law
    rng: np.random.Generator

    def decide(self, i: int, scaled: float, guess: int) -> float:
        """round(scaled + scale Z / g) of coordinate i, by more bits of the same U.

        Args:
            i: the coordinate.
            scaled: its sum over g, at most `LARGEST_SUM` either way.
            guess: what to add to rint(scaled), by 64 bits.
        """
        uniform, whole = Uniform(int(self.bits[i]), 64, self.rng), float(np.rint(scaled))
        ratio = float(np.broadcast_to(self.scale / self.grid, self.bits.shape)[i])
        return whole + nearest_step(uniform, scaled - whole, ratio, self.law, guess)


def draw_ahead(
    scale: np.ndarray | float, size: int, *, rng: np.random.Generator, law: Law = GAUSSIAN
) -> Ahead:
    """Draw the noise of `add_rounded` before its sum is known, for an addition on another device.

    Guarantee: with scaled = clip(S / g), whole = rint(scaled), step = rint((scaled - whole) + moved),
    g (whole + step) is what `add_rounded` gives for the same bits of U, wherever (scaled - whole) + moved is
    no further than `room` from step; elsewhere `Ahead.decide` gives it. Noise does not depend on S, so
    drawing it earlier does not change its distribution.

    Args:
        scale: as `add_rounded`; one number, or shape (size,).
        size: number of coordinates.
        rng: the stream of the noise.
        law: of Z.

    Raises:
        ValueError: a scale is not > 0.
    """
    from dpgnn.core import _rounded_kernels as kernels

    scales = np.asarray(scale, dtype=np.float64)
    require(bool((scales > 0).all()), "scale of the noise", "be > 0", "another")
    grid = grid_of(scales)
    ratio, half = scales / grid, np.empty(size)
    bits = rng.integers(0, 2**64, size=size, dtype=np.uint64)
    kernels.halves(bits, half)
    z = law.inverse(half)
    np.negative(z, out=z, where=bits >= 2**63)
    moved = ratio * z
    # as in the kernel `nearest`; z is not needed any more
    wrong = np.divide(2.0**-63, half, out=z)
    wrong += INVERSE_ERROR + 2.0**-45
    wrong *= -ratio
    wrong += 0.5 - 2.0**-50
    wrong[half < SMALLEST_HALF] = -1.0
    return Ahead(bits=bits, moved=moved, room=wrong, scale=scales, grid=grid, law=law, rng=rng)


class Uniform:
    """A uniform number in [0, 1), whose bits are drawn on demand."""

    def __init__(self, prefix: int, num_bits: int, rng: np.random.Generator) -> None:
        self.prefix, self.num_bits, self._rng = prefix, num_bits, rng

    def extend(self) -> None:
        """64 more bits."""
        fresh = int(self._rng.integers(0, 2**64, dtype=np.uint64))
        self.prefix, self.num_bits = (self.prefix << 64) | fresh, self.num_bits + 64

    def is_below(self, bound: Fraction, law: Law) -> bool:
        """Whether Z = F^-1(U) < bound; draws bits until intervals decide."""
        while True:
            iv = intervals(self.num_bits + 40)
            tail = law.below(iv, -interval(iv, abs(bound))) * iv.mpf(2) ** self.num_bits
            # U, or 1 - U for the upper tail, lies in [known, known + 1] 2^-num_bits
            is_lower = bound <= 0
            known = self.prefix if is_lower else (1 << self.num_bits) - 1 - self.prefix
            if known + 1 <= tail.a:
                return is_lower
            if known >= tail.b:
                return not is_lower
            self.extend()


def nearest_step(uniform: Uniform, rest: float, ratio: float, law: Law, guess: int) -> int:
    """round(rest + ratio Z), decided exactly.

    Args:
        uniform: U.
        rest, ratio: of the sum and of the scale, in steps of the grid; read as exact numbers.
        law: of Z.
        guess: where to start; affects only time.
    """

    def is_at_most(step: int) -> bool:
        return uniform.is_below((step + Fraction(1, 2) - Fraction(rest)) / Fraction(ratio), law)

    low, high, stride = guess - 1, guess, 1
    while not is_at_most(high):
        low, high, stride = high, high + stride, 2 * stride
    stride = 1
    while is_at_most(low):
        low, high, stride = low - stride, low, 2 * stride
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_at_most(middle) else (middle, high)
    return high
