"""The two worlds of an audit are neighbours under the stated unit and relation, and differ by one record."""

import numpy as np
import pytest

from dpgnn.audits.canary import AuditGraph


def pairs(graph):
    return {tuple(edge) for edge in graph.edge_index.T.tolist()}


@pytest.mark.parametrize("design", ["opposite", "orthogonal"])
@pytest.mark.parametrize("relation", ["add-remove", "null-one", "replace-one"])
@pytest.mark.parametrize("unit", ["node", "node-record", "node-bounded"])
def test_only_the_canarys_record_and_edges_differ(unit, relation, design):
    recipe = AuditGraph(privacy_unit=unit, relation=relation, num_leaves=3, design=design)
    (one, first), (two, second) = recipe.world(True), recipe.world(False)
    rest = np.delete(np.arange(recipe.num_nodes), recipe.canaries)
    assert np.array_equal(one.x[rest], two.x[rest])
    assert np.array_equal(one.y[rest], two.y[rest])
    assert not np.array_equal(one.x[0], two.x[0])
    assert all(0 in edge for edge in pairs(one) ^ pairs(two))
    gone = set(first.train_idx) ^ set(second.train_idx)
    assert gone == ({0} if relation == "add-remove" else set())
    degree = np.bincount(one.edge_index[0], minlength=recipe.num_nodes)
    assert degree[0] == 3


@pytest.mark.parametrize("task", ["multiclass", "multilabel"])
@pytest.mark.parametrize("unit", ["node", "node-record", "node-bounded", "node-features"])
@pytest.mark.parametrize("num_canaries", [1, 3])
def test_a_replaced_canary_has_another_label_and_the_same_one_only_if_asked_for(
    unit, task, num_canaries
):
    recipe = AuditGraph(
        privacy_unit=unit,
        relation="replace-one",
        num_leaves=3,
        task=task,
        num_canaries=num_canaries,
    )
    for asked in recipe.labelled():
        ones, twos = asked.world(True)[0].y, asked.world(False)[0].y
        differ = (ones != twos).reshape(len(ones), -1).any(axis=1)
        canaries = [] if asked.same_label else asked.canaries.tolist()
        assert np.flatnonzero(differ).tolist() == canaries
    assert [asked.same_label for asked in recipe.labelled()] == [False, True]
    assert not recipe.same_label


@pytest.mark.parametrize(
    ("unit", "relation"), [("edge", "add-remove"), ("node", "null-one"), ("node", "add-remove")]
)
def test_other_relations_have_one_recipe(unit, relation):
    recipe = AuditGraph(privacy_unit=unit, relation=relation, num_leaves=1)
    assert recipe.labelled() == (recipe,)


@pytest.mark.parametrize("relation", ["add-remove", "null-one", "replace-one"])
def test_mentions_stay_where_a_record_is_its_own_list_alone(relation):
    recipe = AuditGraph(
        privacy_unit="node-record", relation=relation, num_leaves=3, mentions_stay=True
    )
    (one, _), (two, _) = recipe.world(True), recipe.world(False)
    assert {source for source, _ in pairs(one) ^ pairs(two)} == {0}
    leaves = set(range(1, recipe.star_size))
    for graph in (one, two):
        assert {source for source, target in pairs(graph) if target == 0} == leaves
    assert {target for source, target in pairs(one) if source == 0} == {1, 2, 3}


def test_feature_neighbours_share_their_structure():
    recipe = AuditGraph(privacy_unit="node-features", relation="replace-one", num_leaves=3)
    (one, _), (two, _) = recipe.world(True), recipe.world(False)
    assert pairs(one) == pairs(two)
    assert not np.array_equal(one.x[0], two.x[0])


@pytest.mark.parametrize("minimum", [0, 4])
def test_edge_neighbours_differ_in_one_undirected_edge_and_keep_the_minimum_degree(minimum):
    recipe = AuditGraph(
        privacy_unit="edge", relation="add-remove", num_leaves=1, minimum_degree=minimum
    )
    (one, first), (two, second) = recipe.world(True), recipe.world(False)
    assert pairs(one) - pairs(two) == {(0, 1), (1, 0)}
    assert not pairs(two) - pairs(one)
    assert np.array_equal(one.x, two.x)
    assert np.array_equal(first.train_idx, second.train_idx)
    for graph in (one, two):
        assert np.bincount(graph.edge_index[0], minlength=recipe.num_nodes).min() >= minimum


def test_many_canaries_toggle_one_by_one():
    recipe = AuditGraph(
        privacy_unit="node", relation="add-remove", num_leaves=2, num_canaries=5, num_background=6
    )
    whole, _ = recipe.world(np.ones(5, bool))
    for canary in range(5):
        coins = np.ones(5, bool)
        coins[canary] = False
        graph, split = recipe.world(coins)
        assert set(recipe.canaries.tolist()) - set(split.train_idx.tolist()) == {canary * 3}
        assert len(pairs(whole) - pairs(graph)) == 4
