"""Noisy degrees: their sensitivity by brute force, their noise, and the released code's reuse of it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpgnn.methods.lpgnet.degrees import (
    cluster_degrees,
    degree_sensitivity,
    degrees_with_reused_noise,
    noisy_degrees,
)
from dpgnn.methods.shared.undirected import symmetric_adjacency


def adjacency(pairs, num_nodes):
    return symmetric_adjacency(np.array(pairs, dtype=np.int64).reshape(-1, 2).T, num_nodes)


def test_the_worked_example_moves_by_two():
    clusters = np.array([0, 1, 1])
    both = cluster_degrees(adjacency([(0, 1), (1, 2)], 3), clusters, 2)
    one = cluster_degrees(adjacency([(0, 1)], 3), clusters, 2)
    assert both.tolist() == [[0, 1], [1, 1], [0, 1]]
    assert one.tolist() == [[0, 1], [1, 0], [0, 0]]
    assert np.abs(both - one).sum() == 2


def test_every_edge_of_every_graph_of_four_nodes_moves_every_clustering_by_exactly_two():
    cells = list(itertools.combinations(range(4), 2))
    clusterings = [np.array(c) for c in itertools.product(range(2), repeat=4)]
    for kept in itertools.product([False, True], repeat=len(cells)):
        pairs = [cell for cell, keep in zip(cells, kept) if keep]
        for edge in pairs:
            less = [pair for pair in pairs if pair != edge]
            for clusters in clusterings:
                a, b = (cluster_degrees(adjacency(p, 4), clusters, 2) for p in (pairs, less))
                assert np.abs(a - b).sum() == degree_sensitivity(directed=False)


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 12), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_degrees_are_counted_as_a_loop_would(num_nodes, num_clusters, seed):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((num_nodes, num_nodes)) < 0.4, 1)
    clusters = rng.integers(num_clusters, size=num_nodes)
    found = cluster_degrees(adjacency(np.argwhere(upper), num_nodes), clusters, num_clusters)
    both = upper | upper.T
    for node in range(num_nodes):
        for cluster in range(num_clusters):
            assert found[node, cluster] == both[node][clusters == cluster].sum()


def noisy(scale, **words):
    graph, clusters = adjacency([], 4000), np.zeros(4000, dtype=np.int64)
    return noisy_degrees(
        graph, clusters, 5, scale=scale, rng=np.random.default_rng(0),
        filler=np.random.default_rng(1), **words,
    )  # fmt: skip


@pytest.mark.parametrize("exactly", [False, True])
def test_the_noise_has_the_law_and_is_independent_between_rows_columns_and_streams(exactly):
    scale = 1.5
    found = noisy(scale, exactly=exactly)
    positive = found[found > 1e-3]
    # what passes 0 is half of all, and exponential; a few rows got a 1 in place of zeros
    assert len(positive) / found.size == pytest.approx(0.5 + 0.5**5 / 5, abs=0.01)
    assert stats.kstest(positive[positive != 1.0], "expon", args=(0, scale)).pvalue > 1e-3
    assert abs(np.corrcoef(found.T) - np.eye(5)).max() < 0.06
    slices = found[:4000].reshape(5, 800, 5)
    drawn = (slices[0] > 0) & (slices[0] != 1.0)
    assert not (slices[0] == slices[1])[drawn].any()


def test_a_row_of_zeros_gets_a_one_in_a_uniform_class():
    graph, clusters = adjacency([(0, 1)], 3000), np.zeros(3000, dtype=np.int64)
    found = noisy_degrees(
        graph, clusters, 4, scale=0.0, rng=np.random.default_rng(0),
        filler=np.random.default_rng(1),
    )  # fmt: skip
    assert found[:2].tolist() == [[1, 0, 0, 0]] * 2
    rest = found[2:]
    assert (rest.sum(axis=1) == 1).all()
    assert set(np.unique(rest)) == {0.0, 1.0}
    assert stats.chisquare(rest.sum(axis=0)).pvalue > 1e-3


def test_reused_noise_starts_every_slice_and_hop_with_the_same_draws():
    # numpy's default generator of seed 42, scale 2
    start = [1.587757, -0.260771, 2.526001]
    many = symmetric_adjacency(np.stack([np.zeros(22, int), np.arange(1, 23)]), 23)
    clusters = np.arange(23) % 3
    exact = cluster_degrees(many, clusters, 3) + 100 * np.ones((23, 3))

    class Shifted:
        shape = many.shape

        def __matmul__(self, other):
            return _Dense((many @ other).toarray() + 100)

    for _ in range(2):
        found = degrees_with_reused_noise(
            Shifted(), clusters, 3, scale=2.0, seed=42, num_workers=5
        )  # fmt: skip
        for first in (0, 4, 8, 12, 16):
            assert (found - exact)[first] == pytest.approx(start, abs=1e-6)
        # the last slice has the rows that are left
        assert np.abs((found - exact)[16:20] - (found - exact)[:4]).max() < 1e-12


class _Dense:
    def __init__(self, value):
        self.value = value

    def toarray(self):
        return self.value
