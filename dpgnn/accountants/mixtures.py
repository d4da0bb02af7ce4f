"""Pairs of one-dimensional Gaussian mixtures whose likelihood ratio is increasing.

The two-sided pair of a Poisson batch of roots (docs/accounting.md, theorem 1), with C = clipping norm,

  P = sum_i Bin(i; d_plus, q) N(+i C, sigma^2),   Q = sum_j Bin(j; d_minus, q) N(-j C, sigma^2),

is kept in units of sigma: means are multiples of C / sigma and both standard deviations are 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp, ndtr

from dpgnn.accountants.events import FixedSizeRoots, PoissonRoots

Floats = NDArray[np.floating[Any]]

# components lighter than this are dropped from Q and moved to infinity in P (both only raise the
# divergence); tails of P beyond it count as infinite loss
NEGLIGIBLE = 1e-25


@dataclass(frozen=True, kw_only=True, eq=False)
class Mixture:
    """sum_i exp(log_weights[i]) N(means[i], 1); float64 arrays of one length."""

    log_weights: Floats
    means: Floats

    def log_density(self, x: Floats) -> Floats:
        """Log density at x without the constant -log(2 pi)/2; same shape as x."""
        if len(self.means) <= 2:
            return _log_sum_of([exponent for exponent, _ in self._columns(x)])
        offsets = x[:, None] - self.means
        return _log_sum_exp(self.log_weights - 0.5 * offsets * offsets)

    def log_density_and_score(self, x: Floats) -> tuple[Floats, Floats]:
        """The log density at x and its derivative, from one set of exponentials."""
        if len(self.means) <= 2:
            return _log_sum_and_score(self._columns(x))
        offsets = x[:, None] - self.means
        exponent = self.log_weights - 0.5 * offsets * offsets
        top = exponent.max(axis=1)
        weights = np.exp(exponent - top[:, None])
        total = weights.sum(axis=1)
        return top + np.log(total), -np.einsum("ij,ij->i", weights, offsets) / total

    def _columns(self, x: Floats) -> list[tuple[Floats, Floats]]:
        """For each component log weight minus half the squared offset, and the offset; shaped as x."""
        offsets = [x - mean for mean in self.means]
        return [
            (weight - 0.5 * offset * offset, offset)
            for weight, offset in zip(self.log_weights, offsets)
        ]

    def lower_tail(self, x: Floats) -> Floats:
        """Pr[X <= x]."""
        return ndtr(x[:, None] - self.means) @ np.exp(self.log_weights)

    def upper_tail(self, x: Floats) -> Floats:
        """Pr[X > x], accurate where it is small."""
        return ndtr(self.means - x[:, None]) @ np.exp(self.log_weights)

    def cells(self, x: Floats) -> Floats:
        """Masses of (x[i], x[i + 1]], from differences of the smaller tail for accuracy."""
        middle = int(np.searchsorted(x, float(np.exp(self.log_weights) @ self.means)))
        below = np.diff(self.lower_tail(x[: middle + 1]))
        above = -np.diff(self.upper_tail(x[middle:]))
        return np.maximum(np.concatenate((below, above)), 0.0)

    def mirrored(self) -> Mixture:
        """The distribution of -X, means increasing."""
        return Mixture(log_weights=self.log_weights[::-1], means=-self.means[::-1])

    def trimmed(self) -> tuple[Mixture, float]:
        """The mixture without negligible components, and the dropped mass."""
        kept = self.log_weights > math.log(NEGLIGIBLE)
        dropped = float(np.exp(self.log_weights[~kept]).sum())
        return Mixture(log_weights=self.log_weights[kept], means=self.means[kept]), dropped

    def range(self) -> tuple[float, float]:
        """An interval outside which the mass on each side is about NEGLIGIBLE."""
        reach = np.array([_normal_reach(w) for w in self.log_weights])
        return float((self.means - reach).min()), float((self.means + reach).max())


@dataclass(frozen=True, kw_only=True, eq=False)
class MixturePair:
    """(P, Q) with log dP/dQ increasing: every mean of P is at or above every mean of Q."""

    p: Mixture
    q: Mixture

    def loss(self, x: Floats) -> Floats:
        """log dP/dQ at x, in nats."""
        return np.concatenate([self.p.log_density(b) - self.q.log_density(b) for b in blocks(x)])

    def loss_and_slope(self, x: Floats) -> tuple[Floats, Floats]:
        """The loss at x and its derivative (>= 0)."""
        found = []
        for block in blocks(x):
            (log_p, rise_p), (log_q, rise_q) = (
                side.log_density_and_score(block) for side in (self.p, self.q)
            )
            found.append((log_p - log_q, rise_p - rise_q))
        return np.concatenate([one for one, _ in found]), np.concatenate([two for _, two in found])

    def trimmed(self) -> tuple[MixturePair, float]:
        """The pair without negligible components, and the mass dropped from P."""
        p, dropped = self.p.trimmed()
        return MixturePair(p=p, q=self.q.trimmed()[0]), dropped

    def reach(self) -> float:
        """Largest minus smallest loss in P's range, in nats: the width of the grid of `pld.mixture_loss`."""
        low, high = self.loss(np.array(self.p.range()))
        return float(high - low)

    def reversed(self) -> MixturePair:
        """(Q, P) on the mirrored line, where its loss increases again."""
        return MixturePair(p=self.q.mirrored(), q=self.p.mirrored())


def blocks(x: Floats) -> list[Floats]:
    """Parts of x at which densities are computed one after another, so that memory stays small."""
    return np.array_split(x, max(1, len(x) // 16384))


def panels(low: float, high: float, *, width: float = 0.5) -> tuple[Floats, Floats]:
    """Nodes and log weights of 16-point Gauss-Legendre panels; float64 (16 * num_panels,) each.

    Args:
        low, high: ends of the integral.
        width: largest width of a panel, a power of two.
    """
    nodes, weights = np.polynomial.legendre.leggauss(16)
    count = max(1, math.ceil((high - low) / width))
    ends = np.linspace(low, high, count + 1)
    half = (ends[1] - ends[0]) / 2
    x = (ends[:-1] + half)[:, None] + half * nodes
    return x.ravel(), np.tile(np.log(weights * half), count)


def log_of_sum(exponents: Floats) -> float:
    """log sum exp(exponents); SciPy's logsumexp to the last bit, in less than half the time.

    Args:
        exponents: float64 (n,), n >= 1; may be infinite.
    """
    if not math.isfinite(exponents.max()):
        return float(logsumexp(exponents))
    return float(_log_sum_exp(exponents[None])[0])


def _log_sum_exp(exponents: Floats) -> Floats:
    """SciPy's logsumexp of each row, to the last bit, for rows with a finite largest value."""
    top = exponents.max(axis=1, keepdims=True)
    largest = exponents == top
    count = largest.sum(axis=1, dtype=np.float64)
    rest = np.exp(exponents - top)
    rest[largest] = 0.0
    return np.log1p(rest.sum(axis=1) / count) + np.log(count) + top[:, 0]


def _log_sum_of(columns: list[Floats]) -> Floats:
    """`_log_sum_exp` of one or two columns, to the last bit, without short rows."""
    if len(columns) == 1:
        return columns[0]
    top = np.maximum(*columns)
    equal = columns[0] == columns[1]
    rest = np.where(equal, 0.0, np.exp(np.minimum(*columns) - top))
    return np.log1p(rest) + np.where(equal, math.log(2.0), 0.0) + top


def _log_sum_and_score(columns: list[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """`Mixture.log_density_and_score` of one or two components, to the last bit, without short rows."""
    if len(columns) == 1:
        exponent, offset = columns[0]
        return exponent, -offset
    (one, at_one), (two, at_two) = columns
    top = np.maximum(one, two)
    of_one, of_two = np.exp(one - top), np.exp(two - top)
    total = of_one + of_two
    return top + np.log(total), -(of_one * at_one + of_two * at_two) / total


def two_sided_pair(event: PoissonRoots) -> MixturePair:
    """The dominating pair of a Poisson batch of roots, in units of noise_stddev (> 0).

    Guarantee: dominates one step for the event's relation, whatever was released before.

    Args:
        event: one step with Poisson roots.

    Source: docs/accounting.md, theorem 1.
    """
    shift = event.clipping_norm / event.noise_stddev
    plus = _binomial(event.d_plus, event.sampling_probability)
    minus = _binomial(event.d_minus, event.sampling_probability)
    return MixturePair(
        p=Mixture(log_weights=plus, means=shift * np.arange(event.d_plus + 1)),
        q=Mixture(log_weights=minus, means=-shift * np.arange(event.d_minus + 1)),
    )


def gaussian_pair(mu: float) -> MixturePair:
    """N(mu, 1) against N(0, 1).

    Args:
        mu: > 0, the distance of the means in deviations.

    Source: docs/accounting.md, theorem 5.
    """
    return MixturePair(
        p=Mixture(log_weights=np.zeros(1), means=np.array([mu])),
        q=Mixture(log_weights=np.zeros(1), means=np.zeros(1)),
    )


def removal_pair(event: FixedSizeRoots) -> MixturePair:
    """(1 - q) N(0, 1) + q N(2C/sigma, 1) against N(0, 1), q = batch_size / population (one changed root).

    Guarantee: its divergences of order g >= 1 bound both directions; `pld.glued_loss` mirrors them for g < 1.

    Args:
        event: one step, one changed root.

    Source: docs/accounting.md, theorem 3.
    """
    rate = event.batch_size / event.population
    shift = 2 * event.clipping_norm / event.noise_stddev
    return MixturePair(
        p=Mixture(log_weights=_binomial(1, rate), means=np.array([0.0, shift])),
        q=Mixture(log_weights=np.zeros(1), means=np.zeros(1)),
    )


def hypergeometric(population: int, marked: int, drawn: int) -> Floats:
    """log Pr[i marked are drawn], i = 0..marked, for draws without replacement.

    Log-gamma has a relative error of about 1e-10 at 2e5 elements, so the weights are normalised.

    Args:
        population: N >= drawn, public.
        marked: changed ones among them. drawn: m.

    Returns:
        float64 (marked + 1,), logarithms; -inf where impossible.
    """
    i = np.arange(marked + 1)
    possible = (i <= drawn) & (drawn - i <= population - marked)
    weights = np.full(marked + 1, -np.inf)
    k = i[possible]
    weights[possible] = (
        _log_choose(marked, k)
        + _log_choose(population - marked, drawn - k)
        - _log_choose(population, np.array(drawn))
    )
    return weights - logsumexp(weights)


def _binomial(count: int, rate: float) -> Floats:
    """log Pr[Bin(count, rate) = i], i = 0..count; exact for small weights, -inf where impossible."""
    i = np.arange(count + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = np.where(i > 0, i * np.log(rate), 0.0)
        outside = np.where(i < count, (count - i) * np.log1p(-rate), 0.0)
    return _log_choose(count, i) + inside + outside


def _log_choose(n: int, k: NDArray[np.int64]) -> Floats:
    """Log of the binomial coefficient."""
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def _normal_reach(log_weight: float) -> float:
    """z with weight * Pr[N(0, 1) > z] <= NEGLIGIBLE, by Pr[N > z] <= exp(-z^2/2)/2."""
    return math.sqrt(max(0.0, 2 * (log_weight - math.log(2 * NEGLIGIBLE))))
