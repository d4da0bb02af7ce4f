"""Runs that stand for trainings in the audit of a choice: their losses, and in which order they are best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from dpgnn.accountants.composition import curve
from dpgnn.accountants.events import compose_all
from dpgnn.audits.statistics import ClaimLine

if TYPE_CHECKING:
    from dpgnn.accountants.selection import NumberOfRuns

# nats beyond which losses are not told apart
MOST = 40.0
# right answers of a run for a loss of one nat; noise of some answers is small beside it
ANSWERS = 1000
# quantiles of a law of losses, and cuts that are tried between them
QUANTILES, CUTS = 4000, 2000


@dataclass(frozen=True, kw_only=True, eq=False)
class RunLosses:
    """The two laws of a run's privacy loss, as functions of a uniform number.

    Attributes:
        inside, outside: uniform number -> loss in nats, in G and in G'.
    """

    inside: Callable[[float], float]
    outside: Callable[[float], float]

    @classmethod
    def of(cls, events: Sequence[Any], delta: float) -> RunLosses:
        """A pair of laws that attains the curve of all events, in the direction that costs more at delta."""
        if not events:
            return cls(inside=lambda u: 0.0, outside=lambda u: 0.0)
        counted = curve(compose_all(*events))
        if counted.mu is not None:
            mu = counted.mu
            return cls(
                inside=lambda u: _clipped(mu * ndtri(u) + mu**2 / 2),
                outside=lambda u: _clipped(mu * ndtri(u) - mu**2 / 2),
            )
        assert counted.forward is not None
        assert counted.backward is not None
        loss = max(counted.forward, counted.backward, key=lambda one: one.epsilon(delta))
        values = np.array([-MOST, *loss.losses, MOST])
        there = np.array([0.0, *loss.mass, loss.infinity_mass])
        back = np.array([0.0, *loss.mass * np.exp(-loss.losses), 0.0])
        back[0] = max(0.0, 1.0 - back.sum())
        return cls(inside=_quantile(values, there), outside=_quantile(values, back))


def _clipped(loss: float) -> float:
    return float(min(max(loss, -MOST), MOST))


def _quantile(values: np.ndarray, masses: np.ndarray) -> Callable[[float], float]:
    sums = np.cumsum(masses)

    def at(uniform: float) -> float:
        place = int(np.searchsorted(sums, uniform * sums[-1], side="right"))
        return _clipped(values[min(place, len(values) - 1)])

    return at


@dataclass(frozen=True, kw_only=True, eq=False)
class Order:
    """An order of runs by their losses in which the best of them tells more than one run.

    The best at y has F'(u) times the density of one run, u the probability of a run below y (theorem 19).
    Runs of small losses come first, and then the others by their losses: the first are rarer in G, so that
    there a run of a large loss stays the best more often.

    Attributes:
        losses: of each candidate.
        law: of the number of runs.
        inside, outside: quantiles of the losses of all candidates together, in G and in G'; float64.
        least: losses below it come first.
    """

    losses: Sequence[RunLosses]
    law: NumberOfRuns
    inside: np.ndarray
    outside: np.ndarray
    least: float

    @classmethod
    def of(cls, losses: Sequence[RunLosses], law: NumberOfRuns) -> Order:
        """With the first runs for which the odds of staying the best differ most.

        Args:
            losses: of each candidate, which is drawn uniformly.
            law: of the number of runs.
        """
        uniform = (np.arange(QUANTILES) + 0.5) / QUANTILES
        there = np.sort([one.inside(u) for one in losses for u in uniform])
        back = np.sort([one.outside(u) for one in losses for u in uniform])
        bounds = np.unique(back)
        odds = [_stays(law, np.searchsorted(side, bounds) / len(side)) for side in (there, back)]
        least = float(bounds[int(np.argmax(odds[1] / odds[0]))])
        return cls(losses=losses, law=law, inside=there, outside=back, least=least)

    def places(self, losses: np.ndarray) -> np.ndarray:
        """Places in the order; the largest is the best."""
        found: np.ndarray = losses + 3 * MOST * (losses < self.least)
        return found

    def right(self, loss: float) -> int:
        """How many answers of a run count as right."""
        return round(ANSWERS * float(self.places(np.array(loss))))

    def statistic(
        self, losses: np.ndarray, seen: np.ndarray, moved: float, noise_stddev: float
    ) -> np.ndarray:
        """The loss of the best runs, in nats; float64 (num_choices,).

        Args:
            losses: of the best runs, float64 (num_choices,).
            seen: how many more answers than by their losses their scores have, float64 (num_choices,).
            moved: how many more are right in G.
            noise_stddev: of the score, in answers.
        """
        at = self.places(losses)
        above = [
            1 - np.searchsorted(np.sort(self.places(side)), at) / len(side)
            for side in (self.inside, self.outside)
        ]
        there, back = (_stays(self.law, one) for one in above)
        found: np.ndarray = losses + (1 + self.law.eta) * np.log(back / there)
        return found + moved * seen / noise_stddev**2 if moved else found

    def line(self, moved: float, noise_stddev: float) -> ClaimLine:
        """The line that the best runs attain, by quantiles of one run and the weight F'(u) of each.

        Args:
            moved, noise_stddev: as of `statistic`.
        """
        rng = np.random.default_rng(0)
        sides = []
        for losses, more in ((self.inside, moved), (self.outside, 0.0)):
            seen = more + noise_stddev * rng.standard_normal(len(losses))
            below = (rankdata(ANSWERS * self.places(losses) + seen) - 0.5) / len(losses)
            weights = _stays(self.law, 1 - below) ** -(1 + self.law.eta)
            sides.append((self.statistic(losses, seen, moved, noise_stddev), weights))
        every = np.unique(np.concatenate([found for found, _ in sides]))
        cuts = every[np.linspace(0, len(every) - 1, CUTS).astype(int)]
        return ClaimLine.of_rates(*(_above(*side, cuts) for side in sides))


def _stays(law: NumberOfRuns, above: np.ndarray) -> np.ndarray:
    """Probability that the best of a run and a coin of rate gamma is above; p of theorem 19."""
    found: np.ndarray = law.gamma + (1 - law.gamma) * above
    return found


def _above(values: np.ndarray, weights: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """Share of the weight of values above each cut."""
    order = np.argsort(values)
    sums = np.concatenate([[0.0], np.cumsum(weights[order])])
    found: np.ndarray = 1 - sums[np.searchsorted(values[order], cuts, side="right")] / sums[-1]
    return found
