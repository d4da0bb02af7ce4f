"""The plan of votes: the spec's numbers, one curve, the budget rule, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest

from dpgnn import methods
from dpgnn.accountants import gdp
from dpgnn.accountants.calibration import epsilon
from dpgnn.accountants.events import compose_all
from dpgnn.accountants.plan import Budget, Plan
from dpgnn.core import config as strict
from dpgnn.methods.base import Entry, Facts
from dpgnn.methods.votes import plan as votes_plan
from dpgnn.methods.votes.board import shares_of
from dpgnn.methods.votes.plan import sensitivity

FACTS = Facts(num_nodes=5000, num_train=3000, num_features=50, num_classes=2, task="multiclass")


def entry_of(relation: str = "add-remove", unit: str = "node-record", **options: Any) -> Entry:
    method = methods.get("votes")
    return Entry(
        name="votes", method="votes", mode="sound", privacy_unit=unit, relation=relation,
        options=strict.read(method.config, {"mean_degree": 50.0, **options}),
    )  # fmt: skip


def plan_of(entry: Entry, budget: Budget, facts: Facts = FACTS) -> Plan:
    return methods.get("votes").plan(entry, facts, budget)


@pytest.mark.parametrize(
    ("target", "delta", "mu"), [(1, 1e-5, 0.268051), (4, 1e-5, 0.924931), (8, 1e-7, 1.424272)]
)
def test_mu_of_a_budget(target: float, delta: float, mu: float) -> None:
    assert gdp.mu(target, delta) == pytest.approx(mu, abs=1e-6)


def test_board_and_training_share_the_squared_budget() -> None:
    plan = plan_of(entry_of(), Budget(epsilon=4.0, delta=1e-5))
    board, train = plan.mechanisms
    assert gdp.total_mu(board.event) == pytest.approx(0.584978, abs=1e-6)
    assert board.noise_stddev == pytest.approx(1.709467, abs=1e-5)
    # calibrated to a relative 1e-4, never below
    assert gdp.total_mu(train.event) == pytest.approx(0.716448, rel=2e-4)
    exact = 13.957739 * 0.3
    assert exact * (1 - 1e-9) <= train.noise_stddev <= exact * (1 + 2e-4)
    whole = compose_all(board.event, train.event)
    spent = epsilon(whole, delta=1e-5, relation="add-remove")
    assert spent == plan.claims[0].epsilon <= 4.0
    assert spent > 3.99


@pytest.mark.parametrize(("relation", "roots"), [("null-one", 2.0), ("replace-one", 2.0)])
def test_other_relations_cost_what_their_sensitivity_says(relation: str, roots: float) -> None:
    budget = Budget(epsilon=4.0, delta=1e-5)
    base, other = (plan_of(entry_of(name), budget) for name in ("add-remove", relation))
    ratios = [o.noise_stddev / b.noise_stddev for b, o in zip(base.mechanisms, other.mechanisms)]
    board = 2.0 if relation == "replace-one" else 1.0
    assert ratios == pytest.approx([board, roots], rel=3e-4)
    assert sensitivity("replace-one", 3) == pytest.approx(math.sqrt(3))


def test_votes_cast_twice_are_not_what_was_counted() -> None:
    """Training nodes that pushed on a second board too would spend more than the claim."""
    plan = plan_of(entry_of(), Budget(epsilon=4.0, delta=1e-5))
    board, train = plan.mechanisms
    twice = compose_all(board.event, board.event, train.event)
    assert epsilon(twice, delta=1e-5, relation="add-remove") > 4.5


@pytest.mark.parametrize("target", [1.0, 2.0, 4.0, 8.0])
def test_a_second_board_costs_nothing_more(target: float) -> None:
    budget = Budget(epsilon=target, delta=1e-5)
    plan = plan_of(entry_of(rounds=2), budget)
    board, train, second = plan.mechanisms
    assert (board.population, train.population, second.population) == ("train", "train", "others")
    one = plan_of(entry_of(), budget)
    assert [dataclasses.replace(m, population=None) for m in (board, train)] == list(one.mechanisms)
    mu = gdp.mu(target, 1e-5)
    assert second.noise_stddev == pytest.approx(1 / mu, rel=1e-8)
    training, others = plan.composed()
    spent = [epsilon(event, delta=1e-5, relation="add-remove") for event in (training, others)]
    assert plan.claims[0].epsilon == pytest.approx(max(spent), rel=1e-9)
    assert max(spent) <= target
    added = compose_all(*(m.event for m in plan.mechanisms))
    assert epsilon(added, delta=1e-5, relation="add-remove") > 1.3 * target


def test_numbers_of_two_rounds() -> None:
    """Epsilon 4, delta 1e-5, a share of 0.4."""
    board, _, second = plan_of(entry_of(rounds=2), Budget(epsilon=4.0, delta=1e-5)).mechanisms
    assert second.noise_stddev == pytest.approx(1.081162, abs=1e-6)
    shares = shares_of(board.noise_stddev, second.noise_stddev)
    assert shares == pytest.approx((0.534522, 1.336306), abs=1e-6)
    noise = math.hypot(shares[0] * board.noise_stddev, shares[1] * second.noise_stddev)
    assert noise == pytest.approx(board.noise_stddev, rel=1e-12)


def test_a_board_that_carries_too_little_is_left_out() -> None:
    poor = entry_of(mean_degree=1.0)
    budget = Budget(epsilon=1.0, delta=1e-5)
    plan = plan_of(poor, budget)
    assert [mechanism.name for mechanism in plan.mechanisms] == ["train"]
    assert plan.details == {"board": False}
    # the signal grows with degree, budget, and fraction of training nodes
    few = Facts(num_nodes=100000, num_train=3000, num_features=50, num_classes=2, task="multiclass")
    budget = Budget(epsilon=4.0, delta=1e-5)
    assert len(plan_of(entry_of(), budget).mechanisms) == 2
    assert len(plan_of(entry_of(), budget, few).mechanisms) == 1


def test_the_fitted_limit_is_that_of_the_drawn_graphs() -> None:
    from benchmarks.votes_drawn import DATA, fit

    found = fit(json.loads(DATA.read_text()))
    assert found == pytest.approx((votes_plan.FACTOR, votes_plan.POWER), abs=0.005)


def test_the_fitted_limit_asks_more_of_the_board_where_training_is_limited_by_its_noise() -> None:
    """1,078 training nodes of ten classes at epsilon 1; ten times as many have a board."""
    budget = Budget(epsilon=1.0, delta=1e-6)
    few = Facts(num_nodes=1797, num_train=1078, num_features=64, num_classes=10, task="multiclass")
    many = dataclasses.replace(few, num_nodes=17970, num_train=10780)
    options = {"mean_degree": 15.0, "mlp": {"training": {"expected_batch_size": 1024}}}
    for facts, boards in ((few, False), (many, True)):
        assert plan_of(entry_of(**options), budget, facts).details["board"] is boards
    # a stated limit takes its place
    for stated, boards in ((0.0, True), (0.8, True), (0.82, False)):
        plan = plan_of(entry_of(**options, least_signal=stated), budget, few)
        assert plan.details["board"] is boards


@pytest.mark.parametrize("unit", ["node", "node-bounded"])
def test_units_that_take_others_mentions_away_are_refused(unit: str) -> None:
    method = methods.get("votes")
    with pytest.raises(ValueError, match="privacy_unit / relation must be one of"):
        method.check_entry(entry_of(unit=unit), "votes")


def test_several_labels_a_node_are_refused() -> None:
    facts = Facts(num_nodes=100, num_train=60, num_features=5, num_classes=4, task="multilabel")
    with pytest.raises(ValueError, match=r"task must be multiclass.*multilabel"):
        plan_of(entry_of(), Budget(epsilon=4.0, delta=1e-5), facts)


def test_a_batch_that_the_fallback_cannot_fill_is_named_by_its_path() -> None:
    few = dataclasses.replace(FACTS, num_train=200)
    entry = entry_of(least_signal=1e9)
    with pytest.raises(
        ValueError, match=r"^mlp\.training\.expected_batch_size must be <= the number"
    ):
        plan_of(entry, Budget(epsilon=4.0, delta=1e-5), few)
