"""Choosing the best of several private runs: how many are made, and what the choice costs.

A candidate is drawn uniformly, trained and scored; this is done K times and the best run is released. K is
random, so that nobody knows how many runs the best one had to beat. Proofs: docs/accounting.md, theorem 19.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln, logsumexp

from dpgnn.accountants import pld
from dpgnn.accountants.convolution import Floats
from dpgnn.core import checks

if TYPE_CHECKING:
    from dpgnn.accountants.loss import DiscreteLoss

Profile = Callable[[Floats], Floats]

# epsilons at which a profile is looked at, and what of it may go to infinity
MOST_POINTS, NEGLIGIBLE = 8192, 1e-20
# of uniform numbers that are drawn at a time
BITS = 64


@dataclass(frozen=True, kw_only=True)
class NumberOfRuns:
    """The truncated negative binomial law of the number of runs, K >= 1.

    P[K = k] is proportional to (1 - gamma)^k Gamma(k + eta) / (k! Gamma(eta)); to (1 - gamma)^k / k at
    eta = 0. Its generating function F has F'(x) = E[K] (gamma / (1 - (1 - gamma) x))^(1 + eta).

    Attributes:
        eta: > -1; 0 is the logarithmic law, 1 the geometric one.
        gamma: in (0, 1).

    Source: Papernot and Steinke (2022), arXiv:2110.03620, Definition 1.
    """

    eta: float
    gamma: float

    def __post_init__(self) -> None:
        checks.require(-1 < self.eta < math.inf, "eta", "be > -1 and finite", self.eta)
        checks.open_probability("gamma", self.gamma)

    @property
    def mean(self) -> float:
        """E[K]: eta (1 - gamma) / (gamma (1 - gamma^eta)), and (1/gamma - 1) / log(1/gamma) at eta = 0."""
        log_gamma = math.log(self.gamma)
        power = self.eta * log_gamma
        # (1 - gamma^eta) / eta, which is continuous at 0
        share = -math.expm1(power) / self.eta if self.eta else -log_gamma
        return (1 - self.gamma) / (self.gamma * share)

    def probabilities(self, most: int) -> Floats:
        """P[K = k] for k = 1, ..., most; float64 (most,).

        Args:
            most: >= 1.
        """
        k = np.arange(1, most + 1)
        # P[K = 1] = F'(0) = E[K] gamma^(1 + eta); then P[K = k + 1] / P[K = k] = (1 - gamma)(k + eta)/(k + 1)
        first = math.log(self.mean) + (1 + self.eta) * math.log(self.gamma)
        ratios = gammaln(k + self.eta) - gammaln(1 + self.eta) - gammaln(k + 1)
        found: Floats = np.exp(first + ratios + (k - 1) * math.log1p(-self.gamma))
        return found

    def draw(self, rng: np.random.Generator) -> int:
        """K by the law of real numbers: the smallest k with U < P[K <= k], U uniform.

        Guarantee: exact, given uniform bits: U is known to 64 bits, sums lie in intervals, and where these
        leave K open more bits are drawn.

        Args:
            rng: of a secret stream in a release.
        """
        bits, known = 0, 0
        while True:
            bits = (bits << BITS) | int(rng.integers(0, 2**BITS, dtype=np.uint64))
            known += BITS
            found = self._first_above(bits, known)
            if found is not None:
                return found

    def _first_above(self, bits: int, known: int) -> int | None:
        """The smallest k with U < P[K <= k] for all U in [bits, bits + 1] 2^-known; None if that differs."""
        from mpmath import iv

        before, iv.prec = iv.prec, known + 64
        try:
            eta, gamma = iv.mpf(self.eta), iv.mpf(self.gamma)
            norm = iv.expm1(-eta * iv.log(gamma)) if self.eta else -iv.log(gamma)
            term = (eta if self.eta else iv.mpf(1)) * (1 - gamma) / norm
            low, high = iv.mpf(bits) / 2**known, iv.mpf(bits + 1) / 2**known
            total, k = term, 1
            while True:
                if high.b <= total.a:
                    return k
                if low.a < total.b:
                    return None
                term = term * (1 - gamma) * (k + eta) / (k + 1)
                total, k = total + term, k + 1
        finally:
            iv.prec = before


def mixture_rdp(orders: Floats, divergences: Sequence[Floats]) -> Floats:
    """Renyi divergence of a run of a candidate that is drawn uniformly, and told.

    Guarantee: exact for the pair that tells the candidate, so an upper bound without it; at most the largest
    of the candidates at each order.

    Args:
        orders: float64 (num_orders,), each > 1.
        divergences: for each candidate float64 (num_orders,), in nats.

    Source: docs/accounting.md, theorem 19 (a).
    """
    scaled = (orders - 1) * np.stack(divergences)
    found: Floats = (logsumexp(scaled, axis=0) - math.log(len(divergences))) / (orders - 1)
    return found


def best_rdp(orders: Floats, there: Floats, back: Floats, law: NumberOfRuns) -> Floats:
    """Renyi divergence of the best of K runs.

    At order a: D_a(Q || Q') + (1 + eta) min_b [(1 - 1/b) D_b(Q' || Q) + log(1/gamma)/b] + log E[K]/(a - 1).

    Guarantee: an upper bound at each order, for the direction of `there`.

    Args:
        orders: float64 (num_orders,), each > 1; b runs over them too.
        there, back: float64 (num_orders,), of one run in this direction and in the other, in nats.
        law: of K.

    Source: Papernot and Steinke (2022), Theorem 2; docs/accounting.md, theorem 19 (c).
    """
    odds = np.min((1 - 1 / orders) * back - math.log(law.gamma) / orders)
    found: Floats = there + (1 + law.eta) * odds + math.log(law.mean) / (orders - 1)
    return found


def best_loss(profiles: Sequence[Profile], law: NumberOfRuns, step: float) -> DiscreteLoss:
    """A loss whose profile is at least that of the best of K runs, in both directions.

    delta(e) <= E[K] delta_Q(e - (1 + eta) log R), R = min_t [exp(t) + delta_Q(t) / gamma], where delta_Q is
    the mean of the candidates' profiles.

    Guarantee: dominates in both directions where each profile bounds both directions of one run.

    Args:
        profiles: for each candidate epsilons -> deltas of one run, the larger of both directions.
        law: of K.
        step: grid step in nats.

    Source: Koskela, Redberg and Wang (2024), arXiv:2402.06701; docs/accounting.md, theorem 19 (b).
    """

    def one_run(epsilons: Floats) -> Floats:
        found: Floats = np.mean([profile(epsilons) for profile in profiles], axis=0)
        return found

    top = _reach(one_run)
    moves = np.linspace(0.0, top, MOST_POINTS)
    shift = (1 + law.eta) * math.log(float(np.min(np.exp(moves) + one_run(moves) / law.gamma)))
    top = min(top + shift, pld.MAX_PROFILE_LOSS)
    stride = max(1, math.ceil(top / step / MOST_POINTS))  # a coarser grid still bounds
    grid = np.arange(math.ceil(top / step / stride) + 1) * (stride * step)
    grid = grid[grid <= pld.MAX_PROFILE_LOSS]
    profile = np.minimum(law.mean * one_run(grid - shift), 1.0)
    return pld.from_profile(grid, profile, step)


def _reach(profile: Profile) -> float:
    """An epsilon beyond which the profile falls by next to nothing."""
    places = np.linspace(0.0, pld.MAX_PROFILE_LOSS, 1401)
    values = profile(places)
    return float(places[int(np.argmax(values <= values[-1] + NEGLIGIBLE))])
