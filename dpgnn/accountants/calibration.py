"""The least noise, or the most steps, that a budget allows.

Every result is checked before it is returned: the epsilon of its event is at most the target. That epsilon is
returned too, with the name of the accountant. Epsilons are cached in the process by event and delta
(`composition.epsilon`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from dpgnn.accountants.composition import Accountant, delta, epsilon
from dpgnn.accountants.events import Event, R, compose
from dpgnn.accountants.plan import Spent
from dpgnn.core import checks

__all__ = [
    "calibrate_noise",
    "delta",
    "epsilon",
    "largest_count",
    "max_steps",
    "smallest_meeting",
]

# beyond this multiple of the first guess, no noise is taken to meet the target
_WIDEST = 2.0**60
FLOOR_REMEDY = (
    "a part of the plan costs this much at any noise; raise epsilon or leave the part out"
)

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, kw_only=True)
class Found(Spent, Generic[Number]):
    """A noise level or a number of steps, with its epsilon and the accountant that proves it.

    Attributes:
        value: the noise, or the number of steps.
    """

    value: Number


def calibrate_noise(
    build: Callable[[float], Event[R]],
    *,
    target_epsilon: float,
    delta: float,
    relation: R,
    accountant: Accountant = "pld",
    start: float = 1.0,
    tolerance: float = 1e-4,
) -> Found[float]:
    """The smallest noise that meets (target_epsilon, delta), up to a tolerance, rounded up.

    Guarantee: the accountant found that the noise returned meets (target_epsilon, delta); unit and relation
    are those of the events. No private data is read.

    Args:
        build: noise (stddev or multiplier, > 0) -> event; epsilon must fall as noise grows.
        target_epsilon: > 0.
        delta: in (0, 1).
        relation: of the guarantee; must be that of the events.
        accountant: which accountant decides.
        start: a first guess, > 0.
        tolerance: relative; the noise returned is at most (1 + tolerance) times the smallest.

    Returns:
        noise with epsilon(build(noise)) <= target_epsilon, and that epsilon.

    Raises:
        ValueError: no noise meets the target (for example because the noise of a part is fixed), or a
            parameter is out of range.
        TypeError: relations differ.

    Source: docs/accounting.md, theorem 11.
    """
    _require_target(target_epsilon, delta)

    def spent(noise: float) -> float:
        return epsilon(build(noise), delta=delta, relation=relation, accountant=accountant)

    noise = smallest_meeting(
        spent, target_epsilon, start=start, tolerance=tolerance, name="target_epsilon"
    )
    return Found(value=noise, epsilon=spent(noise), accountant=accountant)


def max_steps(
    event: Event[R],
    *,
    target_epsilon: float,
    delta: float,
    relation: R,
    accountant: Accountant = "pld",
    also: Callable[[Event[R]], Event[R]] | None = None,
    limit: int = 1 << 24,
) -> Found[int]:
    """The largest number of runs of `event` within (target_epsilon, delta).

    Guarantee: the accountant found that the number returned meets (target_epsilon, delta); unit and relation
    are those of the event. No private data is read.

    Args:
        event: one step.
        target_epsilon: > 0; math.inf gives `limit`.
        delta: in (0, 1).
        relation: the relation of the guarantee.
        accountant: which accountant decides.
        also: composes the steps with a fixed part; None adds nothing.
        limit: largest possible result.

    Returns:
        T >= 1 with epsilon(T steps) <= target_epsilon, and that epsilon; at most `limit`.

    Raises:
        ValueError: a single step exceeds the target; states its epsilon.

    Source: docs/accounting.md, theorem 11.
    """
    checks.at_least("limit", limit, 1)

    def spent(count: int) -> float:
        steps: Event[R] = compose(event, count)
        whole = also(steps) if also is not None else steps
        return epsilon(whole, delta=delta, relation=relation, accountant=accountant)

    if target_epsilon == math.inf:
        count = limit
    else:
        _require_target(target_epsilon, delta)
        count = largest_count(spent, target_epsilon, limit=limit, name="target_epsilon")
    return Found(value=count, epsilon=spent(count), accountant=accountant)


def largest_count(
    spent: Callable[[int], float], target: float, *, limit: int = 1 << 24, name: str = "target"
) -> int:
    """The largest count >= 1 with spent(count) <= target, for an increasing `spent`; at most `limit`.

    Guarantee: `spent` was evaluated at the count returned and is at most the target there.

    Args:
        spent: count -> epsilon, increasing.
        target: in nats.
        limit: largest possible result.
        name: of the target, for the message.

    Raises:
        ValueError: a count of 1 exceeds the target; states its epsilon.

    Source: docs/accounting.md, theorem 11.
    """
    first = spent(1)
    if first > target:
        rule = f"be at least {first:.6g}, the epsilon of a single step"
        checks.fail(name, rule, target, "raise epsilon or the noise")
    low, high, low_spent, high_spent = 1, limit + 1, first, math.inf
    guess = 2
    while high - low > 1:
        middle = min(max(guess, low + 1), high - 1)
        value = spent(middle)
        if value <= target:
            low, low_spent = middle, value
        else:
            high, high_spent = middle, value
        guess = _next_count(low, high, low_spent, high_spent, target)
    return low


def smallest_meeting(
    spent: Callable[[float], float],
    target: float,
    *,
    start: float,
    tolerance: float,
    name: str = "target",
) -> float:
    """The smallest x > 0 with spent(x) <= target, up to a tolerance, for a decreasing `spent`.

    By the secant method on logarithms, kept inside a bracket.

    Guarantee: `spent` was evaluated at the value returned and is at most the target there.

    Args:
        spent: x -> cost, such as noise -> epsilon.
        target: > 0.
        start: a first guess, > 0.
        tolerance: in (0, 1), relative, on x.
        name: of the target, for the message.

    Raises:
        ValueError: spent stays above the target for every x; states the smallest value found.

    Source: docs/accounting.md, theorem 11.
    """
    checks.positive("start", start)
    checks.require(0 < tolerance < 1, "tolerance", "be in (0, 1)", tolerance)
    known = {start: spent(start)}
    low, high = 0.0, math.inf
    x = start
    while True:
        if known[x] <= target:
            high = min(high, x)
        else:
            low = max(low, x)
        if math.isfinite(high) and low > 0 and high <= low * (1 + tolerance):
            return high
        if high < start / _WIDEST:
            return high  # the target is met with almost no noise
        if low > start * _WIDEST or _has_stopped_falling(known, low, target):
            checks.fail(name, f"be above {min(known.values()):.6g}", target, FLOOR_REMEDY)
        x = _next_noise(known, low, high, target, tolerance)
        known[x] = spent(x)


def _next_noise(
    known: dict[float, float], low: float, high: float, target: float, tolerance: float
) -> float:
    """The next point: outwards until there is a bracket, then a secant step inside it."""
    if low == 0.0 or math.isinf(high):
        edge = high if low == 0.0 else low
        value = known[edge]
        # epsilon falls about as 1/noise; go a little further so that the bracket closes
        ratio = value / target if 0 < value < math.inf else (0.25 if low == 0.0 else 4.0)
        ratio = min(max(ratio, 1 / 16), 16.0)
        smaller = [x for x in known if x < edge]
        if low > 0.0 and smaller and value > 0.9 * known[max(smaller)]:
            ratio = 64.0  # it hardly falls any more: take a large step
        return edge * (min(ratio, 0.999) * 0.99 if low == 0.0 else max(ratio, 1.001) * 1.01)
    a, b = math.log(low), math.log(high)
    top, bottom = known[low], known[high]
    middle = (a + b) / 2
    if math.isfinite(top) and bottom > 0 and top > bottom:
        share = math.log(top / target) / math.log(top / bottom)
        middle = a + share * (b - a)
    # keep half the tolerance from the ends, so that one more point closes the bracket
    margin = min(0.4 * tolerance, 0.25 * (b - a))
    if middle - a < b - middle:
        return math.exp(min(max(middle + margin, a + margin), b - margin))
    return math.exp(min(max(middle - margin, a + margin), b - margin))


def _has_stopped_falling(known: dict[float, float], low: float, target: float) -> bool:
    """Whether epsilon is above the target and does not fall although noise grew by 2^20."""
    far = [value for x, value in known.items() if x <= low / 2**20 and value < math.inf]
    return bool(far) and known[low] > target and known[low] > 0.999 * min(far)


def _next_count(low: int, high: int, low_spent: float, high_spent: float, target: float) -> int:
    """The next count to try: doubling, then a power-law guess inside the bracket."""
    if math.isinf(high_spent) and high - low > low:
        ratio = (target / max(low_spent, 1e-12)) ** 1.5 if low_spent > 0 else 16.0
        return int(low * min(max(ratio, 2.0), 16.0))
    if math.isinf(high_spent) or low_spent <= 0:
        return (low + high) // 2
    share = math.log(target / low_spent) / math.log(high_spent / low_spent)
    return round(low * (high / low) ** share)


def _require_target(target_epsilon: float, delta: float) -> None:
    checks.positive("target_epsilon", target_epsilon)
    checks.open_probability("delta", delta)
