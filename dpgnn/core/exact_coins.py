"""Coins and waiting times of exact probability, unaffected by floating-point rounding.

A waiting time is floor(E / h), E = -log U exponential, U uniform with unlimited secret bits, h > 0 the
hazard: it is at least k with probability exp(-h k). 64 bits and float64 nearly always decide it; if their
error bound leaves it open, more bits of the same U are drawn and interval arithmetic decides
(docs/accounting.md, theorem 16).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dpgnn.core.checks import at_least, probability, require

# interval context -> interval that holds the hazard h > 0, a real number
Hazard = Callable[[Any], Any]
UNIT = 2.0**-53
# precision of intervals beyond the bits of U; with hazards of at least 2^-110, 64 bits remain
_SPARE_BITS = 192


def multiple_below(rate: float) -> float:
    """The largest multiple of 2^-53 that is at most a rate of [0, 1]."""
    probability("rate", rate)
    return math.floor(rate * 2.0**53) * UNIT


def coins(count: int, rate: float, *, rng: np.random.Generator) -> np.ndarray:
    """Independent coins that are on with probability exactly `rate`.

    Guarantee: exactly the distribution of coins of probability `rate`; the outcomes are secret.

    Args:
        count: number of coins.
        rate: a multiple of 2^-53 in [0, 1].
        rng: secret in a release; assumed uniform.

    Returns:
        bool, shape (count,).

    Raises:
        ValueError: the rate is not a multiple of 2^-53.
    """
    rule = "be a multiple of 2^-53 in [0, 1]"
    require(rate == multiple_below(rate), "rate", rule, rate, "take multiple_below(rate)")
    # random() is k 2^-53, k uniform
    return np.asarray(rng.random(count) < rate)


def interval(iv: Any, value: Fraction) -> Any:
    """An interval of the context that contains a fraction."""
    return iv.mpf(value.numerator) / iv.mpf(value.denominator)


def hazard_of(rate: Fraction) -> Hazard:
    """The hazard h of coins of a rate in (0, 1): floor(E / h) coins precede the first success."""
    return lambda iv: -iv.log(1 - interval(iv, rate))


def number_on(count: int, hazard: Hazard, *, rng: np.random.Generator) -> int:
    """Number of successes among `count` coins, each failing with probability exp(-hazard): exactly binomial.

    Time grows with the number of successes, because gaps between successes are drawn.

    Args:
        count: below 2^47.
        hazard: of one coin, see `hazard_of`.
        rng: secret in a release.
    """
    require(0 <= count < 2**47, "count", "be in 0..2^47 - 1", count)
    passed, found, h = 0, 0, _floating(hazard)
    while True:
        size = min(2**14, count - passed + 1, 16 + int(2 * h * (count - passed)))  # any would do
        ends = passed + np.cumsum(1 + waiting_times(hazard, size, most=count, rng=rng))
        inside = int(np.searchsorted(ends, count, side="right"))
        found += inside
        if inside < len(ends):
            return found
        passed = int(ends[-1])


def waiting_times(
    hazard: Hazard, count: int, *, most: int = 2**60, rng: np.random.Generator
) -> np.ndarray:
    """Independent min(floor(E / h), most), E exponential with mean 1.

    Guarantee: P(at least k) = exp(-h k) for k <= most, over real numbers. Assumed: the generator is uniform,
    and log in float64 errs by less than 2^-51 relative.

    Args:
        hazard: h, at least 2^-110.
        count: how many.
        most: at most 2^60.
        rng: secret in a release.

    Returns:
        int64, shape (count,).
    """
    at_least("count", count, 0)
    found = np.empty(count, dtype=np.int64)
    for first in range(0, count, 2**14):  # fits into a cache
        part = found[first : first + 2**14]
        part[:] = _waits(hazard, len(part), most, rng)
    return found


def _waits(hazard: Hazard, count: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """`waiting_times` of a few thousand."""
    bits = rng.integers(0, 2**64, size=count, dtype=np.uint64)
    h, u = _floating(hazard), (bits.astype(np.float64) + 0.5) * 2.0**-64
    times = -np.log(u) / h
    # errors: of u from rounding and undrawn bits; of log, h and the quotient from rounding
    wrong = (2.0**-52 + 2.0**-64 / u) / h + 2.0**-49 * times
    unsure = (np.abs(times - np.rint(times)) <= wrong) & (times - wrong < most)
    unsure |= bits == 0  # log U is unbounded there
    found = np.minimum(times, float(most)).astype(np.int64)
    for i in np.flatnonzero(unsure):
        found[i] = min(_whole(int(bits[i]), 64, hazard, rng), most)
    return found


@lru_cache(maxsize=8)
def intervals(precision: int) -> Any:
    """mpmath's interval arithmetic with this precision in bits."""
    from mpmath.ctx_iv import MPIntervalContext

    iv = MPIntervalContext()
    iv.prec = precision
    return iv


def _floating(hazard: Hazard) -> float:
    return float(hazard(intervals(_SPARE_BITS)).mid)


def _whole(prefix: int, num_bits: int, hazard: Hazard, rng: np.random.Generator) -> int:
    """floor(-log U / h) from the first bits of U, by intervals."""
    while True:
        iv = intervals(num_bits + _SPARE_BITS)
        if prefix > 0:
            u = iv.mpf([prefix, prefix + 1]) * iv.mpf(2) ** -num_bits
            times = -iv.log(u) / hazard(iv)
            if int(times.a) == int(times.b):
                return int(times.a)
        fresh = int(rng.integers(0, 2**64, dtype=np.uint64))
        prefix, num_bits = (prefix << 64) | fresh, num_bits + 64
