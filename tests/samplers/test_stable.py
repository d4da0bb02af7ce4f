"""S*: occurrence bound, the plain definition, the neighbour test on every node."""

import numpy as np
import pytest
from exhaustive.neighbours import examine, examine_promises
from exhaustive.worlds import make_world
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgnn.samplers.hashing import draw_key, pair_hash
from dpgnn.samplers.stable import Stable


def random_arcs(seed, num_nodes, density, symmetric=False):
    adjacency = np.random.default_rng(seed).random((num_nodes, num_nodes)) < density
    if symmetric:
        adjacency = np.triu(adjacency, 1)
        adjacency |= adjacency.T
    np.fill_diagonal(adjacency, False)
    return np.argwhere(adjacency).T


@settings(max_examples=1500, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    num_nodes=st.integers(1, 40),
    density=st.floats(0, 1),
    max_in_degree=st.integers(0, 5),
    max_out_degree=st.integers(0, 5),
    num_hops=st.integers(0, 3),
)
def test_no_node_enters_more_than_max_occurrences_and_no_root_reads_too_many(
    seed, num_nodes, density, max_in_degree, max_out_degree, num_hops
):
    sampler = Stable(max_in_degree=max_in_degree, max_out_degree=max_out_degree, num_hops=num_hops)
    rng = np.random.default_rng(seed)
    train = np.flatnonzero(rng.random(num_nodes) < 0.7)
    arcs = random_arcs(seed, num_nodes, density)
    sample = sampler.sample(arcs, num_nodes=num_nodes, train_idx=train, rng=rng)
    sample.check(num_nodes)
    reads = np.bincount(sample.arcs_into_roots()[1], minlength=num_nodes)
    assert reads.max(initial=0) <= max_out_degree


def test_the_lists_are_those_of_the_definition():
    for seed in range(30):
        arcs, train = random_arcs(seed, 25, 0.4), np.arange(0, 25, 2)
        key = draw_key(np.random.default_rng(seed))

        def priority(reader, read, key=key):
            return int(pair_hash(key, reader, read))

        rows = {
            int(w): sorted(arcs[0][arcs[1] == w].tolist(), key=lambda u: priority(w, u))[:3]
            for w in train
        }
        expected = set()
        for u in range(25):
            readers = sorted((w for w in rows if u in rows[w]), key=lambda w: priority(w, u))
            expected |= {(u, w) for w in readers[:2]}
        lists = Stable(max_in_degree=2, max_out_degree=3).lists(
            arcs, num_nodes=25, train_idx=train, rng=np.random.default_rng(seed)
        )
        assert set(zip(*lists.edge_index().tolist())) == expected


@pytest.mark.parametrize("num_hops", [0, 1, 2, 3])
def test_every_neighbour_of_small_graphs_stays_within_the_promise(num_hops):
    for seed in range(12):
        rng = np.random.default_rng([seed, num_hops])
        num_nodes = int(rng.integers(3, 9))
        arcs = random_arcs(seed, num_nodes, rng.choice([0.3, 0.6, 0.95]), symmetric=True)
        bound = int(np.bincount(arcs[0], minlength=1).max(initial=0))
        sampler = Stable(
            max_in_degree=int(rng.integers(1, 4)),
            max_out_degree=int(rng.integers(0, 4)),
            num_hops=num_hops,
            degree_bound=bound,
        )
        world = make_world(arcs, num_nodes, np.flatnonzero(rng.random(num_nodes) < 0.8))
        for report in examine_promises(sampler, world, rng=rng, max_neighbours=100):
            assert report.passed, str(report)
            assert report.num_neighbours > 0


def test_the_bound_of_a_replaced_row_is_reached():
    rng = np.random.default_rng(0)
    world = make_world(random_arcs(1, 24, 0.6), 24)
    sampler = Stable(max_in_degree=1, max_out_degree=1)
    reports = [
        examine(sampler, world, "node-record", "replace-one", rng=rng, max_neighbours=300)
        for _ in range(8)
    ]
    assert all(report.passed for report in reports)
    declared = sampler.promise.change("node-record", "replace-one")
    assert max(report.d_plus for report in reports) == declared.d_plus == 4
