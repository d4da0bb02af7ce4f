"""Rows of linear models: own features less their mean, of norm one, and further inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers import two_community_graph

from dpgnn.data.graph import Graph
from dpgnn.methods.shared import linear
from dpgnn.methods.shared.centred import LONGEST, CentredGradients, sparse_rows
from dpgnn.methods.shared.linear import linear_logits, linear_model, own_features, own_rows
from dpgnn.models.trees import lone_roots
from dpgnn.training.clipping import global_clipping
from dpgnn.training.gradients import RootGradients

FEATURES, CONSTANT = 12, 0.3


def words_graph() -> Graph:
    rng = np.random.default_rng(0)
    x = (rng.random((60, FEATURES)) < 0.3).astype(np.float32)
    x[3] = 0.0
    return replace(two_community_graph(), x=x)


def sparse_graph() -> Graph:
    graph = words_graph()
    return replace(graph, x=sp.csr_array(graph.x))


def rows_of(graph: Graph, nodes: np.ndarray) -> object:
    return own_rows(graph, nodes, np.full((len(nodes), 2), CONSTANT))


def test_rows_are_centred_and_of_norm_one(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, sparse, nodes = words_graph(), sparse_graph(), np.array([5, 3, 40])
    x, rows = graph.x, rows_of(graph, nodes)
    assert isinstance(x, np.ndarray)
    assert isinstance(rows, np.ndarray)
    expected = x[nodes] - x[nodes].mean(axis=1, keepdims=True)
    norms = np.linalg.norm(expected, axis=1, keepdims=True)
    assert rows[:, :FEATURES] == pytest.approx(expected / np.maximum(norms, 1e-12), abs=1e-6)
    assert np.array_equal(rows[:, FEATURES:], np.full((3, 2), CONSTANT, np.float32))
    assert own_features(graph, x[nodes]) == pytest.approx(rows[:, :FEATURES], abs=1e-6)
    monkeypatch.setattr(linear, "CENTRED_COLUMNS", 11)
    wide = rows_of(sparse, nodes)
    assert isinstance(wide, sp.csr_array)
    plain = x[nodes] / np.maximum(np.linalg.norm(x[nodes], axis=1, keepdims=True), 1e-12)
    assert wide.toarray()[:, :FEATURES] == pytest.approx(plain, abs=1e-6)
    assert own_features(sparse, x[nodes]) == pytest.approx(plain, abs=1e-6)


def test_sparse_rows_are_read_as_if_they_were_centred() -> None:
    graph, sparse, nodes = words_graph(), sparse_graph(), np.arange(60)
    dense, kept = rows_of(graph, nodes), rows_of(sparse, nodes)
    assert isinstance(kept, sp.csr_array)
    assert isinstance(sparse.x, sp.csr_array)
    assert kept[:, :FEATURES].nnz == sparse.x.nnz
    weight = torch.from_numpy(np.random.default_rng(1).standard_normal((FEATURES + 2, 2))).float()
    name = next(iter(linear_model(1, graph).shapes))
    ours, theirs = (
        linear_logits(g, rows)({name: weight}) for g, rows in ((sparse, kept), (graph, dense))
    )
    assert ours.numpy() == pytest.approx(theirs.numpy(), abs=1e-5)
    raw = np.asarray(words_graph().x, dtype=np.float64)
    assert own_features(sparse, raw) == pytest.approx(kept.toarray()[:, :FEATURES], abs=1e-6)


def test_a_row_that_is_nearly_constant_stays_short() -> None:
    x = np.ones((3, FEATURES))
    x[1, 0], x[2] = 1.0 + 1e-6, 1e-30 * np.arange(FEATURES)
    rows = sparse_rows(sp.csr_array(x)).toarray()
    assert np.linalg.norm(rows, axis=1).max() <= LONGEST * (1 + 1e-12)
    found = np.linalg.norm(rows - rows.mean(axis=1, keepdims=True), axis=1)
    assert found == pytest.approx([0.0, 0.0, 1.0], abs=1e-5)


def gradients(graph: Graph, clipping_norm: float, *, release: bool) -> tuple[object, torch.Tensor]:
    rows, nodes = rows_of(graph, np.arange(60)), np.arange(60)
    network = linear_model(FEATURES + 2, graph)
    inner = RootGradients(
        network, rows, lone_roots(nodes, graph.y), clipping=global_clipping(clipping_norm)
    )
    made = inner if isinstance(rows, np.ndarray) else CentredGradients(inner, FEATURES)
    if release:
        made.sum_for_release()
    return made, network.initial(rng=np.random.default_rng(2))


@pytest.mark.parametrize("release", [False, True])
def test_a_sum_over_sparse_rows_is_that_over_centred_rows(release: bool) -> None:
    # nothing is clipped, so that both are the gradient itself
    ours, start = gradients(sparse_graph(), 1e3, release=release)
    theirs, _ = gradients(words_graph(), 1e3, release=release)
    for roots in (np.arange(60), np.array([3]), np.arange(0)):
        made = ours(start, roots).numpy().copy()  # type: ignore[operator]
        assert made == pytest.approx(theirs(start, roots).numpy(), abs=2e-5)  # type: ignore[operator]
        assert np.abs(made.reshape(-1, 2)[:FEATURES].mean(axis=0)).max() <= 1e-6


@pytest.mark.parametrize("release", [False, True])
def test_a_term_of_centred_rows_is_clipped(release: bool) -> None:
    ours, start = gradients(sparse_graph(), 0.05, release=release)
    sizes = [float(ours(start, np.array([root])).double().norm()) for root in range(60)]  # type: ignore[operator]
    assert max(sizes) <= 0.05
    # all but the empty row are longer than that before; what the mean adds to a row is clipped as well
    assert sorted(sizes)[1] > 0.03


def test_in_a_release_a_term_is_the_same_to_the_last_bit_whatever_other_roots_are_there() -> None:
    ours, start = gradients(sparse_graph(), 0.05, release=True)
    rng = np.random.default_rng(3)
    for root in (3, 7, 59):
        others = rng.permutation(np.delete(np.arange(60), root))[:20]
        alone = ours(start, np.array([root])).clone()  # type: ignore[operator]
        both = ours(start, np.append(others, root)).clone()  # type: ignore[operator]
        rest = ours(start, others).clone()  # type: ignore[operator]
        # float64 sums: what is left is their own rounding
        assert float((both - rest - alone).abs().max()) <= 1e-15 * 21


@pytest.mark.parametrize("graph", [words_graph(), sparse_graph()], ids=["dense", "sparse"])
def test_a_rows_logits_do_not_depend_on_other_rows_to_the_last_bit(graph: Graph) -> None:
    weight = torch.from_numpy(np.random.default_rng(1).standard_normal((FEATURES + 2, 7))).float()
    named = {next(iter(linear_model(1, graph).shapes)): weight}
    whole = linear_logits(graph, rows_of(graph, np.arange(60)))(named).numpy()
    for nodes in (np.array([4]), np.array([9, 4]), np.arange(1, 60, 7), np.arange(0)):
        part = linear_logits(graph, rows_of(graph, nodes))(named).numpy()
        assert part.tobytes() == whole[nodes].tobytes()
