"""Each paper's own accounting, as its text or released code states it: DP-GNN, DP-SGD, CARIBOU, GAP, DPDGC.

These functions reproduce published numbers. Whether the number is a guarantee of what was run is another
question: see `caveats.py`. DRW and DPAR have files of their own.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import gammaln, log_ndtr, logsumexp

from dpgnn.accountants import gdp, rdp
from dpgnn.accountants.events import (
    ContractiveIteration,
    Event,
    FixedSizeRoots,
    GaussianRelease,
    PoissonRoots,
    compose,
    parts,
    require_scheme,
)
from dpgnn.accountants.rdp import Conversion, Floats
from dpgnn.core import checks

# 1.1, 1.2, ..., 199.9: DP-GNN's code for its DP-MLP baseline.
DP_MLP_ORDERS: Floats = np.round(np.arange(11, 2000) / 10, 1)


def dpgnn_theorem1_rdp(event: FixedSizeRoots[Any], orders: Floats) -> Floats:
    """DP-GNN's Theorem 1: Renyi divergence of one step.

    gamma(a) = 1/(a-1) log sum_i Hyp(i; N, d, m) exp(a (a-1) i^2 / (2 lambda^2 d^2)) with d = changed
    roots and lambda = noise_stddev / (2 C d).

    Raises:
        TypeError: the batch is not of fixed size; names both schemes.

    Source: Daigavane et al., "Node-level differentially private GNNs", Theorem 1 and Lemma 5.
    """
    require_scheme(event, FixedSizeRoots, accountant="DP-GNN's Theorem 1")
    return rdp.revealed_rdp(event, orders)


def dpgnn_epsilon(
    event: FixedSizeRoots[Any],
    num_steps: int,
    delta: float,
    *,
    orders: Floats = rdp.REFERENCE_ORDERS,
    conversion: Conversion = "improved",
) -> float:
    """epsilon that DP-GNN states after `num_steps`; the code uses `improved`, the text `mironov`."""
    checks.at_least("num_steps", num_steps, 0)
    divergence = num_steps * dpgnn_theorem1_rdp(event, orders)
    return rdp.to_epsilon(orders, divergence, delta, conversion=conversion)[0]


def dpgnn_num_steps(
    event: FixedSizeRoots[Any],
    target_epsilon: float,
    delta: float,
    *,
    orders: Floats = rdp.REFERENCE_ORDERS,
    conversion: Conversion = "improved",
) -> int:
    """The largest T whose stated epsilon is at most the target (0 when one step is too much)."""
    divergence = dpgnn_theorem1_rdp(event, orders)
    return rdp.max_runs(orders, divergence, target_epsilon, delta, conversion=conversion)


def layerwise_event(event: FixedSizeRoots[Any], num_groups: int) -> FixedSizeRoots[Any]:
    """The same step when each of L parameter groups got noise for its own clipping norm only.

    L groups with one multiplier lambda are one joint release with lambda / sqrt(L).
    """
    checks.at_least("num_groups", num_groups, 1)
    return replace(event, noise_stddev=event.noise_stddev / math.sqrt(num_groups))


def with_replacement_rdp(
    event: FixedSizeRoots[Any], orders: Floats, *, most_draws: int | None = None
) -> Floats:
    """Theorem 1's sum when the batch is drawn with replacement: the count is Binomial(m, d/N), not at most d.

    Args:
        event: the step as it was described; its noise stays.
        orders: float64 (num_orders,).
        most_draws: cut the sum here (then Pr[more draws] must be added to delta); None for the whole sum.
    """
    require_scheme(event, FixedSizeRoots, accountant="the with-replacement sum")
    last = event.batch_size if most_draws is None else min(most_draws, event.batch_size)
    i = np.arange(last + 1)
    rate = event.changed_roots / event.population
    log_p = (
        gammaln(event.batch_size + 1)
        - gammaln(i + 1)
        - gammaln(event.batch_size - i + 1)
        + i * math.log(rate)
        + (event.batch_size - i) * math.log1p(-rate)
    )
    moves = 2 * event.clipping_norm * i / event.noise_stddev
    a = orders[:, None]
    return logsumexp(log_p + a * (a - 1) * moves**2 / 2, axis=1) / (orders - 1)


def dp_sgd_rdp(event: PoissonRoots[Any], orders: Floats) -> Floats:
    """Plain DP-SGD: Renyi divergence of the Poisson-sampled Gaussian, as public code sums it.

    At integer orders this is exact. At other orders the public accountants sum the absolute values of a
    series whose terms alternate late, which overstates the divergence (by 5 percent at q = 0.28, sigma =
    4.7, order 2.9); `rdp.event_rdp` integrates exactly. Published numbers rest on the sums.

    Raises:
        TypeError: the batch is not Poisson; names both schemes.
        ValueError: more than one root changes.

    Source: Mironov, Talwar and Zhang (2019), "Renyi DP of the sampled Gaussian mechanism", section 3.3.
    """
    require_scheme(event, PoissonRoots, accountant="plain DP-SGD")
    changed = (event.d_plus, event.d_minus)
    checks.require(changed == (1, 0), "d_plus, d_minus", "be 1 and 0", changed, "one root is added")
    return _summed_rdp(event, np.asarray(orders, dtype=np.float64).tobytes())


@lru_cache(maxsize=64)
def _summed_rdp(event: PoissonRoots[Any], order_bytes: bytes) -> Floats:
    """The sums of `dp_sgd_rdp`, memoised by the event and the bytes of the orders."""
    orders = np.frombuffer(order_bytes)
    rate, sigma = event.sampling_probability, event.noise_stddev / event.clipping_norm
    if rate in (0.0, 1.0) or sigma == 0:
        return rdp.event_rdp(event, orders)[0]
    a, i = orders[:, None], np.arange(1000)
    split = sigma**2 * math.log(1 / rate - 1) + 0.5
    choose = gammaln(a + 1) - gammaln(i + 1) - gammaln(a - i + 1)  # log of the absolute value
    below = choose + i * math.log(rate) + (a - i) * math.log1p(-rate)
    below = below + (i * i - i) / (2 * sigma**2) + log_ndtr((split - i) / sigma)
    above = choose + (a - i) * math.log(rate) + i * math.log1p(-rate)
    above = above + (a - i) * (a - i - 1) / (2 * sigma**2) + log_ndtr((a - i - split) / sigma)
    return logsumexp(np.concatenate((below, above), axis=1), axis=1) / (orders - 1)


def dp_sgd_epsilon(
    event: PoissonRoots[Any],
    num_steps: int,
    delta: float,
    *,
    orders: Floats = DP_MLP_ORDERS,
    conversion: Conversion = "improved",
) -> float:
    """epsilon of plain DP-SGD by RDP, as DP-GNN's code states it for DP-MLP."""
    divergence = num_steps * dp_sgd_rdp(event, orders)
    return rdp.to_epsilon(orders, divergence, delta, conversion=conversion)[0]


def dp_sgd_num_steps(
    event: PoissonRoots[Any],
    target_epsilon: float,
    delta: float,
    *,
    orders: Floats = DP_MLP_ORDERS,
    conversion: Conversion = "improved",
) -> int:
    """The largest T whose stated epsilon is at most the target."""
    divergence = dp_sgd_rdp(event, orders)
    return rdp.max_runs(orders, divergence, target_epsilon, delta, conversion=conversion)


def gaussian_epsilon_by_rdp(mu: float, delta: float) -> float:
    """min over all orders a of a mu^2/2 + log(1/delta)/(a-1) = mu^2/2 + mu sqrt(2 log(1/delta))."""
    checks.open_probability("delta", delta)
    return mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta))


def gaussian_mu_by_rdp(epsilon: float, delta: float) -> float:
    """The mu whose `gaussian_epsilon_by_rdp` is epsilon."""
    checks.positive("epsilon", epsilon)
    checks.open_probability("delta", delta)
    root = math.sqrt(-2 * math.log(delta))
    # sqrt(r^2 + 2e) - r without cancellation
    return 2 * epsilon / (math.sqrt(root * root + 2 * epsilon) + root)


def caribou_theorem3_epsilon(event: ContractiveIteration[Any], delta: float) -> float:
    """CARIBOU's Theorem 3 / Corollary 1: RDP (a, a s^2 K_eff / (2 sigma^2)) at the best order.

    Raises:
        TypeError: the event is not a contractive iteration.
    """
    require_scheme(event, ContractiveIteration, accountant="CARIBOU's Theorem 3")
    mu = gdp.event_mu(event)
    assert mu is not None
    return gaussian_epsilon_by_rdp(mu, delta)


def caribou_theorem6_epsilon(
    hops: ContractiveIteration[Any],
    training: Event[Any] | None,
    delta: float,
    *,
    orders: Floats = rdp.WIDE_ORDERS,
) -> float:
    """CARIBOU's Theorem 6: RDP of encoder and head, plus that of the hops, at the best order.

    Args:
        hops: the contractive iteration.
        training: the encoder's and the head's DP-SGD together (None at edge level, where they are free).
        delta: in (0, 1).
        orders: float64 (num_orders,).
    """
    require_scheme(hops, ContractiveIteration, accountant="CARIBOU's Theorem 6")
    return _sum_of_rdp((hops, training), delta, orders, "mironov")


def gap_epsilon(
    aggregation: GaussianRelease[Any],
    num_hops: int,
    training: Event[Any] | None,
    delta: float,
    *,
    orders: Floats = rdp.WIDE_ORDERS,
    conversion: Conversion = "mironov",
) -> float:
    """GAP: `num_hops` Gaussian aggregations and, at node level, the DP-SGD of encoder and classifier, by RDP.

    Source: Sajadmanesh et al. (2023), arXiv:2203.00949, the privacy of PMA at edge and at node level.
    """
    require_scheme(aggregation, GaussianRelease, accountant="GAP's accounting")
    return _sum_of_rdp((compose(aggregation, num_hops), training), delta, orders, conversion)


def dpdgc_epsilon(
    release: GaussianRelease[Any],
    training: Event[Any] | None,
    delta: float,
    *,
    orders: Floats = rdp.WIDE_ORDERS,
    conversion: Conversion = "improved",
) -> float:
    """DPDGC: one Gaussian release of the embedded adjacency, plus the DP-SGD of encoder and head, by RDP."""
    require_scheme(release, GaussianRelease, accountant="DPDGC's accounting")
    return _sum_of_rdp((release, training), delta, orders, conversion)


def _sum_of_rdp(
    events: tuple[Event[Any] | None, ...], delta: float, orders: Floats, conversion: Conversion
) -> float:
    """epsilon of the summed divergences; per part the larger direction, as the papers do."""
    total = np.zeros(len(orders))
    for event in events:
        for part, count in parts(event) if event is not None else ():
            total = total + count * np.maximum(*rdp.event_rdp(part, orders))
    return rdp.to_epsilon(orders, total, delta, conversion=conversion)[0]
