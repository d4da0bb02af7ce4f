"""Plans and the ledger: every planned mechanism is executed once."""

from __future__ import annotations

import pytest

from dpgnn.accountants.claims import Claim
from dpgnn.accountants.events import GaussianRelease
from dpgnn.accountants.plan import Budget, Ledger, LedgerError, Mechanism, Plan


def test_a_budget_is_private_when_epsilon_is_finite_or_the_noise_is_given() -> None:
    assert Budget(epsilon=1.0, delta=1e-5).is_private
    assert not Budget(epsilon=float("inf"), delta=1e-5).is_private
    given = Budget(epsilon=float("inf"), delta=1e-5, noise_multiplier=2.0)
    assert given.is_private
    with pytest.raises(ValueError, match="dpar: noise_multiplier must not be given, got"):
        given.require_target("dpar")
    with pytest.raises(ValueError, match="noise_multiplier must be > 0"):
        Budget(epsilon=1.0, delta=1e-5, noise_multiplier=0.0)


def test_a_plan_that_was_charged_for_and_not_executed_is_an_error() -> None:
    event = GaussianRelease(relation="add-remove", noise_stddev=1.0, sensitivity=1.0)
    claim = Claim(privacy_unit="node", relation="add-remove", epsilon=1.0, delta=1e-5,
                  accountant="gdp", status="proved")  # fmt: skip
    plan = Plan(claims=(claim,), mechanisms=tuple(
        Mechanism(name=name, event=event, noise_stddev=1.0, sensitivity=1.0) for name in "ab"
    ))  # fmt: skip
    ledger = Ledger(plan)
    ledger.enter("a")
    with pytest.raises(LedgerError, match="planned mechanisms were not executed: b"):
        ledger.close()
    with pytest.raises(LedgerError, match="was executed already"):
        ledger.enter("a")
    ledger.enter("b")
    ledger.close()


def test_a_run_within_must_execute_its_plan_too() -> None:
    event = GaussianRelease(relation="add-remove", noise_stddev=1.0, sensitivity=1.0)
    claim = Claim(privacy_unit="node", relation="add-remove", epsilon=1.0, delta=1e-5,
                  accountant="gdp", status="proved")  # fmt: skip
    whole, run = (
        Plan(claims=(claim,), mechanisms=(
            Mechanism(name=name, event=event, noise_stddev=1.0, sensitivity=1.0),
        ))
        for name in ("choice", "train")
    )  # fmt: skip
    ledger = Ledger(whole)
    ledger.enter("choice")
    inner = ledger.within(run)
    with pytest.raises(LedgerError, match="planned mechanisms were not executed: train"):
        ledger.close()
    inner.enter("train")
    ledger.close()
