"""One curve over everything that was done: epsilon and delta of a composition.

`curve` composes the losses of all parts, direction by direction, and answers delta(epsilon) and
epsilon(delta). Delta is spent once, on the composed curve, never per mechanism.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dpgnn.accountants import gdp, pld, rdp, selection
from dpgnn.accountants.events import BestOf, Event, R, parts, require_relation
from dpgnn.accountants.grid import default_step
from dpgnn.accountants.loss import DiscreteLoss
from dpgnn.accountants.plan import Spent
from dpgnn.core import checks

Floats = NDArray[np.float64]
Accountant = Literal["pld", "gdp", "rdp"]


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivacyCurve:
    """delta as a function of epsilon for one composition, both directions.

    Attributes:
        forward, backward: losses of (G, G') and (G', G); None for an exactly Gaussian composition.
        mu: mu of an exactly Gaussian composition, otherwise None.
    """

    forward: DiscreteLoss | None = None
    backward: DiscreteLoss | None = None
    mu: float | None = None

    def delta(self, epsilon: float) -> float:
        """The larger delta of the two directions at this epsilon (any real number).

        Guarantee: an upper bound for both directions of the event's relation; exact where the event is
        Gaussian.

        Args:
            epsilon: in nats, any real number.

        Returns:
            in [0, 1].

        Source: docs/accounting.md, theorem 8; theorem 5 for Gaussian events.
        """
        if self.mu is not None:
            return gdp.delta(epsilon, self.mu)
        return max(loss.delta(epsilon) for loss in self._losses())

    def deltas(self, epsilons: pld.Floats) -> pld.Floats:
        """`delta` at many epsilons.

        Guarantee: as `delta`.

        Args:
            epsilons: float64 (n,), in nats, any real numbers.

        Returns:
            float64 (n,), in [0, 1].
        """
        if self.mu is not None:
            return gdp.deltas(epsilons, self.mu)
        return np.max([loss.deltas(epsilons) for loss in self._losses()], axis=0)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon >= 0 whose delta is at most this; math.inf when there is none.

        Guarantee: an upper bound for both directions of the event's relation at this delta.

        Args:
            delta: in (0, 1), a probability.

        Returns:
            in nats, >= 0.

        Raises:
            ValueError: delta is not in (0, 1).

        Source: docs/accounting.md, theorem 8; theorem 5 for Gaussian events.
        """
        checks.open_probability("delta", delta)
        if self.mu is not None:
            return gdp.epsilon(self.mu, delta)
        return max(loss.epsilon(delta) for loss in self._losses())

    def _losses(self) -> tuple[DiscreteLoss, ...]:
        assert self.forward is not None
        assert self.backward is not None
        return (self.forward,) if self.forward is self.backward else (self.forward, self.backward)


def curve(event: Event[Any], *, step: float | None = None) -> PrivacyCurve:
    """The tight curve of an event or a composition; memoised per process.

    Guarantee: the curve is at or above the true one for each direction of the event's relation, in real
    arithmetic and for the rounding of sums (theorem 8). No private data is read.

    Args:
        event: what was done.
        step: grid step of the losses in nats; chosen from the event when None. Every step gives an upper
            bound; smaller is tighter.

    Raises:
        TypeError: an event that the PLD accountant does not count.

    Source: docs/accounting.md, theorems 1 to 3, 5, 6 and 8.
    """
    checks.require(isinstance(event, Event), "event", "be an Event", type(event).__name__)
    if step is not None:
        checks.positive("step", step)
    return _curve(event, step)


def epsilon(event: Event[R], *, delta: float, relation: R, accountant: Accountant = "pld") -> float:
    """The smallest epsilon at this delta that the accountant proves; math.inf when there is none.

    Guarantee: (epsilon, delta) holds for the event under its relation; the unit is the one that the event's
    changed roots or sensitivity were stated for. No private data is read.

    Args:
        event: what was done, under its own relation.
        delta: in (0, 1).
        relation: the relation of the guarantee asked for; must be the event's.
        accountant: `pld` (tight, any event), `gdp` (exactly Gaussian events), `rdp` (Renyi orders).

    Raises:
        TypeError: the relation is not the event's (names both), or the accountant does not count it.
        ValueError: delta is not in (0, 1).

    Source: docs/accounting.md, theorem 8 (pld), 5 (gdp) and 9 (rdp).
    """
    require_relation(event, relation)
    checks.open_probability("delta", delta)
    checks.one_of("accountant", accountant, get_args(Accountant))
    return _epsilon(event, delta, accountant)


def spent(event: Event[R], *, delta: float, relation: R, accountant: Accountant = "pld") -> Spent:
    """`epsilon`, with the name of the accountant that proves it.

    Guarantee: as for `epsilon`.

    Args:
        event, delta, relation, accountant: as for `epsilon`.

    Raises:
        ValueError, TypeError: as for `epsilon`.
    """
    value = epsilon(event, delta=delta, relation=relation, accountant=accountant)
    return Spent(epsilon=value, accountant=accountant)


def delta(
    event: Event[R], *, epsilon: float, relation: R, accountant: Literal["pld", "gdp"] = "pld"
) -> float:
    """The smallest delta at this epsilon (see `epsilon`).

    Guarantee: as for `epsilon`.

    Args:
        event: what was done, under its own relation.
        epsilon: in nats, any real number.
        relation: the relation of the guarantee asked for; must be the event's.
        accountant: `pld` (any event) or `gdp` (exactly Gaussian events).

    Raises:
        TypeError: the relation is not the event's, or the accountant does not count it.
        ValueError: the accountant is none of the two.

    Source: docs/accounting.md, theorem 8 (pld) and 5 (gdp).
    """
    require_relation(event, relation)
    checks.one_of("accountant", accountant, ("pld", "gdp"))
    if accountant == "gdp":
        return gdp.delta(epsilon, _gaussian_mu(event))
    return curve(event).delta(epsilon)


def clear_cache() -> None:
    """Forget every memoised curve and epsilon (for benchmarks)."""
    rdp.clear_cache()
    _curve.cache_clear()
    _epsilon.cache_clear()


def _gaussian_mu(event: Event[Any]) -> float:
    """mu of a Gaussian composition, or a TypeError that names the first part that is not."""
    for part, _ in parts(event):
        if gdp.event_mu(part) is None:
            raise TypeError(
                f"the GDP accountant counts GaussianRelease, ContractiveIteration and full batches, "
                f"not {type(part).__name__} with subsampling or other noise; use 'pld'"
            )
    mu = gdp.total_mu(event)
    assert mu is not None
    return mu


@lru_cache(maxsize=4096)
def _epsilon(event: Event[Any], delta: float, accountant: Accountant) -> float:
    if accountant == "rdp":
        return rdp.epsilon(event, delta)
    if accountant == "gdp":
        return gdp.epsilon(_gaussian_mu(event), delta)
    return curve(event).epsilon(delta)


# A curve can hold tens of megabytes, so few are kept; the epsilons above are what gets asked again.
@lru_cache(maxsize=8)
def _curve(event: Event[Any], step: float | None) -> PrivacyCurve:
    mu = gdp.total_mu(event)
    if mu is not None:
        return PrivacyCurve(mu=mu)
    chosen = default_step(event) if step is None else step
    gaussian, losses = 0.0, []
    for part, count in parts(event):
        part_mu = gdp.event_mu(part)
        if part_mu is not None:
            gaussian += count * part_mu**2
        else:
            losses.append(_loss(part, count, chosen))
    if gaussian > 0:
        loss = pld.gaussian_loss(math.sqrt(gaussian), chosen)
        losses.append(pld.LossPair(forward=loss, backward=loss))
    forward, backward = losses[0].forward, losses[0].backward
    for pair in losses[1:]:
        same = forward is backward and pair.forward is pair.backward
        forward = forward.compose(pair.forward)
        backward = forward if same else backward.compose(pair.backward)
    return PrivacyCurve(forward=forward, backward=backward)


def _loss(event: Event[Any], count: int, step: float) -> pld.LossPair:
    """The loss of `count` adaptive runs of one event."""
    if not isinstance(event, BestOf):
        return pld.event_loss(event, count, step)
    law = selection.NumberOfRuns(eta=event.eta, gamma=event.gamma)
    profiles = [_curve(run, None).deltas for run in event.runs]
    loss = selection.best_loss(profiles, law, step).self_compose(count)
    return pld.LossPair(forward=loss, backward=loss)
