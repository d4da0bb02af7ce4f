"""Two of noise, steps and epsilon are given; the third is found, as published and as proved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from dpgnn.accountants import calibration, composition
from dpgnn.accountants.cases import Case
from dpgnn.accountants.caveats import CAVEATS
from dpgnn.accountants.claims import Claim, Status, mark_large_delta
from dpgnn.accountants.events import Event
from dpgnn.accountants.implications import Notion
from dpgnn.core import checks

Mode = Literal["published", "sound"]


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is known; None is what is asked. Exactly one may be None, except in sound mode (see `answer`)."""

    mode: Mode
    delta: float
    noise_multiplier: float | None = None
    num_steps: int | None = None
    target_epsilon: float | None = None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The plan and its claims.

    Attributes:
        noise_multiplier, noise_stddev: relative to the reference sensitivity; in units of the clipping norm
            (or as the sensitivity was given).
        num_steps: T, hops or releases.
        epsilon: of the first claim.
        claims: the mode's own claim first.
        steps_within_target: sound steps that the target allows, when a target and the noise were given.
    """

    noise_multiplier: float
    noise_stddev: float
    num_steps: int
    epsilon: float
    claims: tuple[Claim, ...]
    steps_within_target: int | None = None


@dataclass(frozen=True, kw_only=True)
class ComparisonRow:
    """epsilon after `num_steps` by the paper's formula, and by RDP and PLD of the sound mode's event."""

    num_steps: int
    paper: float
    rdp: float
    pld: float


def answer(case: Case, question: Question) -> Answer:
    """Solve for the missing quantity.

    In sound mode with a noise and a target but no steps, the steps are the published ones, so that the
    claim is about the same noise and the same steps; what the target allows is in `steps_within_target`.

    Raises:
        ValueError: too little or too much is given, or the target cannot be met.
    """
    checks.one_of("mode", question.mode, ("published", "sound"))
    checks.open_probability("delta", question.delta)
    noise, steps, target = question.noise_multiplier, question.num_steps, question.target_epsilon
    given = sum(value is not None for value in (noise, steps, target))
    names = "noise_multiplier, num_steps, target_epsilon"
    checks.require(given == 2, names, "be given, two of the three", (noise, steps, target))
    if noise is not None:
        checks.positive("noise_multiplier", noise)
    if steps is not None:
        checks.at_least("num_steps", steps, 1)
    if target is not None:
        checks.positive("target_epsilon", target)
    within = None
    if noise is None:
        assert steps is not None
        assert target is not None
        noise = _find_noise(case, question, steps, target)
    stddev = noise * case.reference_sensitivity
    if steps is None:
        assert target is not None
        steps = _published_steps(case, stddev, question.delta, target)
        if question.mode == "sound":
            within = _sound_steps(case, stddev, question.delta, target)
    claims = claims_of(case, question.mode, stddev, steps, question.delta)
    claims = mark_large_delta(claims, question.delta, case.num_units)
    return Answer(
        noise_multiplier=noise,
        noise_stddev=stddev,
        num_steps=steps,
        epsilon=claims[0].epsilon,
        claims=claims,
        steps_within_target=within,
    )


def claims_of(
    case: Case, mode: Mode, noise_stddev: float, steps: int, delta: float
) -> tuple[Claim, ...]:
    """The mode's claim, followed by what is proved of the published algorithm under a weaker notion."""
    if mode == "sound":
        spent = case.epsilon(noise_stddev, steps, delta)
        event = case.event(noise_stddev, steps)
        claim = _proved(event, case.notion, spent, delta, case.assumed_public)
        status: Status = "proved"
        if any(CAVEATS[name].voids for name in case.caveats):
            status = "as-published"
        return (replace(claim, status=status, caveats=case.caveats, released=case.released),)
    stated = Claim(
        privacy_unit=case.stated.notion.privacy_unit,
        relation=case.stated.notion.relation,
        degree_bound=case.stated.notion.degree_bound,
        epsilon=case.published_epsilon(noise_stddev, steps, delta),
        delta=delta,
        accountant=case.stated.accountant,
        status="as-published",
        caveats=case.stated.caveats,
    )
    if case.also_proved is None:
        return (stated,)
    event_of, notion, public = case.also_proved
    event = event_of(noise_stddev, steps)
    spent = composition.epsilon(event, delta=delta, relation=notion.relation)
    return stated, _proved(event, notion, spent, delta, public)


def compare(
    case: Case, noise_stddev: float, steps: Sequence[int], delta: float
) -> tuple[ComparisonRow, ...]:
    """Paper, RDP and PLD side by side at each number of steps."""
    return tuple(
        ComparisonRow(
            num_steps=count,
            paper=case.published_epsilon(noise_stddev, count, delta),
            rdp=case.epsilon(noise_stddev, count, delta, "rdp"),
            pld=case.epsilon(noise_stddev, count, delta),
        )
        for count in steps
    )


def _proved(
    event: Event[Any], notion: Notion, epsilon: float, delta: float, public: tuple[str, ...]
) -> Claim:
    return Claim(
        privacy_unit=notion.privacy_unit,
        relation=notion.relation,
        degree_bound=notion.degree_bound,
        epsilon=epsilon,
        delta=delta,
        accountant=composition.accountant_name(event),
        status="proved",
        assumed_public=public,
    )


def _find_noise(case: Case, question: Question, steps: int, target: float) -> float:
    scale = case.reference_sensitivity
    spent = case.epsilon if question.mode == "sound" else case.published_epsilon
    stddev = calibration.smallest_meeting(
        lambda noise: spent(noise, steps, question.delta),
        target,
        start=scale,
        tolerance=1e-4 if question.mode == "sound" else 1e-6,
        name="target_epsilon",
    )
    # Dividing and multiplying by the scale may round; the multiplier shown is rounded up.
    multiplier = stddev / scale
    return multiplier if multiplier * scale >= stddev else multiplier * (1 + 1e-15)


def _published_steps(case: Case, stddev: float, delta: float, target: float) -> int:
    if case.method == "dpdgc":
        return 1
    return calibration.largest_count(
        lambda count: case.published_epsilon(stddev, count, delta), target, name="target_epsilon"
    )


def _sound_steps(case: Case, stddev: float, delta: float, target: float) -> int | None:
    def spent(count: int) -> float:
        return case.epsilon(stddev, count, delta)

    if spent(1) > target:
        return 0
    return 1 if case.method == "dpdgc" else calibration.largest_count(spent, target)
