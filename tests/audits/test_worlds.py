"""Neighbouring data sets: each pair differs by one element, in every unit and relation, on any graph."""

import numpy as np
import pytest
from exhaustive.worlds import UNITS, make_world, neighbours
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgnn.data.graph import is_symmetric


def star(num_leaves=4, extra=1):
    leaves = np.arange(1, num_leaves + 1)
    arcs = np.stack([np.zeros_like(leaves), leaves])
    return make_world(np.concatenate([arcs, arcs[::-1]], axis=1), num_leaves + 1 + extra)


def pairs(world, unit, relation, **options):
    options = {"owner": "source", "rng": np.random.default_rng(0)} | options
    return list(neighbours(world, unit, relation, **options))


def edges(world):
    return set(zip(*world.arcs.tolist()))


def test_a_removed_record_takes_its_own_arcs_and_leaves_the_mentions():
    ((_, first, second),) = pairs(star(), "node-record", "add-remove", offenders=[0])
    assert first.present.all()
    assert np.flatnonzero(~second.present).tolist() == [0]
    assert edges(second) == {(leaf, 0) for leaf in range(1, 5)}
    ((_, _, second),) = pairs(star(), "node-record", "add-remove", offenders=[0], owner="target")
    assert edges(second) == {(0, leaf) for leaf in range(1, 5)}


def test_a_removed_node_takes_all_its_edges():
    ((_, _, second),) = pairs(star(), "node", "add-remove", offenders=[0])
    assert edges(second) == set()
    ((_, _, second),) = pairs(star(), "node", "null-one", offenders=[0])
    assert second.present.all()
    assert second.values.tolist() == [1, 0, 0, 0, 0, 0]


def test_a_replaced_record_of_a_small_graph_meets_every_list():
    found = pairs(star(), "node-record", "replace-one", offenders=[5])
    lists = {tuple(sorted(v for u, v in edges(second) if u == 5)) for _, _, second in found}
    assert len(found) == len(lists) == 32


def test_edges_are_flipped_both_ways_and_the_graph_with_the_edge_comes_first():
    found = pairs(star(), "edge", "add-remove")
    assert len(found) == 15
    for (a, b), first, second in found:
        assert edges(first) - edges(second) == {(a, b), (b, a)}
        assert edges(second) < edges(first)
    assert len(pairs(star(), "edge", "add-remove", max_neighbours=6)) == 6


def test_bounded_pairs_respect_the_bound_on_both_sides():
    for _, first, second in pairs(star(), "node-bounded", "replace-one", degree_bound=4):
        for world in (first, second):
            assert np.bincount(world.arcs[0], minlength=6).max() <= 4
            assert is_symmetric(world.arcs, 6)
    with pytest.raises(ValueError, match="degrees <= 3, got 4"):
        pairs(star(), "node-bounded", "null-one", degree_bound=3)
    with pytest.raises(ValueError, match="degree_bound must be given"):
        pairs(star(), "node-bounded", "null-one")


def test_changed_features_leave_the_arcs():
    for (node,), first, second in pairs(star(), "node-features", "replace-one"):
        assert edges(first) == edges(second)
        assert np.flatnonzero(second.values != first.values).tolist() == [node]


def test_unknown_units_relations_and_one_way_graphs_are_errors():
    with pytest.raises(ValueError, match="unknown privacy_unit"):
        pairs(star(), "graph", "add-remove")
    with pytest.raises(ValueError, match="unknown relation of edge"):
        pairs(star(), "edge", "replace-one")
    with pytest.raises(ValueError, match="both directions"):
        pairs(make_world(np.array([[0], [1]]), 3), "edge", "add-remove")
    assert set(UNITS) == {"node-features", "node-record", "node-bounded", "node", "edge"}


BOUND = 6  # no node of `random_world` has more edges
ALL = [(unit, relation) for unit, relations in UNITS.items() for relation in relations]


def random_world(seed):
    """7 nodes, each pair joined with probability 0.4."""
    upper = np.triu(np.random.default_rng(seed).random((7, 7)) < 0.4, 1)
    return make_world(np.argwhere(upper | upper.T).T, 7)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(ALL), st.sampled_from(["source", "target"]))
def test_a_pair_differs_by_one_element_and_nothing_else(seed, pair, owner):
    unit, relation = pair
    bound = BOUND if unit == "node-bounded" else None
    world = random_world(seed)
    for offender, first, second in pairs(world, unit, relation, degree_bound=bound, owner=owner):
        assert first is world or (unit == "edge" and second is world)
        for side in (first, second):
            assert (side.arcs[0] != side.arcs[1]).all()
            assert np.array_equal(side.arcs, np.unique(side.arcs, axis=1))
            assert np.array_equal(side.train_idx, world.train_idx)
        differ = edges(first) ^ edges(second)
        gone = np.flatnonzero(first.present != second.present).tolist()
        changed = np.flatnonzero(first.values != second.values).tolist()
        if unit == "edge":
            assert differ == {offender, offender[::-1]}
            assert gone == changed == []
            continue
        own = 0 if owner == "source" else 1
        assert all(
            offender[0] in (arc if unit != "node-record" else arc[own : own + 1]) for arc in differ
        )
        assert gone == ([offender[0]] if relation == "add-remove" else [])
        assert changed == ([] if relation == "add-remove" else [offender[0]])


@given(st.integers(0, 2**32))
def test_one_graph_has_a_pair_for_every_node_and_for_every_pair_of_nodes(seed):
    world = random_world(seed)
    assert [offender for offender, _, _ in pairs(world, "node", "null-one")] == [
        (node,) for node in range(7)
    ]
    assert len(pairs(world, "edge", "add-remove")) == 21
    assert len(pairs(world, "node", "add-remove", max_neighbours=3)) == 3


def test_drawn_pairs_are_those_of_the_generator():
    world = random_world(1)

    def drawn(seed):
        rng = np.random.default_rng(seed)
        found = pairs(world, "node-record", "replace-one", max_neighbours=4, rng=rng)
        return [(offender, second.arcs.tolist()) for offender, _, second in found]

    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)


def test_a_replaced_node_of_a_large_graph_first_meets_the_longest_list():
    ends = np.arange(19)
    path = np.stack([ends, ends + 1])
    world = make_world(np.concatenate([path, path[::-1]], axis=1), 20)
    found = pairs(world, "node", "replace-one", offenders=[0])
    assert len(found) == 64
    degrees = [int((second.arcs[0] == 0).sum()) for _, _, second in found]
    assert degrees[0] == 19
    assert len(set(degrees)) > 10
    bounded = pairs(world, "node-bounded", "replace-one", offenders=[0], degree_bound=2)
    assert max((second.arcs[0] == 0).sum() for _, _, second in bounded) == 2


def test_absent_nodes_have_no_pairs():
    world = star()
    _, _, without = pairs(world, "node", "add-remove", offenders=[5])[0]
    assert {offender for offender, _, _ in pairs(without, "node", "null-one")} == {
        (node,) for node in range(5)
    }
    assert len(pairs(without, "edge", "add-remove")) == 10
