"""The published accounting of DRW: amplification by Wang, Balle and Kasiviswanathan (2019).

One row of features is replaced, the structure is public, and the batch is m of M walks without replacement:
`FixedSizeRoots` with one changed root, noise multiplier lambda = noise_stddev / (2C).
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from scipy.special import gammaln, logsumexp

from dpgnn.accountants.events import FixedSizeRoots, require_scheme
from dpgnn.accountants.mixtures import panels
from dpgnn.accountants.rdp import Floats
from dpgnn.core import checks

Variant = Literal["basic", "forward-difference"]

# integers 2..64, the orders of the published step counts
DRW_ORDERS: Floats = np.arange(2.0, 65.0)


def wang_rdp(
    event: FixedSizeRoots[Any], orders: Floats, *, variant: Variant = "basic", capped: bool = True
) -> Floats:
    """Renyi divergence of one step by Wang et al. (2019), Theorem 9 (basic) or 27 (forward-difference).

    For integer orders a; between them, (a - 1) times the divergence is interpolated linearly (their Corollary
    10). With e(j) = j / (2 lambda^2) and q = m/M the basic sum is

      1 + q^2 C(a,2) min(4 (exp(e(2)) - 1), 2 exp(e(2))) + sum_{j=3..a} 2 q^j C(a,j) exp((j-1) e(j)).

    Guarantee: an upper bound on the step's Renyi divergence at integer orders for one replaced row and public
    structure, under sampling as in the text, not as in DRW's code.

    Args:
        event: one changed root.
        orders: float64 (num_orders,), >= 2.
        variant: which sum.
        capped: use at most the divergence without sampling.

    Raises:
        TypeError: the batch is not of fixed size; names both schemes.
        ValueError: more than one root changes, or an order is below 2.

    Source: Wang, Balle and Kasiviswanathan (2019), arXiv:1808.00087, Theorems 9 and 27, Corollary 10.
    """
    require_scheme(event, FixedSizeRoots, accountant="DRW's accounting")
    changed = event.changed_roots
    checks.require(changed == 1, "changed_roots", "be 1", changed, "use rdp or pld")
    checks.require(float(np.min(orders)) >= 2, "orders", "be >= 2", float(np.min(orders)))
    checks.one_of("variant", variant, ("basic", "forward-difference"))
    rate = event.batch_size / event.population
    lam = event.noise_stddev / (2 * event.clipping_norm)
    moments = _moments(math.ceil(float(np.max(orders))), lam, rate, variant)
    unsampled = orders / (2 * lam * lam)
    if rate == 1:
        return unsampled
    values = np.array([_interpolated(moments, float(a)) / (a - 1) for a in orders])
    return np.minimum(values, unsampled) if capped else values


def _moments(last: int, lam: float, rate: float, variant: Variant) -> dict[int, float]:
    """Order a in 1..last -> (a - 1) times the divergence of that order."""
    log_terms = _log_moments(last, lam, variant)
    moments = {1: 0.0}
    for a in range(2, last + 1):
        j = np.arange(2, a + 1)
        choose = gammaln(a + 1) - gammaln(j + 1) - gammaln(a - j + 1)
        summands = j * math.log(rate) + choose + log_terms[j]
        moments[a] = float(np.logaddexp(0.0, logsumexp(summands)))
    return moments


def smallest_population(num_nodes: int, walk_length: int, restarts: int = 1) -> int:
    """M_min = ceil(N / (1 + R L)): the least number of disjoint walks.

    Args:
        num_nodes: N, public.
        walk_length: L >= 0.
        restarts: R >= 1, walks from each root.

    Returns:
        M_min >= 1.

    Raises:
        ValueError: a value is out of range.
    """
    checks.at_least("num_nodes", num_nodes, 1)
    checks.at_least("walk_length", walk_length, 0)
    checks.at_least("restarts", restarts, 1)
    return -(-num_nodes // (1 + restarts * walk_length))


def _log_moments(last: int, lam: float, variant: Variant) -> Floats:
    """Logs of the factors of q^j C(a, j) in the sum, j = 0..last (0 and 1 unused)."""
    j = np.arange(last + 1, dtype=float)
    plain = math.log(2) + (j - 1) * j / (2 * lam * lam)
    out = plain.copy()
    two = 1 / lam**2  # e(2)
    out[2] = min(math.log(4) + two + math.log(-math.expm1(-two)), math.log(2) + two)
    if variant == "forward-difference" and last >= 3:
        even = {k: _log_chi(k, lam) for k in range(2, last + 2, 2)}
        for k in range(3, last + 1):
            low, high = even[2 * (k // 2)], even[2 * ((k + 1) // 2)]
            out[k] = min(math.log(4) + (low + high) / 2, plain[k])
    return out


def _log_chi(k: int, lam: float) -> float:
    """log E_{x ~ N(0,1)} (exp(x/lam - 1/(2 lam^2)) - 1)^k for even k: the k-th forward difference.

    The integral has no cancellation, unlike the alternating sum in the text.
    """
    x, log_w = panels(-14.0, max(14.0, k / lam + 14.0), width=0.25)
    loss = x / lam - 1 / (2 * lam * lam)
    with np.errstate(divide="ignore", over="ignore"):
        # log |exp(loss) - 1|
        size = np.where(loss > 0, loss, 0.0) + np.log(-np.expm1(-np.abs(loss)))
    density = -0.5 * x * x - 0.5 * math.log(2 * math.pi)
    return float(logsumexp(log_w + density + k * size))


def _interpolated(moments: dict[int, float], order: float) -> float:
    """(a - 1) times the divergence at order a, linear between integers."""
    low, high = math.floor(order), math.ceil(order)
    share = order - low
    return (1 - share) * moments[low] + share * moments[high]
