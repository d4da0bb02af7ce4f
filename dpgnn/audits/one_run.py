"""Lower bounds on epsilon from one run with many canaries, each in or out by its own fair coin.

Source: Steinke, Nasr, Jagielski (2023), "Privacy auditing with one (1) training run", arXiv:2305.08846,
Theorem 5.2 and its Algorithm. The bound saturates near the logarithm of the number of guesses, so it is for
reports; the two-world test finds faults.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from scipy.stats import binom

from dpgnn.core.checks import open_probability, require


@dataclass(frozen=True, kw_only=True)
class OneRun:
    """The best guesses of one run.

    Attributes:
        num_canaries, num_guesses, num_correct: how many coins there were, were guessed, were guessed right.
        epsilon_lower_bound: no smaller epsilon is true at delta, with the stated confidence.
        confidence: 1 - level.
        delta: of the bound.
    """

    num_canaries: int
    num_guesses: int
    num_correct: int
    epsilon_lower_bound: float
    confidence: float
    delta: float

    @property
    def num_trials(self) -> int:
        """Coins."""
        return self.num_canaries


def tail(
    num_canaries: int, num_guesses: int, num_correct: int, epsilon: float, delta: float
) -> float:
    """Largest probability of so many right guesses under any (epsilon, delta)-DP mechanism.

    beta + 2 m delta alpha with beta = P(W >= v), alpha = max_i P(v > W >= v - i) / i and W binomial with r
    trials of probability e^epsilon / (e^epsilon + 1).
    """
    m, r, v = num_canaries, num_guesses, num_correct
    require(0 <= v <= r <= m, "num_correct <= num_guesses <= num_canaries", "hold", (v, r, m))
    rate = float(expit(epsilon))
    value = float(binom.sf(v - 1, r, rate))
    if delta > 0 and v > 0:
        sums = np.cumsum(binom.pmf(np.arange(v - 1, -1, -1), r, rate))
        value += 2 * m * delta * float(np.max(sums / np.arange(1, v + 1)))
    return min(1.0, value)


def lower_bound(
    num_canaries: int, num_guesses: int, num_correct: int, *, delta: float, level: float
) -> float:
    """The largest epsilon that so many right guesses rule out at this level; 0 when none is."""
    open_probability("level", level)

    def surprising(epsilon: float) -> bool:
        return tail(num_canaries, num_guesses, num_correct, epsilon, delta) < level

    if not surprising(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while surprising(high) and high < 64:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if surprising(middle) else (low, middle)
    return low


def guess(
    scores: np.ndarray,
    inside: np.ndarray,
    *,
    delta: float,
    level: float,
    guessed_share: float = 0.25,
) -> OneRun:
    """Guess "in" for the largest scores and "out" for the smallest; abstain in between.

    Guarantee: whatever the scores, the bound exceeds the true epsilon at delta with probability <= level. The
    number of guesses is fixed before the run, so nothing is chosen by looking at the coins.

    Args:
        scores: float64, one per canary, larger when it looks present.
        inside: bool, the coins; read only to count right guesses.
        delta: of the bound.
        level: probability of a wrong bound, at most.
        guessed_share: share of the canaries that is guessed, half of it on each side.
    """
    count = len(scores)
    side = max(1, math.floor(count * guessed_share / 2))
    order = np.argsort(scores, kind="stable")
    right = int(inside[order[-side:]].sum() + (~inside[order[:side]]).sum())
    return OneRun(
        num_canaries=count,
        num_guesses=2 * side,
        num_correct=right,
        epsilon_lower_bound=lower_bound(count, 2 * side, right, delta=delta, level=level),
        confidence=1 - level,
        delta=delta,
    )
