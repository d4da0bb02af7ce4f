"""Whole runs at edge level: what is released, and that all else reads released and public values alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from contract import DELTA, EPSILON, GRAPH, SPLIT, entry_of
from helpers import planned_run
from scipy.optimize import minimize

from dpgnn import methods
from dpgnn.accountants.plan import Budget, Ledger
from dpgnn.attacks.queries import ask, fitted_run, with_features
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import Store
from dpgnn.data.graph import Graph
from dpgnn.methods.base import Context, Fitted, Support, facts_of
from dpgnn.methods.releases import noised
from dpgnn.methods.votes.edge_base import base_scores, fit_bases, log_softmax, stack_weights
from dpgnn.methods.votes.edge_fit import votes_of
from dpgnn.methods.votes.edge_head import head_rows

ENTRY = entry_of("votes", "sound", Support(privacy_unit="edge", relation="add-remove"))
METHOD = methods.get("votes")
STREAMS = Streams(root_seed=3, axes={})


def fit(graph: Graph) -> Fitted:
    plan = METHOD.plan(ENTRY, facts_of(graph, SPLIT, None), Budget(epsilon=EPSILON, delta=DELTA))
    context = Context(ledger=Ledger(plan), streams=STREAMS, store=Store(None))
    return METHOD.fit(planned_run(ENTRY, graph, SPLIT, None, plan, context))


def fixed(value: np.ndarray, noise_stddev: float, draw: Any, step: int = 1) -> np.ndarray:
    return np.random.default_rng(step).standard_normal(value.shape)


def same(a: Fitted, b: Fitted) -> bool:
    assert a.state.keys() == b.state.keys()
    return all(
        a.state[name].numpy().tobytes() == b.state[name].numpy().tobytes() for name in a.state
    )


def without_pair(u: int, v: int) -> Graph:
    source, target = GRAPH.edge_index
    pair = ((source == u) & (target == v)) | ((source == v) & (target == u))
    assert pair.sum() == 2
    return dataclasses.replace(GRAPH, edge_index=GRAPH.edge_index[:, ~pair])


def test_given_both_released_sums_nothing_reads_an_edge() -> None:
    """Bases, heads and answers are the same to the bit on neighbours, and on a graph without edges."""
    with noised.answered_by(fixed):
        first = fit(GRAPH)
        others = [without_pair(*GRAPH.edge_index[:, k]) for k in (0, 50, 100)]
        others.append(dataclasses.replace(GRAPH, edge_index=GRAPH.edge_index[:, :0]))
        assert all(same(first, fit(graph)) for graph in others)
    assert not same(fit(GRAPH), fit(others[0])), "released sums do"


def test_labels_of_other_nodes_are_not_used() -> None:
    y = GRAPH.y.copy()
    rest = np.setdiff1d(np.arange(len(y)), SPLIT.train_idx)
    y[rest] = 1 - y[rest]
    assert same(fit(GRAPH), fit(dataclasses.replace(GRAPH, y=y)))


def test_directed_arcs_count_as_their_undirected_edges() -> None:
    source, target = GRAPH.edge_index
    one_way = dataclasses.replace(
        GRAPH, edge_index=GRAPH.edge_index[:, source < target], directed=True
    )
    assert same(fit(GRAPH), fit(one_way))


def test_answers_are_for_everyone_and_come_from_what_is_released() -> None:
    fitted = fit(GRAPH)
    answer = METHOD.predict(ENTRY, fitted, GRAPH, np.arange(5))
    assert answer.answers == "everyone"
    np.testing.assert_array_equal(answer.logits.numpy(), fitted.state["logits"][:5].numpy())


def test_a_training_nodes_base_score_does_not_read_its_label() -> None:
    edge, budget = ENTRY.options.edge, Budget(epsilon=EPSILON, delta=DELTA)
    plan = METHOD.plan(ENTRY, facts_of(GRAPH, SPLIT, None), budget)
    context = Context.of_streams(plan, STREAMS)
    node, y = SPLIT.train_idx[6], GRAPH.y.copy()
    y[node] = 1 - y[node]
    first, second = (
        fit_bases(planned_run(ENTRY, graph, SPLIT, None, plan, context)).state
        for graph in (GRAPH, dataclasses.replace(GRAPH, y=y))
    )
    second["stack.weight"] = first["stack.weight"]
    scores = [base_scores(edge, state, GRAPH, SPLIT) for state in (first, second)]
    moved = np.abs(scores[0] - scores[1]).max(axis=1) > 1e-9
    assert not moved[node]
    # the models that saw it answer for the other folds
    others = np.flatnonzero(np.arange(len(SPLIT.train_idx)) % edge.num_folds != 6 % edge.num_folds)
    assert moved[SPLIT.train_idx[others]].all()


def test_rows_of_a_head_by_hand() -> None:
    sums = np.array([[3.0, -4.0], [0.0, 0.0]])
    scores = np.log([[0.25, 0.75], [1e-9, 1 - 1e-9]])
    noisy, quiet = (head_rows(ENTRY.options.edge, scores, [(sums, noise)]) for noise in (2.0, 0.0))
    spread = 5 + 2 * np.sqrt(2)
    first = [np.log(0.25), np.log(0.75), np.arcsinh(1.5), np.arcsinh(-2.0), 3 / spread, -4 / spread]
    np.testing.assert_allclose(noisy, [first, [-8.0, scores[1, 1], 0, 0, 0, 0]])
    # without noise sums are divided by 0.5, and a node without neighbours has no direction
    np.testing.assert_allclose(quiet[:, 2:], [[np.arcsinh(6), np.arcsinh(-8), 0.6, -0.8], [0] * 4])


def test_stack_weights_are_the_best_non_negative_ones() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=200)
    good = log_softmax(rng.normal(size=(200, 3)) + np.eye(3)[y])
    scores = np.stack([good, log_softmax(rng.normal(size=(200, 3)) - np.eye(3)[y])])

    def loss(weights: np.ndarray) -> float:
        return -float(log_softmax(np.tensordot(weights, scores, axes=1))[np.arange(200), y].mean())

    found = stack_weights(scores, y)
    assert found[1] == 0, "a classifier that is worse than none gets no weight"
    alone = minimize(lambda w: loss(np.array([w[0], 0.0])), [1.0])
    assert found[0] == pytest.approx(float(alone.x[0]), abs=1e-3)


def test_asked_again_with_its_own_noise_a_run_gives_its_answers() -> None:
    run = fitted_run(ENTRY, GRAPH, SPLIT, None, Budget(epsilon=EPSILON, delta=DELTA), STREAMS)
    frozen = ask(run, GRAPH)
    np.testing.assert_allclose(frozen, run.state["logits"].numpy(), rtol=1e-5, atol=1e-6)
    assert np.abs(ask(run, GRAPH, noise="fresh", number=1) - frozen).max() > 1e-3
    # what an unlabelled node changes in its features is heard by its neighbours
    node = int(SPLIT.test_idx[0])
    moved = np.abs(ask(run, with_features(GRAPH, np.array([node]), -GRAPH.x[[node]])) - frozen)
    near = GRAPH.edge_index[1][GRAPH.edge_index[0] == node]
    assert (moved.max(axis=1)[near] > 1e-9).all()
    rows, public = run.leaks.noisy_rows(run)  # type: ignore[misc]
    scores = base_scores(ENTRY.options.edge, run.state, GRAPH, SPLIT)
    np.testing.assert_array_equal(public, votes_of(scores, GRAPH, SPLIT))
    left = rows - GRAPH.adjacency() @ public
    assert left.std() == pytest.approx(run.noise_stddev, rel=0.25)
