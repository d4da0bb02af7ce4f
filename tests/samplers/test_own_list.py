"""Own-list sampler: occurrence bound, the plain definition, the neighbour test on every node."""

import numpy as np
import pytest
from exhaustive.changed import changed_roots
from exhaustive.neighbours import examine, examine_promises
from exhaustive.worlds import make_world, neighbours
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgnn.samplers.hashing import draw_key, pair_hash
from dpgnn.samplers.own_list import OwnList


def random_arcs(seed, num_nodes, density, symmetric=False):
    adjacency = np.random.default_rng(seed).random((num_nodes, num_nodes)) < density
    if symmetric:
        adjacency = np.triu(adjacency, 1)
        adjacency |= adjacency.T
    np.fill_diagonal(adjacency, False)
    return np.argwhere(adjacency).T


@settings(max_examples=2000, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    num_nodes=st.integers(1, 40),
    density=st.floats(0, 1),
    max_degree=st.integers(0, 5),
    num_hops=st.integers(0, 3),
    train_share=st.floats(0, 1),
)
def test_no_node_enters_more_than_max_occurrences(
    seed, num_nodes, density, max_degree, num_hops, train_share
):
    rng = np.random.default_rng(seed)
    sampler = OwnList(max_degree=max_degree, num_hops=num_hops)
    train = np.flatnonzero(rng.random(num_nodes) < train_share)
    arcs = random_arcs(seed, num_nodes, density)
    sample = sampler.sample(arcs, num_nodes=num_nodes, train_idx=train, rng=rng)
    sample.check(num_nodes)
    assert np.array_equal(sample.roots, train)


def test_the_lists_are_those_of_the_definition():
    for seed in range(30):
        arcs, train = random_arcs(seed, 30, 0.3), np.arange(0, 30, 3)
        key = draw_key(np.random.default_rng(seed))
        expected = set()
        for u in range(30):
            allowed = [v for v in arcs[1][arcs[0] == u].tolist() if v in set(train.tolist())]
            allowed.sort(key=lambda v: int(pair_hash(key, u, v)))
            expected |= {(u, v) for v in allowed[:4]}
        lists = OwnList(max_degree=4).lists(
            arcs, num_nodes=30, train_idx=train, rng=np.random.default_rng(seed)
        )
        assert set(zip(*lists.edge_index().tolist())) == expected


def test_every_id_of_a_list_is_chosen_equally_often():
    arcs = np.stack([np.zeros(9, np.int64), np.arange(1, 10)])
    counts = np.zeros(10)
    for seed in range(4000):
        lists = OwnList(max_degree=3).lists(
            arcs, num_nodes=10, train_idx=np.arange(10), rng=np.random.default_rng(seed)
        )
        counts[lists.edge_index()[1]] += 1
    # 4000 draws at probability 1/3: standard deviation 29.8
    assert np.abs(counts[1:] - 4000 / 3).max() < 5 * 29.8
    assert counts[0] == 0


def test_without_its_id_more_lists_change():
    """Why the training ids are public: the promise compares inputs that name the same ones."""
    listing = np.arange(1, 41)
    arcs = np.stack([np.tile(listing, 2), np.concatenate([0 * listing, 40 + listing])])
    present = np.arange(81) != 0

    def trees(**options):
        sample = OwnList(max_degree=1).sample(
            arcs, num_nodes=81, rng=np.random.default_rng(0), **options
        )
        nodes = np.split(sample.nodes, sample.node_ptr[1:-1])
        return {root: tuple(part) for root, part in zip(sample.roots.tolist(), nodes, strict=True)}

    whole = trees(train_idx=np.arange(81))
    record_gone = trees(train_idx=np.arange(81), present=present)
    id_gone = trees(train_idx=np.arange(1, 81))
    assert changed(whole, record_gone) == 0
    assert changed(whole, id_gone) > 10


def changed(one, two):
    """Roots of both whose trees differ."""
    return sum(one[root] != two[root] for root in one.keys() & two.keys())


def test_an_absent_id_keeps_its_slot():
    arcs = np.array([[0, 0, 0], [1, 2, 3]])
    present = np.array([True, False, True, True])
    options = {"num_nodes": 4, "train_idx": np.arange(4), "present": present}
    seen = {0, 1}
    for seed in range(40):
        sample = OwnList(max_degree=2).sample(arcs, rng=np.random.default_rng(seed), **options)
        assert sample.roots.tolist() == [0, 2, 3]
        seen.discard(2 - int((sample.nodes == 0).sum() - 1))
    # when the absent node 1 won a slot, only one of the others reads node 0
    assert not seen


@pytest.mark.parametrize("num_hops", [0, 1, 2, 3])
def test_every_neighbour_of_small_graphs_stays_within_the_promise(num_hops):
    attained = {}
    for seed in range(12):
        rng = np.random.default_rng([seed, num_hops])
        num_nodes = int(rng.integers(3, 8))
        arcs = random_arcs(seed, num_nodes, rng.choice([0.3, 0.6, 0.95]), symmetric=True)
        train = np.flatnonzero(rng.random(num_nodes) < 0.8)
        bound = int(np.bincount(arcs[0], minlength=1).max(initial=0))
        sampler = OwnList(
            max_degree=int(rng.integers(1, 4)),
            num_hops=num_hops,
            degree_bound=bound,
            max_list_size=[None, 2][seed % 2],
        )
        for report in examine_promises(sampler, make_world(arcs, num_nodes, train), rng=rng):
            assert report.passed, str(report)
            assert report.num_neighbours > 0
            pair = report.privacy_unit, report.relation
            exact = (report.d_plus, report.d_minus) == (
                report.declared.d_plus,
                report.declared.d_minus,
            )
            attained[pair] = attained.get(pair, False) or exact
    if num_hops == 1:
        # the bounds are not only safe but reached
        assert attained["node-record", "add-remove"]
        assert attained["node-record", "null-one"]


@pytest.mark.parametrize("num_hops", [1, 2])
def test_a_new_key_at_every_step_changes_no_more_roots_at_any_step(num_hops):
    """docs/accounting.md, theorem 15: the promise holds for every key, so also for a key of each step."""
    steps, ever = 12, {}
    arcs = random_arcs(3, 8, 0.6, symmetric=True)
    bound = int(np.bincount(arcs[0]).max())
    sampler = OwnList(max_degree=1, num_hops=num_hops, degree_bound=bound)
    world, keys = make_world(arcs, 8), np.random.default_rng(7).integers(2**63, size=steps)
    for unit, relation in sampler.promise.changes:
        declared = sampler.promise.changes[unit, relation]
        found = neighbours(
            world, unit, relation, owner="source", rng=np.random.default_rng(0), degree_bound=bound,
            max_neighbours=40,
        )  # fmt: skip
        for _, first, second in found:
            seen = set()
            for key in keys:
                samples = [
                    sampler.sample(
                        side.arcs, num_nodes=8, train_idx=side.train_idx, present=side.present,
                        rng=np.random.default_rng(key),
                    )
                    for side in (first, second)
                ]  # fmt: skip
                changed = changed_roots(*samples, first.values, second.values)
                assert changed[0].sum() <= declared.d_plus
                assert changed[1].sum() <= declared.d_minus
                seen |= set(samples[0].roots[changed[0]].tolist())
            ever[unit, relation] = max(ever.get((unit, relation), 0), len(seen))
    # over all steps more roots change than at any one: the steps compose, the roots do not add up
    declared = sampler.promise.changes["node-record", "add-remove"]
    assert ever["node-record", "add-remove"] > declared.d_plus


def test_directed_lists_pass_too():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        world = make_world(random_arcs(seed, 12, 0.4), 12)
        sampler = OwnList(max_degree=2, num_hops=2)
        for relation in ("add-remove", "null-one", "replace-one"):
            report = examine(sampler, world, "node-record", relation, rng=rng, max_neighbours=200)
            assert report.passed, str(report)


@pytest.mark.slow
def test_every_node_of_a_graph_of_two_thousand_nodes_passes():
    rng = np.random.default_rng(0)
    weight = np.arange(1, 2001) ** -0.6
    pairs = rng.choice(2000, (2, 12000), p=weight / weight.sum())
    pairs = pairs[:, pairs[0] != pairs[1]]
    world = make_world(np.concatenate([pairs, pairs[::-1]], axis=1), 2000)
    for num_hops in (1, 2):
        report = examine(
            OwnList(max_degree=7, num_hops=num_hops), world, "node-record", "add-remove", rng=rng
        )
        assert report.passed, str(report)
        assert report.num_neighbours == 2000
