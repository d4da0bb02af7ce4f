"""The published accounting of DPAR.

The paper's chain: (epsilon, delta) / q' -> half for DP-APPR, half for DP-SGD -> M vectors by a corollary of
Kairouz, Oh and Viswanath -> Gumbel, Laplace or Gaussian noise per vector. None of this is a guarantee;
`amplification.py` has the correct rule and `composition.py` the composed curve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from dpgnn.accountants import calibration, published
from dpgnn.accountants.events import PoissonRoots
from dpgnn.accountants.rdp import Conversion, Floats
from dpgnn.core import checks

# 1.1 .. 10.9 in steps of 0.1 and the integers 12 .. 63: the orders of DPAR's code
DPAR_ORDERS: Floats = np.concatenate((np.round(np.arange(11, 110) / 10, 1), np.arange(12.0, 64.0)))


@dataclass(frozen=True, kw_only=True)
class VectorBudget:
    """The budget of one of M personalised vectors by the published chain."""

    epsilon: float
    delta: float


def before_amplification(epsilon: float, delta: float, rate: float) -> tuple[float, float]:
    """(epsilon, delta) / q': the paper's inverse amplification (true only for epsilon far below 1).

    Guarantee: none: `amplification.before` is the correct rule.

    Args:
        epsilon: in nats, > 0.
        delta: in (0, 1).
        rate: q', the fraction of nodes that is sampled, in (0, 1].

    Raises:
        ValueError: a value is out of range.
    """
    _require_rate(rate)
    return checks.positive("epsilon", epsilon) / rate, checks.open_probability(
        "delta", delta
    ) / rate


def vector_budget(epsilon: float, delta: float, num_vectors: int) -> VectorBudget:
    """epsilon_1 = epsilon / (2 sqrt(M ln(e + epsilon/delta))) and delta_v = delta / (2 M).

    Args:
        epsilon: in nats, of all vectors together, > 0.
        delta: in (0, 1), of all together.
        num_vectors: M >= 1.

    Raises:
        ValueError: a value is out of range.

    Source: DPAR's use of Kairouz, Oh and Viswanath (2015), corollary of Theorem 3.4.
    """
    checks.positive("epsilon", epsilon)
    checks.open_probability("delta", delta)
    checks.at_least("num_vectors", num_vectors, 1)
    root = math.sqrt(num_vectors * math.log(math.e + epsilon / delta))
    return VectorBudget(epsilon=epsilon / (2 * root), delta=delta / (2 * num_vectors))


def composition_theorem(vector_epsilon: float, slack: float, num_vectors: int) -> float:
    """Epsilon of M runs with pure epsilon `vector_epsilon` at this delta: the smallest of three bounds.

    Args:
        vector_epsilon: in nats, of one vector, > 0.
        slack: delta of the composition, in (0, 1).
        num_vectors: M >= 1.

    Returns:
        in nats.

    Source: Kairouz, Oh and Viswanath (2015), Theorem 3.4.
    """
    e, m = vector_epsilon, num_vectors
    mean = m * e * math.tanh(e / 2)
    wide = math.log(math.e + math.sqrt(m) * e / slack)
    return min(
        m * e,
        mean + e * math.sqrt(2 * m * wide),
        mean + e * math.sqrt(2 * m * math.log(1 / slack)),
    )


def gumbel_epsilon(vector_epsilon: float, vector_delta: float, num_selected: int) -> float:
    """The parameter eps of the Gumbel(C2/eps) noise on every entry.

    The selection is charged 2 min(K eps, K eps tanh(eps) + eps sqrt(2K ln(1/delta_v))).

    Guarantee: none: this is the published cost; docs/accounting.md, theorem 6, has the correct one.

    Args:
        vector_epsilon: budget of the selection of K entries.
        vector_delta: delta of one vector.
        num_selected: K.

    Raises:
        ValueError: a value is out of range.
    """
    checks.positive("vector_epsilon", vector_epsilon)
    checks.open_probability("vector_delta", vector_delta)
    k = checks.at_least("num_selected", num_selected, 1)

    def spent(eps: float) -> float:
        tail = eps * math.sqrt(2 * k * math.log(1 / vector_delta))
        return 2 * min(k * eps, k * eps * math.tanh(eps) + tail)

    high = vector_epsilon
    while spent(high) < vector_epsilon:
        high *= 2
    return float(brentq(lambda eps: spent(eps) - vector_epsilon, 0.0, high, xtol=1e-15, rtol=1e-14))


def gaussian_noise_stddev(vector_epsilon: float, vector_delta: float, vector_norm: float) -> float:
    """The classical formula sqrt(2 ln(1.25/delta)) C1 / epsilon (valid only for epsilon < 1).

    Args:
        vector_epsilon: in nats, > 0.
        vector_delta: in (0, 1).
        vector_norm: C1, the L2 sensitivity.

    Returns:
        absolute standard deviation.

    Raises:
        ValueError: vector_norm is not > 0.

    Source: Dwork and Roth (2014), Theorem A.1.
    """
    checks.positive("vector_norm", vector_norm)
    return math.sqrt(2 * math.log(1.25 / vector_delta)) * vector_norm / vector_epsilon


def sgd_epsilon(
    event: PoissonRoots[Any], num_steps: int, delta: float, *, conversion: Conversion = "mironov"
) -> float:
    """The epsilon that DPAR's code states for its second stage (sampled Gaussian, sensitivity C).

    Guarantee: none: this is the number that the paper states; see `caveats`.

    Args:
        event: one step with Poisson roots.
        num_steps: T >= 0.
        delta: in (0, 1).
        conversion: how divergences become epsilon.

    Returns:
        in nats.

    Raises:
        TypeError: the batch is not Poisson.
    """
    return published.dp_sgd_epsilon(
        event, num_steps, delta, orders=DPAR_ORDERS, conversion=conversion
    )


def sgd_noise_multiplier(
    *,
    target_epsilon: float,
    delta: float,
    sampling_probability: float,
    num_steps: int,
    conversion: Conversion = "mironov",
) -> float:
    """The smallest sigma / C whose `sgd_epsilon` is at most the target.

    Guarantee: none: this is the number that the paper states; see `caveats`.

    Args:
        target_epsilon: in nats, > 0.
        delta: in (0, 1).
        sampling_probability: q in (0, 1].
        num_steps: T >= 1.
        conversion: how divergences become epsilon.

    Returns:
        sigma / C, to a relative 1e-7.

    Raises:
        ValueError: no noise meets the target.
    """

    def spent(multiplier: float) -> float:
        event: PoissonRoots[Any] = PoissonRoots(
            relation="add-remove", noise_stddev=multiplier, clipping_norm=1.0,
            sampling_probability=sampling_probability, d_plus=1, d_minus=0,
        )  # fmt: skip
        return sgd_epsilon(event, num_steps, delta, conversion=conversion)

    return calibration.smallest_meeting(
        spent, target_epsilon, start=1.0, tolerance=1e-7, name="target_epsilon"
    )


def _require_rate(rate: float) -> None:
    checks.require(0 < rate <= 1, "rate", "be in (0, 1]", rate)
