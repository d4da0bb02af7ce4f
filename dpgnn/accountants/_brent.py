"""Brent's search for a root, step by step as scipy.optimize.brentq takes it.

`scipy.optimize` takes longer to import than a calibration by Gaussian differential privacy takes, and nothing
else of it is needed there. Callers check what comes back, so no guarantee rests on this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpgnn import checks

MAX_STEPS = 100


def brentq(
    function: Callable[[float], float], low: float, high: float, *, xtol: float, rtol: float
) -> float:
    """A point within xtol + rtol * |root| of a root of a continuous function.

    Args:
        function: its values at `low` and `high` differ in sign, or one is zero.
        low, high: ends of the interval.
        xtol, rtol: absolute and relative tolerance, both >= 0, not both 0.

    Raises:
        ValueError: the signs are equal, or 100 steps are not enough.

    Source: Brent (1973), "Algorithms for minimization without derivatives", chapter 4, in the order of
    operations of scipy.optimize.brentq, so that both return the same bits.
    """
    before, here = low, high
    f_before, f_here = function(before), function(here)
    if f_before == 0:
        return before
    if f_here == 0:
        return here
    checks.require(
        (f_before < 0) != (f_here < 0), "function", "change its sign", (f_before, f_here)
    )
    other = f_other = last_step = step = 0.0
    for _ in range(MAX_STEPS):
        if (f_before < 0) != (f_here < 0):
            other, f_other = before, f_before
            last_step = step = here - before
        if abs(f_other) < abs(f_here):
            before, here, other = here, other, here
            f_before, f_here, f_other = f_here, f_other, f_here
        tolerance = (xtol + rtol * abs(here)) / 2
        half = (other - here) / 2
        if f_here == 0 or abs(half) < tolerance:
            return here
        trial = math.inf
        if abs(last_step) > tolerance and abs(f_here) < abs(f_before):
            trial = _trial((before, f_before), (here, f_here), (other, f_other))
        short = 2 * abs(trial) < min(abs(last_step), 3 * abs(half) - tolerance)
        last_step, step = (step, trial) if short else (half, half)
        before, f_before = here, f_here
        here += step if abs(step) > tolerance else math.copysign(tolerance, half)
        f_here = function(here)
    raise ValueError(f"a root must be found in {MAX_STEPS} steps, none between {low} and {high}")


def _trial(
    before: tuple[float, float], here: tuple[float, float], other: tuple[float, float]
) -> float:
    """The step from `here` to where a line or an inverse parabola is zero; infinite where that is nowhere."""
    (x0, f0), (x1, f1), (x2, f2) = before, here, other
    try:
        if x0 == x2:
            return -f1 * (x1 - x0) / (f1 - f0)
        slope0, slope2 = (f0 - f1) / (x0 - x1), (f2 - f1) / (x2 - x1)
        return -f1 * (f2 * slope2 - f0 * slope0) / (slope2 * slope0 * (f2 - f0))
    except ZeroDivisionError:
        return math.inf
