"""Cutting a graph to a largest degree: bounded, local, in a fixed public order."""

from __future__ import annotations

import numpy as np
import pytest

from dpgnn.data.truncation import truncate


def _graph(rng: np.random.Generator, num_nodes: int, num_arcs: int) -> np.ndarray:
    return rng.integers(0, num_nodes, size=(2, num_arcs))


def _pairs(edges: np.ndarray) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in edges.T if a < b}


@pytest.mark.parametrize("seed", range(20))
def test_no_node_keeps_more_than_its_bound_and_only_full_nodes_lose_edges(seed: int) -> None:
    rng = np.random.default_rng(seed)
    edges, bound = _graph(rng, 12, 60), int(rng.integers(1, 5))
    kept = truncate(edges, 12, bound)
    assert np.bincount(kept[0], minlength=12).max() <= bound
    assert (np.unique(kept, axis=1) == kept).all()
    assert {(a, b) for a, b in kept.T.tolist()} == {(b, a) for a, b in kept.T.tolist()}
    before = {(min(a, b), max(a, b)) for a, b in edges.T.tolist() if a != b}
    degree = np.bincount(np.array(sorted(before)).ravel(), minlength=12)
    assert _pairs(kept) <= before
    for a, b in before - _pairs(kept):
        assert degree[a] > bound or degree[b] > bound


def test_a_bound_that_is_true_already_keeps_every_edge_once_and_no_loop() -> None:
    edges = np.array([[0, 1, 1, 2, 3], [1, 0, 2, 1, 3]])
    kept = truncate(edges, 4, 3)
    assert kept.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert truncate(np.zeros((2, 0), dtype=np.int64), 4, 3).shape == (2, 0)


@pytest.mark.parametrize("seed", range(20))
def test_one_edge_more_changes_three_edges_at_most(seed: int) -> None:
    rng = np.random.default_rng(seed)
    edges, bound = _graph(rng, 10, 40), 2
    without = edges[:, 1:][
        :, (np.sort(edges[:, 1:], axis=0) != np.sort(edges[:, :1], axis=0)).any(0)
    ]
    a, b = _pairs(truncate(edges, 10, bound)), _pairs(truncate(without, 10, bound))
    assert len(a - b) <= 1
    assert len(b - a) <= 2
