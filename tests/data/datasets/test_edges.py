import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpgnn.data.datasets.edges import clean_edges, sorted_unique
from dpgnn.data.graph import is_symmetric

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


@given(st.lists(st.integers(-5, 5)))
def test_sorted_unique_is_numpys_unique(values):
    keys = np.array(values, dtype=np.int64)
    np.testing.assert_array_equal(sorted_unique(keys), np.unique(keys))
