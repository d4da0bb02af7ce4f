"""Audit of a choice among private runs: the real choice, among runs that tell as much as their plans allow.

Training is left out. In place of a run stands a draw of its planned privacy loss, with the coins of the run's
own context, and scores are in an order in which the best tells more than one run. Number of runs, candidates,
scores, their noise and what is kept are the method's own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import chisquare

from dpgnn.accountants.composition import curve
from dpgnn.audits.capture import Case
from dpgnn.audits.choice_losses import Order, RunLosses
from dpgnn.audits.findings import CHOICE_ATTACK, Finding
from dpgnn.audits.mechanics import Check, normal, plain, two_sided
from dpgnn.audits.power import POWER, first_seen, power, weakened
from dpgnn.audits.request import claimed_plan, recipe_of
from dpgnn.audits.statistics import ClaimLine, judge
from dpgnn.core import seeds
from dpgnn.methods.base import Fitted, PlannedRun
from dpgnn.methods.selected.fit import CHOSEN, noisy_score, trained, without_score

if TYPE_CHECKING:
    from dpgnn.accountants.plan import Mechanism, Plan
    from dpgnn.accountants.selection import NumberOfRuns
    from dpgnn.audits.request import AuditRequest

# choices of each world for one run of an audit
CHOICES_A_RUN = 32
# least expected number in a cell of a chi-squared test
LEAST = 5.0


@dataclass(kw_only=True, eq=False)
class _Choice:
    """One choice under watch, and what its runs were; its two methods answer for the method's own.

    Attributes:
        order: of the runs.
        inside: the world.
        moved: how many more answers are right in G.
        places, coins, losses, right, scores: of each run its candidate, its uniform number, its loss, its
            number of right answers and its score.
    """

    order: Order
    inside: bool
    moved: float
    places: list[int] = field(default_factory=list)
    coins: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    right: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)

    def trained(self, run: PlannedRun, place: int) -> tuple[Fitted, float]:
        """In place of a training: a draw of the candidate's loss."""
        import torch

        coin = float(run.context.streams.numpy("noise", stage="audit").random())
        laws = self.order.losses[place]
        loss = (laws.inside if self.inside else laws.outside)(coin)
        self.places.append(place)
        self.coins.append(coin)
        self.losses.append(loss)
        self.right.append(self.order.right(loss) + (self.moved if self.inside else 0.0))
        return Fitted(state={"coin": torch.tensor(coin, dtype=torch.float64)}), self.right[-1]

    def scored(self, *arguments: Any) -> float:
        """The method's own score, written down."""
        self.scores.append(noisy_score.function(*arguments))
        return self.scores[-1]

    def keeps_the_best(self, fitted: Fitted) -> bool:
        """Whether the first run of the largest score is what is left."""
        best = int(np.argmax(self.scores))
        chosen = (int(fitted.state[CHOSEN]), float(fitted.state["coin"]))
        return chosen == (self.places[best], self.coins[best])

    def left(self, fitted: Fitted) -> tuple[float, float]:
        """Loss of the run that is left, and how many more answers than by it its score has."""
        chosen = self.coins.index(float(fitted.state["coin"]))
        loss = self.losses[chosen]
        return loss, self.scores[chosen] - self.order.right(loss)


def audit_choice(request: AuditRequest, mechanism: Mechanism) -> Finding:
    """Exact tests of the choice, and the claim test of what it leaves.

    The auditor sees the run that is left and its score, which theorem 19 counts as seen.

    Guarantee: a correct choice among runs whose plans hold is accused with probability <= 2 level.

    Args:
        request: of an entry whose fit chooses among runs; `num_runs` times 32 choices are made in each world.
        mechanism: of the plan, a `BestOf`.

    Source: docs/accounting.md, theorem 19.
    """
    start, plan = time.monotonic(), claimed_plan(request)
    delta, law = plan.claims[0].delta, request.entry.options.law
    # of a mechanism that moves no score the noise is there all the same
    noise = max(each.noise_stddev for each in plan.mechanisms)
    order = _order(plan, mechanism, law, delta)
    worlds = [_choices(request, plan, mechanism, order, inside) for inside in (True, False)]
    first, second = (_statistic(order, world, mechanism.sensitivity, noise) for world in worlds)
    line = ClaimLine.of(curve(mechanism.event))

    def seen(factor: float) -> bool:
        weaker = _order(plan, mechanism, law, delta, factor)
        shown = weaker.line(mechanism.sensitivity, noise / factor)
        return power(shown, line, num_scores=len(first) // 2, level=request.level) >= POWER

    return Finding(
        mechanism=mechanism.name,
        attack=CHOICE_ATTACK,
        verdict=judge((first, second), line, delta=delta, level=request.level),
        checks=_checks([*worlds[0], *worlds[1]], law, noise, request.level),
        detectable=first_seen(seen, mechanism.event, delta),
        seconds=time.monotonic() - start,
    )


def _order(
    plan: Any, mechanism: Mechanism, law: NumberOfRuns, delta: float, factor: float = 1.0
) -> Order:
    """Runs by the events that a record of the mechanism's population enters, with less noise by a factor."""
    population = mechanism.population
    losses = []
    for run in plan.runs:
        events = [
            each.event if factor == 1.0 else weakened(each.event, factor)
            for each in without_score(run.mechanisms)
            if population is None or each.population in (None, population)
        ]
        losses.append(RunLosses.of(events, delta))
    return Order.of(losses, law)


def _choices(
    request: AuditRequest, plan: Plan, mechanism: Mechanism, order: Order, inside: bool
) -> list[tuple[_Choice, Fitted]]:
    """Choices of one world, and what each leaves."""
    case = Case(
        entry=request.entry, recipe=recipe_of(request.entry, request.facts), plan=plan,
        root_seed=request.root_seed, randomness=request.randomness,
    )  # fmt: skip
    graph, split = case.recipe.world(True)
    found = []
    for number in range(CHOICES_A_RUN * request.num_runs):
        choice = _Choice(order=order, inside=inside, moved=mechanism.sensitivity)
        seed = seeds.child_seed(
            request.root_seed, "audit", part=mechanism.name, world=int(inside), run=number
        )
        with trained.answered_by(choice.trained), noisy_score.answered_by(choice.scored):
            found.append((choice, case.fit((graph, split, None), seed)))
    return found


def _statistic(
    order: Order, world: Sequence[tuple[_Choice, Fitted]], moved: float, noise: float
) -> np.ndarray:
    losses, seen = np.array([choice.left(fitted) for choice, fitted in world]).T
    return order.statistic(losses, seen, moved, noise)


def _checks(
    seen: Sequence[tuple[_Choice, Fitted]], law: NumberOfRuns, noise: float, level: float
) -> tuple[Check, ...]:
    """Exact tests of all choices; a correct choice fails one with probability <= level."""
    choices = [choice for choice, _ in seen]
    numbers = np.array([len(choice.places) for choice in choices])
    places = np.concatenate([choice.places for choice in choices])
    many = len(choices[0].order.losses)
    p_values = {
        "number of runs": _of_counts(numbers - 1, _cells(law, len(numbers))),
        "candidates": _of_counts(places, np.full(many, 1 / many)),
    }
    if noise:
        parts = [(np.array(each.scores) - np.array(each.right)) / noise for each in choices]
        z = np.concatenate(parts)
        p_values["noise of scores"] = two_sided(float((z**2).sum()), z.size)
        p_values["fresh noise"] = normal(float((z[1:] * z[:-1]).sum()) / math.sqrt(z.size - 1))
    coins = [coin for choice in choices for coin in choice.coins]
    repeated = len(coins) - len(set(coins))
    lost = sum(not choice.keeps_the_best(fitted) for choice, fitted in seen)
    each, found = level / len(p_values), f"{len(places)} runs"
    return (
        *(
            Check(name=name, passed=p >= each, p_value=p, found=found)
            for name, p in p_values.items()
        ),
        plain("coins of a run", repeated == 0, f"{repeated} of {len(coins)} repeated"),
        plain("best run kept", lost == 0, f"{lost} of {len(seen)} choices keep another"),
    )


def _cells(law: NumberOfRuns, total: int) -> np.ndarray:
    """Probabilities of 1, 2, ... runs and, last, of more, each expected at least `LEAST` times."""
    shares = law.probabilities(200)
    enough = (total * shares >= LEAST) & (total * (1 - np.cumsum(shares)) >= LEAST)
    cells = shares[: max(1, int(np.argmin(np.append(enough, False))))]
    return np.append(cells, 1 - cells.sum())


def _of_counts(places: np.ndarray, shares: np.ndarray) -> float:
    """p-value of the chi-squared test; places beyond the last cell count there."""
    counts = np.bincount(np.minimum(places, len(shares) - 1), minlength=len(shares))
    return float(chisquare(counts, shares * len(places)).pvalue)
