"""Degree bounds: the plain rule, the bound on the result, and the ripple against the promise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgnn.audits.edge_neighbours import examine_edges
from dpgnn.audits.worlds import make_world
from dpgnn.data.graph import is_symmetric
from dpgnn.samplers.degree import MutualDegree, OutDegree
from dpgnn.samplers.hashing import draw_key, pair_hash


def undirected(seed, num_nodes, density):
    adjacency = np.triu(np.random.default_rng(seed).random((num_nodes, num_nodes)) < density, 1)
    return np.argwhere(adjacency | adjacency.T).T


def as_set(arcs):
    return set(zip(*arcs.tolist()))


@settings(max_examples=1000, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    num_nodes=st.integers(1, 40),
    density=st.floats(0, 1),
    max_degree=st.integers(0, 6),
)
def test_the_result_keeps_the_bound_and_is_part_of_the_graph(seed, num_nodes, density, max_degree):
    arcs = undirected(seed, num_nodes, density)
    for sampler in (OutDegree(max_degree=max_degree), MutualDegree(max_degree=max_degree)):
        kept = sampler.sample(arcs, num_nodes=num_nodes, rng=np.random.default_rng(seed))
        assert as_set(kept) <= as_set(arcs)
        sizes = np.bincount(arcs[0], minlength=num_nodes)
        kept_sizes = np.bincount(kept[0], minlength=num_nodes)
        assert kept_sizes.max(initial=0) <= max_degree
        if isinstance(sampler, MutualDegree):
            assert is_symmetric(kept, num_nodes)
        else:
            assert np.array_equal(kept_sizes, np.minimum(sizes, max_degree))


def test_the_kept_edges_are_those_of_the_definition():
    for seed in range(20):
        arcs, key = undirected(seed, 25, 0.4), draw_key(np.random.default_rng(seed))
        first = {}
        for u in range(25):
            ends = arcs[1][arcs[0] == u].tolist()
            ends.sort(key=lambda v: int(pair_hash(key, min(u, v), max(u, v))))
            first[u] = set(ends[:4])
        expected = {(u, v) for u in first for v in first[u] if u in first[v]}
        kept = MutualDegree(max_degree=4).sample(
            arcs, num_nodes=25, rng=np.random.default_rng(seed), num_workers=3
        )
        assert as_set(kept) == expected


@pytest.mark.parametrize("kind", [OutDegree, MutualDegree])
def test_all_neighbours_of_small_graphs_stay_within_the_promise_and_reach_it(kind):
    reached = {}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        num_nodes = int(rng.integers(3, 9))
        arcs = undirected(seed, num_nodes, rng.choice([0.3, 0.6, 0.95]))
        bound = int(np.bincount(arcs[0], minlength=1).max(initial=0))
        sampler = kind(max_degree=int(rng.integers(0, 4)), degree_bound=bound)
        world = make_world(arcs, num_nodes)
        for pair, change in sampler.promise.changes.items():
            report = examine_edges(sampler, world, *pair, rng=rng)
            assert report.passed, report
            assert report.num_neighbours > 0
            old = reached.get(pair, (False, False))
            exact = report.lost == change.lost, report.gained == change.gained
            reached[pair] = (old[0] or exact[0], old[1] or exact[1])
    assert all(map(all, reached.values())), reached


def test_out_degree_keeps_a_uniform_subset():
    arcs = np.stack([np.zeros(6, np.int64), np.arange(1, 7)])
    counts = np.zeros(7)
    for seed in range(3000):
        kept = OutDegree(max_degree=2).sample(arcs, num_nodes=7, rng=np.random.default_rng(seed))
        counts[kept[1]] += 1
    # 3000 draws at probability 1/3: standard deviation 25.8
    assert np.abs(counts[1:] - 1000).max() < 5 * 25.8


def test_the_authors_deviations_are_reproduced_and_promise_nothing():
    arcs = undirected(0, 30, 0.5)
    rng = np.random.default_rng(0)
    sampler = OutDegree(max_degree=2, symmetrize=True, drop_last_sender=True)
    kept = sampler.sample(arcs, num_nodes=30, rng=rng)
    assert is_symmetric(kept, 30)
    assert np.bincount(kept[0], minlength=30).max() > 2
    assert sampler.promise.changes == {}
    plain = OutDegree(max_degree=2, drop_last_sender=True).sample(arcs, num_nodes=30, rng=rng)
    assert not (plain[0] == 29).any()


def test_streamed_arcs_and_workers_give_the_same_bytes():
    arcs = undirected(1, 50, 0.3)
    for sampler in (OutDegree(max_degree=3), MutualDegree(max_degree=3)):
        whole = sampler.sample(arcs, num_nodes=50, rng=np.random.default_rng(1))
        parts = sampler.sample(
            lambda: iter(np.array_split(arcs[:, ::-1], 5, axis=1)),
            num_nodes=50,
            rng=np.random.default_rng(1),
            num_workers=4,
        )
        assert np.array_equal(whole, parts)


def test_bad_bounds_are_errors():
    with pytest.raises(ValueError, match="max_degree must be >= 0"):
        MutualDegree(max_degree=-1)
    with pytest.raises(ValueError, match="degree_bound must be an integer"):
        OutDegree(max_degree=2, degree_bound=2.5)
