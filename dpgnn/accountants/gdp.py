"""Gaussian differential privacy: exact accounting of Gaussian releases and contractive iterations.

A mechanism is mu-GDP if it is at least as hard to distinguish neighbours as N(0, 1) and N(mu, 1). Gaussian
releases compose exactly: mu^2 adds up. Source: Dong, Roth, Su (2022), "Gaussian differential privacy"; Balle
and Wang (2018), Theorem 8, for delta(epsilon).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from dpgnn.accountants.events import (
    ContractiveIteration,
    Event,
    FixedSizeRoots,
    GaussianRelease,
    PoissonRoots,
    parts,
)
from dpgnn.core import checks

# a value that changes by this multiple of its noise is certain to be recognised: mu counts as infinite
HOPELESS = 1e8
# in nats: floating point cannot distinguish the mu of larger budgets, which no release needs
LARGEST_BUDGET = 1e9


def delta(epsilon: float, mu: float) -> float:
    """The exact delta of a mu-GDP mechanism: Phi(-e/mu + mu/2) - exp(e) Phi(-e/mu - mu/2).

    Guarantee: exact: no smaller delta holds for every mu-GDP mechanism.

    Args:
        epsilon: any real number.
        mu: >= 0; may be infinite.

    Raises:
        ValueError: mu < 0.

    Source: Balle and Wang (2018), arXiv:1805.06530, Theorem 8; Dong, Roth and Su (2022), arXiv:1905.02383.
    """
    checks.require(mu >= 0, "mu", "be >= 0", mu)
    if mu == 0:
        return max(0.0, -math.expm1(epsilon))
    if math.isinf(mu):
        return 1.0
    upper = float(log_ndtr(-epsilon / mu + mu / 2))
    lower = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    return math.exp(upper) * max(0.0, -math.expm1(lower - upper))


def deltas(epsilons: NDArray[np.floating[Any]], mu: float) -> NDArray[np.floating[Any]]:
    """`delta` at many epsilons.

    Guarantee: as `delta`.

    Args:
        epsilons: float64 (n,), in nats, any real numbers.
        mu: >= 0, may be infinite.

    Returns:
        float64 (n,).

    Source: as `delta`: Balle and Wang (2018), arXiv:1805.06530, Theorem 8.
    """
    if mu == 0:
        return np.maximum(-np.expm1(epsilons), 0.0)
    if math.isinf(mu):
        return np.ones(len(epsilons))
    upper = log_ndtr(-epsilons / mu + mu / 2)
    lower = epsilons + log_ndtr(-epsilons / mu - mu / 2)
    found: NDArray[np.floating[Any]] = np.exp(upper) * np.maximum(-np.expm1(lower - upper), 0.0)
    return found


def epsilon(mu: float, delta_target: float) -> float:
    """The smallest epsilon >= 0 with delta(epsilon, mu) <= delta_target, rounded up.

    Guarantee: a mu-GDP mechanism is (result, delta_target)-DP.

    Args:
        mu: >= 0; above HOPELESS the result is math.inf.
        delta_target: in (0, 1).

    Raises:
        ValueError: mu is negative, or delta_target is not in (0, 1).

    Source: Dong, Roth and Su (2022), arXiv:1905.02383.
    """
    from scipy.optimize import brentq

    checks.open_probability("delta", delta_target)
    checks.require(mu >= 0, "mu", "be >= 0", mu)
    if mu == 0 or delta(0.0, mu) <= delta_target:
        return 0.0
    if mu > HOPELESS:
        return math.inf
    log_target = math.log(delta_target)
    # except with probability delta, a Gaussian loss is below mu^2/2 + mu sqrt(2 log(1/delta))
    high = mu * mu / 2 + mu * math.sqrt(2 * -log_target) + 1e-9
    found = brentq(lambda e: _log_delta(e, mu) - log_target, 0.0, high, xtol=1e-13, rtol=1e-14)
    while delta(found, mu) > delta_target:
        found += 1e-13 * max(1.0, found)
    return float(found)


def mu(epsilon_target: float, delta_target: float) -> float:
    """The largest mu with delta(epsilon_target, mu) <= delta_target, rounded down.

    Guarantee: a result-GDP mechanism is (epsilon_target, delta_target)-DP.

    Args:
        epsilon_target: >= 0, finite; above LARGEST_BUDGET the result is the (smaller) mu of LARGEST_BUDGET.
        delta_target: in (0, 1).

    Raises:
        ValueError: epsilon_target is negative or not finite, or delta_target is not in (0, 1).

    Source: Dong, Roth and Su (2022), arXiv:1905.02383.
    """
    from scipy.optimize import brentq

    checks.non_negative("epsilon", epsilon_target)
    checks.open_probability("delta", delta_target)
    epsilon_target = min(epsilon_target, LARGEST_BUDGET)
    low, high = 1e-12, 1.0
    while delta(epsilon_target, low) > delta_target:
        low /= 2
    if low < 1e-12:
        return low
    while delta(epsilon_target, high) <= delta_target:
        low, high = high, high * 2
    log_target = math.log(delta_target)
    found = brentq(lambda m: _log_delta(epsilon_target, m) - log_target, low, high, xtol=1e-14)
    while delta(epsilon_target, found) > delta_target:
        found *= 1 - 1e-13
    return float(found)


def effective_hops(num_hops: int, contraction: float) -> float:
    """K_eff = (1 - c^K)/(1 + c^K) * (1 + c)/(1 - c): the number of hops that count.

    Guarantee: `num_hops` noisy c-contractive hops with only the last state released are mu-GDP with mu =
    sensitivity / noise_stddev * sqrt(K_eff); this value is attained, so no smaller one holds. 1 <= K_eff <=
    K, increasing in both; K_eff = K at c = 1. Source: Bok, Su and Altschuler (2024); CARIBOU, Theorem 3;
    proof in docs/accounting.md, theorem 5.

    Args:
        num_hops: K >= 1.
        contraction: c in [0, 1], the Lipschitz constant of one hop.

    Returns:
        in [1, K].

    Raises:
        ValueError: num_hops is below 1, or contraction is not in [0, 1].
    """
    checks.at_least("num_hops", num_hops, 1)
    checks.probability("contraction", contraction)
    if contraction == 0.0:
        return 1.0
    # (1 - c^K)/(1 + c^K) = tanh(-K log(c) / 2), also for K = 1: stable as c -> 1
    half = -math.log(contraction) / 2
    if half * num_hops < 1e-9:
        return float(num_hops)
    return math.tanh(num_hops * half) / math.tanh(half)


def event_mu(event: Event[Any]) -> float | None:
    """mu of one event that is exactly Gaussian; None for other events.

    These events are Gaussian: a Gaussian release, a contractive iteration, batches with every root, and
    batches without changed roots.

    Guarantee: the event is mu-GDP for its relation in both directions (docs/accounting.md, theorem 5).

    Args:
        event: one event, not a composition.

    Returns:
        mu >= 0, math.inf without noise; None where the event is not exactly Gaussian.
    """
    if isinstance(event, GaussianRelease):
        return _ratio(event.sensitivity, event.noise_stddev)
    if isinstance(event, ContractiveIteration):
        hops = effective_hops(event.num_hops, event.contraction)
        return _ratio(event.sensitivity, event.noise_stddev) * math.sqrt(hops)
    if isinstance(event, PoissonRoots):
        shift = (event.d_plus + event.d_minus) * event.clipping_norm
        if shift == 0 or event.sampling_probability == 0:
            return 0.0
        if event.sampling_probability == 1 or shift > HOPELESS * event.noise_stddev:
            return _ratio(shift, event.noise_stddev)
    if isinstance(event, FixedSizeRoots):
        shift = 2 * event.changed_roots * event.clipping_norm
        full = event.batch_size == event.population
        if shift == 0 or full or shift > HOPELESS * event.noise_stddev:
            return _ratio(shift, event.noise_stddev)
    return None


def total_mu(event: Event[Any]) -> float | None:
    """sqrt(sum of count * mu^2) over a composition; None if a part is not Gaussian.

    Guarantee: the composition is mu-GDP for its relation, also if later parts depend on earlier results.

    Args:
        event: one event or a composition.

    Returns:
        mu >= 0, or None.

    Source: Dong, Roth and Su (2022), arXiv:1905.02383, on composition; docs/accounting.md, theorem 5.
    """
    total = 0.0
    for part, count in parts(event):
        value = event_mu(part)
        if value is None:
            return None
        total += count * value * value
    return math.sqrt(total)


def _ratio(sensitivity: float, noise_stddev: float) -> float:
    """sensitivity / noise_stddev; infinite where the noise is negligible."""
    if sensitivity == 0:
        return 0.0
    return sensitivity / noise_stddev if sensitivity <= HOPELESS * noise_stddev else math.inf


def _log_delta(epsilon: float, mu: float) -> float:
    """log delta, kept finite for the root finder."""
    value = delta(epsilon, mu)
    return math.log(value) if value > 0 else -745.0
