"""How parts are drawn, recipe by recipe."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers import two_community_graph

from dpgnn.data import recipes
from dpgnn.data.graph import Graph

GRAPH = two_community_graph(60)


def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def test_labelled_nodes_are_all_but_those_without_a_class() -> None:
    y = GRAPH.y.copy()
    y[[3, 7]] = -1
    found = recipes.labelled_nodes(replace(GRAPH, y=y))
    np.testing.assert_array_equal(found, np.setdiff1d(np.arange(60), [3, 7]))


def test_a_cut_takes_fractions_in_order() -> None:
    train, val, test = recipes.cut(np.arange(10)[::-1], 0.6, 0.2)
    assert (train.tolist(), val.tolist(), test.tolist()) == ([9, 8, 7, 6, 5, 4], [3, 2], [1, 0])


def test_a_number_of_each_class_is_the_first_in_order() -> None:
    order = rng().permutation(60)
    for label, members in enumerate(recipes.take_per_class(GRAPH, order, 4)):
        np.testing.assert_array_equal(members, order[GRAPH.y[order] == label][:4])
    with pytest.raises(ValueError, match=r"be <= 30, the size of class 0, got 31"):
        recipes.take_per_class(GRAPH, order, 31)


def test_per_class_and_membership_have_the_sizes_asked_for() -> None:
    train, val, test = recipes.per_class(GRAPH, (5, 7, 0), rng=rng())
    assert (len(train), len(val), len(test)) == (10, 7, 43)
    assert np.bincount(GRAPH.y[train]).tolist() == [5, 5]
    target, shadow = recipes.membership(GRAPH, (5, 0, 8), rng=rng())
    for part in (target, shadow):
        assert np.bincount(GRAPH.y[part[0]]).tolist() == [5, 5]
        assert (len(part[1]), len(part[2])) == (0, 8)
    every = np.concatenate([*target, *shadow])
    assert len(np.unique(every)) == len(every) == 36


def test_small_classes_leave_and_then_nodes_without_an_edge() -> None:
    # a path 0-1-2-3: class 1 is node 1 alone; without it node 0 has no edge
    edges = np.array([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    x = np.ones((4, 1), dtype=np.float32)
    graph = Graph(name="path", x=x, edge_index=edges, y=np.array([0, 1, 0, 0]), num_classes=2)
    drop = recipes.dropped_nodes
    assert drop(graph, min_class_size=2, drop_isolated=False).tolist() == [1]
    assert drop(graph, min_class_size=2, drop_isolated=True).tolist() == [0, 1]
    assert drop(graph, min_class_size=0, drop_isolated=True).tolist() == []
