"""The audit of a choice among runs: a correct one passes, and each planted fault is named by its test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from audit_requests import FACTS, request

from dpgnn.accountants.composition import curve
from dpgnn.accountants.events import GaussianRelease, compose_all
from dpgnn.accountants.plan import Budget
from dpgnn.accountants.selection import NumberOfRuns
from dpgnn.audits import choice_audit
from dpgnn.audits.choice_audit import audit_choice
from dpgnn.audits.choice_losses import Order, RunLosses
from dpgnn.audits.entry_audit import audit
from dpgnn.audits.findings import Finding
from dpgnn.audits.one_run_audit import audit_in_one_run
from dpgnn.audits.request import AuditRequest, claimed_plan
from dpgnn.core.randomness import FreshSecrets
from dpgnn.methods.selected import fit

STEPS: dict[str, Any] = {"width": 8, "max_degree": 3, "training": {"expected_batch_size": 10}}
BASES: dict[str, tuple[str, dict[str, Any]]] = {
    "dp_linear": ("node", {"candidates": [{"training.num_steps": 5}, {"training.num_steps": 20}]}),
    "dp_gnn": ("node-record", {
        "base_options": STEPS, "candidates": [{"training.num_steps": 2}, {"training.num_steps": 3}],
    }),
    "gap": ("edge", {"candidates": [{"num_hops": 1}, {"num_hops": 2}]}),
}  # fmt: skip


def of_base(base: str, **changes: Any) -> AuditRequest:
    unit, options = BASES[base]
    values = {"num_runs": 20, "facts": FACTS, "root_seed": 5} | changes
    return request("selected", unit, options={"base": base, **options}, **values)


def found(asked: AuditRequest, place: int = 0) -> Finding:
    return audit_choice(asked, claimed_plan(asked).mechanisms[place])


def failed(finding: Finding) -> set[str]:
    return {check.name for check in finding.checks if not check.passed}


@pytest.mark.parametrize(
    ("base", "randomness"),
    [("dp_linear", "study"), ("dp_linear", "release"), ("dp_gnn", "study"), ("gap", "release")],
)
def test_a_correct_choice_passes(base: str, randomness: str) -> None:
    asked = of_base(base, randomness=randomness)
    names = [mechanism.name for mechanism in claimed_plan(asked).mechanisms]
    apart = ["choice/train", "choice/others"]
    assert names == (apart if base == "dp_linear" else ["choice"])
    for place in range(len(names)):
        finding = found(asked, place)
        assert finding.outcome == "passed"
        assert finding.verdict is not None
        assert finding.verdict.num_trials == 2 * 32 * 20
        noisy = {"noise of scores", "fresh noise"}
        tests = {"number of runs", "candidates", "coins of a run", "best run kept"}
        assert {check.name for check in finding.checks} == tests | (
            set() if base == "gap" else noisy
        )


def _more_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    law = NumberOfRuns(eta=0.0, gamma=0.05)
    real = NumberOfRuns.draw
    monkeypatch.setattr(NumberOfRuns, "draw", lambda self, rng: real(law, rng))


def _skewed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Skewed:
        def __init__(self, rng: np.random.Generator) -> None:
            self.rng = rng

        def integers(self, many: int) -> int:
            return int(many * self.rng.random() ** 1.5)

    real = FreshSecrets.numpy

    def drawn(self: Any, stream: str, **extra: Any) -> Any:
        rng = real(self, stream, **extra)
        return Skewed(rng) if extra.get("stage") == "candidate" else rng

    monkeypatch.setattr(FreshSecrets, "numpy", drawn)


def _less_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    real = fit.normal_draw

    def less(*arguments: Any) -> Any:
        draw: Any = real(*arguments)
        return lambda step, shape: 0.9 * draw(step, shape)

    monkeypatch.setattr(fit, "normal_draw", less)


def _noise_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One draw for all runs of a choice."""

    def same(context: Any, stage: str) -> Any:
        rng = np.random.default_rng(context.streams.secret_seed)
        return lambda step, shape: rng.standard_normal(shape)

    monkeypatch.setattr(fit, "normal_draw", same)


def _one_context(monkeypatch: pytest.MonkeyPatch) -> None:
    real = fit._inner
    monkeypatch.setattr(fit, "_inner", lambda context, plan, number: real(context, plan, 0))


def _worst_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    real = fit._Run
    monkeypatch.setattr(fit, "_Run", lambda score, **rest: real(score=-score, **rest))


FAULTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "number": (_more_runs, "number of runs"),
    "candidates": (_skewed, "candidates"),
    "less noise": (_less_noise, "noise of scores"),
    "noise again": (_noise_again, "fresh noise"),
    "one context": (_one_context, "coins of a run"),
    "worst kept": (_worst_kept, "best run kept"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, name = FAULTS[fault]
    asked = of_base("dp_linear")
    plant(monkeypatch)
    finding = found(asked, place=1)
    assert name in failed(finding)
    assert finding.accuses


def test_a_choice_that_is_not_counted_is_rejected() -> None:
    """The claim of one run alone: choosing the best of several tells more."""
    asked = of_base("gap", num_runs=125, budget=Budget(epsilon=8.0, delta=1e-4))
    mechanism = claimed_plan(asked).mechanisms[0]
    event: Any = mechanism.event
    finding = audit_choice(asked, replace(mechanism, event=event.runs[0]))
    assert finding.verdict is not None
    assert finding.verdict.rejected
    assert not failed(finding)


def test_runs_that_cost_more_than_counted_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = of_base("dp_linear")
    mechanism = claimed_plan(asked).mechanisms[0]
    dear = claimed_plan(of_base("dp_linear", budget=Budget(epsilon=16.0, delta=1e-4)))
    monkeypatch.setattr(choice_audit, "claimed_plan", lambda request: dear)
    finding = audit_choice(asked, mechanism)
    assert finding.verdict is not None
    assert finding.verdict.rejected


def test_the_line_that_is_said_to_be_attained_is_that_of_real_choices() -> None:
    """Shares of real choices above a cut, against the quantiles of one run weighted by F'(u)."""
    asked = of_base("dp_linear", num_runs=40)
    mechanism = claimed_plan(asked).mechanisms[0]
    law, plan = asked.entry.options.law, claimed_plan(asked)
    order = choice_audit._order(plan, mechanism, law, 1e-4)
    first, second = (
        choice_audit._statistic(
            order, choice_audit._choices(asked, plan, mechanism, order, side), 0, 5
        )
        for side in (True, False)
    )
    line = order.line(0.0, 5.0)
    for false_alarms in (0.05, 0.2, 0.5):
        cut = np.quantile(second, 1 - false_alarms)
        spread = 4 * np.sqrt(0.5 / len(first))
        assert np.mean(first > cut) == pytest.approx(line.highest_rate(false_alarms), abs=spread)


def test_the_stand_ins_tell_what_their_plan_allows_and_no_more() -> None:
    """delta of the two laws of a run, by their quantiles, is that of its events."""
    for base in BASES:
        plan: Any = claimed_plan(of_base(base))
        events = [
            each.event for each in plan.runs[0].mechanisms
            if each.name != "score" and each.population in (None, "train")
        ]  # fmt: skip
        laws = RunLosses.of(events, 1e-4)
        uniform = (np.arange(40_000) + 0.5) / 40_000
        there, back = (np.array([law(u) for u in uniform]) for law in (laws.inside, laws.outside))
        counted = curve(compose_all(*events))
        for epsilon in (0.0, 0.5, 1.0):
            told = np.mean(there > epsilon) - np.exp(epsilon) * np.mean(back > epsilon)
            assert told == pytest.approx(counted.delta(epsilon), abs=2e-3)


def test_total_variation_of_one_run_and_of_the_best_is_as_docs_audits_says() -> None:
    event = GaussianRelease(relation="replace-one", noise_stddev=1.0, sensitivity=1.0)
    law = NumberOfRuns(eta=0.0, gamma=0.1)
    order = Order.of([RunLosses.of([event], 1e-5)], law)
    largest_first = replace(order, least=-np.inf)
    apart = [
        max(each.line(0.0, 0.0).highest_rate(rate) - rate for rate in np.linspace(0, 1, 201))
        for each in (order, largest_first)
    ]
    assert apart == [pytest.approx(0.44, abs=0.005), pytest.approx(0.38, abs=0.005)]
    assert curve(event).delta(0.0) == pytest.approx(0.38, abs=0.005)


def test_a_batch_that_only_the_data_set_fills_is_audited_at_the_data_set_s_rate() -> None:
    """The runs of a choice are planned for the data set; so is the choice."""
    training = {"training.expected_batch_size": 400, "training.num_steps": 3}
    options = {"base": "dp_mlp", "base_options": {"width": 4, **training}}
    options["candidates"] = [{"training.optimizer.lr": lr} for lr in (0.01, 0.1)]
    asked = request("selected", options=options, facts=FACTS)
    (run, train, others) = audit(asked)
    names = [each.mechanism for each in (run, train, others)]
    assert names == ["run 0: train", "choice/train", "choice/others"]
    assert {run.outcome, train.outcome, others.outcome} == {"passed"}
    assert claimed_plan(asked).claims[0].epsilon <= 4.0


def test_an_audit_in_one_run_looks_at_the_runs_of_a_choice() -> None:
    first, second, choice = audit_in_one_run(of_base("dp_linear"), 20)
    assert (first.mechanism, second.mechanism) == ("run 0: train", "run 1: train")
    assert {first.outcome, second.outcome} == {"passed"}
    assert choice.mechanism == "choice/train+choice/others"
    assert choice.outcome == "not-run"
