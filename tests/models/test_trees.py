import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgnn.models.trees import build_trees, graph_lists, lone_roots, trees_of, weighted_rows
from dpgnn.samplers.own_list import OwnList

CONVS = ["gcn", "gin", "sage", "gat", "symmetric"]


def plain_tree(nodes, edges, num_hops, conv):
    """One root the slow way: {distance} and {(target, source): weight} by original position."""
    readers = {u: [s for s, t in edges if t == u] for u in range(len(nodes))}
    distance, frontier = {0: 0}, [0]
    for hop in range(1, num_hops + 1):
        frontier = [s for u in frontier for s in readers[u] if s not in distance]
        distance |= {s: distance.get(s, hop) for s in frontier}
        frontier = list(dict.fromkeys(frontier))
    entries = {}
    for u, d in distance.items():
        if d == num_hops:
            continue
        degree = len(readers[u])
        own = {"gcn": 1 / (degree + 1), "symmetric": 1 / (degree + 1), "gin": 1, "gat": 1}
        if conv in own:
            entries[u, u] = own[conv]
        for s in readers[u]:
            other = len(readers[s])
            entries[u, s] = {
                "gcn": 1 / (degree + 1), "gin": 1, "gat": 1, "sage": 1 / degree,
                "symmetric": 1 / np.sqrt((degree + 1) * (other + 1)),
            }[conv]  # fmt: skip
    return distance, entries


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), num_hops=st.integers(1, 3), conv=st.sampled_from(CONVS))
def test_trees_equal_a_plain_search_from_each_root(seed, num_hops, conv):
    rng, num_roots = np.random.default_rng(seed), 4
    sizes = rng.integers(1, 8, num_roots)
    nodes = [rng.choice(50, size, replace=False) for size in sizes]
    edges = []
    for size in sizes:
        matrix = rng.random((size, size)) < 0.3
        np.fill_diagonal(matrix, False)
        edges.append(np.argwhere(matrix | matrix.T if conv == "symmetric" else matrix))
    flat = np.concatenate(edges)
    trees = build_trees(
        node_ptr=np.append(0, np.cumsum(sizes)), node=np.concatenate(nodes),
        edge_ptr=np.append(0, np.cumsum([len(e) for e in edges])), edge_source=flat[:, 0],
        edge_target=flat[:, 1], y=np.zeros(num_roots, np.int64), num_hops=num_hops, conv=conv,
    )  # fmt: skip
    for i in range(num_roots):
        distance, entries = plain_tree(nodes[i], [tuple(e) for e in edges[i]], num_hops, conv)
        first, last = trees.row_ptr[i], trees.row_ptr[i + 1]
        ids = {int(node): position for position, node in enumerate(nodes[i])}
        rows = [ids[int(node)] for node in trees.node[first:last]]
        assert rows[0] == 0
        assert sorted(rows) == sorted(distance)
        assert [distance[row] for row in rows] == sorted(distance.values())
        counts = [
            sum(d <= num_hops - hop for d in distance.values()) for hop in range(num_hops + 1)
        ]
        assert list(trees.level_rows[i]) == counts
        found = {
            (rows[t], rows[trees.entry_row[e]]): trees.entry_weight[e]
            for t in range(last - first)
            for e in range(trees.entry_ptr[first + t], trees.entry_ptr[first + t + 1])
        }
        assert set(found) == set(entries)
        np.testing.assert_allclose([found[key] for key in entries], list(entries.values()), 1e-6)


def test_a_lone_root_is_its_own_row():
    trees = lone_roots(np.array([4, 2]), np.array([0, 1]))
    assert trees.num_hops == 0
    assert list(trees.node) == [4, 2]
    assert list(trees.row_ptr) == [0, 1, 2]


def test_weighted_rows_keep_every_weight_and_give_an_empty_row_weight_zero():
    weights = sp.csr_array(np.array([[0.0, 0.5, 0.25], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    trees = weighted_rows(weights, np.array([0, 1, 1]))
    assert list(trees.node) == [1, 2, 0, 0]
    assert list(trees.entry_weight) == [0.5, 0.25, 0.0, 1.0]
    assert list(trees.level_rows[:, 1]) == [1, 1, 1]
    assert list(trees.entry_ptr) == [0, 2, 2, 3, 4]
    assert list(trees.entry_row) == [0, 1, 0, 0]


def test_lists_of_a_whole_graph_hold_the_weights_of_the_convolution():
    edges = np.array([[0, 1, 2], [2, 2, 0]])
    ptr, row, weight = graph_lists(edges, 3, "gcn")
    assert list(ptr) == [0, 2, 3, 6]
    assert list(row) == [0, 2, 1, 2, 0, 1]
    np.testing.assert_allclose(weight, [1 / 2, 1 / 2, 1, 1 / 3, 1 / 3, 1 / 3], rtol=1e-6)


def test_sampled_subgraphs_become_trees_with_the_roots_labels():
    rng = np.random.default_rng(0)
    edges = np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
    sample = OwnList(max_degree=2, num_hops=2).sample(
        edges, num_nodes=6, train_idx=np.arange(5), rng=rng
    )
    y = np.array([3, 1, 4, 1, 5, 9])
    trees = trees_of(sample, y, num_hops=2, conv="gcn")
    assert list(trees.y) == [3, 1, 4, 1, 5]
    assert list(trees.node[:3]) == [0, 4, 3]
    assert trees_of(sample, y, num_hops=0, conv="gcn").num_hops == 0


def test_bad_subgraphs_are_refused():
    good = {
        "node_ptr": np.array([0, 2]), "node": np.array([3, 4]), "edge_ptr": np.array([0, 1]),
        "edge_source": np.array([1]), "edge_target": np.array([0]), "y": np.array([0]),
        "num_hops": 1, "conv": "gcn",
    }  # fmt: skip
    build_trees(**good)
    with pytest.raises(ValueError, match="be positions inside"):
        build_trees(**good | {"edge_source": np.array([2])})
    with pytest.raises(ValueError, match="no self-loop"):
        build_trees(**good | {"edge_source": np.array([0])})
    with pytest.raises(ValueError, match="unknown conv 'weighted'"):
        build_trees(**good | {"conv": "weighted"})
    with pytest.raises(ValueError, match="node_ptr must give each root a node"):
        build_trees(**good | {"node_ptr": np.array([0, 0]), "edge_ptr": np.array([0, 0])})
