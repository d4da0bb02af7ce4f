"""What a finding says: one accusation is repeated, two fail; p-values are corrected for every test made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpgnn.audits.findings import Finding
from dpgnn.audits.mechanics import Check
from dpgnn.audits.one_run import OneRun
from dpgnn.audits.statistics import Verdict


def verdict(p_value: float, level: float = 0.01) -> Verdict:
    return Verdict(
        rejected=p_value <= level, p_value=p_value, level=level, true_positive_rate_low=0.1,
        false_positive_rate_high=0.2, allowed_rate=0.5, epsilon_lower_bound=0.3,
        epsilon_gaussian_shape=0.4, delta=1e-5, num_trials=100,
    )  # fmt: skip


def check(p_value: float) -> Check:
    return Check(name="noise deviation", passed=p_value > 0.001, p_value=p_value, found="")


def one_run(p_value: float | None) -> OneRun:
    return OneRun(
        num_canaries=20, num_guesses=10, num_correct=8, epsilon_lower_bound=0.7, confidence=0.99,
        delta=1e-5, p_value=p_value,
    )  # fmt: skip


def finding(**fields: Any) -> Finding:
    return Finding(**{"mechanism": "train", "attack": "canary", "verdict": None} | fields)


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({}, "not-run"),
        ({"reason": "fixed-size batches"}, "not-run"),
        ({"verdict": verdict(0.5)}, "passed"),
        ({"verdict": verdict(0.5), "step_verdict": verdict(0.001)}, "failed"),
        ({"verdict": verdict(0.5), "checks": (check(0.4), check(1e-9))}, "failed"),
        ({"one_run": one_run(0.02)}, "passed"),
        ({"one_run": one_run(0.009)}, "failed"),
        ({"one_run": one_run(None)}, "passed"),
        # a failed exact test accuses even where no run was scored
        ({"checks": (check(0.0),)}, "failed"),
    ],
)
def test_any_test_may_accuse_and_what_was_not_tested_has_not_passed(
    fields: dict[str, Any], outcome: str
) -> None:
    found = finding(**fields)
    assert found.outcome == outcome
    assert found.passed == (outcome == "passed")
    assert found.accuses == (outcome == "failed")


@pytest.mark.parametrize(("second", "outcome"), [(0.6, "passed"), (0.004, "failed")])
def test_an_accusation_counts_where_new_seeds_repeat_it(second: float, outcome: str) -> None:
    first = finding(verdict=verdict(0.002))
    found = replace(first, again=finding(verdict=verdict(second)))
    assert first.outcome == "failed"
    assert found.outcome == outcome
    assert found.p_value == pytest.approx(second)  # the larger of the two


def test_an_audit_that_does_not_accuse_is_not_changed_by_another() -> None:
    found = finding(verdict=verdict(0.5), again=finding(verdict=verdict(0.001)))
    assert found.outcome == "passed"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"verdict": verdict(0.03)}, 0.03),
        # two claim tests, the smaller counted twice
        ({"verdict": verdict(0.2), "step_verdict": verdict(0.03)}, 0.06),
        # two kinds: claim tests (2 x 0.03) and exact tests (3 x 0.01)
        (
            {
                "verdict": verdict(0.2),
                "step_verdict": verdict(0.03),
                "checks": (check(0.4), check(0.01), check(1.0)),
            },
            0.06,
        ),
        ({"verdict": verdict(0.8), "checks": (check(0.9),)}, 1.0),
        ({"one_run": one_run(0.04)}, 0.04),
        ({"one_run": one_run(None)}, None),
    ],
)
def test_the_p_value_is_corrected_for_kinds_and_for_tests(
    fields: dict[str, Any], expected: float | None
) -> None:
    assert finding(**fields).p_value == (None if expected is None else pytest.approx(expected))


def test_one_run_bounds_epsilon_where_it_was_made() -> None:
    runs = finding(verdict=verdict(0.5))
    assert runs.lower_bound == runs.verdict
    assert replace(runs, one_run=one_run(0.5)).lower_bound == one_run(0.5)
    assert finding().lower_bound is None
