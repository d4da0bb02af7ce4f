"""What is caught of a real fit in two worlds, and that nothing of it is trained, shown or drawn twice."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from audit_requests import FACTS, FULL, request

from dpgnn.audits.capture import CannotAudit, Case, caught_plan
from dpgnn.audits.request import case_of
from dpgnn.methods.base import SilentProgress


def dp_mlp(relation: str = "add-remove") -> Case:
    return case_of(request(relation=relation, options=FULL, facts=FACTS))


@pytest.mark.parametrize(("relation", "missing"), [("add-remove", 1), ("replace-one", 0)])
def test_the_training_of_both_worlds_is_the_methods_own(relation: str, missing: int) -> None:
    case = dp_mlp(relation)
    sides = [case.training(inside, "train") for inside in (True, False)]
    for name in ("num_steps", "clipping", "noise", "divisor"):
        assert getattr(sides[0].spec, name) == getattr(sides[1].spec, name)
    assert torch.equal(sides[0].initial, sides[1].initial)
    assert sides[0].randomness == "study"
    roots = [len(case.prepared(inside)[1].train_idx) for inside in (True, False)]
    assert roots[0] - roots[1] == missing
    planned = case.plan.mechanism("train")
    assert planned.clipping_norm == sides[0].spec.clipping.total_norm


def test_a_mechanism_that_the_fit_does_not_reach_cannot_be_audited() -> None:
    with pytest.raises(CannotAudit, match="ended without reaching mechanism other"):
        dp_mlp().training(True, "other")


def test_a_method_without_releases_has_none_to_catch() -> None:
    case = dp_mlp()
    with pytest.raises(CannotAudit, match="a noisy release"):
        case.release(case.prepared(True), 0)


def test_nothing_is_shown_while_a_fit_is_watched(capsys: pytest.CaptureFixture[str]) -> None:
    dp_mlp().training(True, "train")
    line = SilentProgress()
    line.update(1, loss=0.5)
    assert capsys.readouterr() == ("", "")


def test_a_release_is_drawn_anew_for_each_seed_and_again_for_the_same() -> None:
    case = case_of(request("gap", "edge", facts=FACTS))
    world = case.prepared(True)
    first, again, other = (case.release(world, seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first.ndim == 1


def test_rows_that_the_canary_alone_reads_are_left_out_where_nodes_are_protected() -> None:
    edge = case_of(request("gap", "edge", facts=FACTS))
    node = case_of(request("gap", "node-bounded", options={"node": {"max_degree": 3}}, facts=FACTS))
    part = np.ones((node.recipe.num_nodes, 2))
    assert node._flat_part(part).size == 2 * (node.recipe.num_nodes - 1)
    part = np.ones((edge.recipe.num_nodes, 2))
    assert edge._flat_part(part).size == part.size


def test_answered_arcs_are_flattened_as_a_matrix() -> None:
    case = case_of(request("edgerand", "edge", facts=FACTS))
    size = case.recipe.num_nodes
    cells = case._flat(np.array([[0, 2], [1, 0]])).reshape(size, size)
    assert cells.sum() == 2
    assert cells[0, 1] == cells[2, 0] == 1


def test_a_release_of_the_first_world_is_given_to_the_second() -> None:
    case = dp_mlp()

    class Counted:
        name, calls = "release", 0

        def function(self, value: int) -> int:
            Counted.calls += 1
            return value

    first, second = case.replayed(Counted()), case.replayed(Counted())  # type: ignore[arg-type]
    assert [first(1), first(2)] == [1, 2]
    assert [second(7), second(8)] == [
        1,
        2,
    ]  # by place: what the second world would draw is not drawn
    assert Counted.calls == 2


def test_rows_of_the_auditors_choice_are_unit_rows_against_the_canary() -> None:
    case = case_of(request("caribou", "edge", facts=FACTS))
    graph, _, _ = case.prepared(True)
    rows = case._opposite(graph, np.zeros((graph.num_nodes, 4)))
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0)
    (canary,) = case.recipe.canaries
    assert (rows[canary] @ rows[canary + 1]) ** 2 == 1.0
    assert rows[-1] @ rows[canary] == 0.0


def test_a_plan_is_made_from_the_facts_that_are_given() -> None:
    wanted = request(facts=FACTS)
    recipe = case_of(wanted).recipe
    given = caught_plan(wanted.entry, recipe, FACTS, wanted.budget)
    own = caught_plan(wanted.entry, recipe, None, wanted.budget)
    assert given.facts["num_train"] == 600
    assert own.facts["num_train"] == recipe.num_background + recipe.num_leaves + 1
