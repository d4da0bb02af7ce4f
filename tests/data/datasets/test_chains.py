import numpy as np
import pytest

from dpgnn.data import datasets
from dpgnn.data.datasets.chains import SHAPES

# name: nodes, stored entries, train, val, test, majority class in test (per cent)
# CARIBOU's table of chains (the paper's code)
PAPER = {
    "chains-s": (48, 90, 8, 8, 32, 56.25),
    "chains-m": (60, 114, 10, 10, 40, 55.00),
    "chains-l": (90, 174, 15, 15, 60, 51.67),
    "chains-x": (150, 290, 25, 25, 100, 51.00),
    "chains-50": (1500, 2900, 250, 250, 1000, None),
}


def load(name):
    return datasets.load(name, folder="unused", root_seed=0)


@pytest.mark.parametrize("name", PAPER)
def test_chains_have_the_papers_counts_split_and_majority(name):
    nodes, entries, train, val, test, majority = PAPER[name]
    graph = load(name)
    public = graph.splits["public"]
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (nodes, entries, 5)
    assert [len(public[part]) for part in ("train", "val", "test")] == [train, val, test]
    if majority is not None:
        counts = np.bincount(graph.y[public["test"]])
        assert round(100 * counts.max() / counts.sum(), 2) == majority


@pytest.mark.parametrize("name", PAPER)
def test_only_the_first_node_of_a_chain_carries_the_class(name):
    graph, shape = load(name), SHAPES[name]
    first = np.arange(graph.num_nodes) % shape.length == 0
    np.testing.assert_array_equal(graph.x[~first], 0)
    np.testing.assert_array_equal(graph.x[first][:, :2], np.eye(2)[graph.y[first]])
    assert not np.signbit(graph.x).any()


def test_edges_run_along_each_chain_and_every_node_has_a_self_loop():
    graph = load("chains-s")
    pairs = set(map(tuple, graph.edge_index.T.tolist()))
    inner = {(i, i + 1) for i in range(48) if i % 8 != 7}
    assert pairs == inner | {(i, i) for i in range(48)}
    assert graph.directed


def test_the_public_split_follows_the_features_in_one_legacy_stream():
    rng = np.random.RandomState(42)
    rng.uniform(size=48 * 5)
    order = rng.permutation(48)
    public = load("chains-s").splits["public"]
    np.testing.assert_array_equal(public["train"], np.sort(order[:8]))
    np.testing.assert_array_equal(public["val"], np.sort(order[8:16]))
