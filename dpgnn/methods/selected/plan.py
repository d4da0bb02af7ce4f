"""Plans of an accounted choice: one budget for each run, such that runs, scores and choice meet the whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpgnn.accountants import composition
from dpgnn.accountants.calibration import smallest_meeting
from dpgnn.accountants.events import BestOf, Event, GaussianRelease, compose_all
from dpgnn.accountants.implications import notion
from dpgnn.accountants.plan import Budget, Mechanism, Plan, Population
from dpgnn.core.checks import fail, require
from dpgnn.methods.selected.options import base_of, candidates, score_of

if TYPE_CHECKING:
    from dpgnn.accountants.claims import Claim
    from dpgnn.methods.base import Entry, Facts
    from dpgnn.methods.scores import Score
    from dpgnn.methods.selected.options import SelectedConfig

CHOICE, SCORE = "choice", "score"
PUBLIC = ("membership of the split", "candidates, and the law of the number of runs")
# relative, on the budget of one run
TOLERANCE = 1e-3
# of an epsilon that was counted twice; a pure claim holds at every delta, and a grid comes near it from above
ROUNDING, PURE_ROUNDING = 1 + 1e-6, 1 + 1e-3


@dataclass(frozen=True, kw_only=True)
class SelectedPlan(Plan):
    """A plan of a choice.

    Attributes:
        runs: for each candidate what one run of it does, its score included; not recorded, as the events of
            the plan hold it.
    """

    runs: tuple[Plan, ...] = ()


def plan(entry: Entry, facts: Facts, budget: Budget) -> SelectedPlan:
    """The largest budget of one run such that the whole meets the budget.

    Every candidate is planned by its base method for that one budget, so each has noise of its own for its
    own steps.

    Guarantee: unit and relation of the entry, (epsilon, delta) for the chosen run with all that the base
    method's claim covers, all runs that were made, their scores and the choice included. Candidates, eta and
    gamma, and the split are public.

    Raises:
        ValueError: the base method's plan has no proved claim that its events come to, the score alone costs
            more than the budget, or nothing meets it.

    Source: docs/accounting.md, theorem 19.
    """
    budget.require_target("selected")
    require(facts.task == "multiclass", "task", "be multiclass for selected", facts.task)
    _check_score(entry, budget)

    def spent(share: float) -> float:
        runs = _runs(entry, facts, replace(budget, epsilon=budget.epsilon / share))
        return _spent(_events(entry, runs), budget)

    share = smallest_meeting(spent, budget.epsilon, start=1.5, tolerance=TOLERANCE)
    of_one = replace(budget, epsilon=budget.epsilon / share)
    bases = _bases(entry, facts, of_one)
    for made in bases:
        _check_base(entry, made, budget)
    runs = tuple(_with_score(entry, made) for made in bases)
    return _planned(entry, facts, budget, of_one.epsilon, runs)


def _planned(
    entry: Entry, facts: Facts, budget: Budget, of_one: float, runs: tuple[Plan, ...]
) -> SelectedPlan:
    config: SelectedConfig = entry.options
    events = _events(entry, runs)
    score = score_of(entry).sensitivity
    mechanisms = tuple(
        Mechanism(
            name=CHOICE if population is None else f"{CHOICE}/{population}", event=event,
            noise_stddev=config.score_noise if score and population != "train" else 0.0,
            sensitivity=0.0 if population == "train" else score, population=population,
            details={"mean_runs": config.law.mean, "base_epsilon": of_one},
        )
        for population, event in events.items()
    )  # fmt: skip
    return SelectedPlan(
        mechanisms=mechanisms,
        claims=(_claim(runs, budget, _spent(events, budget)),),
        num_steps=max(run.num_steps for run in runs),
        facts=facts.recorded(),
        details={
            "base_epsilon": of_one, "mean_runs": config.law.mean,
            "candidates": [dict(each) for each in config.candidates],
        },
        runs=runs,
    )  # fmt: skip


def _claim(runs: tuple[Plan, ...], budget: Budget, epsilon: float) -> Claim:
    """The base method's claim about one run, of what the whole costs."""
    claims = [run.claims[0] for run in runs]
    released = {claim.released for claim in claims}
    require(len(released) == 1, "candidates", "release the same kind of state", sorted(released))
    notions = dict.fromkeys(str(notion(claim)) for claim in claims)
    require(
        len(notions) == 1, "candidates", "claim the same, with one degree bound", "; ".join(notions),
        "move degree_bound to base_options",
    )  # fmt: skip
    public = dict.fromkeys(fact for claim in claims for fact in (*claim.assumed_public, *PUBLIC))
    return replace(
        claims[0],
        epsilon=epsilon,
        delta=budget.delta,
        accountant="pld",
        caveats=tuple(sorted({name for claim in claims for name in claim.caveats})),
        assumed_public=tuple(public),
        selection="accounted",
    )


def _runs(entry: Entry, facts: Facts, of_one: Budget) -> tuple[Plan, ...]:
    return tuple(_with_score(entry, made) for made in _bases(entry, facts, of_one))


def _bases(entry: Entry, facts: Facts, of_one: Budget) -> list[Plan]:
    """The base method's own plan of each candidate."""
    base = base_of(entry)
    return [base.plan(candidate, facts, of_one) for candidate in candidates(entry)]


def _with_score(entry: Entry, made: Plan) -> Plan:
    """A base plan with the score, which records of validation nodes alone enter."""
    score = score_of(entry)
    mechanisms = tuple(
        replace(each, population="train") if each.name in score.of_training else each
        for each in made.mechanisms
    )
    if score.sensitivity:
        mechanisms = (*mechanisms, _score_mechanism(entry, score))
    return replace(made, mechanisms=mechanisms)


def _score_mechanism(entry: Entry, score: Score) -> Mechanism:
    config: SelectedConfig = entry.options
    relation: Any = entry.relation
    return Mechanism(
        name=SCORE,
        event=GaussianRelease(
            relation=relation, noise_stddev=config.score_noise, sensitivity=score.sensitivity
        ),
        noise_stddev=config.score_noise,
        sensitivity=score.sensitivity,
        population="others",
    )


def _events(entry: Entry, runs: tuple[Plan, ...]) -> dict[Population | None, Event[Any]]:
    """For each population what the choice does to one of its records."""
    config: SelectedConfig = entry.options
    relation: Any = entry.relation
    named = [{each.population for each in run.mechanisms} - {None} for run in runs]
    apart = all(names == {"train", "others"} for names in named)
    populations: tuple[Population | None, ...] = ("train", "others") if apart else (None,)
    found: dict[Population | None, Event[Any]] = {}
    for population in populations:
        parts = [
            [each.event for each in run.mechanisms
             if population is None or each.population in (None, population)]
            for run in runs
        ]  # fmt: skip
        found[population] = BestOf(
            relation=relation, runs=tuple(compose_all(*events) for events in parts),
            eta=config.eta, gamma=config.gamma,
        )  # fmt: skip
    return found


def _spent(events: dict[Population | None, Event[Any]], budget: Budget) -> float:
    return max(_epsilon(event, budget) for event in events.values())


def _epsilon(event: Event[Any], budget: Budget) -> float:
    # as composed, which is how a plan's events are counted again
    return composition.epsilon(compose_all(event), delta=budget.delta, relation=event.relation)


def _check_score(entry: Entry, budget: Budget) -> None:
    """Refuse a score that costs the budget by itself, whatever training does."""
    config: SelectedConfig = entry.options
    score = score_of(entry)
    if score.sensitivity == 0:
        return
    relation: Any = entry.relation
    alone: Event[Any] = BestOf(
        relation=relation, runs=(_score_mechanism(entry, score).event,),
        eta=config.eta, gamma=config.gamma,
    )  # fmt: skip
    cost = _epsilon(alone, budget)
    if cost >= budget.epsilon:
        fail(
            "score_noise", f"leave something of epsilon {budget.epsilon:g} to training",
            config.score_noise, f"the choice by this score alone costs {cost:.4g}; raise it",
        )  # fmt: skip


def _check_base(entry: Entry, made: Plan, budget: Budget) -> None:
    """Refuse a base plan whose events are not all that its claim rests on."""
    name = f"base {entry.options.base}"
    claim = made.claims[0]
    require(claim.status == "proved", name, "have a proved claim", claim.status)
    slack = ROUNDING if claim.delta else PURE_ROUNDING
    for event in made.composed():
        counted = composition.epsilon(event, delta=budget.delta, relation=event.relation)
        rule = f"have events that come to its claim, epsilon {claim.epsilon:.6g}"
        require(counted <= claim.epsilon * slack, name, rule, counted)
