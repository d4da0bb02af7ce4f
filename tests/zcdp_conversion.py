"""The conversion of a rho-zCDP guarantee at its best order; `zcdp.profile` bounds it on a grid of orders."""

from __future__ import annotations

import math

from dpgnn.core import checks


def delta(epsilon: float, rho: float) -> float:
    """min over orders a > 1 of exp((a - 1)(a rho - epsilon)) (1 - 1/a)^a / (a - 1).

    Guarantee: every order gives an upper bound on the delta of a rho-zCDP mechanism, so an inexact search is
    safe.

    Args:
        epsilon: in nats, any real number.
        rho: >= 0.

    Returns:
        in [0, 1].

    Raises:
        ValueError: rho < 0.

    Source: Canonne, Kamath and Steinke (2020), Corollary 13 (the improved conversion).
    """
    from scipy.optimize import minimize_scalar

    checks.require(rho >= 0, "rho", "be >= 0", rho)
    if rho == 0:
        return max(0.0, -math.expm1(epsilon))

    def log_delta(log_a: float) -> float:
        extra = math.exp(log_a)  # a - 1
        order = 1 + extra
        return extra * (order * rho - epsilon) + order * math.log(extra / order) - log_a

    # the optimum of the plain conversion is a = (epsilon + rho)/(2 rho); search a wide bracket around it
    guess = math.log(max((epsilon - rho) / (2 * rho), 1e-3))
    found = minimize_scalar(log_delta, bounds=(guess - 8, guess + 8), method="bounded")
    return min(1.0, math.exp(min(0.0, float(found.fun))))


def epsilon(rho: float, delta_target: float) -> float:
    """The smallest epsilon >= 0 with delta(epsilon, rho) <= delta_target, rounded up.

    Guarantee: a rho-zCDP mechanism is (epsilon, delta_target)-private.

    Args:
        rho: >= 0.
        delta_target: in (0, 1).

    Returns:
        in nats, >= 0.

    Raises:
        ValueError: rho < 0, or delta_target is not in (0, 1).

    Source: Canonne, Kamath and Steinke (2020), Corollary 13.
    """
    from scipy.optimize import brentq

    checks.open_probability("delta", delta_target)
    checks.require(rho >= 0, "rho", "be >= 0", rho)
    if rho == 0 or delta(0.0, rho) <= delta_target:
        return 0.0
    high = rho + 2 * math.sqrt(rho * -math.log(delta_target)) + 1e-9
    target = math.log(delta_target)
    found = brentq(lambda e: math.log(delta(e, rho)) - target, 0.0, high, xtol=1e-12)
    return float(found * (1 + 1e-9) + 1e-12)
