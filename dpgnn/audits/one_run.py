"""Lower bounds on epsilon from one run with many canaries, each in or out by its own fair coin.

Two analyses of the same guesses. `tail` is that of Steinke, Nasr, Jagielski (2023), "Privacy auditing with
one (1) training run", arXiv:2305.08846, Theorem 5.2, for (epsilon, delta). `tail_of_line` is that of
Mahloujifar, Melis, Chaudhuri (2024), "Auditing f-differential privacy in one run", arXiv:2410.22235, for a
whole claim curve; the proof of the form used here stands with the function. The bound saturates near the
logarithm of the number of guesses, so it is for reports; the two-world test finds faults.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from scipy.special import expit

from dpgnn.audits.statistics import ClaimLine
from dpgnn.core.checks import open_probability, require

Analysis = Literal["(epsilon, delta)", "f-DP"]
ANALYSES: tuple[Analysis, ...] = get_args(Analysis)


@dataclass(frozen=True, kw_only=True)
class OneRun:
    """The best guesses of one run.

    Attributes:
        num_canaries, num_guesses, num_correct: number of coins, of guesses, and of correct guesses.
        epsilon_lower_bound: no smaller epsilon is true at delta, with the stated confidence.
        p_value: of the claim, if one was given: largest probability of this many correct guesses if it holds.
        analysis: of the bound, "(epsilon, delta)" or "f-DP"; chosen before the run.
        confidence: 1 - level.
        delta: of the bound.
    """

    num_canaries: int
    num_guesses: int
    num_correct: int
    epsilon_lower_bound: float
    confidence: float
    delta: float
    p_value: float | None = None
    analysis: Analysis = "(epsilon, delta)"

    @property
    def num_trials(self) -> int:
        """Coins."""
        return self.num_canaries


def tail(
    num_canaries: int, num_guesses: int, num_correct: int, epsilon: float, delta: float
) -> float:
    """Largest probability of this many correct guesses under any (epsilon, delta)-DP mechanism.

    beta + 2 m delta alpha with beta = P(W >= v), alpha = max_i P(v > W >= v - i) / i and W binomial with r
    trials of probability e^epsilon / (e^epsilon + 1).
    """
    # takes a second to import, which reports without audits avoid
    from scipy.stats import binom

    m, r, v = num_canaries, num_guesses, num_correct
    require(0 <= v <= r <= m, "num_correct <= num_guesses <= num_canaries", "hold", (v, r, m))
    rate = float(expit(epsilon))
    value = float(binom.sf(v - 1, r, rate))
    if delta > 0 and v > 0:
        sums = np.cumsum(binom.pmf(np.arange(v - 1, -1, -1), r, rate))
        value += 2 * m * delta * float(np.max(sums / np.arange(1, v + 1)))
    return min(1.0, value)


def tail_of_line(num_canaries: int, num_guesses: int, num_correct: int, line: ClaimLine) -> float:
    """Largest probability of this many correct guesses if no test crosses the line.

    Let p_i be the probability of i right guesses among r, with m canaries, H_i that of i or more, and F the
    line: the highest true-positive rate at each false-alarm rate. Look at one canary u and an event O of the
    other guesses. Given the other coins, the worlds with u in and with u out are neighbours, so P(u right, O)
    <= F(P(u wrong, O)); F is concave, so this holds on average over coins and over u. With O = "v - 1 or more
    of the others are right" the two sides are sum_{i >= v} (i/m) p_i and sum_{i >= v-1} ((r - i)/m) p_i.
    Summed by parts this is

        v H_v + sum_{i > v} H_i <= m F(((r - v + 1) H_{v-1} - sum_{i >= v} H_i) / m).

    This bounds H_{v-1} from below, the more the larger H_v, H_{v+1}, ... are. So from H_c = t and nothing
    above c the smallest H_{c-1}, ..., H_0 follow one by one, and t is possible only if H_0 <= 1.
    """
    counts = num_canaries, num_guesses, num_correct
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _is_possible(middle, *counts, line) else (low, middle)
    return high


def _is_possible(
    probability: float, num_canaries: int, num_guesses: int, num_correct: int, line: ClaimLine
) -> bool:
    """Whether this many correct guesses, or more, may have the probability; see `tail_of_line`."""
    m, r, c = num_canaries, num_guesses, num_correct
    require(0 <= c <= r <= m, "num_correct <= num_guesses <= num_canaries", "hold", (c, r, m))
    head, above = probability, 0.0  # H_v and sum of H_i over i > v
    for v in range(c, 0, -1):
        least = above + head + m * line.least_false_alarms((v * head + above) / m)
        above, head = above + head, max(head, least / (r - v + 1))
        if head > 1:
            return False
    return True


def lower_bound(
    num_canaries: int,
    num_guesses: int,
    num_correct: int,
    *,
    delta: float,
    level: float,
    analysis: Analysis = "(epsilon, delta)",
) -> float:
    """The largest epsilon that this many correct guesses reject at this level; 0 if there is none.

    Guarantee: a bound above the true epsilon at `delta` has probability <= level, if the coins are fair and
    independent and the numbers of canaries and guesses were chosen beforehand.

    Args:
        num_canaries: coins.
        num_guesses: number of guessed coins.
        num_correct: number of correct guesses.
        delta: of the bound.
        level: in (0, 1).
        analysis: of the tail, "(epsilon, delta)" or "f-DP".

    Raises:
        ValueError: level is not in (0, 1), or the counts contradict each other.

    Source: Steinke, Nasr and Jagielski (2023), arXiv:2305.08846; f-DP: Mahloujifar et al. (2024).
    """
    open_probability("level", level)

    def surprising(epsilon: float) -> bool:
        if analysis == "f-DP":
            line = ClaimLine.of_pair(epsilon, delta)
            return not _is_possible(level, num_canaries, num_guesses, num_correct, line)
        return tail(num_canaries, num_guesses, num_correct, epsilon, delta) < level

    return _largest(surprising)


def _largest(surprising: Callable[[float], bool]) -> float:
    """The largest number, at most 64, below which a monotone property holds; 0 if it fails at 0."""
    if not surprising(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while surprising(high) and high < 64:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if surprising(middle) else (low, middle)
    return low


@lru_cache(maxsize=64)
def better_analysis(num_canaries: int, num_guesses: int, *, delta: float, level: float) -> Analysis:
    """The analysis with the larger bound if 90 % of guesses are correct; independent of the outcome."""
    return max(
        ANALYSES,
        key=lambda analysis: lower_bound(
            num_canaries, num_guesses, math.ceil(0.9 * num_guesses),
            delta=delta, level=level, analysis=analysis,
        ),
    )  # fmt: skip


def guess(
    scores: np.ndarray,
    inside: np.ndarray,
    *,
    delta: float,
    level: float,
    guessed_share: float = 0.25,
    line: ClaimLine | None = None,
) -> OneRun:
    """Guess "in" for the largest scores and "out" for the smallest; abstain in between.

    Guarantee: for any scores, the bound exceeds the true epsilon at delta with probability <= level. The
    number of guesses is fixed before the run and does not depend on the coins.

    Args:
        scores: float64, one per canary, larger if it seems present.
        inside: bool, the coins; read only to count right guesses.
        delta: of the bound.
        level: largest probability of a wrong bound.
        guessed_share: share of the canaries to guess, half on each side.
        line: of the claim, for its p-value.
    """
    count = len(scores)
    side = max(1, math.floor(count * guessed_share / 2))
    order = np.argsort(scores, kind="stable")
    right = int(inside[order[-side:]].sum() + (~inside[order[:side]]).sum())
    analysis = better_analysis(count, 2 * side, delta=delta, level=level)
    bound = lower_bound(count, 2 * side, right, delta=delta, level=level, analysis=analysis)
    return OneRun(
        num_canaries=count,
        num_guesses=2 * side,
        num_correct=right,
        epsilon_lower_bound=bound,
        confidence=1 - level,
        delta=delta,
        p_value=None if line is None else tail_of_line(count, 2 * side, right, line),
        analysis=analysis,
    )
