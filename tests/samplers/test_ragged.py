"""Compiled loops over ragged subgraphs against plain ones."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from dpgnn.samplers import _ragged
from dpgnn.samplers.lists import Lists, trees


def random_lists(seed: int, num_nodes: int = 25, density: float = 0.12) -> Lists:
    reads = np.random.default_rng(seed).random((num_nodes, num_nodes)) < density
    np.fill_diagonal(reads, False)
    pointer = np.concatenate([[0], np.cumsum(reads.sum(1))]).astype(np.int64)
    return Lists(pointer=pointer, sources=np.nonzero(reads)[1].astype(np.int32))


@pytest.mark.parametrize("num_hops", [0, 1, 2, 3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_trees_hold_the_nodes_and_arcs_within_r_hops(seed: int, num_hops: int) -> None:
    lists = random_lists(seed)
    reads = nx.DiGraph()
    reads.add_nodes_from(range(25))
    reads.add_edges_from(lists.edge_index()[::-1].T.tolist())
    found = trees(lists, np.arange(25), num_hops=num_hops, max_occurrences=25)
    for root in range(25):
        near = nx.single_source_shortest_path_length(reads, root, cutoff=num_hops)
        nodes = slice(*found.node_ptr[root : root + 2])
        ids = found.nodes[nodes]
        assert ids[0] == root
        assert dict(zip(ids.tolist(), found.depth[nodes].tolist())) == dict(near)
        arcs = slice(*found.edge_ptr[root : root + 2])
        held = list(
            zip(ids[found.edge_target[arcs]].tolist(), ids[found.edge_source[arcs]].tolist())
        )
        wanted = [(v, u) for v, u in reads.edges if near.get(v, num_hops) < num_hops]
        assert sorted(held) == sorted(wanted)


def test_depths_are_shortest_ways_and_minus_one_without_a_way() -> None:
    # positions 0 <- 1 <- 2, 0 <- 2, and 3 that no arc leaves towards the root
    depth = np.empty(4, np.int8)
    heads, tails = np.array([1, 2, 2, 0], np.int32), np.array([0, 1, 0, 3], np.int32)
    _ragged.depths(np.array([0, 4]), np.array([0, 4]), heads, tails, depth)
    assert depth.tolist() == [0, 1, 1, -1]


def test_rows_are_taken_at_positions_also_twice() -> None:
    pointer, values = np.array([0, 2, 2, 5]), np.arange(5)
    out = np.empty(8, np.int64)
    _ragged.take(np.array([2, 0, 1, 2]), pointer, values, np.array([0, 3, 5, 5, 8]), out)
    assert out.tolist() == [2, 3, 4, 0, 1, 2, 3, 4]
