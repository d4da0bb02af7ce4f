"""Discrete privacy losses: connect-the-dots, composition by FFT, epsilon and delta.

A pair (P, Q) is stored as the distribution of its privacy loss log dP/dQ under P on the grid step * integers,
plus a mass at infinity. Approximations only raise the hockey-stick divergence: cells are moved to their grid
points keeping both masses (connect-the-dots: Doroshenko et al. 2022, Algorithm 1), cut tails go to infinity,
and compositions add what rounding may remove (`convolution`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpgnn.accountants._kernels import discounted_sums
from dpgnn.accountants.convolution import TAIL_MASS, Floats, LossMasses, convolve
from dpgnn.core import checks


@dataclass(frozen=True, kw_only=True, eq=False)
class DiscreteLoss(LossMasses):
    """The distribution of a privacy loss on a grid, see `LossMasses`.

    Raises:
        ValueError: a mass is negative or not finite.
    """

    def __post_init__(self) -> None:
        # comparisons with NaN are false
        usable = self.mass.min() >= 0 and self.mass.max() < math.inf
        checks.require(bool(usable), "mass", "be finite and >= 0 everywhere", "one that is not")
        rule = "be finite and >= 0"
        finite = 0 <= self.infinity_mass < math.inf
        checks.require(finite, "infinity_mass", rule, self.infinity_mass)

    def delta(self, epsilon: float) -> float:
        """H_{exp(epsilon)}(P || Q) of the discrete pair, an upper bound for the original pair."""
        if math.isinf(epsilon):
            return self.infinity_mass if epsilon > 0 else 1.0
        losses = self.losses
        first = int(np.searchsorted(losses, epsilon, side="right"))
        above = self.mass[first:] @ -np.expm1(epsilon - losses[first:])
        return min(1.0, float(above) + self.infinity_mass)

    def deltas(self, epsilons: Floats) -> Floats:
        """`delta` at many epsilons, which may be negative; float64 of their shape."""
        mass = self.mass
        above = np.append(np.cumsum(mass[::-1])[::-1], 0.0)
        tilted = np.append(discounted_sums(mass[::-1], math.exp(-self.step))[::-1], 0.0)
        losses = np.append(self.losses, math.inf)
        first = np.searchsorted(self.losses, epsilons, side="right")
        with np.errstate(under="ignore"):
            gone = np.exp(epsilons - losses[first]) * tilted[first]
        found = self.infinity_mass + np.maximum(above[first] - gone, 0.0)
        return np.minimum(found, 1.0)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon >= 0 with delta(epsilon) <= delta; inf when there is none.

        Raises:
            ValueError: delta is not in [0, 1].
        """
        checks.probability("delta", delta)
        if self.infinity_mass > delta:
            return math.inf
        losses, above, tilted = self._tails
        if len(losses) == 0:
            return 0.0
        # From the point before up to losses[k]:
        # delta(e) = infinity_mass + above[k] - exp(e - losses[k]) tilted[k]
        start = np.concatenate(([0.0], losses[:-1]))
        with np.errstate(under="ignore"):
            at_start = self.infinity_mass + above - np.exp(start - losses) * tilted
        k = int(np.count_nonzero(at_start > delta)) - 1  # at_start decreases
        if k < 0:
            return 0.0
        rest = self.infinity_mass + above[k] - delta
        if rest <= 0:
            return float(losses[k])
        found = losses[k] + math.log(rest / tilted[k])
        return float(min(max(found, start[k]), losses[k]))

    @cached_property
    def _tails(self) -> tuple[Floats, Floats, Floats]:
        """Points above 0, mass at and above each, and the sum of mass * exp(point - loss) there."""
        first = max(0, 1 - self.lower)
        losses, mass = self.losses[first:], self.mass[first:]
        above = np.cumsum(mass[::-1])[::-1]
        # tilted[k] = mass[k] + exp(-step) tilted[k + 1]: a recursion that neither over- nor underflows
        tilted = discounted_sums(mass[::-1], math.exp(-self.step))[::-1]
        return losses, above, tilted

    @property
    def tells_everything(self) -> bool:
        """Whether all mass except rounding is at infinity, so that composition cannot make it worse."""
        return self.infinity_mass >= 1 or not self.mass.any()

    def self_compose(self, count: int) -> DiscreteLoss:
        """The loss of `count` adaptive runs.

        Raises:
            ValueError: count is not an integer >= 1.
        """
        checks.at_least("count", count, 1)
        if count == 1 or self.tells_everything:
            return self
        return convolve([(self, count)])

    def compose(self, other: DiscreteLoss) -> DiscreteLoss:
        """The loss of the adaptive composition with another mechanism on the same grid step.

        Raises:
            ValueError: the grid steps differ.
        """
        rule = f"equal {self.step!r}"
        checks.require(
            self.step == other.step, "step", rule, other.step, "build both on the same grid"
        )
        for loss in (self, other):
            if loss.tells_everything:
                return loss
        return convolve([(self, 1), (other, 1)]).truncated()

    def truncated(self, tail: float = TAIL_MASS) -> DiscreteLoss:
        """The loss with an upper tail of mass <= tail moved to infinity and a lower one moved up."""
        upward, downward = np.cumsum(self.mass[::-1]), np.cumsum(self.mass)
        # if nearly all mass is at infinity, no finite point would remain: keep the lowest
        stop = max(1, len(self.mass) - int(np.searchsorted(upward, tail, side="right")))
        start = min(int(np.searchsorted(downward, tail, side="right")), stop - 1)
        mass = self.mass[start:stop].copy()
        mass[0] += self.mass[:start].sum()
        return DiscreteLoss(
            step=self.step,
            lower=self.lower + start,
            mass=mass,
            infinity_mass=min(1.0, self.infinity_mass + float(self.mass[stop:].sum())),
        )


def from_cells(
    p: Floats, q: Floats, *, lower: int, step: float, infinity_mass: float
) -> DiscreteLoss:
    """Connect-the-dots for cells whose losses lie between neighbouring grid points.

    Args:
        p, q: float64 (num_cells,), masses of {(lower + i) step < loss <= (lower + i + 1) step}.
        lower: index of the first cell's lower end.
        step: grid step in nats.
        infinity_mass: mass of P above the last cell or where Q has none.

    Returns:
        a loss on num_cells + 1 points: the mass of each cell is split between its two ends so that p and q =
        sum mass * exp(-loss) stay the same.

    Guarantee: the hockey-stick divergence at every order is at least the pair's (moving a likelihood ratio to
    the ends of an interval at equal mean increases it in convex order).
    """
    left = (lower + np.arange(len(p))) * step
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        # share of p that goes to the upper end: (1 - exp(left) q / p) / (1 - exp(-step))
        share = -np.expm1(left + np.log(q) - np.log(p)) / -math.expm1(-step)
    share = np.where(np.isfinite(share), np.clip(share, 0.0, 1.0), 1.0)
    upper = share * p
    mass = np.zeros(len(p) + 1)
    mass[1:] += upper
    mass[:-1] += p - upper
    return DiscreteLoss(step=step, lower=lower, mass=mass, infinity_mass=infinity_mass)


def from_atoms(
    losses: Floats, p: Floats, *, step: float, infinity_mass: float = 0.0
) -> DiscreteLoss:
    """Connect-the-dots for single losses; each is split between the two grid points around it.

    Args:
        losses: float64 (num_atoms,), in nats, finite.
        p: float64 (num_atoms,), masses under P.
        step: grid step in nats.
        infinity_mass: mass of P where Q has none.
    """
    index = np.floor(losses / step).astype(np.int64)
    share = np.expm1(-(losses - index * step)) / math.expm1(-step)
    share = np.clip(share, 0.0, 1.0)
    lower = int(index.min())
    size = int(index.max()) - lower + 2
    mass: Floats = np.zeros(size)
    mass += np.bincount(index - lower, weights=p * (1 - share), minlength=size)
    mass += np.bincount(index - lower + 1, weights=p * share, minlength=size)
    return DiscreteLoss(step=step, lower=lower, mass=mass, infinity_mass=infinity_mass)


def nothing(step: float) -> DiscreteLoss:
    """The loss of a mechanism that reveals nothing."""
    return DiscreteLoss(step=step, lower=0, mass=np.ones(1), infinity_mass=0.0)


def everything(step: float) -> DiscreteLoss:
    """The loss of a mechanism that reveals everything: all mass at infinity."""
    return DiscreteLoss(step=step, lower=0, mass=np.zeros(1), infinity_mass=1.0)
