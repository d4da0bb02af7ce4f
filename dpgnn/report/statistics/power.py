"""Power of a paired test: how large a difference must be for the test to decide it, most of the time.

A difference that is not decided says little if only a much larger one could have been.
"""

from __future__ import annotations

from functools import cache

from dpgnn.core.checks import at_least
from dpgnn.report.statistics.equivalence import quantile
from dpgnn.report.statistics.statistics import LEVEL, PairedTest

POWER = 0.8  # probability with which a difference of this size is decided


def detectable(test: PairedTest, comparisons: int) -> float | None:
    """The true difference that would be decided with probability 0.8, given n and the spread that was seen.

    Decided means a p value below 0.05 / comparisons, which Holm's method asks of the smallest one; it asks
    less of the others, so their power is larger.

    Args:
        test: with its interval.
        comparisons: tests that are corrected together, >= 1.

    Returns:
        > 0, in the unit of the test; None for one repeat.
    """
    at_least("comparisons", comparisons, 1)
    if test.low is None or test.high is None:
        return None
    half, size = _in_standard_errors(test.n - 1, comparisons)
    return (test.high - test.low) / 2 / half * size


@cache
def _in_standard_errors(freedom: int, comparisons: int) -> tuple[float, float]:
    """Half the 95 % interval, and the detectable difference, in standard errors of the mean.

    The second is the noncentrality at which Student's t exceeds its critical value with probability 0.8; that
    it lies below the negative one instead has a probability under 1e-4 and is left out.
    """
    from scipy.special import nctdtrinc

    critical = quantile(LEVEL / 2 / comparisons, freedom)
    return quantile(LEVEL / 2, freedom), float(nctdtrinc(freedom, 1 - POWER, critical))
