"""Privacy losses of events: the dominating pair of each event, discretised.

Both directions are built: `forward` is G against G' (P || Q), `backward` is G' against G. Each is composed by
itself and the larger epsilon is taken at the end; directions are never mixed. Theorems and proofs:
docs/accounting.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpgnn.accountants import gdp, zcdp
from dpgnn.accountants.convolution import Floats
from dpgnn.accountants.events import (
    Event,
    FixedSizeRoots,
    GumbelTopK,
    LaplaceRelease,
    PoissonRoots,
    RandomizedResponse,
)
from dpgnn.accountants.loss import DiscreteLoss, everything, from_atoms, from_cells, nothing
from dpgnn.accountants.mixtures import (
    MixturePair,
    gaussian_pair,
    hypergeometric,
    removal_pair,
    two_sided_pair,
)

# exp() of losses up to this value, and products of two differences of these, are finite in float64
MAX_PROFILE_LOSS = 700.0


@dataclass(frozen=True, kw_only=True, eq=False)
class LossPair:
    """The losses of both directions on the same grid."""

    forward: DiscreteLoss
    backward: DiscreteLoss


def event_loss(event: Event[Any], count: int, step: float) -> LossPair:
    """The losses of both directions of `count` adaptive runs of one event (not a composition).

    Guarantee: each loss dominates its direction of the event's relation, also if runs depend on earlier
    outputs.

    Args:
        event: what was done.
        count: >= 1.
        step: grid step in nats.

    Raises:
        TypeError: the PLD accountant does not know the event.

    Source: docs/accounting.md, theorems 1 to 3, 5, 6 and 8.
    """
    mu = gdp.event_mu(event)
    if mu is not None:
        return _symmetric(gaussian_loss(mu * math.sqrt(count), step))
    if isinstance(event, PoissonRoots):
        pair = two_sided_pair(event)
        forward = mixture_loss(pair, step).self_compose(count)
        if event.d_plus == event.d_minus:
            return _symmetric(forward)  # (Q, P) is the mirror image of (P, Q)
        backward = mixture_loss(pair.reversed(), step).self_compose(count)
        return LossPair(forward=forward, backward=backward)
    if isinstance(event, FixedSizeRoots):
        one = glued_loss(event, step) if event.changed_roots == 1 else revealed_loss(event, step)
        return _symmetric(one.self_compose(count))
    if isinstance(event, LaplaceRelease):
        return _symmetric(laplace_loss(event, step).self_compose(count))
    if isinstance(event, RandomizedResponse):
        forward = response_loss(event.one_if_one, event.one_if_zero, step)
        backward = response_loss(event.one_if_zero, event.one_if_one, step)
        return LossPair(forward=forward.self_compose(count), backward=backward.self_compose(count))
    if isinstance(event, GumbelTopK):
        return _symmetric(top_k_loss(event, count, step))
    raise TypeError(f"the PLD accountant counts no {type(event).__name__}")


def gaussian_loss(mu: float, step: float) -> DiscreteLoss:
    """The loss of N(mu, 1) against N(0, 1).

    Guarantee: dominates N(mu, 1) against N(0, 1); the grid only raises it.

    Args:
        mu: >= 0, may be infinite.
        step: grid step in nats.

    Source: docs/accounting.md, theorems 5 and 8.
    """
    if mu == 0:
        return nothing(step)
    if math.isinf(mu):
        return everything(step)
    return mixture_loss(gaussian_pair(mu), step)


def mixture_loss(pair: MixturePair, step: float) -> DiscreteLoss:
    """Connect-the-dots of (P || Q) for mixtures with an increasing loss.

    Guarantee: dominates (P || Q): cells that are split, and tails and dropped components that go to infinity,
    only make it larger.

    Args:
        pair: mixtures with an increasing loss.
        step: grid step in nats.

    Source: docs/accounting.md, theorem 8 (a) and (c).
    """
    pair, dropped = pair.trimmed()
    p, q = pair.p, pair.q
    low, high = p.range()
    ends = pair.loss(np.array([low, high])) / step
    first = math.floor(float(ends[0]))
    last = max(math.ceil(float(ends[1])), first + 1)
    edges = _where_loss_is(pair, np.arange(first, last + 1) * step, low, high)
    infinity = dropped + float(p.upper_tail(np.array([edges[-1]]))[0])
    cells = p.cells(edges), q.cells(edges)
    loss = from_cells(*cells, lower=first, step=step, infinity_mass=min(1.0, infinity))
    # losses below the first edge are rounded up to it
    loss.mass[0] += float(p.lower_tail(edges[:1])[0])
    return loss


def glued_loss(event: FixedSizeRoots, step: float) -> DiscreteLoss:
    """One changed root, batch without replacement: `removal_pair` for gamma >= 1, mirrored for less.

    Guarantee: dominates both directions (docs/accounting.md, theorem 3).

    Args:
        event: one step, one changed root.
        step: grid step in nats.
    """
    pair = removal_pair(event)
    shift = float(pair.p.means[-1])
    _, high = pair.p.range()
    last = math.ceil(float(pair.loss(np.array([high]))[0]) / step)
    edges = _where_loss_is(pair, np.arange(last + 1) * step, shift / 2 - 1e-6, high)
    edges[0] = shift / 2  # loss 0 exactly
    p, q = pair.p.cells(edges), pair.q.cells(edges)
    infinity = float(pair.p.upper_tail(edges[-1:])[0])
    upper = from_cells(p, q, lower=0, step=step, infinity_mass=infinity)
    # the mirror image of a loss +e with masses (p, q) is -e with masses (q, p)
    lower = (upper.mass * np.exp(-upper.losses))[::-1]
    mass = np.concatenate((lower[:-1], [lower[-1] + upper.mass[0]], upper.mass[1:]))
    mass[last] += max(0.0, 1.0 - mass.sum() - infinity)
    return DiscreteLoss(step=step, lower=-last, mass=mass, infinity_mass=infinity)


def revealed_loss(event: FixedSizeRoots, step: float) -> DiscreteLoss:
    """Any number of changed roots: i of them are in the batch, i is revealed, then N(2Ci) against N(0).

    Guarantee: dominates both directions, even if the batch is known (docs/accounting.md, theorem 2).

    Args:
        event: one step.
        step: grid step in nats.
    """
    weights = np.exp(hypergeometric(event.population, event.changed_roots, event.batch_size))
    shift = 2 * event.clipping_norm / event.noise_stddev
    return revealed([gaussian_loss(i * shift, step) for i in range(len(weights))], weights)


def revealed(losses: Sequence[DiscreteLoss], weights: Floats) -> DiscreteLoss:
    """The loss of a pair that reveals which of several pairs was drawn.

    Guarantee: dominates if each loss does and the weights do not depend on private data.

    Args:
        losses: of the pairs, on one grid step.
        weights: float64 (num_losses,), probabilities.
    """
    lower = min(loss.lower for loss in losses)
    upper = max(loss.lower + len(loss.mass) for loss in losses)
    mass = np.zeros(upper - lower)
    for weight, loss in zip(weights, losses):
        start = loss.lower - lower
        mass[start : start + len(loss.mass)] += weight * loss.mass
    infinity = sum(float(w) * loss.infinity_mass for w, loss in zip(weights, losses))
    return DiscreteLoss(step=losses[0].step, lower=lower, mass=mass, infinity_mass=infinity)


def laplace_loss(event: LaplaceRelease, step: float) -> DiscreteLoss:
    """The loss of Laplace noise: atoms at both ends and a density between them.

    Guarantee: dominates both directions, since the pair is its own mirror image.

    Args:
        event: its sensitivity is an L1 distance.
        step: grid step in nats.

    Source: docs/accounting.md, theorem 8 (a).
    """
    top = event.sensitivity / event.scale
    if top == 0:
        return nothing(step)
    # cell ends: grid points inside (-top, top), and both ends; no cell contains a grid point inside
    inside = np.arange(math.floor(-top / step) + 1, math.ceil(top / step)) * step
    ends = np.concatenate(([-top], inside[(inside > -top) & (inside < top)], [top]))
    low, high = ends[:-1], ends[1:]
    # Pr_P[loss <= e] = exp((e - top)/2)/2 on [-top, top).
    p = 0.5 * np.exp((low - top) / 2) * np.expm1((high - low) / 2)
    # log(p/q) of a cell; p and q may underflow
    losses = np.concatenate(([-top], (low + high) / 2, [top]))
    masses = np.concatenate(([0.5 * math.exp(-top)], p, [0.5]))
    # from_atoms spreads a merged cell over its whole grid cell
    return from_atoms(losses, masses, step=step)


def response_loss(one_if_p: float, one_if_q: float, step: float) -> DiscreteLoss:
    """The loss of one randomised bit: Bernoulli(one_if_p) against Bernoulli(one_if_q).

    Guarantee: dominates this direction, and is exact except for the grid.

    Args:
        one_if_p, one_if_q: probabilities of a 1 in the two graphs, in [0, 1].
        step: grid step in nats.
    """
    losses, masses, infinity = [], [], 0.0
    for p, q in ((one_if_p, one_if_q), (1 - one_if_p, 1 - one_if_q)):
        if p > 0 and q > 0:
            losses.append(math.log(p / q))
            masses.append(p)
        elif p > 0:
            infinity += p
    if not losses:
        return everything(step)
    return from_atoms(np.array(losses), np.array(masses), step=step, infinity_mass=infinity)


def top_k_loss(event: GumbelTopK, count: int, step: float) -> DiscreteLoss:
    """A loss with at least the zCDP profile of `count` adaptive selections of K.

    The profile bounds a convex function, so its lower convex hull in exp(epsilon) does too, and every convex
    profile belongs to a pair (Zhu, Dong, Wang 2022, Proposition 9 as recalled). The grid ends at
    MAX_PROFILE_LOSS; the rest of the profile goes to infinity.

    Guarantee: dominates both directions, for candidates that are the same in both graphs.

    Args:
        event: one top-K selection.
        count: adaptive runs; >= 1.
        step: grid step in nats.

    Source: docs/accounting.md, theorem 6.
    """
    rho = count * zcdp.event_rho(event)
    if rho == 0:
        return nothing(step)
    pure = count * zcdp.pure_epsilon(event)
    if not (math.isfinite(rho) and math.isfinite(pure) and math.isfinite(step)):
        return everything(step)
    top = min(pure, rho + 2 * math.sqrt(rho * -math.log(1e-20)), MAX_PROFILE_LOSS)
    stride = max(1, math.ceil(top / step / 8192))  # a coarser grid still gives a bound
    grid = np.arange(math.ceil(top / step / stride) + 1) * (stride * step)
    grid = grid[grid <= MAX_PROFILE_LOSS]
    profile = np.where(grid < pure, zcdp.profile(grid, rho), 0.0)
    return from_profile(grid, profile, step)


def from_profile(grid: Floats, profile: Floats, step: float) -> DiscreteLoss:
    """The loss with the largest convex profile below `profile` in both directions.

    Guarantee: in both directions its delta is at most `profile` at the grid points and at least every convex
    profile below it.

    Args:
        grid: float64 (n,), epsilons 0 = grid[0] < grid[1] < ... <= MAX_PROFILE_LOSS, multiples of step.
        profile: float64 (n,), upper bounds on delta at each; used for both directions.
        step: grid step in nats.

    Returns:
        a loss on the grid.
    """
    # H(1/g) = 1 - 1/g + H(g)/g continues the profile below order 1.
    epsilons = np.concatenate((-grid[:0:-1], grid))
    orders = np.exp(epsilons)
    mirrored = -np.expm1(-grid[:0:-1]) + np.exp(-grid[:0:-1]) * profile[:0:-1]
    heights = np.concatenate((mirrored, profile))
    hull = _lower_hull(orders, heights)
    epsilons, orders, heights = epsilons[hull], orders[hull], heights[hull]
    slopes = np.diff(heights) / np.diff(orders)
    q = np.append(slopes[1:], 0.0) - slopes
    mass = np.zeros(len(orders))
    mass[1:] = np.maximum(q, 0.0) * orders[1:]
    infinity = float(heights[-1])
    mass[0] = max(0.0, 1.0 - mass.sum() - infinity)
    return from_atoms(epsilons, mass, step=step, infinity_mass=infinity)


def _symmetric(loss: DiscreteLoss) -> LossPair:
    return LossPair(forward=loss, backward=loss)


def _where_loss_is(pair: MixturePair, losses: Floats, low: float, high: float) -> Floats:
    """The x in [low, high] with pair.loss(x) = losses, clipped to the ends.

    A dense table gives a bracket for each; Newton steps stay inside it.
    """
    table = np.linspace(low, high, 8193)
    values = np.maximum.accumulate(pair.loss(table))
    place = np.clip(np.searchsorted(values, losses), 1, len(table) - 1)
    left, right = table[place - 1], table[place]
    x = np.clip(np.interp(losses, values, table), low, high)
    open_idx = np.flatnonzero((losses > values[0]) & (losses < values[-1]))
    for _ in range(60):
        if len(open_idx) == 0:
            break
        at = x[open_idx]
        value, slope = pair.loss_and_slope(at)
        error = value - losses[open_idx]
        left[open_idx] = np.where(error < 0, np.maximum(left[open_idx], at), left[open_idx])
        right[open_idx] = np.where(error > 0, np.minimum(right[open_idx], at), right[open_idx])
        a, b = left[open_idx], right[open_idx]
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = at - error / slope
        usable = np.isfinite(newton) & (newton >= a) & (newton <= b)
        moved = np.where(error == 0, at, np.where(usable, newton, (a + b) / 2))
        x[open_idx] = moved
        open_idx = open_idx[np.abs(moved - at) > 1e-13 * np.maximum(1.0, np.abs(at))]
    x[losses <= values[0]], x[losses >= values[-1]] = low, high
    return np.maximum.accumulate(x)


def _lower_hull(along: Floats, heights: Floats) -> list[int]:
    """Indices of the lower convex hull of points, float64 (n,) each, with increasing `along`."""
    # the same products on Python's numbers, which a loop reads faster than an array's
    x, y = along.tolist(), heights.tolist()
    hull: list[int] = []
    for i in range(len(x)):
        while len(hull) >= 2 and (y[hull[-1]] - y[hull[-2]]) * (x[i] - x[hull[-1]]) >= (
            y[i] - y[hull[-1]]
        ) * (x[hull[-1]] - x[hull[-2]]):
            hull.pop()
        hull.append(i)
    return hull
