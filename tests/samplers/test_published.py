"""SAMPLE-EDGELISTS as the paper states it, and its options."""

import numpy as np
import pytest
from exhaustive.neighbours import examine
from exhaustive.worlds import make_world
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgnn.samplers.hashing import draw_key, mix, pair_hash
from dpgnn.samplers.published import Published


def random_arcs(seed, num_nodes, density):
    adjacency = np.random.default_rng(seed).random((num_nodes, num_nodes)) < density
    np.fill_diagonal(adjacency, False)
    return np.argwhere(adjacency).T


def plain_edgelists(arcs, num_nodes, train, max_degree, coins, key):
    """Algorithm 1 with dicts; arcs may repeat."""
    train = set(train.tolist())
    readers = {u: [] for u in range(num_nodes)}
    for u, w in arcs.T.tolist():
        if w in train and u != w:
            readers[u].append(w)
    kept = set()
    for u, entries in readers.items():
        survivors = set()
        share = max_degree / (2 * max(len(entries), 1))
        limit = int(min(share * 2.0**32, 2.0**32 - 1))
        for position, w in enumerate(entries):
            if coins == "pair":
                coin = int(pair_hash(key, u, w))
            else:
                extra = len(entries) if coins == "list" else 0
                coin = int(mix(np.uint64((int(pair_hash(key, u, position)) + extra) % 2**64)))
            if coin >> 32 <= limit:
                survivors.add(w)
        if len(survivors) <= max_degree:
            kept |= {(u, w) for w in survivors}
    return kept


@pytest.mark.parametrize("coins", ["pair", "position", "list"])
@pytest.mark.parametrize("append_reverse", [False, True])
def test_the_lists_are_those_of_the_plain_algorithm(coins, append_reverse):
    if append_reverse and coins == "pair":
        with pytest.raises(ValueError, match="two coins"):
            Published(max_degree=3, coins=coins, append_reverse=True)
        return
    for seed in range(30):
        arcs, train = random_arcs(seed, 30, 0.3), np.arange(0, 30, 2)
        sampler = Published(max_degree=3, coins=coins, append_reverse=append_reverse)
        options = {"num_nodes": 30, "train_idx": train}
        lists = sampler.lists(arcs, rng=np.random.default_rng(seed), **options)
        seen = np.concatenate([arcs, arcs[::-1]], axis=1) if append_reverse else arcs
        key = draw_key(np.random.default_rng(seed))
        expected = plain_edgelists(seen, 30, train, 3, coins, key)
        assert set(zip(*lists.edge_index().tolist())) == expected


@settings(max_examples=1500, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    num_nodes=st.integers(1, 40),
    density=st.floats(0, 1),
    max_degree=st.integers(0, 5),
    num_hops=st.integers(0, 3),
    coins=st.sampled_from(["pair", "position", "list"]),
)
def test_no_node_enters_more_than_max_occurrences(
    seed, num_nodes, density, max_degree, num_hops, coins
):
    sampler = Published(max_degree=max_degree, num_hops=num_hops, coins=coins)
    rng = np.random.default_rng(seed)
    train = np.flatnonzero(rng.random(num_nodes) < 0.7)
    arcs = random_arcs(seed, num_nodes, density)
    sampler.sample(arcs, num_nodes=num_nodes, train_idx=train, rng=rng).check(num_nodes)


def test_arcs_are_kept_with_the_published_probability_and_long_lists_dropped():
    # node 0 is read by 40 nodes, K = 7: survivors are Bin(40, 7 / 80), dropped above 7
    arcs = np.stack([np.zeros(40, np.int64), np.arange(1, 41)])
    sizes = np.array(
        [
            len(
                Published(max_degree=7)
                .lists(arcs, num_nodes=41, train_idx=np.arange(41), rng=np.random.default_rng(seed))
                .sources
            )
            for seed in range(5000)
        ]
    )
    from scipy.stats import binom

    survivors = binom(40, 7 / 80)
    mean = sum(k * survivors.pmf(k) for k in range(8))
    deviation = np.sqrt(sum(k * k * survivors.pmf(k) for k in range(8)) - mean**2)
    assert abs(sizes.mean() - mean) < 5 * deviation / np.sqrt(5000)
    assert sizes.max() <= 7


def test_everything_is_kept_when_k_is_twice_the_longest_list():
    arcs = random_arcs(0, 12, 0.4)
    lists = Published(max_degree=24).lists(
        arcs, num_nodes=12, train_idx=np.arange(12), rng=np.random.default_rng(0)
    )
    assert set(zip(*lists.edge_index().tolist())) == set(zip(*arcs.tolist()))


def test_subgraphs_can_be_cut_as_the_authors_code_does():
    arcs = np.stack([np.arange(1, 41), np.zeros(40, np.int64)])
    sample = Published(max_degree=80, max_subgraph_size=10).sample(
        arcs, num_nodes=41, train_idx=np.arange(41), rng=np.random.default_rng(0)
    )
    assert sample.nodes[: sample.node_ptr[1]].tolist() == list(range(10))


def test_with_the_structure_public_the_published_bound_holds():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        world = make_world(random_arcs(seed, 15, 0.4), 15)
        report = examine(
            Published(max_degree=2, num_hops=2), world, "node-features", "replace-one", rng=rng
        )
        assert report.passed, str(report)
