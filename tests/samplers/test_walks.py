"""Disjoint random walks: disjointness, coverage, law, and the node-record chains."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from exhaustive.neighbours import examine, examine_promises
from exhaustive.worlds import make_world
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgnn.core import storage
from dpgnn.samplers.adjacency import induced_adjacency
from dpgnn.samplers.walks import Walks, partition_from_table, record_chains


def undirected(seed, num_nodes, density):
    adjacency = np.triu(np.random.default_rng(seed).random((num_nodes, num_nodes)) < density, 1)
    return np.argwhere(adjacency | adjacency.T).T


def as_tuples(partition):
    """Subgraphs as tuples of (node, parent position)."""
    return [
        tuple(
            zip(
                partition.nodes[start:stop].tolist(),
                partition.parent[start:stop].tolist(),
            )
        )
        for start, stop in zip(partition.node_ptr[:-1], partition.node_ptr[1:])
    ]


@settings(max_examples=1000, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    num_nodes=st.integers(1, 40),
    density=st.floats(0, 1),
    length=st.integers(0, 3),
    num_walks=st.integers(1, 3),
)
def test_walks_are_disjoint_cover_every_training_node_and_follow_edges(
    seed, num_nodes, density, length, num_walks
):
    rng = np.random.default_rng(seed)
    arcs = undirected(seed, num_nodes, density)
    train = np.union1d(np.flatnonzero(rng.random(num_nodes) < 0.7), [0])
    sampler = Walks(length=length, num_walks=num_walks)
    graph = induced_adjacency(arcs, num_nodes=num_nodes, node_idx=train)
    partition = sampler.draw(graph, rng=rng)
    assert np.array_equal(np.sort(partition.nodes), train)
    # the paper's M_min: no walk has more than 1 + R L nodes
    assert partition.num_subgraphs >= -(-len(train) // (1 + num_walks * length))
    edges = set(zip(*arcs.tolist()))
    for subgraph in as_tuples(partition):
        assert 1 <= len(subgraph) <= 1 + num_walks * length
        assert subgraph[0][1] == -1
        steps = {0: 0}
        for position, (node, parent) in enumerate(subgraph[1:], start=1):
            assert (subgraph[parent][0], node) in edges
            assert parent < position
            steps[position] = steps[parent] + 1
        assert max(steps.values()) <= length
        children = Counter(parent for _, parent in subgraph[1:])
        assert all(count == 1 for parent, count in children.items() if parent > 0)
        assert children.get(0, 0) <= num_walks


def exact_law(adjacency, length, num_walks):
    """Probability of every partition (a frozenset of subgraphs), by following all draws."""
    law = Counter()

    def roots(free, done, weight):
        if not free:
            law[frozenset(done)] += weight
            return
        for root in free:
            walk(free - {root}, done, weight / len(free), ((root, -1),), 0, 0, num_walks)

    def walk(free, done, weight, subgraph, position, step, left):
        current = subgraph[position][0]
        options = adjacency[current] & free
        if left == 0:
            roots(free, [*done, subgraph], weight)
        elif step == length or not options:
            walk(free, done, weight, subgraph, 0, 0, left - 1)
        else:
            for node in options:
                walk(
                    free - {node}, done, weight / len(options),
                    (*subgraph, (node, position)), len(subgraph), step + 1, left,
                )  # fmt: skip

    roots(frozenset(adjacency), [], 1.0)
    return law


@pytest.mark.parametrize("tries", [0, 1, 4])
@pytest.mark.parametrize(("length", "num_walks"), [(1, 1), (2, 1), (2, 2)])
def test_the_law_of_the_partition_is_that_of_the_plain_algorithm(length, num_walks, tries):
    # a triangle with a tail and a fork: 0-1, 0-2, 1-2, 2-3, 3-4
    pairs = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4)]
    adjacency = {v: frozenset() for v in range(5)}
    for a, b in pairs:
        adjacency[a] |= {b}
        adjacency[b] |= {a}
    law = exact_law(adjacency, length, num_walks)
    assert sum(law.values()) == pytest.approx(1)
    arcs = np.array(pairs + [(b, a) for a, b in pairs]).T
    graph = induced_adjacency(arcs, num_nodes=5, node_idx=np.arange(5))
    sampler, rng = Walks(length=length, num_walks=num_walks, tries=tries), np.random.default_rng(0)
    draws = 10000
    seen = Counter(frozenset(as_tuples(sampler.draw(graph, rng=rng))) for _ in range(draws))
    assert set(seen) <= set(law)
    # chi-square over partitions that are expected at least 20 times; the others as one cell
    common = [part for part, weight in law.items() if weight * draws >= 20]
    observed = np.array([seen[part] for part in common] + [draws - sum(seen[p] for p in common)])
    expected = np.array([law[p] * draws for p in common])
    expected = np.append(expected, draws - expected.sum())
    keep = expected > 1e-6
    statistic = ((observed - expected)[keep] ** 2 / expected[keep]).sum()
    freedom = keep.sum() - 1
    assert freedom > 5
    assert statistic < freedom + 5 * np.sqrt(2 * freedom)


def test_the_same_stream_gives_the_same_partition_and_the_next_draw_another():
    graph = induced_adjacency(
        undirected(0, 200, 0.05), num_nodes=200, node_idx=np.arange(0, 200, 2)
    )
    first = Walks(length=2).draw(graph, rng=np.random.default_rng(3))
    rng = np.random.default_rng(3)
    again, later = Walks(length=2).draw(graph, rng=rng), Walks(length=2).draw(graph, rng=rng)
    assert as_tuples(first) == as_tuples(again) != as_tuples(later)


def test_a_partition_written_and_read_again_is_the_same(tmp_path):
    graph = induced_adjacency(undirected(0, 60, 0.1), num_nodes=60, node_idx=np.arange(60))
    partition = Walks(length=2, num_walks=2).draw(graph, rng=np.random.default_rng(0))
    storage.write_parquet(tmp_path / "p.parquet", partition.to_table())
    table = storage.read_parquet(tmp_path / "p.parquet")
    assert table.column_names == ["subgraph", "position", "node", "parent"]
    assert as_tuples(partition_from_table(table)) == as_tuples(partition)
    with pytest.raises(ValueError, match="ordered by subgraph and position"):
        partition_from_table(table.take(np.arange(59, -1, -1)))


def test_subgraphs_have_the_induced_edges_or_those_of_the_walk():
    arcs = undirected(1, 50, 0.3)
    graph = induced_adjacency(arcs, num_nodes=50, node_idx=np.arange(0, 50, 2))
    partition = Walks(length=3, num_walks=2).draw(graph, rng=np.random.default_rng(0))
    edges = set(zip(*arcs.tolist()))
    by_walk = partition.subgraphs(graph, inside="walk").check(50)
    induced = partition.subgraphs(graph, inside="induced").check(50)
    for index, subgraph in enumerate(as_tuples(partition)):
        ids = [node for node, _ in subgraph]
        one, other = (s.select(np.array([index])) for s in (by_walk, induced))
        walked = {(ids[p], n) for n, p in subgraph[1:]}
        found = set(zip(*one.nodes[one.edge_index()].tolist())) if len(one.edge_source) else set()
        assert found == walked | {(b, a) for a, b in walked}
        found = (
            set(zip(*other.nodes[other.edge_index()].tolist())) if len(other.edge_source) else set()
        )
        assert found == {
            pair for a, b in combinations(ids, 2) for pair in ((a, b), (b, a)) if pair in edges
        }
        assert other.depth.min() >= 0
    assert partition.num_subgraphs < 25


def test_features_are_covered_and_nothing_else_is_promised():
    world = make_world(undirected(2, 40, 0.15), 40)
    for num_walks in (1, 2):
        sampler = Walks(length=2, num_walks=num_walks)
        (report,) = examine_promises(sampler, world, rng=np.random.default_rng(0))
        assert report.passed, str(report)
        assert (report.privacy_unit, report.d_plus, report.d_minus) == ("node-features", 1, 1)
    report = examine(sampler, world, "edge", "add-remove", rng=np.random.default_rng(0))
    assert not report.passed


@pytest.mark.parametrize("length", [1, 2, 3])
def test_record_chains_pass_the_neighbour_test_for_every_node(length):
    sampler = record_chains(length)
    assert sampler.promise.change("node-record", "add-remove").d_plus == length + 1
    for seed in range(6):
        world = make_world(undirected(seed, 30, 0.2), 30, np.arange(0, 30, 2))
        rng = np.random.default_rng(seed)
        for report in examine_promises(sampler, world, rng=rng, max_neighbours=120):
            assert report.passed, str(report)
