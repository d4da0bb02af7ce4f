"""Test of equivalence, with a margin, of our mean and a stated one, and the number of repeats that would
decide it.

Two one-sided t tests (Welch's degrees of freedom) test whether the difference of the two means lies within
the margin; the same interval tests whether it lies beyond. If neither holds, it is undecided.

Source: Schuirmann (1987), A comparison of the two one-sided tests procedure, J. Pharmacokinet. Biopharm. 15.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from typing import Literal

from dpgnn.core.checks import at_least, positive

MARGIN = 0.02  # of scores as fractions: 2 points
LEVEL = 0.05  # of each one-sided test
MOST_REPEATS = 1000

Equal = Literal["same", "different", "undecided"]


@dataclass(frozen=True, kw_only=True)
class Spread:
    """What is known about the runs behind a mean.

    Attributes:
        std: standard deviation of single runs; None where it is not stated.
        n: number of runs; None where it is not stated.
    """

    std: float | None
    n: int | None

    @property
    def is_known(self) -> bool:
        """Whether it is an estimate of its own."""
        return self.std is not None


@dataclass(frozen=True, kw_only=True)
class Equivalence:
    """The answer for one pair of means.

    Attributes:
        verdict: "same" (the 90 % interval of the difference lies within the margin), "different" (it lies
        beyond) or
            "undecided".
        low, high: that interval, widened by the rounding of the stated value; None if no spread is known.
        needed: least number of our repeats that would decide it, all else equal; None if it is decided, if no
        spread is known, or if no number up to 1,000 is enough (the stated mean is too uncertain).
    """

    verdict: Equal
    low: float | None
    high: float | None
    needed: int | None


def equivalence(
    difference: float,
    ours: Spread,
    stated: Spread,
    *,
    margin: float = MARGIN,
    rounding: float = 0.0,
    resolution: float = 0.0,
) -> Equivalence:
    """Test |ours - stated| < margin against the standard errors of both means.

    A missing standard deviation is taken from the other side; if the number of stated runs is not known, one
    run is assumed.

    Args:
        difference: ours - stated.
        ours, stated: the runs behind both; ours has n.
        margin: of equivalence, > 0, in units of the difference.
        rounding: largest rounding error of the stated value.
        resolution: smallest step of our score, one test node; the spread is taken to be no smaller.
    """
    positive("margin", margin)
    assert ours.n is not None
    half = _half_width(ours, stated, ours.n, resolution)
    if half is None:
        return Equivalence(verdict="undecided", low=None, high=None, needed=None)
    gap = abs(abs(difference) - margin)
    verdict = _verdict(difference, half + rounding, margin)
    needed = None
    if verdict == "undecided":
        needed = _needed(ours, stated, gap - rounding, resolution)
    return Equivalence(
        verdict=verdict,
        low=difference - half - rounding,
        high=difference + half + rounding,
        needed=needed,
    )


def repeats_to_decide(mean: float, std: float, n: int, *, corrections: int = 1) -> int | None:
    """Least number of paired repeats at which a mean difference would be significant at the 5 % level.

    By the two-sided t test of `statistics.paired`, Bonferroni-corrected for `corrections` comparisons, with
    the same mean and standard deviation. None if no number up to 1,000 is enough.
    """
    at_least("n", n, 2)
    level = LEVEL / (2 * corrections)
    for repeats in range(n + 1, MOST_REPEATS + 1):
        if abs(mean) > quantile(level, repeats - 1) * std / math.sqrt(repeats):
            return repeats
    return None


def repeats_of_interval(
    mean: float, low: float, high: float, n: int, *, corrections: int = 1
) -> int | None:
    """`repeats_to_decide` from the 95 % Student t interval of n paired differences, as in the tables."""
    std = (high - low) / 2 * math.sqrt(n) / quantile(LEVEL / 2, n - 1)
    return repeats_to_decide(mean, std, n, corrections=corrections)


def _verdict(difference: float, half: float, margin: float) -> Equal:
    if abs(difference) + half <= margin + 1e-12:
        return "same"
    return "different" if abs(difference) - half > margin + 1e-12 else "undecided"


def _needed(ours: Spread, stated: Spread, gap: float, resolution: float) -> int | None:
    assert ours.n is not None
    if gap <= 0:
        return None
    first = max(ours.n + 1, 2)

    def decides(repeats: int) -> bool:
        half = _half_width(ours, stated, repeats, resolution)
        return half is not None and half < gap

    if not decides(MOST_REPEATS):
        return None
    # the width falls with the number of repeats
    return first + bisect_left(range(first, MOST_REPEATS + 1), True, key=decides)


def _half_width(ours: Spread, stated: Spread, n: int, resolution: float) -> float | None:
    """Half the 90 % interval of the difference with n runs of ours; None if no spread is known.

    Where one side has no spread it has the other's, so there is one estimate, with that side's degrees of
    freedom; two estimates have Welch's.
    """
    if not (ours.is_known or stated.is_known):
        return None
    own = ours.std if ours.std is not None else stated.std
    other = stated.std if stated.std is not None else ours.std
    assert own is not None
    assert other is not None
    theirs = stated.n or 1
    first, second = own**2 / n, other**2 / theirs
    if first + second == 0:
        return resolution
    degrees: float = max(n - 1, 1)
    if ours.std is None:
        degrees = max(theirs - 1, 1)
    elif stated.std is not None:
        beside = theirs - 1 if theirs > 1 else degrees
        degrees = (first + second) ** 2 / (first**2 / degrees + second**2 / beside)
    return max(quantile(LEVEL, round(degrees, 3)) * math.sqrt(first + second), resolution)


@cache
def quantile(level: float, degrees: float) -> float:
    """What Student's t exceeds with probability `level`."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 1 - level))
