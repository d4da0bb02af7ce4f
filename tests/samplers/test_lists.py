import numpy as np
import pytest

from dpgnn.samplers.hashing import draw_key, pair_hashes
from dpgnn.samplers.lists import Lists, node_mask, shorten, trees
from dpgnn.samplers.own_list import OwnList
from dpgnn.samplers.published import Published
from dpgnn.samplers.stable import Stable

FIELDS = ("roots", "node_ptr", "nodes", "edge_ptr", "edge_source", "edge_target", "depth")
SAMPLERS = [
    OwnList(max_degree=3, num_hops=2),
    OwnList(max_degree=3, num_hops=2, max_list_size=2),
    Stable(max_in_degree=3, max_out_degree=2, num_hops=2),
    Published(max_degree=3, num_hops=2),
    Published(max_degree=3, num_hops=2, coins="position"),
    Published(max_degree=3, num_hops=2, coins="list", append_reverse=True, max_subgraph_size=4),
]


def random_arcs(seed, num_nodes=80, density=0.15):
    return np.argwhere(np.random.default_rng(seed).random((num_nodes, num_nodes)) < density).T


def same(first, second):
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in FIELDS)


def draw(sampler, arcs, seed=5, num_nodes=80, **options):
    return sampler.sample(
        arcs,
        num_nodes=num_nodes,
        train_idx=np.arange(0, num_nodes, 2),
        rng=np.random.default_rng(seed),
        **options,
    )


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_any_number_of_workers_and_chunks_gives_the_same_bytes(sampler):
    arcs = random_arcs(1)
    whole = draw(sampler, arcs)
    assert len(whole.nodes) > len(whole.roots)
    for num_workers in (2, 3, 7):
        assert same(draw(sampler, arcs, num_workers=num_workers), whole)
    pieces = [arcs[:, first : first + 64] for first in range(0, arcs.shape[1], 64)]
    assert same(draw(sampler, lambda: iter(pieces), num_workers=2), whole)
    assert same(draw(sampler, arcs.astype(np.int32)), whole)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(sampler):
    arcs = random_arcs(2)
    assert same(draw(sampler, arcs), draw(sampler, arcs))
    assert not same(draw(sampler, arcs), draw(sampler, arcs, seed=6))


@pytest.mark.parametrize("sampler", SAMPLERS[:4], ids=str)
def test_the_order_of_the_arcs_does_not_matter(sampler):
    arcs = random_arcs(3)
    shuffled = arcs[:, np.random.default_rng(0).permutation(arcs.shape[1])]
    assert same(draw(sampler, arcs), draw(sampler, shuffled))


def plain_tree(lists, node, num_hops):
    """DFS-TREE: (node, children), nodes repeated as often as paths lead to them."""
    if num_hops == 0:
        return (node, ())
    return (node, tuple(plain_tree(lists, u, num_hops - 1) for u in lists[node]))


def nodes_and_arcs(tree):
    node, children = tree
    nodes, arcs = {node}, set()
    for child in children:
        more_nodes, more_arcs = nodes_and_arcs(child)
        nodes |= more_nodes
        arcs |= more_arcs | {(child[0], node)}
    return nodes, arcs


def message_passing(tree, x, num_hops):
    """A network of num_hops layers on the tree: tanh of own row plus the mean of the children."""
    node, children = tree
    if num_hops == 0:
        return x[node]
    own = message_passing(tree, x, num_hops - 1)
    below = [message_passing(child, x, num_hops - 1) for child in children]
    return np.tanh(own + (np.mean(below, axis=0) if below else 0.0))


@pytest.mark.parametrize("num_hops", [0, 1, 2, 3])
def test_the_subgraph_is_the_dfs_tree_with_each_node_once(num_hops):
    for seed in range(20):
        sampled = Published(max_degree=3).lists(
            random_arcs(seed, 25, 0.2),
            num_nodes=25,
            train_idx=np.arange(25),
            rng=np.random.default_rng(seed),
        )
        source, target = sampled.edge_index()
        lists = {v: source[target == v].tolist() for v in range(25)}
        sample = trees(sampled, np.arange(25), num_hops=num_hops, max_occurrences=99)
        x = np.random.default_rng(seed).normal(size=25)
        for v in range(25):
            tree = plain_tree(lists, v, num_hops)
            one = sample.select(np.array([v]))
            arcs = (
                set(zip(*one.nodes[one.edge_index()].tolist())) if len(one.edge_source) else set()
            )
            assert (set(one.nodes.tolist()), arcs) == nodes_and_arcs(tree)
            assert len(one.nodes) == len(set(one.nodes.tolist()))
            assert len(one.edge_source) == len(arcs)
            h = x[one.nodes]
            for _ in range(num_hops):
                sums = np.zeros_like(h)
                count = np.zeros_like(h)
                np.add.at(sums, one.edge_target, h[one.edge_source])
                np.add.at(count, one.edge_target, 1)
                h = np.tanh(h + sums / np.maximum(count, 1))
            assert h[0] == pytest.approx(message_passing(tree, x, num_hops))


def test_arcs_into_roots_are_the_sampled_arcs_when_every_training_node_is_a_root():
    sampler = OwnList(max_degree=3, num_hops=2)
    arcs, train = random_arcs(4), np.arange(0, 80, 2)
    options = {"num_nodes": 80, "train_idx": train}
    lists = sampler.lists(arcs, rng=np.random.default_rng(1), **options)
    sample = sampler.sample(arcs, rng=np.random.default_rng(1), **options)
    assert set(zip(*sample.arcs_into_roots().tolist())) == set(zip(*lists.edge_index().tolist()))


def test_a_list_is_cut_to_its_first_entries_or_to_the_smallest_priorities():
    lists = Lists(pointer=np.array([0, 4, 5]), sources=np.array([1, 3, 5, 7, 2], np.int32))
    key = np.array([3, 4], np.uint64)
    first = shorten(lists, 2, key=key, by_priority=False)
    assert first.sources.tolist() == [1, 3, 2]
    assert first.pointer.tolist() == [0, 2, 3]
    chosen = {tuple(shorten(lists, 2, key=np.array([3, k], np.uint64), by_priority=True).sources[:-1])
              for k in range(60)}  # fmt: skip
    assert chosen == {(1, 3), (1, 5), (1, 7), (3, 5), (3, 7), (5, 7)}


def test_bad_arcs_and_ids_are_errors():
    sampler = OwnList(max_degree=2)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"arcs must hold ids in 0\.\.3"):
        sampler.sample(np.array([[0], [4]]), num_nodes=4, train_idx=np.arange(4), rng=rng)
    with pytest.raises(ValueError, match="shape"):
        sampler.sample(np.zeros((3, 2), np.int64), num_nodes=4, train_idx=np.arange(4), rng=rng)
    with pytest.raises(ValueError, match="train_idx must hold each id once"):
        node_mask(4, np.array([1, 1]), "train_idx")
    with pytest.raises(ValueError, match="max_degree must be >= 0"):
        OwnList(max_degree=-1)


@pytest.mark.parametrize("max_degree", [1, 2, 7, 8, 9, 20])
def test_own_lists_are_the_smallest_hashes_of_all_arcs(max_degree):
    rng, size = np.random.default_rng(7), 400
    arcs = rng.integers(0, size, (2, 40_000)).astype(np.int32)  # of several blocks, many arcs twice
    arcs[0, ::9] = 5
    train, present = np.arange(0, size, 3), rng.random(size) < 0.8
    key = draw_key(np.random.default_rng(5))
    reads = np.unique(arcs[:, arcs[0] != arcs[1]], axis=1)
    reads = reads[:, present[reads[0]] & (reads[1] % 3 == 0)]
    order = np.lexsort((pair_hashes(key, *reads), reads[0]))
    source, target = reads[:, order]
    place = np.arange(len(source)) - np.searchsorted(source, source)
    kept = np.stack([source, target])[:, place < max_degree]
    kept = kept[:, np.lexsort((kept[0], kept[1]))]
    for num_workers in (1, 3):
        lists = OwnList(max_degree=max_degree).lists(
            arcs, num_nodes=size, train_idx=train, rng=np.random.default_rng(5), present=present,
            num_workers=num_workers,
        )  # fmt: skip
        np.testing.assert_array_equal(lists.edge_index(), kept)
        assert lists.sources.dtype == np.int32
        assert lists.pointer[0] == 0
        assert len(lists.pointer) == size + 1
