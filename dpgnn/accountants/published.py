"""The accounting of publications, by text or released code: DP-GNN, DP-SGD, CARIBOU, GAP, DPDGC.

These functions reproduce published numbers, which need not be guarantees of the run: see `caveats.py`. DRW,
DPAR and HeterPoisson have files of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import gammaln, log_ndtr, logsumexp

from dpgnn.accountants import rdp
from dpgnn.accountants.events import Event, FixedSizeRoots, PoissonRoots, require_scheme
from dpgnn.accountants.rdp import Conversion, Floats
from dpgnn.core import checks

# the name of DP-GNN's own accounting in claims
THEOREM_1 = "dpgnn-theorem-1"
# 1.1, 1.2, ..., 199.9: DP-GNN's code for its DP-MLP baseline.
DP_MLP_ORDERS: Floats = np.round(np.arange(11, 2000) / 10, 1)


def dpgnn_theorem1_rdp(event: FixedSizeRoots[Any], orders: Floats) -> Floats:
    """DP-GNN's Theorem 1: Renyi divergence of one step.

    gamma(a) = 1/(a-1) log sum_i Hyp(i; N, d, m) exp(a (a-1) i^2 / (2 lambda^2 d^2)) with d = changed
    roots and lambda = noise_stddev / (2 C d).

    Guarantee: an upper bound on the step's Renyi divergence, both directions, for replaced examples of
    `changed_roots` roots and a public number of roots (docs/accounting.md, theorem 2).

    Args:
        event: one step: a batch of fixed size.
        orders: float64 (num_orders,), each > 1.

    Returns:
        float64 (num_orders,), in nats.

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
    """The epsilon that DP-GNN states after `num_steps`; the true one may be larger or smaller.

    Args:
        event: one step: batch of fixed size, `changed_roots` of them changed.
        num_steps: T >= 0.
        delta: in (0, 1).
        orders: Renyi orders; by default those of the authors' code.
        conversion: "improved" in the authors' code, "mironov" in their text.

    Raises:
        ValueError: num_steps is negative or delta not in (0, 1).
        TypeError: the batch is not of fixed size.

    Source: Daigavane et al. (2021), arXiv:2111.15521, Theorem 1.
    """
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
    """The largest T whose stated epsilon is at most the target; 0 if one step exceeds it.

    Args:
        event: one step: batch of fixed size, `changed_roots` of them changed.
        target_epsilon: in nats, > 0.
        delta: in (0, 1).
        orders: Renyi orders; by default those of the authors' code.
        conversion: "improved" in the authors' code, "mironov" in their text.

    Returns:
        T >= 0.

    Raises:
        TypeError: the batch is not of fixed size.

    Source: Daigavane et al. (2021), arXiv:2111.15521, Theorem 1.
    """
    divergence = dpgnn_theorem1_rdp(event, orders)
    return rdp.max_runs(orders, divergence, target_epsilon, delta, conversion=conversion)


def layerwise_event(event: FixedSizeRoots[Any], num_groups: int) -> FixedSizeRoots[Any]:
    """The same step if each of L parameter groups has noise for its own clipping norm only.

    L groups with one multiplier lambda are one joint release with lambda / sqrt(L).

    Guarantee: the event of the joint release, for the unit and relation of the given event: the squared
    shifts of L parts, each at most its own clipping norm, add up (docs/accounting.md, theorem 5).

    Args:
        event: one step, with the noise_stddev of a single group.
        num_groups: L >= 1.

    Raises:
        ValueError: num_groups is below 1.
    """
    checks.at_least("num_groups", num_groups, 1)
    return replace(event, noise_stddev=event.noise_stddev / math.sqrt(num_groups))


def dp_sgd_rdp(event: PoissonRoots[Any], orders: Floats) -> Floats:
    """Renyi divergence of the Poisson-sampled Gaussian, as public accountants compute it.

    This is exact at integer orders. At other orders they sum the absolute values of a series whose late terms
    alternate, which overstates the divergence (by 5 percent at q = 0.28, sigma = 4.7, order 2.9);
    `rdp.event_rdp` integrates instead. Published numbers were computed from the sums.

    Args:
        event: one step with Poisson roots.
        orders: float64 (num_orders,), each > 1.

    Returns:
        float64 (num_orders,), in nats.

    Raises:
        TypeError: the batch is not Poisson; names both schemes.
        ValueError: more than one root changes.

    Source: Mironov, Talwar and Zhang (2019), "Renyi DP of the sampled Gaussian mechanism", section 3.3.
    """
    require_scheme(event, PoissonRoots, accountant="plain DP-SGD")
    changed = (event.d_plus, event.d_minus)
    checks.require(
        changed == (1, 0),
        "d_plus, d_minus",
        "be 1 and 0",
        changed,
        "DP-SGD compares graphs in which one root is added",
    )
    return _summed_rdp(event, np.asarray(orders, dtype=np.float64).tobytes())


@lru_cache(maxsize=64)
def _summed_rdp(event: PoissonRoots[Any], order_bytes: bytes) -> Floats:
    """The sums of `dp_sgd_rdp`, cached by the event and the bytes of the orders."""
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
    """Epsilon of plain DP-SGD by RDP; by default with the orders of DP-GNN's code for DP-MLP.

    Guarantee: none: this is the number that the paper states; see `caveats`.

    Args:
        event: one step with Poisson roots.
        num_steps: T >= 0.
        delta: in (0, 1).
        orders: each > 1.
        conversion: how divergences become epsilon.

    Returns:
        in nats.

    Raises:
        TypeError: the batch is not Poisson.
        ValueError: more than one root changes, or delta is not in (0, 1).

    Source: Mironov, Talwar and Zhang (2019), arXiv:1908.10530, section 3.3, as public code sums it.
    """
    divergence = num_steps * dp_sgd_rdp(event, orders)
    return rdp.to_epsilon(orders, divergence, delta, conversion=conversion)[0]


def gaussian_epsilon_by_rdp(mu: float, delta: float) -> float:
    """min over all orders a of a mu^2/2 + log(1/delta)/(a-1) = mu^2/2 + mu sqrt(2 log(1/delta)).

    Args:
        mu: shift over deviation, >= 0.
        delta: in (0, 1).

    Returns:
        in nats.

    Raises:
        ValueError: delta is not in (0, 1).

    Source: Mironov (2017), arXiv:1702.07476, Proposition 3, minimised over the order.
    """
    checks.open_probability("delta", delta)
    return mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta))


def summed_rdp_epsilon(
    events: Iterable[Event[Any]],
    delta: float,
    *,
    orders: Floats = rdp.OUR_ORDERS,
    conversion: Conversion = "improved",
) -> float:
    """Epsilon of summed Renyi divergences (larger direction of each event), as in GAP, DPDGC and CARIBOU.

    The events may have different relations, as in the publications.

    Guarantee: (epsilon, delta) for the whole run, if all events are for one unit and relation; otherwise it
    is only the publication's number.

    Args:
        events: what was run, under any relations.
        delta: in (0, 1).
        orders: float64 (num_orders,), each > 1.
        conversion: how divergences become epsilon.

    Returns:
        in nats.

    Raises:
        ValueError: delta is not in (0, 1).

    Source: Sajadmanesh et al. (2023), arXiv:2203.00949, the privacy of PMA; CARIBOU, Theorem 6.
    """
    total = np.zeros(len(orders))
    for event in events:
        total = total + np.maximum(*rdp.composed_rdp(event, orders))
    return rdp.to_epsilon(orders, total, delta, conversion=conversion)[0]
