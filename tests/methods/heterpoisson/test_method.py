"""HeterPoisson's trees, network and steps."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest
import torch
from contract import DELTA, EPSILON, GRAPH, SPLIT, entry_of, inputs_of
from exhaustive.method_neighbours import examine_method
from helpers import planned_run

from dpgnn import methods
from dpgnn.accountants.plan import Budget, Ledger, Plan
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import Store
from dpgnn.methods.base import Context, Support, facts_of
from dpgnn.methods.heterpoisson import sample, sums
from dpgnn.methods.heterpoisson.network import filled, network_of, padded_logits, squashed
from dpgnn.methods.shared.aggregate_bounds import own_arcs
from dpgnn.models.forward import full_graph_logits, per_root_loss, plain_linear
from dpgnn.models.trees import trees_of
from dpgnn.samplers.own_list import OwnList
from dpgnn.training.clipping import global_clipping

METHOD = methods.get("heterpoisson")
BUDGET = Budget(epsilon=EPSILON, delta=DELTA)
RECORD = Support(privacy_unit="node-record", relation="null-one")
NODE = Support(privacy_unit="node", relation="add-remove")


def context(seed=0):
    return Context(
        ledger=Ledger(Plan()), streams=Streams(root_seed=seed, axes={}), store=Store(None)
    )


def arcs():
    found = own_arcs(GRAPH)
    return found[:, np.isin(found[1], SPLIT.train_idx)]


def fresh(config, **named):
    clipping = named.pop("clipping", global_clipping(1.0))
    return sums.FreshSums(
        config, network_of(config, GRAPH), GRAPH, GRAPH.x, SPLIT.train_idx, arcs(), clipping,
        context(),
    )  # fmt: skip


@pytest.mark.parametrize("degree", [1, 3])
def test_trees_are_those_of_the_own_list_sampler(degree):
    roots = np.sort(SPLIT.train_idx)
    pointer, sources = sample.fresh_lists(arcs(), 60, degree, np.random.default_rng(7))
    found = sample.star_trees(roots, pointer, sources, GRAPH.y)
    sampler = OwnList(max_degree=degree)
    expected = trees_of(
        sampler.sample(arcs(), num_nodes=60, train_idx=SPLIT.train_idx, rng=np.random.default_rng(7)),
        GRAPH.y, num_hops=1, conv="gcn",
    )  # fmt: skip
    assert np.array_equal(found.row_ptr, expected.row_ptr)
    assert np.array_equal(found.level_rows, expected.level_rows)
    for root in range(len(roots)):
        rows = slice(found.row_ptr[root], found.row_ptr[root + 1])
        assert found.node[rows.start] == expected.node[rows.start] == roots[root]
        assert sorted(found.node[rows]) == sorted(expected.node[rows])
        own = slice(found.entry_ptr[rows.start], found.entry_ptr[rows.start + 1])
        assert found.entry_weight[own] == pytest.approx(1 / found.level_rows[root, 0])
        assert found.entry_row[own].tolist() == list(range(int(found.level_rows[root, 0])))


def test_every_step_has_a_key_of_its_own_and_the_same_step_the_same_trees():
    config = entry_of("heterpoisson", "sound", RECORD).options
    first = fresh(config)
    drawn = []
    for step in (1, 2, 3, 1):
        first.before_step(step)
        drawn.append(first.trees.node.tolist())
    assert drawn[0] == drawn[3]
    assert drawn[0] != drawn[1] != drawn[2]


def test_over_many_steps_a_record_is_read_by_each_of_its_list_equally_often():
    found = own_arcs(GRAPH)
    node = int(np.bincount(found[0]).argmax())
    listed = np.sort(found[1, found[0] == node])
    counts = dict.fromkeys(listed.tolist(), 0)
    rng, steps = np.random.default_rng(0), 600
    for _ in range(steps):
        pointer, sources = sample.fresh_lists(found, 60, 1, rng)
        readers = [v for v in range(60) if node in sources[pointer[v] : pointer[v + 1]]]
        assert len(readers) == 1
        counts[readers[0]] += 1
    expected = steps / len(listed)
    assert max(abs(count - expected) for count in counts.values()) < 5 * np.sqrt(expected)


@pytest.mark.parametrize("width", [4, 64])
def test_the_published_network_without_padding_is_the_sound_one(width):
    config = dataclasses.replace(
        entry_of("heterpoisson", "published", NODE).options, width=width, padding=False
    )
    network = network_of(config, GRAPH)
    flat = network.initial(rng=np.random.default_rng(0))
    rows = torch.from_numpy(GRAPH.x[:4].copy())
    padded = torch.cat([rows, torch.zeros(1, rows.shape[1])])
    linear = partial(plain_linear, network.views(flat))
    counts, missing = torch.tensor([5]), torch.tensor([3])
    found = padded_logits(config, network, linear, padded, counts, missing)[0]
    star = np.array([(1, 0), (2, 0), (3, 0)]).T
    expected = full_graph_logits(network, network.named(flat), GRAPH.x[:4], star)[0]
    assert torch.allclose(found, expected, atol=1e-4)


def written_out(config, named, rows, present):
    """The published network on one example that is padded with rows of zeros; the root is the first."""
    mean = squashed(((rows * present[:, None]).sum(0) / present.sum())[None])[0]
    mean = mean @ named["encoder.0.weight"] + named["encoder.0.bias"]
    wide = rows.shape[1] >= config.width
    own = rows @ named["encoder.0.weight"] if wide else filled(rows, width=config.width)
    h = torch.nn.functional.elu(mean + own)
    kept = h if config.padding else h[:1]
    h = (h[0] - kept.mean()) / (kept.std(unbiased=False) + 1e-5)
    return h @ named["decoder.0.weight"] + named["decoder.0.bias"]


@pytest.mark.parametrize("padding", [True, False])
@pytest.mark.parametrize("width", [4, 64])
def test_published_sums_are_those_of_one_padded_example_at_a_time(width, padding):
    """By autograd on the parameters, each clipped by its own norm."""
    entry = entry_of("heterpoisson", "published", NODE)
    config = dataclasses.replace(
        entry.options, width=width, padding=padding, clamped=False, dedupe=False, clipping_norm=1.3
    )
    network = network_of(config, GRAPH)
    made = sums.PublishedSums(
        config, network, GRAPH, GRAPH.x, SPLIT.train_idx, arcs(), global_clipping(0.65), context(),
        noise_stddev=1e-9, divisor=7.0,
    )  # fmt: skip
    flat, roots = network.initial(rng=np.random.default_rng(3)), np.arange(len(SPLIT.train_idx))
    read = [made._read[root] for root in roots]
    size, total, clipped = 1 + max(len(ids) for ids in read), torch.zeros_like(flat), 0
    assert size > 2
    for root, listed in zip(made.roots, read):
        rows = torch.zeros(size, GRAPH.num_features)
        rows[: 1 + len(listed)] = torch.from_numpy(GRAPH.x[[root, *listed]])
        leaf = flat.clone().requires_grad_()
        there = (torch.arange(size) <= len(listed)).float()
        logits = written_out(config, network.views(leaf), rows, there)
        loss = per_root_loss(network, logits[None], torch.tensor([GRAPH.y[root]])).sum()
        (gradient,) = torch.autograd.grad(loss, leaf)
        factor = min(1.0, 1.3 / (2 * float(gradient.norm()) + 1e-6))
        clipped += factor < 1.0
        total += factor * gradient
    assert clipped
    assert torch.allclose(made(flat, roots), 7.0 * total / len(roots), atol=2e-5)


@pytest.mark.parametrize("padding", [True, False])
def test_a_root_without_features_and_neighbours_has_a_finite_gradient(padding):
    """All its hidden units are equal before the first step, so that their deviation is 0."""
    config = dataclasses.replace(
        entry_of("heterpoisson", "published", NODE).options, padding=padding, clamped=False
    )
    empty = int(SPLIT.train_idx[0])
    x = GRAPH.x.copy()
    x[empty] = 0.0
    lonely = arcs()[:, (arcs() != empty).all(0)]
    network = network_of(config, GRAPH)
    made = sums.PublishedSums(
        config, network, GRAPH, x, SPLIT.train_idx, lonely, global_clipping(0.5), context(),
        noise_stddev=1e-9, divisor=1.0,
    )  # fmt: skip
    flat = network.initial(rng=np.random.default_rng(0))
    position = int(np.flatnonzero(made.roots == empty)[0])
    found = made(flat, np.array([position]))
    assert torch.isfinite(found).all()
    assert float(found.abs().max()) > 0


def test_the_last_rung_of_the_ladder_reads_the_lists_of_the_sound_mode():
    entry = entry_of("heterpoisson", "published", NODE)
    assert METHOD.sampler(entry) is None
    config = dataclasses.replace(entry.options, sampler="own-list")
    assert METHOD.sampler(dataclasses.replace(entry, options=config)).name == "training_arcs"
    made = sums.PublishedSums(
        config, network_of(config, GRAPH), GRAPH, GRAPH.x, SPLIT.train_idx, arcs(),
        global_clipping(0.5), context(), noise_stddev=1.0, divisor=7.0,
    )  # fmt: skip
    assert np.array_equal(made.trees.node, fresh(config).trees.node)
    counts = made.trees.level_rows[:, 0]
    assert [1 + len(ids) for ids in made._read] == counts.tolist()


def test_published_sums_are_clipped_at_half_the_norm_and_clamped():
    entry = entry_of("heterpoisson", "published", NODE)
    config = dataclasses.replace(entry.options, clamped=False)
    network = network_of(config, GRAPH)
    words = {"noise_stddev": 1e-12, "divisor": 7.0}
    made = sums.PublishedSums(
        config, network, GRAPH, GRAPH.x, SPLIT.train_idx, arcs(), global_clipping(0.5), context(),
        **words,
    )  # fmt: skip
    flat = network.initial(rng=np.random.default_rng(0))
    roots = np.arange(12)
    noisy = made(flat, roots)
    assert float(noisy.norm()) <= 7.0 * 0.5 + 1e-6
    made.noise_stddev = 3.0
    made.config = dataclasses.replace(config, clamped=True)
    bound = 3.0 / (100 * 12) * 7.0
    clamped = made(flat, roots)
    assert float(clamped.abs().max()) == pytest.approx(bound, rel=1e-5)
    assert float((clamped.abs() < bound * 0.999).float().mean()) < 0.1


FAULTS = {
    "readers choose whom they read": lambda arcs, n, m, rng: REAL(arcs[::-1].copy(), n, m, rng),
    "whole lists": lambda arcs, n, m, rng: REAL(arcs, n, 100, rng),
}
REAL = sample.fresh_lists


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_by_the_neighbour_test(fault, monkeypatch):
    entry = entry_of("heterpoisson", "sound", RECORD)
    (report,) = examine_method(entry, BUDGET, max_neighbours=12)
    assert report.passed
    monkeypatch.setattr(sample, "fresh_lists", FAULTS[fault])
    (report,) = examine_method(entry, BUDGET, max_neighbours=12)
    assert any(found.startswith("changed roots") for found in report.faults)


def test_a_fit_reads_training_labels_alone():
    entry = entry_of("heterpoisson", "sound", RECORD)
    prepared = inputs_of(entry).prepared
    plan = METHOD.plan(entry, facts_of(GRAPH, SPLIT, prepared), BUDGET)

    def fit(graph):
        made = dataclasses.replace(context(), ledger=Ledger(plan))
        return METHOD.fit(planned_run(entry, graph, SPLIT, prepared, plan, made)).state

    y = GRAPH.y.copy()
    y[SPLIT.test_idx] = 1 - y[SPLIT.test_idx]
    first, other = fit(GRAPH), fit(dataclasses.replace(GRAPH, y=y))
    assert all(torch.equal(value, other[name]) for name, value in first.items())
