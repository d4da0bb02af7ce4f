"""Accounting by a method's plan, without data: two of noise, steps and epsilon give the third.

The plan is the method's own, made from an entry, public facts and a budget, so an answer is what a run would
claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dpgnn import methods
from dpgnn.accountants import calibration, composition
from dpgnn.accountants.claims import Claim
from dpgnn.accountants.plan import Budget, Mechanism, Plan
from dpgnn.accountants.population import check_delta
from dpgnn.core import config as strict
from dpgnn.core.checks import at_least, one_of, open_probability, require
from dpgnn.methods.base import Entry, Facts, Mode, Support
from dpgnn.run.plan import plan_within, stated_claims

# mechanisms whose noise and steps an answer shows first, by precedence; the plan has all
SHOWN = ("train", "aggregate")


# answers are computed in float64; a norm times this is finite
MOST_NOISE = 1e100
MOST_STEPS = 10**12


@dataclass(frozen=True, kw_only=True)
class Question:
    """A method, its options and public facts, and two of noise, steps and epsilon.

    Attributes:
        method: name in the table.
        mode: published or sound.
        privacy_unit, relation: of the guarantee; None takes the method's first pair.
        options: option (dotted) -> value.
        facts: public sizes; `declared` if they are a study's `public_population`.
        delta: in (0, 1).
        noise_multiplier: relative to the sensitivity, for every stage; None to compute it.
        num_steps: value of the method's option `Asked.steps`; None to compute it.
        target_epsilon: None to compute it.
    """

    method: str
    facts: Facts
    delta: float
    mode: Mode = "sound"
    privacy_unit: str | None = None
    relation: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    noise_multiplier: float | None = None
    num_steps: int | None = None
    target_epsilon: float | None = None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A plan and its numbers.

    Attributes:
        plan: the method's own.
        claims: its claims, with the sizes they take as public and the caveats that follow from facts.
        num_steps: number of `Asked.counted`.
        steps_within_target: sound steps that the target allows, if noise and target were given.
    """

    plan: Plan
    claims: tuple[Claim, ...]
    num_steps: int
    steps_within_target: int | None = None

    @property
    def shown(self) -> Mechanism:
        """The mechanism whose noise and steps are shown first."""
        named = {mechanism.name: mechanism for mechanism in self.plan.mechanisms}
        return next((named[name] for name in SHOWN if name in named), self.plan.mechanisms[-1])

    def __str__(self) -> str:
        """A line for each claim and each mechanism."""
        claims = (
            f"{claim.privacy_unit}, {claim.relation}: epsilon {claim.epsilon:.6g} at delta "
            f"{claim.delta:.3g}, {claim.status} by {claim.accountant}"
            + (f" (caveats: {', '.join(claim.caveats)})" if claim.caveats else "")
            for claim in self.claims
        )
        mechanisms = (
            f"{one.name}: noise {one.noise_stddev:.6g}, sensitivity {one.sensitivity:.6g}, "
            f"times {one.num_steps}"
            for one in self.plan.mechanisms
        )
        return "\n".join((*claims, *mechanisms))


@dataclass(frozen=True, kw_only=True)
class ComparisonRow:
    """epsilon after `num_steps` by the paper's formula, and by RDP and PLD of the sound plan's events."""

    num_steps: int
    paper: float
    rdp: float
    pld: float


def answer(question: Question) -> Answer:
    """The plan that the question describes.

    In sound mode with noise and target but no steps, the steps are those that the paper's accounting allows
    (if the method has a published mode), so that both modes are compared at equal noise and steps.

    Guarantee: the numbers are those of the method's own plan, for its unit and relation; no data is read.

    Args:
        question: two of epsilon, noise and steps; public numbers; options.

    Raises:
        ValueError: the method has no such mode, unit or relation, an option is wrong, or nothing meets the
            target.

    Source: docs/accounting.md.
    """
    _check(question)
    noise, steps, target = question.noise_multiplier, question.num_steps, question.target_epsilon
    if not _counted_by(question) or steps is not None:
        plan = _plan(question, Budget(epsilon=target or math.inf, delta=question.delta,
                                      noise_multiplier=noise), steps)  # fmt: skip
        return _answer(question, plan, steps)
    assert target is not None
    published = replace(question, mode="published")
    counted = published if _has(published) else question
    steps = _largest(counted, target)
    within = _largest(question, target) if counted.mode != question.mode else None
    return replace(_answer(question, _given(question, steps), steps), steps_within_target=within)


def compare(question: Question, found: Answer, counts: Sequence[int]) -> tuple[ComparisonRow, ...]:
    """Paper, RDP and PLD side by side at each number of steps, for the noise of an answer.

    Guarantee: as `answer` for RDP and PLD of the sound plan; the paper's column is the paper's formula.

    Args:
        question: as asked.
        found: the answer to it.
        counts: numbers of steps.

    Raises:
        ValueError: the method has no published accounting of the entry, or no steps.
    """
    sound, published = (replace(question, mode=mode) for mode in ("sound", "published"))
    require(
        bool(_counted_by(question)) and _has(published), "--compare",
        "be asked of a method with steps and a published accounting", question.method,
    )  # fmt: skip
    noise = float(found.shown.details["noise_multiplier"])
    rows = []
    for count in counts:
        plans = [_given(replace(q, noise_multiplier=noise), count) for q in (published, sound)]
        spent = [
            max(
                composition.epsilon(
                    event, delta=question.delta, relation=event.relation, accountant=accountant
                )
                for event in plans[1].composed()
            )
            for accountant in ("rdp", "pld")
        ]
        rows.append(
            ComparisonRow(
                num_steps=count, paper=plans[0].claims[0].epsilon, rdp=spent[0], pld=spent[1]
            )
        )
    return tuple(rows)


def entry_of(question: Question) -> Entry:
    """The entry that the question describes.

    Args:
        question: as asked.

    Raises:
        ValueError: an option, or the mode, unit and relation; as for an entry of a study.
    """
    method, first = methods.get(question.method), _first_support(question.method)
    stated = {
        **(method.asked.published if question.mode == "published" else {}),
        **question.options,
    }
    entry = Entry(
        name=question.method,
        method=question.method,
        mode=question.mode,
        privacy_unit=question.privacy_unit or first.privacy_unit,
        relation=question.relation or first.relation,
        options=strict.read(method.config, nested(stated)),
    )
    method.check_entry(entry, question.method)
    return entry


def nested(options: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted names as nested mappings.

    Args:
        options: dotted names -> values.
    """
    found: dict[str, Any] = {}
    for name, value in options.items():
        *outer, last = name.split(".")
        place = found
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = value
    return found


def _with_steps(question: Question, steps: int | None) -> Question:
    """The question whose options hold the number of steps, if there is one."""
    if steps is None:
        return question
    name = methods.get(question.method).asked.steps
    return replace(question, options={**question.options, name: steps})


def _plan(question: Question, budget: Budget, steps: int | None) -> Plan:
    method, question = methods.get(question.method), _with_steps(question, steps)
    structure = {**method.asked.structure, **question.facts.structure}
    facts = replace(question.facts, structure=structure)
    return plan_within(method, entry_of(question), facts, budget)


def _given(question: Question, steps: int) -> Plan:
    """The plan at the question's noise and a number of steps."""
    budget = Budget(
        epsilon=math.inf, delta=question.delta, noise_multiplier=question.noise_multiplier
    )
    return _plan(question, budget, steps)


def _spent(question: Question) -> Callable[[int], float]:
    return lambda steps: _given(question, steps).claims[0].epsilon


def _largest(question: Question, target: float) -> int:
    return calibration.largest_count(_spent(question), target, name="target_epsilon")


def _has(question: Question) -> bool:
    """Whether the method has the question's mode for its unit and relation."""
    if question.mode not in methods.get(question.method).modes:
        return False
    try:
        entry_of(question)
    except ValueError:
        return False
    return True


def _answer(question: Question, plan: Plan, steps: int | None) -> Answer:
    declared = question.facts.declared and question.mode == "sound"
    facts = replace(question.facts, declared=declared)
    claims = stated_claims(entry_of(_with_steps(question, steps)), plan, facts, question.delta)
    found = Answer(plan=plan, claims=claims, num_steps=0)
    return replace(found, num_steps=steps or found.shown.num_steps)


def _counted_by(question: Question) -> str:
    """The option that holds the number of steps; "" if it cannot be chosen."""
    asked = methods.get(question.method).asked
    unit = question.privacy_unit or _first_support(question.method).privacy_unit
    return "" if unit in asked.fixed_steps else asked.steps


def _first_support(name: str) -> Support:
    """The default pair of unit and relation."""
    supports = methods.get(name).supports
    require(
        bool(supports), f"method {name}", "be private", "one without noise, which spends nothing"
    )
    return supports[0]


def _check(question: Question) -> None:
    """Refuse numbers out of range, and too few or too many of them."""
    one_of("method", question.method, methods.TABLE)
    one_of("mode", question.mode, ("published", "sound"))
    open_probability("delta", question.delta)
    check_delta(question.delta, question.facts.num_nodes)
    for name, value in (
        ("noise_multiplier", question.noise_multiplier),
        ("target_epsilon", question.target_epsilon),
    ):
        usable = value is None or (math.isfinite(value) and value > 0)
        require(usable, name, "be > 0 and finite", value)
    noise = question.noise_multiplier
    require(
        noise is None or noise <= MOST_NOISE, "noise_multiplier", f"be <= {MOST_NOISE:g}", noise
    )
    if question.num_steps is not None:
        at_least("num_steps", question.num_steps, 1)
        require(
            question.num_steps <= MOST_STEPS, "num_steps", f"be <= {MOST_STEPS}", question.num_steps
        )
    steps = _counted_by(question)
    if not steps:
        require(
            question.num_steps is None, "num_steps", "not be given", question.num_steps,
            f"{question.method} has no such choice under this unit",
        )  # fmt: skip
    known = (question.noise_multiplier, question.num_steps, question.target_epsilon)
    given = sum(value is not None for value in known)
    if steps:
        names = "noise_multiplier, num_steps, target_epsilon"
        remedy = "such as --target-epsilon 4 --num-steps 200, which finds the noise"
        require(given == 2, names, "be given, two of the three", known, remedy)
    else:
        names = "noise_multiplier, target_epsilon"
        remedy = "such as --target-epsilon 4, which finds the noise"
        require(given == 1, names, "be given, one of the two", known[::2], remedy)
