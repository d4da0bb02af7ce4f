"""Zero-concentrated differential privacy of Gumbel top-K and Gaussian releases.

A mechanism is rho-zCDP if its Renyi divergence of every order a is at most rho a; rho adds up.
Source: Bun and Steinke (2016); for selections Cesar and Rogers (2021), "Bounding, concentrating, and
truncating", Lemma 3.4: an exponential mechanism of bounded range e is e^2/8-zCDP.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpgnn.accountants import gdp
from dpgnn.accountants.events import Event, GumbelTopK

Floats = NDArray[np.floating[Any]]


def bounded_range(event: GumbelTopK) -> float:
    """Range of the loss of one selection over outcomes: 2 * score_sensitivity / scale.

    One selection with Gumbel(b) noise is an exponential mechanism with weights exp(score / b); if a score
    changes by at most s, the weight and the normaliser of each log probability change by at most s/b.

    Args:
        event: one top-K selection; its scale is b.

    Returns:
        in nats, >= 0.

    Source: Cesar and Rogers (2021), Lemma 3.4; docs/accounting.md, theorem 6.
    """
    return 2 * event.score_sensitivity / event.scale


def event_rho(event: Event[Any]) -> float:
    """rho of one event: K range^2 / 8 for Gumbel top-K (K peeled selections), mu^2/2 for a Gaussian one.

    Guarantee: the event is rho-zCDP for its relation.

    Args:
        event: one event, not a composition.

    Returns:
        rho >= 0, in nats per order.

    Raises:
        TypeError: zCDP does not know the event.

    Source: docs/accounting.md, theorem 6; Bun and Steinke (2016) for Gaussian noise.
    """
    if isinstance(event, GumbelTopK):
        return event.num_selected * bounded_range(event) ** 2 / 8
    mu = gdp.event_mu(event)
    if mu is None:
        raise TypeError(f"zCDP counts GumbelTopK and Gaussian events, not {type(event).__name__}")
    return mu * mu / 2


def pure_epsilon(event: GumbelTopK) -> float:
    """K times the range of one selection, which bounds the loss with certainty.

    Guarantee: the selections are (epsilon, 0)-private for the event's relation.

    Args:
        event: K selections, peeled.

    Returns:
        in nats, >= 0.

    Source: docs/accounting.md, theorem 6.
    """
    return event.num_selected * bounded_range(event)


def profile(epsilons: Floats, rho: float) -> Floats:
    """An upper bound on delta at many epsilons >= 0: the minimum over a grid of orders a > 1 of
    exp((a - 1)(a rho - epsilon)) (1 - 1/a)^a / (a - 1).

    Guarantee: every order gives an upper bound on the delta of a rho-zCDP mechanism.

    Args:
        epsilons: float64 (num_epsilons,).
        rho: > 0.

    Returns:
        float64 (num_epsilons,); every order gives a bound, so a coarse grid only raises the result.

    Source: Canonne, Kamath and Steinke (2020), Corollary 13 (the improved conversion).
    """
    guess = np.maximum((epsilons - rho) / (2 * rho), 1e-3)
    extra = guess[:, None] * np.exp(np.linspace(-3, 3, 241))  # a - 1
    order = 1 + extra
    exponent = extra * (order * rho - epsilons[:, None])
    exponent += order * np.log(extra / order) - np.log(extra)
    return np.exp(np.minimum(exponent.min(axis=1), 0.0))
