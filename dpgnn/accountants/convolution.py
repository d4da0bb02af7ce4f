"""Composition of discrete losses by FFT, with a bound that covers its rounding.

A transform leaves an error of about 1e-16 in every mass, which hides tails of that size. So the sum is
computed twice: as it is, and tilted by exp(t * loss), which moves the upper tail to the middle, where the
same error is small compared with the masses. The plain masses are kept up to the point where both errors are
equal, and the tilted ones above it. By how much rounding can lower a delta is bounded, and masses that
decrease like the bound are added. Proof: docs/accounting.md, "Rounding of compositions".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

# mass that composition may cut from each tail and add to the mass at infinity
TAIL_MASS = 1e-20
# the tilted sum has its centre where the tail has this mass: between the deltas in use and the smallest
CENTRE = 1e-11
# bounds on the rounding of one stage of a transform and of one factor of a power, in units of 2^-53
STAGE_ERROR, FACTOR_ERROR = 8.0, 8.0
UNIT = 2.0**-53
# largest tilt, in nats a grid point
STEEPEST = 1.0
# sums of at most this many points are computed without a transform
DIRECT_POINTS = 4096
# points of a loss on which its moments are bounded; all of them if the window of a sum would be larger
MOMENT_POINTS = 4096
LARGE_WINDOW = 1 << 23
# a power whose logarithm is below this rounds to 0: half the smallest number is exp(-745.1)
VANISHES = -760.0


@dataclass(frozen=True, kw_only=True, eq=False)
class LossMasses:
    """The distribution of a privacy loss on a grid; `loss.DiscreteLoss` adds delta and epsilon.

    Attributes:
        step: grid step in nats.
        lower: index of the first grid point; point i lies at (lower + i) * step.
        mass: float64 (num_points,), mass under P; >= 0.
        infinity_mass: mass of P where Q has none.
    """

    step: float
    lower: int
    mass: Floats
    infinity_mass: float

    @property
    def losses(self) -> Floats:
        """float64 (num_points,), the grid points in nats."""
        return (self.lower + np.arange(len(self.mass))) * self.step


Loss = TypeVar("Loss", bound=LossMasses)
# a loss and its number of runs
Counted = Sequence[tuple[Loss, int]]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Sum:
    """Masses of a sum on its window.

    Attributes:
        low: grid index of the first mass.
        mass: float64 (num_points,), >= 0.
        error: bound on the sum of |computed - true| over the masses, including mass outside the window.
    """

    low: int
    mass: Floats
    error: float


def convolve(parts: Counted[Loss]) -> Loss:
    """The loss of the adaptive composition of the parts.

    Guarantee: delta at every epsilon is at least that of the exact sum of the parts, for any number of runs;
    the bound covers the rounding of the transforms.

    Args:
        parts: losses on one grid step, each with a count >= 1; at least one has finite mass.

    Returns:
        a loss of the first part's class.
    """
    first = parts[0][0]
    step = first.step
    low, high = _ends(parts)
    if high - low < DIRECT_POINTS:
        mass, infinity = _added_up(parts), min(1.0, _infinity(parts))
        return replace(first, lower=low, mass=mass, infinity_mass=infinity)
    plain, tilt = _sum(parts), _tilt(parts)
    tilted = _sum([(_tilted(loss, tilt), count) for loss, count in parts])
    # a tilted mass m at loss l stands for m * exp(log_scale - tilt * l)
    log_scale = sum(count * _log_mgf(loss, tilt) for loss, count in parts)
    log_scale += 64 * UNIT * sum(count for _, count in parts)  # rounding of the moments
    log_error = log_scale + math.log(tilted.error)
    equal = math.ceil((log_error - math.log(plain.error)) / tilt / step)
    high = tilted.low + len(tilted.mass)
    start = min(max(equal, plain.low, tilted.low), high - 1)
    losses = np.arange(start, high) * step
    above = tilted.mass[start - tilted.low :] * np.exp(log_scale - tilt * losses) * (1 + 1e-12)
    is_whole = high > _ends(parts)[1]
    back, beyond = _given_back(log_error - tilt * losses[0], tilt, step, len(losses), is_whole)
    mass = np.zeros(start - plain.low + len(back))
    kept = min(start - plain.low, len(plain.mass))
    mass[:kept] = plain.mass[:kept]
    mass[start - plain.low :] = back
    mass[start - plain.low] += plain.error
    mass[start - plain.low : high - plain.low] += above
    infinity = min(1.0, _infinity(parts) + beyond + 2 * TAIL_MASS)
    return replace(first, lower=plain.low, mass=mass, infinity_mass=infinity)


def _given_back(
    log_first: float, tilt: float, step: float, size: int, is_whole: bool
) -> tuple[Floats, float]:
    """Masses, and mass at infinity, that make up for the rounding of the tilted masses.

    Rounding removes at most exp(log_first - tilt * l) in all at a distance l from the first point. Masses of
    that size at every point, divided by `one`, have a delta of at least exp(log_first - tilt * epsilon) from
    each point on. If the sum ends at its largest loss, they end there too, and the last mass is treated by
    itself; otherwise they continue until they vanish.

    Args:
        log_first: log of the bound at the first point.
        tilt, step: of the sum.
        size: number of points of the tilted masses that are used.
        is_whole: whether the last of them is the largest loss of the sum.
    """
    fall = tilt * step
    one = 1 / math.expm1(fall) - 1 / math.expm1(fall + min(step, 100.0))
    start = log_first + fall - math.log(one)
    if is_whole:
        back = np.exp(start - fall * np.arange(size))
        back[-1] += 2 * math.exp(log_first - fall * (size - 2))
        return back, 0.0
    points = math.ceil((start - math.log(TAIL_MASS)) / fall) + 1
    back = np.exp(start - fall * np.arange(max(size, min(points, 4 * size))))
    return back, float(back[-1]) / math.expm1(fall)


def _ends(parts: Counted[Any]) -> tuple[int, int]:
    """Grid indices of the smallest and the largest loss of the sum."""
    carry = [(np.flatnonzero(loss.mass), loss.lower, count) for loss, count in parts]
    low = sum(count * (lower + int(at[0])) for at, lower, count in carry)
    return low, sum(count * (lower + int(at[-1])) for at, lower, count in carry)


def _added_up(parts: Counted[Any]) -> Floats:
    """Masses of the sum without a transform; a bound on their rounding is added."""
    total, factors = np.ones(1), 0
    for loss, count in parts:
        carries = np.flatnonzero(loss.mass)
        power = loss.mass[carries[0] : carries[-1] + 1]
        while count:
            if count & 1:
                total = np.convolve(total, power)
            count >>= 1
            if count:
                power = np.convolve(power, power)
            factors += 1
    return total * (1 + 2 * UNIT * (factors + 1) * len(total))


def _infinity(parts: Counted[Any]) -> float:
    """Mass at infinity of the sum."""
    if any(loss.infinity_mass >= 1 for loss, _ in parts):
        return 1.0
    return -math.expm1(sum(count * math.log1p(-loss.infinity_mass) for loss, count in parts))


def _sum(parts: Counted[Any]) -> _Sum:
    """Masses of the sum, and a bound on their rounding.

    A transform of masses that add up to m is exact to stage * m in every coefficient, a power of n factors
    to n times the relative error of one, and an error in the coefficients moves masses by at most the root
    of its squares (Cauchy and Schwarz, with Parseval).
    """
    from scipy import fft

    low, high = _window(parts)
    size = fft.next_fast_len(high - low + 1, real=True)
    stage = STAGE_ERROR * UNIT * (math.log2(size) + 2)
    product: Any = 1.0
    relative, logs = 0.0, 0.0
    for loss, count in parts:
        # fold as in a circular convolution: a single loss may be wider than the window of the sum
        transform = fft.rfft(_rows(loss.mass, size).sum(axis=0))
        floor = stage * max(1.0, float(loss.mass.sum()))
        length = np.maximum(np.abs(transform), floor)
        relative = relative + count * (floor / length + FACTOR_ERROR * UNIT)
        log_power = count * np.log(length)
        logs = logs + log_power
        product = product * _power(transform, count, log_power > VANISHES)
    mass = fft.irfft(product, size)
    first = sum(count * loss.lower for loss, count in parts)
    # position 0 of the circular sum is `first`; rotate the window to the front
    mass = np.maximum(np.roll(mass, -((low - first) % size))[: high - low + 1], 0.0)
    with np.errstate(under="ignore"):
        moved = np.exp(logs + relative) * relative
    error = math.sqrt(2 * float(moved @ moved)) + 2 * stage * float(np.abs(product).sum())
    return _Sum(low=low, mass=mass, error=error + 4 * TAIL_MASS)


def _power(transform: Floats, count: int, lasting: NDArray[np.bool_]) -> Floats:
    """transform ** count, computed where it does not vanish: of a long sum nearly all of it does."""
    power = np.zeros_like(transform)
    power[lasting] = transform[lasting] ** count
    return power


def _window(parts: Counted[Any]) -> tuple[int, int]:
    """Grid indices between which all of the sum lies except TAIL_MASS on each side.

    Chernoff: Pr[S >= a] <= exp(log M(t) - t a), and the same with -t below.
    """
    low, high = _between(parts, MOMENT_POINTS)
    if high - low > LARGE_WINDOW:
        # many runs of a loss that is nearly always 0: the width of a block counts in every run
        return _between(parts, max(len(loss.mass) for loss, _ in parts))
    return low, high


def _between(parts: Counted[Any], points: int) -> tuple[int, int]:
    """As `_window`, with moments bounded on this many points of each loss."""
    step = parts[0][0].step
    full_low, full_high = _ends(parts)
    upper = [(_Moments(loss, above=True, points=points), count) for loss, count in parts]
    lower = [(_Moments(loss, above=False, points=points), count) for loss, count in parts]
    spread = max(step, math.sqrt(sum(count * m.variance for m, count in upper)))
    budget = -math.log(TAIL_MASS)
    slopes = np.geomspace(0.05, 20.0, 24) * math.sqrt(budget) / spread
    best_high = _least(lambda t: (sum(n * m.log_mgf(t) for m, n in upper) + budget) / t, slopes)
    best_low = -_least(lambda t: (sum(n * m.log_mgf(-t) for m, n in lower) + budget) / t, slopes)
    low = max(full_low, math.floor(best_low / step))
    high = min(full_high, math.ceil(best_high / step))
    return low, max(high, low + 1)


def _least(bound: Callable[[float], float], slopes: Floats) -> float:
    """The least bound at these slopes, and at smaller ones while it decreases (for rare large losses).

    Args:
        bound: valid at every slope > 0.
        slopes: ascending.
    """
    found = [bound(float(t)) for t in slopes]
    best, t = min(found), float(slopes[0])
    last = found[0]
    while last <= best:
        best, t = last, t / 1.5
        last = bound(t)
    return best


class _Moments:
    """Bounds on the moments of a loss, from blocks of its grid.

    Args:
        loss: on a grid.
        above: whether the mass of a block is put at its upper end (a bound on log M(t) for t > 0) or at its
            lower end.
        points: largest number of blocks.
    """

    def __init__(self, loss: LossMasses, *, above: bool, points: int = MOMENT_POINTS) -> None:
        width = -(-len(loss.mass) // points)
        blocks = _rows(loss.mass, width).sum(axis=1)
        carries = blocks > 0
        first = loss.lower + np.arange(len(blocks)) * width
        self._losses = ((first + (width - 1 if above else 0)) * loss.step)[carries]
        self._mass = blocks[carries]
        self._logs = np.log(self._mass)

    @property
    def variance(self) -> float:
        """Variance of the loss, up to the width of a block."""
        total = float(self._mass.sum())
        mean = float(self._mass @ self._losses) / total
        return float(self._mass @ (self._losses - mean) ** 2) / total

    def log_mgf(self, t: float) -> float:
        """log sum mass * exp(t * loss), without overflow."""
        exponent = t * self._losses + self._logs
        shift = float(exponent.max())
        return shift + math.log(float(np.exp(exponent - shift).sum()))

    def log_tail(self, t: float) -> float:
        """log M(t) - t (log M)'(t): the exponent of Chernoff's bound at the centre of the tilted loss."""
        exponent = t * self._losses + self._logs
        shift = float(exponent.max())
        weights = np.exp(exponent - shift)
        total = float(weights.sum())
        return shift + math.log(total) - t * float(weights @ self._losses) / total


def _tilt(parts: Counted[Any]) -> float:
    """The t > 0 for which the tilted sum is centred where the upper tail has a mass of about CENTRE.

    Every t gives a bound. The centre is at most 20 standard deviations out: beyond that, a bounded loss shows
    only how its largest value is rounded to the grid.
    """
    moments = [(_Moments(loss, above=False), count) for loss, count in parts]
    spread = max(parts[0][0].step, math.sqrt(sum(count * m.variance for m, count in moments)))
    high = min(20 / spread, STEEPEST / parts[0][0].step)
    low = high / 1e4
    for _ in range(24):
        middle = math.sqrt(low * high)
        above = sum(count * m.log_tail(middle) for m, count in moments) > math.log(CENTRE)
        low, high = (middle, high) if above else (low, middle)
    return math.sqrt(low * high)


def _tilted(loss: Loss, tilt: float) -> Loss:
    """The loss whose masses are those of `loss` times exp(tilt * loss), divided by their sum."""
    with np.errstate(divide="ignore", under="ignore"):
        mass = np.exp(tilt * loss.losses + np.log(loss.mass) - _log_mgf(loss, tilt))
    return replace(loss, mass=mass, infinity_mass=0.0)


def _log_mgf(loss: LossMasses, t: float) -> float:
    """log sum mass * exp(t * loss), without overflow."""
    # shifted by the largest entry with mass: entries without mass may lie far above it
    carries = loss.mass > 0
    exponent = t * loss.losses[carries] + np.log(loss.mass[carries])
    shift = float(exponent.max())
    return shift + math.log(float(np.exp(exponent - shift).sum()))


def _rows(mass: Floats, width: int) -> Floats:
    """The masses in rows of `width` entries, filled up with zeros."""
    return np.pad(mass, (0, -len(mass) % width)).reshape(-1, width)
