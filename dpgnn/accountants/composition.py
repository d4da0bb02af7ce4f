"""Epsilon and delta of a composition.

`curve` composes the losses of all parts, each direction by itself, and gives delta(epsilon) and
epsilon(delta). Delta is spent once, on the composed curve, not once for each mechanism.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np

from dpgnn.accountants import gdp, pld, rdp, selection
from dpgnn.accountants.events import BestOf, Event, R, parts, require_relation
from dpgnn.accountants.grid import default_step
from dpgnn.accountants.loss import DiscreteLoss
from dpgnn.accountants.plan import Spent
from dpgnn.core import checks

Accountant = Literal["pld", "gdp", "rdp"]


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivacyCurve:
    """delta as a function of epsilon for one composition.

    Attributes:
        forward, backward: losses of (G, G') and (G', G); None for an exactly Gaussian composition.
        mu: mu of an exactly Gaussian composition, otherwise None.
    """

    forward: DiscreteLoss | None = None
    backward: DiscreteLoss | None = None
    mu: float | None = None

    def delta(self, epsilon: float) -> float:
        """The larger delta of the two directions at this epsilon.

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
    """The privacy curve of an event or a composition; cached.

    Guarantee: the curve is an upper bound for each direction of the event's relation, the rounding of sums
    included (theorem 8). No private data is read.

    Args:
        event: what was done.
        step: grid step of the losses in nats; None chooses one for the event. Every step gives an upper
            bound; a smaller one is tighter.

    Raises:
        TypeError: the PLD accountant does not know the event.

    Source: docs/accounting.md, theorems 1 to 3, 5, 6 and 8.
    """
    checks.require(isinstance(event, Event), "event", "be an Event", type(event).__name__)
    if step is not None:
        checks.positive("step", step)
    return _curve(event, step)


def epsilon(event: Event[R], *, delta: float, relation: R, accountant: Accountant = "pld") -> float:
    """The smallest epsilon that the accountant proves at this delta; math.inf when there is none.

    Guarantee: (epsilon, delta) holds for the event under its relation, for the unit that its changed roots or
    sensitivity refer to. No private data is read.

    Args:
        event: what was done, under its own relation.
        delta: in (0, 1).
        relation: of the guarantee; must be that of the event.
        accountant: `pld` (tight, any event), `gdp` (exactly Gaussian events), `rdp` (Renyi orders).

    Raises:
        TypeError: the relation is not that of the event, or the accountant does not know the event.
        ValueError: delta is not in (0, 1).

    Source: docs/accounting.md, theorem 8 (pld), 5 (gdp) and 9 (rdp).
    """
    require_relation(event, relation)
    checks.open_probability("delta", delta)
    checks.one_of("accountant", accountant, get_args(Accountant))
    return _epsilon(event, delta, accountant)


def spent(event: Event[R], *, delta: float, relation: R, accountant: Accountant = "pld") -> Spent:
    """The epsilon of `epsilon`, with the name of the accountant that proves it.

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
    """The smallest delta that the accountant proves at this epsilon.

    Guarantee: as for `epsilon`.

    Args:
        event: what was done, under its own relation.
        epsilon: in nats, any real number.
        relation: of the guarantee; must be that of the event.
        accountant: `pld` (any event) or `gdp` (exactly Gaussian events).

    Raises:
        TypeError: the relation is not that of the event, or the accountant does not know the event.
        ValueError: the accountant is neither of the two.

    Source: docs/accounting.md, theorem 8 (pld) and 5 (gdp).
    """
    require_relation(event, relation)
    checks.one_of("accountant", accountant, ("pld", "gdp"))
    if accountant == "gdp":
        return gdp.delta(epsilon, _gaussian_mu(event))
    return curve(event).delta(epsilon)


def clear_cache() -> None:
    """Empty the caches of curves and epsilons (for benchmarks)."""
    rdp.clear_cache()
    _curve.cache_clear()
    _epsilon.cache_clear()


def _gaussian_mu(event: Event[Any]) -> float:
    """mu of a Gaussian composition; a TypeError names the first part that is not Gaussian."""
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


# a curve can take tens of megabytes, so few are kept; mostly epsilons are needed again
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
