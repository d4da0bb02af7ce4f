"""The best of a random number of runs, counted a second time from one run's profile by dp-accounting.

Nothing of `dpgnn.accountants` but the event itself is used: theorem 19 (b) of docs/accounting.md is written
out here anew.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpgnn.accountants.events import BestOf, Event, parts
from dpgnn.release.recount import Floats, Profile, distributions, gaussian, recount

# epsilons at which the odds of losing are looked at, closer near zero; every one of them gives a bound
MOVES = np.union1d(np.linspace(0.0, 20.0, 2001), np.geomspace(1e-5, 1.0, 2001))
# epsilons of one run
PLACES = np.union1d(np.linspace(-20.0, 100.0, 48_001), np.linspace(-0.5, 0.5, 20_001))


def recount_any(event: Event[Any], delta: float) -> float:
    """`recount`, of the best of several runs too where it is all that was done.

    Guarantee: as `recount`.

    Args:
        event: what was done.
        delta: in (0, 1).

    Raises:
        TypeError: an event that is not counted here.
    """
    (first, count), *more = parts(event)
    if isinstance(first, BestOf) and count == 1 and not more:
        return best_epsilon(first, delta)
    return recount(event, delta)


def best_epsilon(event: BestOf[Any], delta: float) -> float:
    """Epsilon of the best of K runs at a delta: the Q of E[K] Q(e - (1 + eta) log R) = delta.

    Guarantee: not below the true epsilon but for rounding in float64.

    Args:
        event: what was done.
        delta: in (0, 1).

    Returns:
        epsilon >= 0; inf where there is none.

    Raises:
        TypeError: a run holds an event that dp-accounting does not count.
    """
    eta, gamma = event.eta, event.gamma
    mean = -math.log(gamma) if eta == 0 else (1 - gamma**eta) / eta
    mean = (1 - gamma) / (gamma * mean)
    profiles = [_profile(run) for run in event.runs]

    def one_run(epsilons: Floats) -> Floats:
        found: Floats = np.mean([profile(epsilons) for profile in profiles], axis=0)
        return found

    odds = math.log(float(np.min(np.exp(MOVES) + one_run(MOVES) / gamma)))
    deltas = mean * one_run(PLACES)
    if deltas[-1] > delta:
        return math.inf
    # the profile is convex in exp(epsilon): a chord lies above it, and crosses delta later
    last = int(np.argmax(deltas <= delta))
    crossing = PLACES[0]
    if last > 0:
        ends = [last, last - 1]
        crossing = math.log(np.interp(delta, deltas[ends], np.exp(PLACES[ends])))
    return max(0.0, float(crossing) + (1 + eta) * odds)


def _profile(event: Event[Any]) -> Profile:
    """delta(epsilon) of one run, the larger of both directions."""
    mu, pmfs = distributions(event)
    if mu == 0:
        return lambda epsilons: np.maximum(-np.expm1(epsilons), 0.0)
    if mu is None:
        return lambda epsilons: np.max(
            [pmf.get_delta_for_epsilon(epsilons) for pmf in pmfs], axis=0
        )
    if math.isinf(mu):
        return lambda epsilons: np.ones(len(epsilons))
    profile = gaussian(mu)
    return lambda epsilons: np.maximum(profile(epsilons), 0.0)
