"""Brent's root finder; scipy.optimize has it too, at a fifth of a second more for each process."""

from __future__ import annotations

import math
from collections.abc import Callable

from dpgnn import checks

_MOST_STEPS = 100


def root(
    function: Callable[[float], float],
    low: float,
    high: float,
    *,
    xtol: float = 2e-12,
    rtol: float = 2.0**-50,
) -> float:
    """A root of a continuous function between two points at which its signs differ.

    Each step is an inverse quadratic or a secant one where that shrinks the bracket fast enough, else a
    bisection. Source: Brent (1973), "Algorithms for minimization without derivatives", chapter 4.

    Args:
        function: finite or infinite at every point of the bracket.
        low: one end.
        high: the other end.
        xtol: > 0; the root returned is within xtol + rtol |root| of one.
        rtol: >= 2^-50.

    Returns:
        the same bits as scipy.optimize.brentq.

    Raises:
        ValueError: the signs agree, or the function is NaN somewhere.
        RuntimeError: not found in 100 steps.
    """
    last, now = float(low), float(high)
    f_last, f_now = _value(function, last), _value(function, now)
    if f_last == 0:
        return last
    if f_now == 0:
        return now
    signs = "be of different signs at both ends"
    checks.require((f_last < 0) != (f_now < 0), "function", signs, (f_last, f_now))
    # the root lies between `now`, the best point so far, and `other`
    other, f_other = last, f_last
    step = step_before = now - last
    for _ in range(_MOST_STEPS):
        if (f_last < 0) != (f_now < 0):
            other, f_other = last, f_last
            step = step_before = now - last
        if abs(f_other) < abs(f_now):
            last, now, other = now, other, now
            f_last, f_now, f_other = f_now, f_other, f_now
        close = (xtol + rtol * abs(now)) / 2
        half = (other - now) / 2
        if f_now == 0 or abs(half) < close:
            return now
        guess = math.inf
        if abs(step_before) > close and abs(f_now) < abs(f_last):
            guess = _interpolated(last, f_last, now, f_now, other, f_other)
        if 2 * abs(guess) < min(abs(step_before), 3 * abs(half) - close):
            step_before, step = step, guess
        else:
            step_before = step = half
        last, f_last = now, f_now
        now += step if abs(step) > close else math.copysign(close, half)
        f_now = _value(function, now)
    raise RuntimeError(f"no root found between {low} and {high} in {_MOST_STEPS} steps")


def _interpolated(
    last: float, f_last: float, now: float, f_now: float, other: float, f_other: float
) -> float:
    """The step from `now` to where a secant (of two points) or an inverse parabola (of three) is zero."""
    if last == other:
        above, below = -f_now * (now - last), f_now - f_last
    else:
        slope = (f_last - f_now) / (last - now)
        slope_other = (f_other - f_now) / (other - now)
        above = -f_now * (f_other * slope_other - f_last * slope)
        below = slope_other * slope * (f_other - f_last)
    return above / below if below != 0 else math.inf


def _value(function: Callable[[float], float], x: float) -> float:
    value = float(function(x))
    checks.require(not math.isnan(value), "function", f"be a number at {x}", value)
    return value
