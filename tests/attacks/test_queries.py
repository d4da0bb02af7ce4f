"""What a method does not state is refused, and what it states is passed on."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from attack_models import SHORT, STAGES, fitted
from helpers import two_community_graph

from dpgnn import methods
from dpgnn.accountants.plan import Budget
from dpgnn.accountants.population import PublicPopulation
from dpgnn.attacks.influence import path_of
from dpgnn.attacks.queries import (
    ask,
    fitted_run,
    has_noise,
    why_not_other_features,
    why_not_other_graph,
    with_features,
)
from dpgnn.methods.queries import Queries

SAMPLED = {**STAGES, "bounding": "sampled", "drop_last_node": True}
SMALL = {"hidden": [4], "training": {"num_epochs": 2}}


def test_a_method_that_states_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    run = fitted("gcn", options=SMALL)
    silent = dataclasses.replace(methods.get("gcn"), queries=None)
    monkeypatch.setattr(methods, "get", lambda name: silent)
    for asked in (
        lambda: ask(run, run.graph),
        lambda: path_of(run, "frozen"),
        lambda: why_not_other_features(run),
    ):
        with pytest.raises(ValueError, match="queries of method gcn must be stated, got None"):
            asked()


def test_without_layers_every_query_takes_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    run, real = fitted("gcn", options=SMALL), methods.get("gcn")
    for disjoint, way in ((False, "one by one"), (True, "copies")):
        stated = dataclasses.replace(real, queries=Queries(disjoint=disjoint))
        monkeypatch.setattr(methods, "get", lambda name, stated=stated: stated)
        assert path_of(run, "frozen") == way


def test_a_release_cannot_repeat_its_noise_and_a_feature_model_needs_none() -> None:
    edge = {"mode": "sound", "unit": "edge", "relation": "add-remove"}
    noisy = fitted("edgerand", **edge, options={"gcn": SMALL})
    plain = fitted("gcn", options=SMALL)
    assert (has_noise(noisy), has_noise(plain)) == (True, False)
    released = [
        dataclasses.replace(run, streams=dataclasses.replace(run.streams, randomness="release"))
        for run in (noisy, plain)
    ]
    assert [why_not_other_features(run) == "" for run in released] == [False, True]


def test_models_of_rows_of_the_adjacency_know_no_other_graph() -> None:
    options = {"head": SHORT, "node": STAGES}
    private = fitted("dpdgc", mode="sound", unit="edge", relation="add-remove", options=options)
    plain = fitted("dpdgc", options=options)
    assert why_not_other_features(private) == ""
    assert why_not_other_features(plain) != ""
    assert why_not_other_graph(private) != ""
    with pytest.raises(ValueError, match="queries must be answerable"):
        ask(plain, plain.graph)


def test_frozen_noise_is_of_the_graph_of_the_fit() -> None:
    run = fitted(
        "gap", mode="sound", unit="edge", relation="add-remove",
        options={"num_hops": 1, "head": SHORT},
    )  # fmt: skip
    larger = two_community_graph(62)
    with pytest.raises(ValueError, match="noise must be fresh on a graph of other nodes"):
        ask(run, larger)
    assert ask(run, larger, noise="fresh").shape == (62, larger.num_classes)


def test_a_model_that_lacks_what_its_answers_read_is_fitted_again() -> None:
    run = fitted(
        "caribou", mode="published", unit="node-bounded", relation="replace-one",
        options={"variant": "as-released", "num_hops": 2, "head": SHORT, "node": SAMPLED},
    )  # fmt: skip
    # the head's means of private rows are in no model
    assert not [name for name in run.state if "running" in name]
    stored = fitted_run(
        run.entry, run.graph, run.split, run.prepared, Budget(epsilon=4.0, delta=1e-3), run.streams,
        state=run.state,
    )  # fmt: skip
    assert np.array_equal(ask(stored, run.graph), ask(run, run.graph))


@pytest.mark.parametrize("sparse", [False, True])
def test_other_features_stand_at_their_nodes_only(sparse: bool) -> None:
    graph = two_community_graph(20)
    x = graph.dense_x()
    values = np.ones((2, x.shape[1]), dtype=np.float32)
    if sparse:
        graph = dataclasses.replace(graph, x=sp.csr_array(x))
    changed = with_features(graph, np.array([3, 11]), values)
    expected = np.array(x)
    expected[[3, 11]] = 1.0
    assert sp.issparse(changed.x) == sparse
    assert np.array_equal(changed.dense_x(), expected)


def test_a_run_under_attack_has_the_plan_of_its_declared_population() -> None:
    options = {"width": 4, "training": {"num_steps": 2, "expected_batch_size": 8}}
    run = fitted("dp_mlp", mode="sound", unit="node", relation="add-remove", options=options)
    declared = fitted_run(
        run.entry, run.graph, run.split, run.prepared, Budget(epsilon=4.0, delta=1e-3), run.streams,
        state={}, population=PublicPopulation(nodes=100, training=80),
    )  # fmt: skip
    for found, num_train in ((run, len(run.split.train_idx)), (declared, 80)):
        assert found.plan.mechanism("train").details["sampling_probability"] == 8 / num_train
