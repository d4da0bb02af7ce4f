"""Renyi divergences of the same pairs, and their conversion to (epsilon, delta).

Kept beside the PLD for comparison and as a second, independent accountant: an RDP epsilon is never below
the PLD epsilon of the same events. Orders and conversions have names because papers differ in them.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
from scipy.special import logsumexp

from dpgnn.accountants import gdp, selection, zcdp
from dpgnn.accountants.events import (
    MOST_RUNS,
    BestOf,
    Event,
    FixedSizeRoots,
    GumbelTopK,
    LaplaceRelease,
    PoissonRoots,
    RandomizedResponse,
    parts,
)
from dpgnn.accountants.mixtures import (
    Floats,
    MixturePair,
    blocks,
    hypergeometric,
    log_of_sum,
    panels,
    removal_pair,
    two_sided_pair,
)
from dpgnn.core import checks

Conversion = Literal["improved", "mironov"]

# 1.1, 1.2, ..., 9.9: the grid of DP-GNN's released code.
REFERENCE_ORDERS: Floats = np.round(np.arange(11, 100) / 10, 1)
# 1.01 .. 1.99 step .01, 2.0 .. 49.9 step .1, 50 .. 512 step 2.
WIDE_ORDERS: Floats = np.concatenate(
    (np.arange(101, 200) / 100, np.arange(20, 500) / 10, np.arange(50, 513, 2.0))
)
# Ours, from 1.001 to 4096: a cut grid would only raise epsilon, a wide one costs little.
OUR_ORDERS: Floats = 1 + np.geomspace(1e-3, 4095, 400)

# Beyond this product of order and mean shift sampling no longer helps; the unsampled bound is used.
_LARGEST_MOVE = 200.0


def event_rdp(event: Event[Any], orders: Floats) -> tuple[Floats, Floats]:
    """Renyi divergence of one run at each order > 1, for (G, G') and for (G', G).

    Guarantee: upper bounds on the divergence of one run, for each direction of the event's relation.

    Args:
        event: one event (not a composition).
        orders: float64 (num_orders,).

    Returns:
        forward, backward: float64 (num_orders,), in nats.

    Raises:
        TypeError: the event is not counted here.

    Source: docs/accounting.md, theorems 1 to 3, 5 and 6, as Renyi divergences.
    """
    checks.require(float(np.min(orders)) > 1, "orders", "be > 1", float(np.min(orders)))
    return _event_rdp(event, np.asarray(orders, dtype=np.float64).tobytes())


def clear_cache() -> None:
    """Forget every memoised divergence."""
    _event_rdp.cache_clear()


@lru_cache(maxsize=256)
def _event_rdp(event: Event[Any], order_bytes: bytes) -> tuple[Floats, Floats]:
    """`event_rdp`, memoised by the event and the bytes of the orders; the arrays are read-only."""
    found = _divergences(event, np.frombuffer(order_bytes))
    for values in found:
        values.setflags(write=False)
    return found


def _divergences(event: Event[Any], orders: Floats) -> tuple[Floats, Floats]:
    mu = gdp.event_mu(event)
    if mu is not None:
        return (orders * mu * mu / 2,) * 2
    if isinstance(event, PoissonRoots):
        pair = two_sided_pair(event)
        forward = _mixture_rdp(pair, orders)
        if event.d_plus == event.d_minus:
            return forward, forward
        return forward, _mixture_rdp(pair.reversed(), orders)
    if isinstance(event, FixedSizeRoots):
        single = event.changed_roots == 1
        return (glued_rdp(event, orders) if single else revealed_rdp(event, orders),) * 2
    if isinstance(event, GumbelTopK):
        pure = zcdp.pure_epsilon(event)
        return (np.minimum(orders * zcdp.event_rho(event), pure),) * 2
    if isinstance(event, LaplaceRelease):
        return (_laplace_rdp(event.sensitivity / event.scale, orders),) * 2
    if isinstance(event, RandomizedResponse):
        one, zero = event.one_if_one, event.one_if_zero
        return _bernoulli_rdp(one, zero, orders), _bernoulli_rdp(zero, one, orders)
    if isinstance(event, BestOf):
        return _best_rdp(event, orders)
    raise TypeError(f"the RDP accountant counts no {type(event).__name__}")


def composed_rdp(event: Event[Any], orders: Floats) -> tuple[Floats, Floats]:
    """Renyi divergence of a composition: the sum of count * divergence, per direction.

    Guarantee: upper bounds for the whole, also when later parts depend on what earlier ones gave.

    Args:
        event: one event or a composition.
        orders: float64 (num_orders,), each > 1.

    Returns:
        forward, backward: float64 (num_orders,), in nats.

    Raises:
        TypeError: an event is not counted here.

    Source: Mironov (2017), arXiv:1702.07476, Proposition 1.
    """
    forward, backward = np.zeros(len(orders)), np.zeros(len(orders))
    for part, count in parts(event):
        there, back = event_rdp(part, orders)
        forward, backward = forward + count * there, backward + count * back
    return forward, backward


def epsilon(
    event: Event[Any],
    delta: float,
    *,
    orders: Floats = OUR_ORDERS,
    conversion: Conversion = "improved",
) -> float:
    """epsilon of an event or composition by RDP: the larger of the two directions.

    Guarantee: (epsilon, delta) holds for the event under its relation, in both directions.

    Args:
        event: one event or a composition.
        delta: in (0, 1).
        orders: float64 (num_orders,), each > 1.
        conversion: how divergences become epsilon.

    Returns:
        in nats, >= 0.

    Raises:
        TypeError: an event is not counted here.
        ValueError: delta is not in (0, 1).

    Source: docs/accounting.md, theorem 9.
    """
    return max(
        to_epsilon(orders, divergences, delta, conversion=conversion)[0]
        for divergences in composed_rdp(event, orders)
    )


def to_epsilon(
    orders: Floats, divergences: Floats, delta: float, *, conversion: Conversion
) -> tuple[float, float]:
    """The smallest epsilon over the orders, and its order.

    `mironov`: r + log(1/delta)/(a - 1) (Mironov 2017, Proposition 3).
    `improved`: r + log((a - 1)/a) - (log delta + log a)/(a - 1) (Canonne, Kamath, Steinke 2020,
    Proposition 12; Balle et al. 2020, Theorem 21), 0 if negative.

    Guarantee: an upper bound at every order, so a coarse list of orders errs upwards only.

    Args:
        orders, divergences: float64 (num_orders,).
        delta: in (0, 1).
        conversion: which formula.

    Returns:
        epsilon in nats, and the order it is from.

    Raises:
        ValueError: delta is not in (0, 1).
    """
    values = conversion_term(orders, delta, conversion=conversion) + divergences
    best = int(np.argmin(values))
    return max(0.0, float(values[best])), float(orders[best])


def conversion_term(orders: Floats, delta: float, *, conversion: Conversion) -> Floats:
    """What the conversion adds to the divergence at each order.

    Args:
        orders: float64 (num_orders,), each > 1.
        delta: in (0, 1).
        conversion: which formula of `to_epsilon`.

    Returns:
        float64 (num_orders,), in nats.

    Raises:
        ValueError: delta is not in (0, 1), or the conversion is unknown.

    Source: Mironov (2017), Proposition 3; Canonne, Kamath and Steinke (2020), Proposition 12.
    """
    checks.open_probability("delta", delta)
    checks.one_of("conversion", conversion, get_args(Conversion))
    if conversion == "mironov":
        return -math.log(delta) / (orders - 1)
    return np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)


def max_runs(
    orders: Floats,
    divergence: Floats,
    target_epsilon: float,
    delta: float,
    *,
    conversion: Conversion,
    limit: int = MOST_RUNS,
) -> int:
    """The largest T <= limit with epsilon(T * divergence) <= target_epsilon; 0 when one run is too much.

    Guarantee: the number returned was evaluated and met the target (docs/accounting.md, theorem 11).

    Args:
        orders: float64 (num_orders,), each > 1.
        divergence: float64 (num_orders,), of one run, in nats, > 0.
        target_epsilon: in nats.
        delta: in (0, 1).
        conversion: how divergences become epsilon.
        limit: largest possible result; epsilon in floats grows with every run up to `MOST_RUNS`.

    Raises:
        ValueError: a divergence is not > 0.
    """
    room = target_epsilon - conversion_term(orders, delta, conversion=conversion)
    with np.errstate(divide="ignore", invalid="ignore"):
        runs = np.where(room >= 0, room / divergence, 0.0)
    costs = bool((divergence > 0).all() and np.isfinite(runs).all())
    why = "the noise is so large that no run costs anything; lower it"
    checks.require(costs, "divergence", "be > 0 at every order", divergence.tolist()[:3], why)
    count = min(math.floor(float(runs.max())), limit)

    def spent(number: int) -> float:
        return to_epsilon(orders, number * divergence, delta, conversion=conversion)[0]

    # Settle the last unit by the epsilon itself, not by the rounding of a quotient.
    while count > 0 and spent(count) > target_epsilon:
        count -= 1
    while count < limit and spent(count + 1) <= target_epsilon:
        count += 1
    return count


def revealed_rdp(event: FixedSizeRoots, orders: Floats) -> Floats:
    """One step with the number of changed roots in the batch revealed; DP-GNN's Theorem 1.

    1/(a - 1) log sum_i Hyp(i; N, d, m) exp(a (a - 1) (2 C i)^2 / (2 sigma^2)), in log space.

    Guarantee: an upper bound in both directions for replaced examples of `changed_roots` roots; their number
    in the graph is public (docs/accounting.md, theorem 2).

    Args:
        event: one step.
        orders: float64 (num_orders,), each > 1.

    Returns:
        float64 (num_orders,), in nats.

    Source: Daigavane et al. (2021), arXiv:2111.15521, Theorem 1.
    """
    weights = hypergeometric(event.population, event.changed_roots, event.batch_size)
    moves = 2 * event.clipping_norm * np.arange(len(weights)) / event.noise_stddev
    a = orders[:, None]
    with np.errstate(over="ignore"):  # hardly any noise: infinite
        logs = logsumexp(weights + a * (a - 1) * moves**2 / 2, axis=1)
    return np.maximum(logs, 0.0) / (orders - 1)  # rounding alone is below 0


def glued_rdp(event: FixedSizeRoots, orders: Floats) -> Floats:
    """One changed root without replacement: the Renyi divergence of the glued pair, by quadrature.

    With p = (1 - q) N(0, 1) + q N(s, 1), n = N(0, 1), the pair has p-mass on losses > 0, the mirror image
    on losses < 0 and the rest at 0, so the moment is the integral over x > s/2 of
    p^a n^(1-a) + n^a p^(1-a), plus the rest. Source: docs/accounting.md, theorem 3.

    Guarantee: an upper bound in both directions for one replaced example.

    Args:
        event: one step, one changed root.
        orders: float64 (num_orders,), each > 1.

    Returns:
        float64 (num_orders,), in nats.
    """
    pair = removal_pair(event)
    shift = float(pair.p.means[-1])
    out = orders * shift**2 / 2  # no sampling: always a bound
    moved = orders * shift <= _LARGEST_MOVE
    if not moved.any():
        return out
    top = float(orders[moved].max()) * shift + 14
    x, log_w = panels(shift / 2, max(top, shift / 2 + 14))
    log_n = -0.5 * x * x - 0.5 * math.log(2 * math.pi)
    loss = pair.loss(x)
    atom = 1.0 - float(np.exp(log_w + log_n + loss).sum() + np.exp(log_w + log_n).sum())
    log_atom = math.log(max(atom, 1e-300))
    for k in np.flatnonzero(moved):
        a = orders[k]
        terms = np.concatenate(
            (log_w + log_n + a * loss, log_w + log_n + (1 - a) * loss, [log_atom])
        )
        out[k] = min(out[k], max(0.0, log_of_sum(terms)) / (a - 1))
    return out


def _mixture_rdp(pair: MixturePair, orders: Floats) -> Floats:
    """Renyi divergence of P from Q by quadrature, capped by that of the extreme Gaussians."""
    shift = float(pair.p.means.max() - pair.q.means.min())
    out = orders * shift**2 / 2  # joint quasi-convexity: no worse than the farthest components
    moved = orders * shift <= _LARGEST_MOVE
    if not moved.any():
        return out
    low = float(pair.q.means.min()) - 14 - shift
    high = float(orders[moved].max()) * shift + 14
    x, log_w = panels(low, high)
    loss = pair.loss(x)
    log_q = np.concatenate([pair.q.log_density(block) for block in blocks(x)])
    log_q -= 0.5 * math.log(2 * math.pi)
    for k in np.flatnonzero(moved):
        a = orders[k]
        moment = max(0.0, log_of_sum(log_w + log_q + a * loss))
        out[k] = min(out[k], moment / (a - 1))
    return out


def _laplace_rdp(top: float, orders: Floats) -> Floats:
    """Laplace noise at distance `top` in units of its scale (Mironov 2017, Proposition 6)."""
    a = orders
    one = np.log(a / (2 * a - 1)) + (a - 1) * top
    two = np.log((a - 1) / (2 * a - 1)) - a * top
    return np.logaddexp(one, two) / (a - 1)


def _best_rdp(event: BestOf[Any], orders: Floats) -> tuple[Floats, Floats]:
    """Both directions of the best of several runs."""
    law = selection.NumberOfRuns(eta=event.eta, gamma=event.gamma)
    both = [composed_rdp(run, orders) for run in event.runs]
    there, back = (selection.mixture_rdp(orders, side) for side in zip(*both, strict=True))
    return (
        selection.best_rdp(orders, there, back, law),
        selection.best_rdp(orders, back, there, law),
    )


def _bernoulli_rdp(one_if_p: float, one_if_q: float, orders: Floats) -> Floats:
    """Bernoulli(one_if_p) from Bernoulli(one_if_q)."""
    moments = []
    for p, q in ((one_if_p, one_if_q), (1 - one_if_p, 1 - one_if_q)):
        if p > 0 and q == 0:
            return np.full(len(orders), math.inf)
        if p > 0:
            moments.append(orders * math.log(p) + (1 - orders) * math.log(q))
    return np.maximum(0.0, logsumexp(np.array(moments), axis=0)) / (orders - 1)
