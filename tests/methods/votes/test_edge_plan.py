"""The plan of the edge level: closed forms, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dpgnn import methods
from dpgnn.accountants import gdp
from dpgnn.accountants.plan import Budget, Plan
from dpgnn.core import config as strict
from dpgnn.methods.base import Entry, Facts

FACTS: dict[str, Any] = {"num_nodes": 5000, "num_train": 3000, "num_features": 50}


def plan_of(budget: Budget, **facts: Any) -> Plan:
    method = methods.get("votes")
    entry = Entry(
        name="votes", method="votes", mode="sound", privacy_unit="edge", relation="add-remove",
        options=strict.read(method.config, {}),
    )  # fmt: skip
    stated = Facts(**({"num_classes": 7, "task": "multiclass"} | FACTS | facts))
    return method.plan(entry, stated, budget)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (4.0, 1e-5), (8.0, 1e-7)])
def test_both_rounds_have_noise_two_over_mu(epsilon: float, delta: float) -> None:
    plan = plan_of(Budget(epsilon=epsilon, delta=delta))
    (rounds,) = plan.mechanisms
    mu = gdp.mu(epsilon, delta)
    assert rounds.noise_stddev == pytest.approx(2 / mu, rel=1e-9)
    assert rounds.sensitivity == math.sqrt(2)
    assert rounds.num_steps == 2
    assert gdp.total_mu(rounds.event) == pytest.approx(mu, rel=1e-9)
    assert gdp.epsilon(2 / rounds.noise_stddev, delta) <= epsilon
    assert plan.claims[0].epsilon <= epsilon
    assert plan.claims[0].privacy_unit == "edge"
    assert not plan.claims[0].caveats


def test_the_noise_at_epsilon_four() -> None:
    plan = plan_of(Budget(epsilon=4.0, delta=1e-5))
    assert plan.mechanisms[0].noise_stddev == pytest.approx(2.162324, abs=1e-6)


def test_given_noise_costs_what_it_costs() -> None:
    (rounds,) = plan_of(Budget(epsilon=math.inf, delta=1e-5, noise_multiplier=2.0)).mechanisms
    assert rounds.noise_stddev == pytest.approx(2 * math.sqrt(2))
    assert gdp.total_mu(rounds.event) == pytest.approx(math.sqrt(2) / 2)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"task": "multilabel"}, "task must be multiclass"),
        ({"num_classes": 1}, "num_classes must be > 1"),
    ],
)
def test_what_has_no_single_class_of_several_is_refused(
    facts: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        plan_of(Budget(epsilon=4.0, delta=1e-5), **facts)


def test_a_plan_without_noise_is_refused() -> None:
    with pytest.raises(ValueError, match="epsilon of votes must be finite"):
        plan_of(Budget(epsilon=math.inf, delta=1e-5))
