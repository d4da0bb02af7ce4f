import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networkx.algorithms.community import modularity

from dpgnn.data.communities import louvain, pack
from dpgnn.data.graph import clean_edges


def edges_of(graph):
    source, target = np.array(graph.edges).T
    return clean_edges(source, target, graph.number_of_nodes())


def groups_of(community):
    """The nodes of each community."""
    return [set(np.flatnonzero(community == c)) for c in range(community.max() + 1)]


@pytest.mark.parametrize("name", ["karate", "caveman", "planted"])
def test_communities_are_as_good_as_those_of_networkx(name):
    graph = {
        "karate": lambda: nx.karate_club_graph(),
        "caveman": lambda: nx.connected_caveman_graph(12, 7),
        "planted": lambda: nx.planted_partition_graph(8, 40, 0.25, 0.01, seed=1),
    }[name]()
    found = louvain(edges_of(graph), graph.number_of_nodes(), rng=np.random.default_rng(0))
    theirs = nx.community.louvain_communities(graph, weight=None, seed=0)
    assert modularity(graph, groups_of(found)) > modularity(graph, theirs) - 0.03


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_communities_beat_one_community(seed):
    graph = nx.gnm_random_graph(30, 60, seed=seed % 2**31)
    found = louvain(edges_of(graph), 30, rng=np.random.default_rng(seed))
    assert modularity(graph, groups_of(found)) >= -1e-12


def test_nodes_without_edges_are_communities_of_their_own():
    edges = np.array([[0, 1], [1, 0]])
    found = louvain(edges, 4, rng=np.random.default_rng(0))
    assert found[0] == found[1]
    assert len(set(found)) == 3


@given(st.lists(st.integers(1, 50), min_size=3, max_size=60))
def test_packing_misses_a_share_by_at_most_the_largest_community(sizes):
    sizes, fractions = np.array(sizes), (0.67, 0.18, 0.15)
    part = pack(sizes, fractions)
    for number, fraction in enumerate(fractions):
        missed = sizes[part == number].sum() - fraction * sizes.sum()
        assert abs(missed) <= 2 * sizes.max()


def test_fewer_communities_than_parts_are_refused():
    with pytest.raises(ValueError, match="communities must be 3 or more, got 2"):
        pack(np.array([5, 5]), (0.6, 0.2, 0.2))


def test_without_edges_each_node_is_alone():
    found = louvain(np.zeros((2, 0), np.int64), 4, rng=np.random.default_rng(0))
    assert found.tolist() == [0, 1, 2, 3]
