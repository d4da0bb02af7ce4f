"""One run with many canaries: a bound below the truth, and an accusation where the noise is missing."""

from __future__ import annotations

import pytest
from audit_requests import FACTS, FULL, request
from helpers import tells

from dpgnn.accountants.plan import Budget
from dpgnn.audits import training_audit
from dpgnn.audits.one_run_audit import audit_in_one_run
from dpgnn.audits.request import case_of
from dpgnn.methods.base import Facts


def test_the_bound_is_above_zero_and_stays_below_the_truth() -> None:
    case = case_of(request(options=FULL))
    mechanism = case.plan.mechanisms[0]
    found = training_audit.one_run(
        case, mechanism, num_canaries=12, num_steps=4, seed=1, delta=1e-4, level=0.05
    )
    assert found.num_canaries == 12
    assert 0 <= found.epsilon_lower_bound <= 4.0


@pytest.mark.parametrize("randomness", ["study", "release"])
def test_one_run_audits_stand_in_the_same_table(randomness: str) -> None:
    wanted = request(options=FULL, max_steps=4, level=0.05, randomness=randomness)
    (finding,) = audit_in_one_run(wanted, 12)
    assert finding.outcome == "passed"
    assert finding.lower_bound.num_trials == 12
    assert finding.lower_bound.epsilon_lower_bound <= finding.claimed_of_steps
    (edges,) = audit_in_one_run(request("edgerand", "edge", randomness=randomness), 12)
    assert edges.outcome == "not-run"


def test_a_loop_without_noise_is_accused_and_one_with_noise_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = request(options=FULL, max_steps=4, level=0.01, budget=Budget(epsilon=0.2, delta=1e-4))
    (honest,) = audit_in_one_run(wanted, 48)
    assert honest.outcome == "passed"
    monkeypatch.setattr("dpgnn.training.dp_sgd.add_noise", lambda total, stddev, *, rng: total)
    (found,) = audit_in_one_run(wanted, 48)
    assert found.outcome == "failed"
    assert found.one_run is not None
    assert found.one_run.num_correct == found.one_run.num_guesses
    assert found.one_run.epsilon_lower_bound > found.claimed_of_steps  # type: ignore[operator]


def test_a_release_is_not_run_and_says_which_audit_is_for_it() -> None:
    (finding,) = audit_in_one_run(request("gap", "edge", options={"num_hops": 1}), 12)
    assert finding.mechanism == "aggregate"
    tells(finding.reason, "clipped sums", "--one-run")


@pytest.mark.parametrize("facts", [None, FACTS])
@pytest.mark.parametrize(("method", "unit"), [("dp_gnn", "node-record"), ("dpar", "node")])
def test_fixed_size_batches_are_planned_for_the_roots_of_all_canaries(
    method: str, unit: str, facts: Facts | None
) -> None:
    asked = request(method, unit, "replace-one", mode="published", facts=facts)
    (finding,) = [each for each in audit_in_one_run(asked, 16) if each.mechanism == "train"]
    assert (finding.outcome, finding.reason) == ("passed", "")
    assert finding.one_run is not None
    assert finding.one_run.num_canaries == 16


def test_fixed_size_batches_are_refused_where_their_number_of_roots_differs() -> None:
    asked = request("dp_gnn", "node-record", "add-remove", mode="published", facts=FACTS)
    (finding,) = audit_in_one_run(asked, 16)
    assert finding.outcome == "not-run"
    tells(finding.reason, "fixed-size batches", "population-changes")


def test_too_few_canaries_say_nothing_and_are_refused() -> None:
    with pytest.raises(ValueError, match="one-run canaries must be >= 8, got 7"):
        audit_in_one_run(request(options=FULL), 7)
