"""Caveats of the aggregation methods, each as something an observer can do."""

import dataclasses
import math

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import planned_run, two_community_graph
from scipy.stats import norm

from dpgnn import methods
from dpgnn.accountants import gdp
from dpgnn.accountants.plan import Budget, Ledger
from dpgnn.core import config as strict
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import Store
from dpgnn.data.graph import Graph
from dpgnn.data.splits import SplitConfig, make_split
from dpgnn.methods.base import Context, Entry, facts_of
from dpgnn.methods.gap import plan as gap
from dpgnn.methods.shared.aggregate_bounds import sampled_edges
from dpgnn.methods.shared.noisy_graph import block_response, keep_density


def entry_of(name, unit, relation, **options):
    return Entry(
        name=name, method=name, mode="published", privacy_unit=unit, relation=relation,
        options=strict.read(methods.get(name).config, options),
    )  # fmt: skip


def best_excess(distance, noise_stddev, epsilon, delta):
    """Largest TPR - (exp(epsilon) FPR + delta) of tests between two Gaussians this far apart."""
    mu = distance / noise_stddev
    threshold = np.linspace(-6, 6, 4001)
    rates = norm.sf(threshold - mu) - math.exp(epsilon) * norm.sf(threshold) - delta
    return float(rates.max())


def test_directed_sensitivity_an_undirected_edge_breaks_the_stated_epsilon():
    noise = gap.edge_sensitivity(directed=True) / gdp.mu(1.0, 1e-5)
    assert best_excess(gap.edge_sensitivity(directed=True), noise, 1.0, 1e-5) <= 1e-12
    # a hub's two neighbours: both rows move by one unit vector
    assert best_excess(gap.edge_sensitivity(directed=False), noise, 1.0, 1e-5) > 1e-4


def test_own_row_uncounted_the_nodes_own_sum_breaks_the_stated_epsilon():
    bound = 20
    noise = gap.node_sensitivity(bound, "null-one") / gdp.mu(1.0, 1e-5)
    assert best_excess(gap.node_sensitivity(bound, "null-one"), noise, 1.0, 1e-5) <= 1e-12
    assert best_excess(gap.own_row_sensitivity(bound), noise, 1.0, 1e-5) > 0.2


def test_two_directions_the_answers_of_one_edge_cost_twice():
    # half of all pairs are edges, so that nothing is thinned and each pair answers like every other
    epsilon, nodes = 1.0, 500
    truth = 1 / (1 + math.exp(-epsilon))
    rng = np.random.default_rng(0)
    upper = np.triu(rng.random((nodes, nodes)) < 0.5, 1)
    edges = upper | upper.T
    answers = block_response(
        sp.csr_array(edges.astype(np.float64)), scale=1e-12, truth=truth, block_rows=nodes,
        noise_rng=rng, rng=rng,
    ).toarray() > 0  # fmt: skip
    both = np.triu(answers & answers.T, 1)
    gaps = np.triu(~edges, 1)
    loss = math.log(both[upper].mean() / both[gaps].mean())
    assert loss == pytest.approx(2 * epsilon, abs=0.1)


def test_density_noise_one_edge_moves_a_block_far_beyond_its_noise():
    nodes, rows, epsilon = 2708, 500, 0.1
    scale = 1 / (nodes**2 * epsilon)
    moved = 1 / (rows * nodes)
    assert moved / scale == pytest.approx(epsilon * nodes / rows)
    assert moved / scale > 5 * epsilon
    # and what is done with the density follows it: another keep rate for another edge
    assert keep_density(10 * moved, 0.9) != keep_density(9 * moved, 0.9)


def test_minimum_degree_one_edge_less_changes_the_noise():
    graph = two_community_graph(30)
    degree = np.bincount(graph.edge_index[0], minlength=30)
    node = int(degree.argmin())
    drop = (graph.edge_index == node).any(axis=0) & (
        np.cumsum((graph.edge_index == node).any(axis=0)) <= 1
    )
    pair = set(graph.edge_index[:, drop].ravel().tolist())
    keep = [set(edge) != pair for edge in graph.edge_index.T.tolist()]
    smaller = dataclasses.replace(graph, edge_index=graph.edge_index[:, keep].copy())
    method, entry = methods.get("caribou"), entry_of("caribou", "edge", "add-remove")
    split = make_split(graph, SplitConfig(), rng=np.random.default_rng(0))
    noises = []
    for world in (graph, smaller):
        prepared = method.prepare(world, split, method.sampler(entry), np.random.default_rng(0))
        plan = method.plan(entry, facts_of(world, split, prepared), Budget(epsilon=1.0, delta=1e-3))
        noises.append(plan.mechanisms[0].noise_stddev)
    assert noises[1] > noises[0] * 1.05


def test_degree_bound_removing_a_hub_changes_other_nodes_lists():
    n = 60
    ring = np.array([(i, (i + k) % n) for i in range(n) for k in (1, 2, 3)]).T
    hub = np.stack([np.zeros(n - 1, int), np.arange(1, n)])
    edges = np.unique(np.sort(np.concatenate([ring, hub], axis=1), axis=0), axis=1)
    edges = edges[:, edges[0] != edges[1]]
    both = np.concatenate([edges, edges[::-1]], axis=1)
    without = both[:, (both != 0).all(axis=0)]
    lists = [
        {
            tuple(e)
            for e in sampled_edges(b, n, 3, rng=np.random.default_rng(1)).T.tolist()
            if 0 not in e
        }
        for b in (both, without)
    ]
    assert len(lists[0] ^ lists[1]) > 3 * 3  # far more than the bound of 3 says


def test_head_not_private_one_label_changes_the_released_weights_without_noise():
    graph = two_community_graph(40)
    split = make_split(graph, SplitConfig(), rng=np.random.default_rng(0))
    method = methods.get("caribou")
    entry = entry_of(
        "caribou", "node-bounded", "replace-one", variant="as-released",
        node={"bounding": "sampled"}, head={"hidden": 4, "training": {"num_epochs": 5, "selection": "last"}},
    )  # fmt: skip

    def weights(world: Graph) -> np.ndarray:
        prepared = method.prepare(world, split, method.sampler(entry), np.random.default_rng(0))
        plan = method.plan(
            entry, facts_of(world, split, prepared), Budget(epsilon=0.01, delta=1e-3)
        )
        context = Context(
            ledger=Ledger(plan), streams=Streams(root_seed=0, axes={"r": 0}), store=Store(None)
        )
        state = method.fit(planned_run(entry, world, split, prepared, plan, context)).state
        return state["head.head.layers.0.bias"].numpy()

    labels = graph.y.copy()
    labels[split.train_idx[0]] = 1 - labels[split.train_idx[0]]
    changed = dataclasses.replace(graph, y=labels)
    # the noise is drawn in the features of the state only: with it fixed, the label is all that differs
    assert np.array_equal(weights(graph), weights(graph))
    assert not np.array_equal(weights(graph), weights(changed))
