"""The published accounting of HeterPoisson: multivariate Laplace noise counted as univariate, by RDP.

It does not prove a guarantee of the run (docs/soundness.md: sml-as-univariate, batch-padding, sampler-ripple,
dedupe-order, steps-undercounted).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import logsumexp
from scipy.stats import binom

from dpgnn.accountants import rdp
from dpgnn.accountants.calibration import smallest_meeting
from dpgnn.core import checks

ORDERS = np.linspace(1.0001, 10.0, 100)


def step_rdp(
    stddev: float, *, rate: float, max_degree: int, population: int, orders: np.ndarray = ORDERS
) -> np.ndarray:
    """Renyi divergence of one step at each order, in one direction.

    Shifts are in units of the clipping norm. With probability q the node is a root: shift 1/2. Otherwise it
    is in k subgraphs, k binomial (N, q M/N).

    Guarantee: none: see the caveats of the module.

    Args:
        stddev: of the one-dimensional Laplace variable, relative to C.
        rate: q; max_degree: M; population: N, training nodes.
        orders: each > 1.

    Returns:
        float64 (num_orders,), in nats.

    Raises:
        ValueError: stddev is not > 0.

    Source: Xiang, Wang and Wang (2024), arXiv:2311.06888, as its code computes it.
    """
    checks.positive("stddev", stddev)
    counts = np.arange(0, min(population, 400) + 1)
    log_counts = binom.logpmf(counts, population, rate * max_degree / population)
    shifts = np.concatenate([[0.5], counts])
    with np.errstate(divide="ignore"):
        weights = np.concatenate([[math.log(rate)], np.log1p(-rate) + log_counts])
    a, s = orders[:, None], shifts[None, :] / (stddev / math.sqrt(2))
    inner = np.logaddexp(
        np.log(a / (2 * a - 1)) + (a - 1) * s, np.log((a - 1) / (2 * a - 1)) - a * s
    )
    return np.asarray(logsumexp(weights + inner, axis=1) / (orders - 1))


def stated_epsilon(
    stddev: float, num_steps: int, delta: float, *, rate: float, max_degree: int, population: int
) -> float:
    """The epsilon that the published accounting states.

    Guarantee: none: see the caveats of the module.

    Args:
        stddev: of the one-dimensional Laplace variable, relative to C.
        num_steps: T >= 0.
        delta: in (0, 1).
        rate: q; max_degree: M; population: N, training nodes.

    Returns:
        in nats.

    Raises:
        ValueError: delta is not in (0, 1).

    Source: Xiang, Wang and Wang (2024), arXiv:2311.06888, as its code computes it.
    """
    total = num_steps * step_rdp(stddev, rate=rate, max_degree=max_degree, population=population)
    return float(rdp.to_epsilon(ORDERS, total, delta, conversion="improved")[0])


@lru_cache(maxsize=64)
def stated_stddev(
    epsilon: float, num_steps: int, delta: float, *, rate: float, max_degree: int, population: int
) -> float:
    """The smallest deviation whose stated epsilon is at most `epsilon`, to a relative 1e-4.

    Guarantee: none: see the caveats of the module.

    Args:
        epsilon: in nats, > 0.
        num_steps: T >= 1.
        delta: in (0, 1).
        rate: q; max_degree: M; population: N, training nodes.

    Returns:
        relative to C.

    Raises:
        ValueError: no noise meets the target.

    Source: Xiang, Wang and Wang (2024), arXiv:2311.06888, as its code computes it.
    """

    def spent(stddev: float) -> float:
        return stated_epsilon(
            stddev, num_steps, delta, rate=rate, max_degree=max_degree, population=population
        )

    return smallest_meeting(spent, epsilon, start=5.0, tolerance=1e-4, name="target_epsilon")
