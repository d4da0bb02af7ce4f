"""Caveat: 'keep an edge if both ends still have room' is not stable; one edge changes a whole path.

Bounding degrees greedily in a fixed public order keeps every degree within the bound, yet removing one
edge can change every edge of a path, so no constant bounds its ripple. `MutualDegree` changes at most 3.
"""

import numpy as np

from dpgnn.audits.edge_neighbours import examine_edges
from dpgnn.audits.worlds import make_world
from dpgnn.samplers.degree import MutualDegree


def greedy(edges, max_degree):
    """Edges in the given (public) order; keep one if both its ends have fewer than max_degree."""
    degree, kept = {}, set()
    for u, v in edges:
        if degree.get(u, 0) < max_degree and degree.get(v, 0) < max_degree:
            kept.add((u, v))
            degree[u] = degree.get(u, 0) + 1
            degree[v] = degree.get(v, 0) + 1
    return kept


def test_one_edge_changes_every_edge_of_a_path_under_the_greedy_rule():
    for length in (10, 100, 1000):
        path = [(v, v + 1) for v in range(length)]
        whole, without_first = greedy(path, 1), greedy(path[1:], 1)
        assert len(whole ^ without_first) == length


def test_one_edge_of_the_same_path_changes_at_most_three_under_the_mutual_rule():
    ends = np.arange(1000)
    path = np.stack([ends, ends + 1])
    world = make_world(np.concatenate([path, path[::-1]], axis=1), 1001)
    report = examine_edges(
        MutualDegree(max_degree=1), world, "edge", "add-remove",
        rng=np.random.default_rng(0), max_neighbours=400,
    )  # fmt: skip
    assert report.passed, report
    assert 2 <= report.lost + report.gained <= 3
