import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dpgnn.data.graph import Graph, clean_edges, distinct_keys, is_symmetric


def toy(**changes):
    values = {
        "name": "toy",
        "x": np.eye(3, dtype=np.float32),
        "edge_index": np.array([[0, 1], [1, 0]]),
        "y": np.array([0, 1, -1]),
        "num_classes": 2,
    }
    return Graph(**(values | changes))


def test_a_graph_is_immutable():
    graph = toy()
    for array in (graph.x, graph.edge_index, graph.y):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        graph.x = graph.x


def test_counts_and_adjacency():
    graph = toy(edge_index=np.array([[0], [2]]), directed=True)
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (3, 1, 3)
    wanted = np.zeros((3, 3))
    wanted[2, 0] = 1  # messages go source to target: row = target
    np.testing.assert_array_equal(graph.adjacency().toarray(), wanted)


def test_sparse_and_dense_features_are_equal():
    np.testing.assert_array_equal(
        toy(x=sp.csr_array(np.eye(3, dtype=np.float32))).dense_x(), np.eye(3)
    )


def test_sparse_entries_that_stand_twice_are_summed_and_the_callers_array_is_left():
    parts = (np.array([1, 2, 3], np.float32), np.array([2, 0, 2]), np.array([0, 3, 3, 3]))
    x = sp.csr_array(parts, shape=(3, 3))
    graph = toy(x=x)
    assert graph.x.has_canonical_format
    np.testing.assert_array_equal(graph.x.toarray(), [[2, 0, 4], [0, 0, 0], [0, 0, 0]])
    assert x.nnz == 3
    assert graph.x.data.tolist() == [2, 4]


BAD = {
    "x of another dtype": ({"x": np.eye(3)}, "x must be float32"),
    "x that is a list": ({"x": [[1.0]]}, "x must be a numpy array or a scipy CSR array"),
    "x of one dimension": ({"x": np.ones(3, np.float32)}, "x must have two dimensions"),
    "no nodes": ({"x": np.ones((0, 3), np.float32), "y": np.zeros(0, int)}, "num_nodes must be >= 1"),
    "no classes": ({"num_classes": 0}, "num_classes must be >= 1"),
    "unknown task": ({"task": "regression"}, "unknown task 'regression'; known: multiclass"),
    "float edges": ({"edge_index": np.zeros((2, 1))}, "edge_index must be int64"),
    "edges of three rows": ({"edge_index": np.zeros((3, 1), int)}, r"have shape \(2, num_edges\)"),
    "edge to an unknown node": (
        {"edge_index": np.array([[0, 1], [1, 9]])},
        r"edge_index\[1, 1\] must be a node in 0..2, got 9; add the node or drop the edge",
    ),
    "negative node": ({"edge_index": np.array([[-1], [1]])}, r"must be a node in 0..2, got -1"),
    "self-loop": ({"edge_index": np.array([[1], [1]])}, "hold no self-loop, got '1 -> 1'"),
    "edge twice": (
        {"edge_index": np.array([[0, 0], [1, 1]]), "directed": True},
        "hold each edge once, got '0 -> 1 twice'; drop duplicates",
    ),
    "one direction": ({"edge_index": np.array([[0], [1]])}, "both directions of each edge"),
    "labels too short": ({"y": np.zeros(2, int)}, r"y must have shape \(num_nodes,\)"),
    "label too large": ({"y": np.array([0, 2, 0])}, r"y of node 1 must be a class in 0..1, .*got 2"),
    "label too small": ({"y": np.array([0, -2, 0])}, "y of node 1 must be a class"),
    "float labels": ({"y": np.zeros(3)}, "y must be int64"),
    "multilabel of one dimension": ({"task": "multilabel"}, r"y must have shape \(3, 2\)"),
    "multilabel with a 2": (
        {"task": "multilabel", "y": np.full((3, 2), 2, np.uint8)},
        "y must hold 0 and 1 only, got 2",
    ),
    "split outside": (
        {"splits": {"public": {"train": np.array([3])}}},
        "split public, train must lie in 0..2",
    ),
    "node in two parts": (
        {"splits": {"public": {"train": np.array([0, 1]), "test": np.array([1])}}},
        "split public must have disjoint parts, got 'node 1 twice'",
    ),
    "split part of another name": (
        {"splits": {"public": {"training": np.array([0])}}},
        "unknown part of a split 'training'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_graph_gives_one_clear_error(case):
    changes, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        toy(**changes)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_value_that_is_not_finite_is_named_by_its_node(value, sparse):
    x = np.eye(3, dtype=np.float32)
    x[2, 1] = value
    with pytest.raises(ValueError, match=r"x of node 2 must be finite, got .*; replace or drop"):
        toy(x=sp.csr_array(x) if sparse else x)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12))
def test_symmetry_is_that_of_the_dense_matrix(pairs):
    dense = np.zeros((5, 5))
    for a, b in pairs:
        dense[a, b] += 1
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    assert is_symmetric(edges, 5) == (dense == dense.T).all()


def test_edges_within_keep_their_ids():
    graph = toy(edge_index=np.array([[0, 1, 1, 2], [1, 0, 2, 1]]))
    kept = graph.edges_within(np.array([False, True, True]))
    np.testing.assert_array_equal(kept, [[1, 2], [2, 1]])


@given(st.lists(st.integers(-(2**62), 2**62), max_size=40))
def test_distinct_keys_ascend_and_stand_once(keys):
    found = distinct_keys(np.array(keys + keys[:5], dtype=np.int64))
    assert found.dtype == np.int64
    assert found.tolist() == sorted(set(keys))


NODES = 7
RAW_EDGES = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=40)


@given(RAW_EDGES)
def test_clean_edges_equals_the_set_of_pairs_in_order(pairs):
    source, target = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    found = clean_edges(source, target, NODES)
    wanted = {(a, b) for a, b in pairs if a != b} | {(b, a) for a, b in pairs if a != b}
    assert list(map(tuple, found.T.tolist())) == sorted(wanted)
    assert found.dtype == np.int64
    assert is_symmetric(found, NODES)


@given(RAW_EDGES)
def test_directed_edges_and_self_loops_are_kept_on_request(pairs):
    source, target = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    found = clean_edges(source, target, NODES, undirected=False, drop_self_loops=False)
    assert list(map(tuple, found.T.tolist())) == sorted(set(pairs))
