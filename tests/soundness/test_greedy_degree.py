"""Caveat: 'keep an edge if both ends still have room' is not stable; one edge changes a whole path.

Bounding degrees greedily in a fixed public order keeps every degree within the bound, yet removing one
edge can change every edge of a path, so no constant bounds its ripple. `truncate` changes at most 3.
"""

import numpy as np

from dpgnn.data.truncation import truncate


def pairs_of(arcs):
    """Undirected edges as pairs."""
    return {(u, v) for u, v in arcs.T.tolist() if u < v}


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
    whole = pairs_of(truncate(path, 1001, 1))
    most = 0
    for edge in range(1000):
        without = truncate(np.delete(path, edge, axis=1), 1001, 1)
        most = max(most, len(pairs_of(without) ^ whole))
    assert 2 <= most <= 3
