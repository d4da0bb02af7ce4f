"""Which differences are larger than the noise: paired tests at equal splits, corrected for their number.

The test is Student's t on differences between runs that share a split. It covers the randomness of splits and
seeds on one graph, not other graphs. p values are corrected by Holm's step-down method, which keeps the
probability of any false "larger" below the level.

Source: Holm (1979), A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6. With
`overlap`: Nadeau and Bengio (2003), Inference for the generalization error, Machine Learning 52, equation 10.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpgnn.core.checks import non_negative, open_probability, require

LEVEL = 0.05
Verdict = Literal["larger than the noise", "unclear", "inside the noise", "one repeat"]


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """ours - theirs over repeats that share splits.

    Attributes:
        mean: of the differences, a fraction.
        std: sample standard deviation of the differences; None for one repeat.
        low, high: 95 % Student t interval of the mean; None for one repeat.
        n: number of pairs.
        p: two-sided p value of "no difference", uncorrected; None for one repeat.
    """

    mean: float
    std: float | None
    low: float | None
    high: float | None
    n: int
    p: float | None


def paired_test(
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    resolution: float = 0.0,
    overlap: float = 0.0,
) -> PairedTest:
    """Test whether ours - theirs differs from zero.

    Args:
        ours, theirs: one score per shared split, in the same order.
        resolution: the smallest step a score can take, 1 / number of test nodes. The spread is taken to be no
            smaller than this, because closer agreement is a coincidence of rounding.
        overlap: number of test nodes over that of training nodes, for a statement beyond this graph: random
            splits share nodes, and the variance of the mean is taken as std^2 (1 / n + overlap).

    Raises:
        ValueError: no pair, or unequal lengths.
    """
    from scipy.special import stdtr, stdtrit  # Student's t; scipy.stats takes a second to import

    lengths = (len(ours), len(theirs))
    require(len(ours) == len(theirs), "paired values", "have equal length", lengths)
    require(len(ours) > 0, "paired values", "hold at least one pair", lengths)
    non_negative("resolution", resolution)
    non_negative("overlap", overlap)
    differences = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    n, mean = len(differences), float(differences.mean())
    if n == 1:
        return PairedTest(mean=mean, std=None, low=None, high=None, n=1, p=None)
    std = float(differences.std(ddof=1))
    error = max(std, resolution) * math.sqrt(1 / n + overlap)
    half = float(stdtrit(n - 1, 1 - LEVEL / 2)) * error
    if error > 0:
        p = float(2 * stdtr(n - 1, -abs(mean) / error))
    else:
        p = 1.0 if mean == 0 else 0.0
    return PairedTest(mean=mean, std=std, low=mean - half, high=mean + half, n=n, p=p)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's corrected p values, in the order given; None stays None and is not counted.

    A corrected value below the level means "still clear after all comparisons of the family".
    """
    known = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, position) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        corrected[position] = largest
    return corrected


def judged(
    tests: Sequence[PairedTest | None],
) -> tuple[list[float | None], list[Verdict | None]]:
    """Holm's p value and the verdict of each test of one family; None for a missing test."""
    corrected = holm([None if test is None else test.p for test in tests])
    return corrected, [None if t is None else verdict(t, p) for t, p in zip(tests, corrected)]


def verdict(test: PairedTest, corrected_p: float | None, level: float = LEVEL) -> Verdict:
    """The verdict of a comparison.

    "larger than the noise": still clear after the correction. "unclear": the interval leaves out zero, but
    among this many comparisons one such is to be expected. "inside the noise": the interval holds zero.
    "one repeat": nothing can be said.
    """
    open_probability("level", level)
    if test.low is None or test.high is None or corrected_p is None:
        return "one repeat"
    if corrected_p < level:
        return "larger than the noise"
    return "unclear" if test.low > 0 or test.high < 0 else "inside the noise"
