import numpy as np
import pytest

from dpgnn.audits.worlds import UNITS, make_world, neighbours
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
