"""What is audited: worlds fit for the entry's unit, and the plan of the data set where that can be had."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from audit_requests import FACTS, FULL, request

from dpgnn.accountants.events import parts
from dpgnn.accountants.plan import Budget
from dpgnn.audits.request import MOST_ROOTS, case_of, recipe_of


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_runs": 7}, "num_runs must be >= 8, got 7"),
        ({"max_steps": 0}, "max_steps must be >= 1, got 0"),
        ({"level": 1.0}, "level must"),
        ({"num_processes": 0}, "num_processes must be >= 1, got 0"),
    ],
)
def test_impossible_efforts_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        request(**changes)


def test_an_entry_without_privacy_has_nothing_to_audit() -> None:
    with pytest.raises(ValueError, match="entry must be private, got 'mlp'"):
        request("mlp", None, None, mode="nonprivate")


def test_kept_scores_belong_to_what_decides_them_and_to_nothing_else() -> None:
    first = request()
    for changed in (
        replace(first, budget=Budget(epsilon=2.0, delta=1e-4)), replace(first, facts=FACTS),
        replace(first, root_seed=1), replace(first, max_steps=3), replace(first, randomness="release"),
        request(options=FULL), request(relation="replace-one"),
    ):  # fmt: skip
        assert changed.fingerprint != first.fingerprint
    same = replace(first, label="x", num_processes=2, num_runs=80, level=0.5, work=Path("w"))
    assert same.fingerprint == first.fingerprint


def test_the_canary_of_an_edge_has_one_leaf_and_that_of_a_bounded_node_its_bound() -> None:
    edge = recipe_of(request("gap", "edge").entry)
    assert edge.num_leaves == 1
    assert (edge.privacy_unit, edge.relation) == ("edge", "add-remove")
    bounded = recipe_of(request("gap", "node-bounded", options={"node": {"max_degree": 5}}).entry)
    assert bounded.num_leaves == 5
    assert not bounded.mentions_stay


def test_the_canary_of_a_node_record_offers_more_than_a_list_holds_and_its_mentions_stay() -> None:
    options = {"conv": "gcn", "width": 4, "max_degree": 12, "training": {"num_steps": 2}}
    entry = request("dp_gnn", "node-record", options=options).entry
    recipe = recipe_of(entry)
    assert recipe.num_leaves == 24
    assert recipe.num_classes == 3


def test_classes_and_task_are_those_of_the_data_set_as_far_as_the_worlds_need_them() -> None:
    recipe = recipe_of(request().entry, replace(FACTS, num_classes=2, task="multilabel"))
    assert (recipe.num_classes, recipe.task) == (2, "multilabel")
    assert recipe_of(request().entry, FACTS).num_classes == 3


def test_poisson_roots_are_planned_for_the_data_set() -> None:
    case = case_of(request(facts=FACTS))
    assert case.plan.mechanisms[0].details["sampling_probability"] == pytest.approx(10 / 600)
    assert case.plan.facts["num_train"] == FACTS.num_train


def test_without_facts_the_plan_is_that_of_the_audit_graph() -> None:
    case = case_of(request())
    graph, split, _ = case.prepared(True)
    assert case.plan.facts["num_train"] == len(split.train_idx)
    assert case.plan.facts["num_nodes"] == graph.num_nodes == case.recipe.num_nodes


def test_fixed_size_batches_are_planned_for_an_audit_graph_of_the_data_sets_size() -> None:
    options = {"width": 4, "max_degree": 2, "training": {"num_steps": 4, "expected_batch_size": 9}}
    wanted = request("dp_gnn", "node-record", "replace-one", options, mode="published", facts=FACTS)
    case = case_of(wanted)
    ((event, _),) = parts(case.plan.mechanism("train").event)
    assert event.batch_size == 9
    assert event.population >= MOST_ROOTS - 20
    assert case.recipe.num_background > recipe_of(wanted.entry, FACTS).num_background
