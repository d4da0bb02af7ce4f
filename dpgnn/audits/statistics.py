"""From scores of two neighbouring worlds to a verdict on a claim and to lower bounds on epsilon.

A claim states that for any test P(accept | G) <= exp(e) P(accept | G') + delta(e) for every e, and the same
with the worlds exchanged. The claim-curve test searches for a test that violates one of these lines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaincinv, ndtri

from dpgnn.core.checks import at_least, open_probability, probability, require

if TYPE_CHECKING:
    from dpgnn.accountants.composition import PrivacyCurve

# half-way points of the scores that are tried as thresholds
_NUM_THRESHOLDS = 64
_EPSILONS = np.concatenate([np.linspace(-14.0, 14.0, 561), [20.0, 30.0, 50.0]])
_FACTORS = np.exp(_EPSILONS)


def rate_bounds(count: int, total: int, error: float) -> tuple[float, float]:
    """Clopper-Pearson: the true rate is below the first or above the second with probability <= error each.

    Args:
        count, total: hits among independent trials.
        error: of each side, in (0, 1).
    """
    at_least("total", total, 1)
    require(0 <= count <= total, "count", f"be in 0..{total}", count)
    open_probability("error", error)
    low = 0.0 if count == 0 else float(betaincinv(count, total - count + 1, error))
    high = 1.0 if count == total else float(betaincinv(count + 1, total - count, 1 - error))
    return low, high


@dataclass(frozen=True, kw_only=True, eq=False)
class ClaimLine:
    """The line of a claim: the largest true-positive rate of any test at each false-alarm rate.

    Attributes:
        deltas: float64, delta(e) at each e of the grid; a grid can only make the line too high, so the test
            can miss a violation but not accuse wrongly.
        factors: float64, exp(e) of the grid.
    """

    deltas: np.ndarray
    factors: np.ndarray = field(default_factory=lambda: _FACTORS)

    @classmethod
    def of(cls, curve: PrivacyCurve) -> ClaimLine:
        """The line of a composed curve."""
        return cls(deltas=np.array([curve.delta(float(epsilon)) for epsilon in _EPSILONS]))

    @classmethod
    def of_rates(cls, right: np.ndarray, wrong: np.ndarray) -> ClaimLine:
        """The line of known tests.

        Args:
            right, wrong: float64 (num_tests,), their true-positive and false-alarm rates.
        """
        return cls(deltas=np.array([max(0.0, np.max(right - f * wrong)) for f in _FACTORS]))

    @classmethod
    def of_pair(cls, epsilon: float, delta: float) -> ClaimLine:
        """The line of a single (epsilon, delta) guarantee.

        At false-alarm rate a, a test may have a true-positive rate of at most exp(epsilon) a + delta and, by
        the complementary test, of at most 1 - exp(-epsilon) (1 - delta - a).
        """
        factors = np.exp([epsilon, -epsilon])
        return cls(factors=factors, deltas=np.array([delta, 1 - factors[1] * (1 - delta)]))

    def highest_rate(self, false_alarms: float) -> float:
        """min over e of exp(e) * false_alarms + delta(e), at most 1."""
        probability("false_alarms", false_alarms)
        return float(min(1.0, np.min(self.factors * false_alarms + self.deltas)))

    def least_false_alarms(self, rate: float) -> float:
        """The smallest false-alarm rate at which the line allows a true-positive rate; the inverse line."""
        return float(max(0.0, np.max((rate - self.deltas) / self.factors)))


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A test: accept world `positive` if sign * score > threshold.

    Attributes:
        positive: 0 if it accepts G, 1 if it accepts G'.
        sign: +1 or -1.
        threshold: of sign * score.
    """

    positive: int
    sign: int
    threshold: float

    def accepted(self, scores: np.ndarray) -> int:
        """Number of accepted scores."""
        return int((self.sign * scores > self.threshold).sum())


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of testing a claim by runs of two worlds.

    Attributes:
        rejected: whether the claim is rejected at `level`.
        p_value: the smallest level at which the same test on the same runs would reject.
        level: largest probability of rejecting a true claim.
        true_positive_rate_low, false_positive_rate_high: limits of the test chosen on the other half, which
            hold jointly with probability 1 - level.
        allowed_rate: the largest true-positive rate that the claim allows at that false-alarm rate.
        epsilon_lower_bound: no smaller epsilon is true at `delta`, with confidence 1 - level.
        epsilon_gaussian_shape: the same point as if the scores were Gaussian; a diagnostic, not a proof.
        delta: of the two bounds.
        num_trials: runs of both worlds, both halves.
    """

    rejected: bool
    p_value: float
    level: float
    true_positive_rate_low: float
    false_positive_rate_high: float
    allowed_rate: float
    epsilon_lower_bound: float
    epsilon_gaussian_shape: float
    delta: float
    num_trials: int

    @property
    def confidence(self) -> float:
        """Confidence of the limits and of `epsilon_lower_bound`."""
        return 1 - self.level


def judge(
    scores: tuple[np.ndarray, np.ndarray], line: ClaimLine, *, delta: float, level: float
) -> Verdict:
    """The claim-curve test and the lower bounds.

    Guarantee: if the claim is true and the runs are independent, `rejected` has probability <= level, and
    so has an `epsilon_lower_bound` above the claim's epsilon at delta: the tests are chosen on the first half
    of the runs, and the limits of each are Clopper-Pearson limits at level/2 on the second half. The two
    statements are each at `level`.

    Args:
        scores: of independent runs in G and in G', in order; any statistic.
        line: of the claim.
        delta: at which epsilon is bounded.
        level: in (0, 1).
    """
    require(min(len(side) for side in scores) >= 4, "runs", "be at least 4 a world", len(scores[0]))
    halves = [(side[: len(side) // 2], side[len(side) // 2 :]) for side in scores]
    chosen, fresh = (halves[0][0], halves[1][0]), (halves[0][1], halves[1][1])
    for_claim, for_bound, for_shape = _best_cuts(chosen, line, delta, level)
    low, high = _limits(for_claim, fresh, level)
    allowed = line.highest_rate(high)
    at = _limits(for_bound, fresh, level)
    return Verdict(
        rejected=low > allowed, p_value=_smallest_level(for_claim, fresh, line), level=level,
        true_positive_rate_low=low, false_positive_rate_high=high, allowed_rate=allowed,
        epsilon_lower_bound=direct_epsilon(*at, delta), delta=delta,
        epsilon_gaussian_shape=_gaussian(*_limits(for_shape, fresh, level), delta),
        num_trials=sum(len(side) for side in scores),
    )  # fmt: skip


def _best_cuts(
    chosen: tuple[np.ndarray, np.ndarray], line: ClaimLine, delta: float, level: float
) -> tuple[Cut, Cut, Cut]:
    """The best cuts on one half: against the claim's line, for epsilon, for the Gaussian shape."""

    def excess(cut: Cut) -> float:
        low, high = _limits(cut, chosen, level)
        return low - line.highest_rate(high)

    def bound(cut: Cut) -> float:
        return direct_epsilon(*_limits(cut, chosen, level), delta)

    def shape(cut: Cut) -> float:
        return _separation(*_limits(cut, chosen, level))

    cuts = _cuts(chosen)
    return max(cuts, key=excess), max(cuts, key=bound), max(cuts, key=shape)


def _cuts(scores: tuple[np.ndarray, np.ndarray]) -> list[Cut]:
    """Both directions of both worlds, at quantiles of all scores."""
    both = np.unique(np.concatenate(scores))
    last = len(both) - 1
    evenly = np.linspace(0, last, _NUM_THRESHOLDS).astype(int)
    # rare scores decide where few steps see the canary
    tails = (2.0 ** np.arange(0, max(np.log2(last + 1), 1.0), 0.5)).astype(int)
    places = np.unique(np.clip(np.concatenate([evenly, tails, last - tails]), 0, last))
    cuts = []
    for sign in (1, -1):
        values = np.sort(sign * both)
        middle = values[places]
        middle = np.append(middle, values[0] - 1.0)
        cuts += [Cut(positive=p, sign=sign, threshold=float(t)) for p in (0, 1) for t in middle]
    return cuts


def _limits(cut: Cut, scores: tuple[np.ndarray, np.ndarray], level: float) -> tuple[float, float]:
    """(lower limit of the true-positive rate, upper limit of the false-positive rate)."""
    right, wrong = scores[cut.positive], scores[1 - cut.positive]
    low, _ = rate_bounds(cut.accepted(right), len(right), level / 2)
    _, high = rate_bounds(cut.accepted(wrong), len(wrong), level / 2)
    return low, high


def _smallest_level(cut: Cut, scores: tuple[np.ndarray, np.ndarray], line: ClaimLine) -> float:
    """The smallest level at which a test rejects; limits widen as the level falls, so it is unique."""

    def rejects(level: float) -> bool:
        low, high = _limits(cut, scores, level)
        return low > line.highest_rate(high)

    low, high = -300.0, 0.0  # of log10
    if not rejects(1 - 1e-9):
        return 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if rejects(10**middle) else (middle, high)
    return float(10**high)


def direct_epsilon(low: float, high: float, delta: float) -> float:
    """log((TPR - delta) / FPR), at least 0."""
    return math.log((low - delta) / high) if low - delta > high else 0.0


def _gaussian(low: float, high: float, delta: float) -> float:
    """epsilon of the Gaussian mechanism whose trade-off curve passes through the point."""
    from dpgnn.accountants import gdp

    mu = _separation(low, high)
    return gdp.epsilon(mu, delta) if mu > 0 and delta > 0 else 0.0


def _separation(low: float, high: float) -> float:
    """Distance of two unit normal distributions with these rates; 0 at the ends."""
    return float(ndtri(low) - ndtri(high)) if 0 < low < 1 and 0 < high < 1 else 0.0
