"""A second, independent accounting of events: by dp-accounting, from the formulas of docs/accounting.md.

Only the events of `dpgnn.accountants` are used. Each event's dominating pair is implemented anew, discretised
by the connect-the-dots rule, and composed by the library's distributions.

Source: Doroshenko et al. (2022), "Connect the dots", arXiv:2207.04380, Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import binom, hypergeom, norm

from dpgnn.accountants.events import (
    BestOf,
    ContractiveIteration,
    Event,
    FixedSizeRoots,
    GaussianRelease,
    GumbelTopK,
    LaplaceRelease,
    PoissonRoots,
    RandomizedResponse,
    parts,
)
from dpgnn.core.checks import open_probability

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import PLDPmf

Floats = NDArray[np.float64]
Profile = Callable[[Floats], Floats]

# components of a mixture and tails lighter than about this count as infinite loss
NEGLIGIBLE = 1e-22
# points of one event's grid, and of a composition's: beyond them the grid is coarser, which costs epsilon
MAX_POINTS, MAX_COMPOSED_POINTS = 1 << 17, 1 << 21


def recount(event: Event[Any], delta: float) -> float:
    """Epsilon of an event or a composition at a delta, by dp-accounting.

    Guarantee: at least the true epsilon, up to float64 rounding (about 1e-12 in delta).

    Args:
        event: what was done.
        delta: in (0, 1).

    Returns:
        epsilon >= 0, the larger of the two directions; inf if there is no finite one.

    Raises:
        TypeError: an event that is not counted here (Gumbel noise has no tight pair).
    """
    open_probability("delta", delta)
    mu, pmfs = distributions(event)
    if mu is not None:
        return _gaussian_epsilon(mu, delta)
    return max(0.0, *(float(pmf.get_epsilon_for_delta(delta)) for pmf in pmfs))


def distributions(event: Event[Any]) -> tuple[float | None, list[PLDPmf]]:
    """mu of a Gaussian composition, inf where it tells everything; else the losses of both directions.

    Args:
        event: what was done.

    Raises:
        TypeError: an event that is not counted here.
    """
    squares, others = 0.0, []
    for part, count in parts(event):
        if isinstance(part, BestOf):
            raise TypeError(
                "dp-accounting counts BestOf alone (`recount_best`), not among other events"
            )
        mu = _gaussian_mu(part)
        if mu is None:
            others.append((part, count))
        else:
            squares += count * mu * mu
    if not others or not math.isfinite(squares):
        return math.sqrt(squares), []
    step = _step(others, squares)
    gaussian = _gaussian_pmf(math.sqrt(squares), step).to_dense_pmf() if squares > 0 else None
    found = []
    for forward in (True, False):
        pmf = gaussian
        for part, count in others:
            one = _pmf(part, step, forward).self_compose(count).to_dense_pmf()
            pmf = one if pmf is None else pmf.compose(one)
        assert pmf is not None
        found.append(pmf)
    return None, found


def pure_epsilon(event: Event[Any]) -> float:
    """The largest privacy loss of an event or a composition: its epsilon at delta 0; inf if unbounded."""
    return math.fsum(count * _largest_loss(part) for part, count in parts(event))


def _largest_loss(event: Event[Any]) -> float:
    if isinstance(event, LaplaceRelease):
        return event.sensitivity / event.scale
    if isinstance(event, GumbelTopK):
        return event.num_selected * 2 * event.score_sensitivity / event.scale
    if isinstance(event, RandomizedResponse):
        answers = _answers(event)
        bounded = all((a > 0) == (b > 0) for a, b in answers)
        return max(_finite_losses(answers)) if bounded else math.inf
    return 0.0 if _gaussian_mu(event) == 0 else math.inf


def _answers(event: RandomizedResponse[Any]) -> tuple[tuple[float, float], ...]:
    """Probabilities of each answer if the bit is one, and if it is zero."""
    one, zero = event.one_if_one, event.one_if_zero
    return (one, zero), (1 - one, 1 - zero)


def _finite_losses(answers: Sequence[tuple[float, float]]) -> list[float]:
    return [abs(math.log(a / b)) for a, b in answers if a > 0 and b > 0]


def _gaussian_mu(event: Event[Any]) -> float | None:
    """Shift over standard deviation of a Gaussian event; None for other events.

    Without any loss it is 0; of an answer that always tells, inf.
    """
    if isinstance(event, LaplaceRelease | GumbelTopK | RandomizedResponse):
        if isinstance(event, RandomizedResponse) and not _finite_losses(_answers(event)):
            return math.inf
        return 0.0 if _largest_loss(event) == 0 else None
    if isinstance(event, GaussianRelease):
        return _ratio(event.sensitivity, event.noise_stddev)
    if isinstance(event, ContractiveIteration):
        k, c = event.num_hops, event.contraction
        hops = float(k) if c == 1 else (1 - c**k) * (1 + c) / ((1 + c**k) * (1 - c))
        return _ratio(event.sensitivity, event.noise_stddev) * math.sqrt(hops)
    if isinstance(event, PoissonRoots):
        shift = (event.d_plus + event.d_minus) * event.clipping_norm
        if shift == 0 or event.sampling_probability == 0:
            return 0.0
        whole = event.sampling_probability == 1 or event.noise_stddev == 0
        return _ratio(shift, event.noise_stddev) if whole else None
    if isinstance(event, FixedSizeRoots):
        shift = 2 * event.changed_roots * event.clipping_norm
        whole = event.batch_size == event.population or shift == 0 or event.noise_stddev == 0
        return _ratio(shift, event.noise_stddev) if whole else None
    return None


def _ratio(shift: float, noise: float) -> float:
    return 0.0 if shift == 0 else math.inf if noise == 0 else shift / noise


def _gaussian_epsilon(mu: float, delta: float) -> float:
    """Of N(mu, 1) against N(0, 1), by the library's closed form."""
    if math.isinf(mu):
        return math.inf
    if mu == 0:
        return 0.0
    from dp_accounting.gaussian_mechanism import get_epsilon_gaussian

    return float(get_epsilon_gaussian(1 / mu, delta))


def _step(events: list[tuple[Event[Any], int]], squares: float) -> float:
    """A grid step at which the composition is tight and fits into memory."""
    runs, wanted, width = 0, 1e-3, 20 * math.sqrt(squares) + squares
    for event, count in events:
        low, high = _range(event)
        spread = _spread(event)
        runs += count
        wanted = min(wanted, 0.02 * spread) if spread > 0 else wanted
        reach = high - low
        width += min(count * reach, 20 * spread * math.sqrt(count) + 2 * count * spread**2)
        wanted = max(wanted, reach / MAX_POINTS)
    return max(min(wanted, 1e-2 / math.sqrt(runs)), width / MAX_COMPOSED_POINTS)


def _spread(event: Event[Any]) -> float:
    """About the standard deviation of one run's loss, in nats."""
    if isinstance(event, PoissonRoots):
        changed = event.d_plus + event.d_minus
        return changed * event.sampling_probability * event.clipping_norm / event.noise_stddev
    if isinstance(event, FixedSizeRoots):
        share = event.batch_size / event.population
        return 2 * event.changed_roots * event.clipping_norm / event.noise_stddev * share
    low, high = _range(event)
    return (high - low) / 4


def _range(event: Event[Any]) -> tuple[float, float]:
    """Losses outside which the mass is negligible, of both directions."""
    if isinstance(event, PoissonRoots):
        found = [_Mixtures(event, forward) for forward in (True, False)]
        ends = [pair.loss(np.array(pair.ends())) for pair in found]
        return min(float(e[0]) for e in ends), max(float(e[1]) for e in ends)
    if isinstance(event, FixedSizeRoots):
        most = 1 if event.changed_roots == 1 else min(event.changed_roots, event.batch_size)
        mu = 2 * event.clipping_norm * most / event.noise_stddev
        top = mu * (_reach() + mu / 2)
        return -top, top
    if isinstance(event, RandomizedResponse):
        top = max(_finite_losses(_answers(event)))
    else:
        top = _largest_loss(event)
    return -top, top


def _reach() -> float:
    return float(norm.isf(NEGLIGIBLE))


class _Mixtures:
    """The two mixtures of theorem 1 in units of the noise, with an increasing loss."""

    def __init__(self, event: PoissonRoots[Any], forward: bool) -> None:
        unit = event.clipping_norm / event.noise_stddev
        sides = []
        for count, sign in ((event.d_plus, 1), (event.d_minus, -1)):
            number = np.arange(count + 1)
            weights = binom.logpmf(number, count, event.sampling_probability)
            sides.append((weights, sign * unit * number))
        if not forward:  # the other direction on the mirrored line
            sides = [(weights, -means) for weights, means in sides[::-1]]
        (self.p_weights, self.p_means), (self.q_weights, self.q_means) = sides

    def loss(self, x: Floats) -> Floats:
        """log dP/dQ."""
        p, q = (
            logsumexp(norm.logpdf(x[:, None] - means) + weights, axis=1)
            for weights, means in ((self.p_weights, self.p_means), (self.q_weights, self.q_means))
        )
        found: Floats = p - q
        return found

    def ends(self) -> tuple[float, float]:
        """Ends of the range outside of which P has a mass of about NEGLIGIBLE on each side."""
        kept = self.p_means[self.p_weights > math.log(NEGLIGIBLE)]
        return float(kept.min()) - _reach(), float(kept.max()) + _reach()

    def where(self, losses: Floats) -> Floats:
        """x at which the loss has a value, by bisection."""
        low, high = (np.full(len(losses), end) for end in self.ends())
        for _ in range(60):
            middle = (low + high) / 2
            below = self.loss(middle) < losses
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return high

    def masses(self, x: Floats) -> tuple[Floats, Floats]:
        """Masses of P and Q between neighbouring points, computed from the smaller tail."""
        found = []
        for weights, means in ((self.p_weights, self.p_means), (self.q_weights, self.q_means)):
            kept = weights > math.log(NEGLIGIBLE) - 50
            share, at = np.exp(weights[kept]), x[:, None] - means[kept]
            below, above = np.diff(norm.cdf(at), axis=0), -np.diff(norm.sf(at), axis=0)
            found.append(np.where(at[:-1] < 0, below, above) @ share)
        return found[0], found[1]

    def above(self, x: float) -> float:
        """Mass of P above a point."""
        return float(norm.sf(x - self.p_means) @ np.exp(self.p_weights))


def _pmf(event: Event[Any], step: float, forward: bool) -> PLDPmf:
    """The library's distribution of the losses of one run."""
    if isinstance(event, PoissonRoots):
        return _mixture_pmf(_Mixtures(event, forward), step)
    if isinstance(event, FixedSizeRoots):
        return _profile_pmf(_without_replacement(event), *_range(event), step)
    if isinstance(event, LaplaceRelease):
        from dp_accounting.pld import privacy_loss_distribution as library

        ratio = event.scale / event.sensitivity
        made = library.from_laplace_mechanism(ratio, value_discretization_interval=step)
        pmf: PLDPmf = made._pmf_remove  # both directions are one
        return pmf
    if isinstance(event, RandomizedResponse):
        p, q = event.one_if_one, event.one_if_zero
        if not forward:
            p, q = q, p
        return _profile_pmf(_response(p, q), *_range(event), step)
    raise TypeError(f"dp-accounting counts no {type(event).__name__}")


def _mixture_pmf(pair: _Mixtures, step: float) -> PLDPmf:
    """Cells between losses k step and (k + 1) step, each split over its ends so that both masses stay."""
    from dp_accounting.pld import pld_pmf

    first, last = pair.loss(np.array(pair.ends()))
    low, high = math.floor(first / step), math.ceil(last / step)
    inner = np.arange(low + 1, high, dtype=np.float64) * step
    left, right = pair.ends()
    x = np.concatenate(([left], pair.where(inner), [right]))
    p, q = pair.masses(x)
    losses: Floats = np.arange(low, high) * step
    # p = a + b and q = a exp(-l) + b exp(-l - step), with both at least 0
    upper = np.clip((p - q * np.exp(losses)) / -math.expm1(-step), 0.0, p)
    mass = np.zeros(len(p) + 1)
    mass[:-1] += p - upper
    mass[1:] += upper
    infinity = pair.above(right)
    mass[-1] += max(0.0, 1.0 - mass.sum() - infinity)  # P's lower tail, moved up
    at = range(low, high + 1)
    return pld_pmf.create_pmf(dict(zip(at, mass, strict=True)), step, infinity, True)


def _profile_pmf(profile: Profile, low: float, high: float, step: float) -> PLDPmf:
    """The distribution whose deltas equal a privacy profile on the grid."""
    from dp_accounting.pld import pld_pmf

    first, last = math.floor(low / step), math.ceil(high / step)
    deltas = profile(np.arange(first, last + 1, dtype=np.float64) * step)
    deltas = np.minimum.accumulate(np.clip(deltas, 0.0, 1.0))
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, first, last, deltas)


def _gaussian_pmf(mu: float, step: float) -> PLDPmf:
    top = mu * (_reach() + mu / 2)
    return _profile_pmf(gaussian(mu), -top, top, step)


def gaussian(mu: float) -> Profile:
    """delta(epsilon) of N(mu, 1) against N(0, 1)."""

    def profile(epsilons: Floats) -> Floats:
        far = norm.logcdf(-mu / 2 - epsilons / mu) + epsilons
        found: Floats = norm.cdf(mu / 2 - epsilons / mu) - np.exp(far)
        return found

    return profile


def _without_replacement(event: FixedSizeRoots[Any]) -> Profile:
    """Theorem 3 for one changed root, theorem 2 for more, where the number in the batch is known."""
    shift = 2 * event.clipping_norm / event.noise_stddev
    if event.changed_roots == 1:
        rate, whole = event.batch_size / event.population, gaussian(shift)

        def profile(epsilons: Floats) -> Floats:
            size = np.abs(epsilons)
            # log(1 + (e^size - 1) / rate)
            above = rate * whole(size + np.log1p((rate - 1) * np.exp(-size)) - math.log(rate))
            mirrored = -np.expm1(-size) + np.exp(-size) * above
            return np.where(epsilons >= 0, above, mirrored)

        return profile
    law = hypergeom(event.population, event.changed_roots, event.batch_size)
    most = min(event.changed_roots, event.batch_size)
    shares = law.pmf(np.arange(most + 1))

    def revealed(epsilons: Floats) -> Floats:
        found: Floats = shares[0] * -np.expm1(np.minimum(epsilons, 0.0))
        for number in range(1, most + 1):
            found = found + shares[number] * gaussian(number * shift)(epsilons)
        return found

    return revealed


def _response(p: float, q: float) -> Profile:
    """delta(epsilon) of one bit that is 1 with probability p or q."""

    def profile(epsilons: Floats) -> Floats:
        gamma = np.exp(epsilons)
        found: Floats = np.maximum(p - gamma * q, 0.0) + np.maximum(1 - p - gamma * (1 - q), 0.0)
        return found

    return profile
