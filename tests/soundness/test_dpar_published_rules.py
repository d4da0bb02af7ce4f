"""Caveats of DPAR as published: cached batches, the classical Gaussian formula, the universe of outputs,
and controls that read exact neighbours.
"""

import dataclasses

import numpy as np
import pytest
from helpers import two_community_graph

from dpgnn.accountants import gdp, published_dpar
from dpgnn.accountants.composition import curve
from dpgnn.accountants.events import PoissonRoots, compose
from dpgnn.audits.statistics import ClaimLine, judge
from dpgnn.data.graph import Graph
from dpgnn.data.splits import Split
from dpgnn.methods.dpar.options import DPARConfig
from dpgnn.methods.dpar.rows import draw_members, select_gumbel, vectors

# fixed-batches: 10 batches of the roots, 100 epochs, noise 4 C
NUM_BATCHES, NUM_EPOCHS, NOISE = 10, 100, 4.0


def batches_that_hold_the_canary(cached, rng):
    """bool, (epochs, batches): inputs cached by position repeat the first epoch's batches."""
    first = np.zeros((NUM_EPOCHS, NUM_BATCHES), dtype=bool)
    drawn = rng.integers(NUM_BATCHES, size=1 if cached else NUM_EPOCHS)
    first[np.arange(NUM_EPOCHS), drawn] = True
    return first


def score_of_a_run(present, cached, rng):
    """What stands out: the largest total over epochs of the batch at one position."""
    noisy = NOISE * rng.standard_normal((NUM_EPOCHS, NUM_BATCHES))
    if present:
        noisy += batches_that_hold_the_canary(cached, rng)
    return noisy.sum(axis=0).max()


@pytest.mark.parametrize("cached", [True, False])
def test_cached_batches_break_the_claim_that_counts_fresh_ones(cached):
    event = PoissonRoots(
        relation="add-remove", noise_stddev=NOISE, clipping_norm=1.0, d_plus=1, d_minus=0,
        sampling_probability=1 / NUM_BATCHES,
    )  # fmt: skip
    line = ClaimLine.of(curve(compose(event, NUM_BATCHES * NUM_EPOCHS)))
    rng = np.random.default_rng(0)
    scores = tuple(
        np.array([score_of_a_run(present, cached, rng) for _ in range(600)])
        for present in (True, False)
    )
    verdict = judge(scores, line, delta=1e-5, level=0.001)
    assert verdict.rejected is cached


@pytest.mark.parametrize(
    ("epsilon", "delta", "holds"),
    [(0.5, 1e-5, True), (1.0, 1e-3, True), (8.0, 1e-3, False), (20.0, 1e-5, False)],
)
def test_the_classical_gaussian_formula_fails_above_its_range(epsilon, delta, holds):
    noise = published_dpar.gaussian_noise_stddev(epsilon, delta, 1.0)
    attained = gdp.delta(epsilon, 1.0 / noise)
    assert (attained <= delta) is holds
    # the exact count of the same noise gives the stated delta at another epsilon
    assert gdp.epsilon(1.0 / noise, delta) <= epsilon or not holds


def members(graph, config):
    split = Split(
        train_idx=np.arange(graph.num_nodes - 4), val_idx=np.arange(graph.num_nodes - 4, graph.num_nodes - 2),
        test_idx=np.arange(graph.num_nodes - 2, graph.num_nodes), inductive=False,
    )  # fmt: skip
    return draw_members(graph, split, config, rng=np.random.default_rng(1))


def with_one_node_more(graph, neighbours):
    """The graph with a node 0 that is joined to some others, whose ids move up by one."""
    new = np.stack([np.zeros(len(neighbours), np.int64), np.asarray(neighbours) + 1])
    edges = np.concatenate([graph.edge_index + 1, new, new[::-1]], axis=1)
    return Graph(
        name="more", x=np.vstack([graph.x[:1], graph.x]), edge_index=edges,
        y=np.concatenate([graph.y[:1], graph.y]), num_classes=graph.num_classes,
    )  # fmt: skip


def test_with_an_added_node_outputs_appear_that_were_impossible():
    config = DPARConfig(rows="em0", subsample_rate=1.0, num_vectors=8, top_k=2)
    small = two_community_graph(20)
    large = with_one_node_more(small, [0, 1, 2])
    sizes, chosen = [], []
    for graph in (small, large):
        exact = members(graph, config).exact
        sizes.append(exact.shape[1])
        chosen.append(
            {
                int(node)
                for seed in range(40)
                for node in select_gumbel(
                    exact, config.max_entry, 1.0, config.top_k, rng=np.random.default_rng(seed)
                ).ravel()
            }
        )
    # position N exists in one world only: whoever sees it there knows the world
    assert sizes[1] == sizes[0] + 1
    assert max(chosen[0]) < sizes[0]
    assert sizes[0] in chosen[1]


def test_exact_neighbours_tell_the_worlds_apart_with_certainty():
    graph = two_community_graph(20)
    target = graph.edge_index[1, graph.edge_index[0] == 0][0]
    gone = np.isin(graph.edge_index[0] * 20 + graph.edge_index[1], (target, target * 20))
    without = dataclasses.replace(graph, edge_index=graph.edge_index[:, ~gone])
    config = DPARConfig(rows="true", subsample_rate=1.0, num_vectors=None, top_k=4)
    noisy = dataclasses.replace(config, rows="random")

    def rows(side, chosen, context=None):
        return vectors(chosen, members(side, chosen).exact, context).toarray()

    # no draw is made: one output in each world, and they differ
    assert np.array_equal(rows(graph, config), rows(graph, config))
    assert not np.array_equal(rows(graph, config), rows(without, config))
    context = _Context()
    assert np.array_equal(rows(graph, noisy, context), rows(without, noisy, context))


class _Context:
    """Streams of one seed."""

    @property
    def streams(self):
        return self

    def numpy(self, name):
        return np.random.default_rng(0)
