"""The smallest violation that a claim test can detect: the audited event with less and less noise."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv
from scipy.stats import binom

from dpgnn.accountants.composition import curve
from dpgnn.accountants.events import BestOf, Event, RandomizedResponse, compose, compose_all, parts
from dpgnn.audits.statistics import ClaimLine
from dpgnn.core.checks import require

# factors by which noise may be too small; the first detectable one is reported
FACTORS = (1.1, 1.2, 1.3, 1.4, 1.5, 1.7, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)
POWER = 0.8
_FALSE_ALARMS = np.concatenate([np.geomspace(1e-4, 0.1, 19), np.linspace(0.13, 0.6, 12)])


@dataclass(frozen=True, kw_only=True)
class Design:
    """The design of one claim test.

    Attributes:
        event: of one score.
        num_scores: scores of each world in the tested half.
        level: of the test.
        attained_share: part of the sensitivity that the canary reached.
    """

    event: Event[Any]
    num_scores: int
    level: float
    attained_share: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Detectable:
    """The smallest violation in `FACTORS` that is detected with probability `power`.

    Attributes:
        noise_factor: factor by which noise is too small; None if no factor is detectable.
        epsilon: the true epsilon of all planned steps with that noise, at the claim's delta.
        power: probability of detection by the best test of the worlds.
    """

    noise_factor: float | None
    epsilon: float | None
    power: float = POWER


def weakened(event: Event[Any], factor: float) -> Event[Any]:
    """The event with its noise divided by a factor; for randomised response, the odds to that power.

    Raises:
        ValueError: the factor is not > 0.
    """
    require(factor > 0, "factor", "be > 0", factor)
    return compose_all(*(compose(_less(part, factor), count) for part, count in parts(event)))


def _less(part: Any, factor: float) -> Any:
    if isinstance(part, BestOf):
        return dataclasses.replace(part, runs=tuple(weakened(run, factor) for run in part.runs))
    if isinstance(part, RandomizedResponse):
        odds = [_odds(p) ** factor for p in (part.one_if_one, part.one_if_zero)]
        one, zero = (value / (1 + value) for value in odds)
        return dataclasses.replace(part, one_if_one=one, one_if_zero=zero)
    name = "noise_stddev" if hasattr(part, "noise_stddev") else "scale"
    return dataclasses.replace(part, **{name: getattr(part, name) / factor})


def _odds(probability: float) -> float:
    return probability / max(1 - probability, 1e-300)


def detectable(designs: Sequence[Design], whole: Event[Any], delta: float) -> Detectable:
    """The smallest violation that the best of some claim tests detects.

    The worlds are assumed to differ as in the weakened event, scaled to the share of the sensitivity that the
    canary reached. At a share of 0 the worlds are the same, so nothing is detectable.

    Args:
        designs: the tests that were made.
        whole: the mechanism's event with all planned steps.
        delta: of the reported epsilon.
    """
    lines = [ClaimLine.of(curve(design.event)) for design in designs]

    def seen(factor: float) -> bool:
        return any(
            power(
                ClaimLine.of(curve(weakened(d.event, factor * d.attained_share))), line,
                num_scores=d.num_scores, level=d.level,
            ) >= POWER
            for d, line in zip(designs, lines)
            if d.attained_share > 0
        )  # fmt: skip

    return first_seen(seen, whole, delta)


def first_seen(seen: Callable[[float], bool], whole: Event[Any], delta: float) -> Detectable:
    """The smallest factor in `FACTORS` that is seen, by bisection, and what all steps then cost.

    Args:
        seen: whether a factor is detected with probability `POWER`; of larger factors so are all.
        whole: the mechanism's event with all planned steps.
        delta: of the reported epsilon.
    """
    low, high = 0, len(FACTORS)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if seen(FACTORS[middle]) else (middle + 1, high)
    if low == len(FACTORS):
        return Detectable(noise_factor=None, epsilon=None)
    # pure claims: the loss with almost no mass above it
    spent = curve(weakened(whole, FACTORS[low])).epsilon(max(delta, 1e-12))
    return Detectable(
        noise_factor=FACTORS[low], epsilon=float(spent) if math.isfinite(spent) else None
    )


def power(true: ClaimLine, claimed: ClaimLine, *, num_scores: int, level: float) -> float:
    """Largest probability of detection over the tests on the true line.

    Args:
        true, claimed: lines.
        num_scores: scores of each world in the tested half.
        level: of the test.
    """
    count, error = num_scores, level / 2
    counts = np.arange(count + 1)
    low = np.concatenate([[0.0], betaincinv(counts[1:], count - counts[1:] + 1, error)])
    best = 0.0
    for rate in _FALSE_ALARMS:
        hit = true.highest_rate(float(rate))
        # the false alarms that may be counted, cut at 1e-4 of their mass
        first, last = binom.ppf([1e-4, 1 - 1e-4], count, rate).astype(int)
        places = np.unique(np.linspace(first, last, 24).astype(int))
        high = betaincinv(places + 1, np.maximum(count - places, 1), 1 - error)
        needed = np.array([np.searchsorted(low, claimed.highest_rate(float(h))) for h in high])
        weights = np.diff(binom.cdf(places, count, rate), prepend=0.0)
        best = max(best, float(weights @ binom.sf(needed - 1, count, hit)))
    return best
