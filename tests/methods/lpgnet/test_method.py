"""LPGNet's plan, fit, answers and queries."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from contract import DELTA, EPSILON, GRAPH, SPLIT, entry_of
from exhaustive.method_neighbours import examine_method
from helpers import planned_run

from dpgnn import methods
from dpgnn.accountants.calibration import epsilon
from dpgnn.accountants.events import LaplaceRelease, parts
from dpgnn.accountants.plan import Budget, Ledger, Plan
from dpgnn.attacks.queries import ask, fitted_run, with_features
from dpgnn.core import config as strict
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import Store
from dpgnn.methods.base import Context, Facts, Support, facts_of
from dpgnn.methods.lpgnet import degrees, network
from dpgnn.methods.lpgnet.options import LPGNetConfig, PerceptronTraining
from dpgnn.models.inputs import as_input
from dpgnn.models.masks import Masks

EDGE = Support(privacy_unit="edge", relation="add-remove")
METHOD = methods.get("lpgnet")
FACTS = facts_of(GRAPH, SPLIT, None)
STREAMS = Streams(root_seed=3, axes={})


def entry(mode: Any = "sound", **options: Any):
    base = entry_of("lpgnet", mode, None if mode == "nonprivate" else EDGE)
    return dataclasses.replace(base, options=dataclasses.replace(base.options, **options))


def plan_of(mode: Any = "sound", budget: Budget | None = None, facts: Facts = FACTS, **options):
    budget = budget or Budget(epsilon=EPSILON, delta=DELTA)
    return METHOD.plan(entry(mode, **options), facts, budget)


def fit(mode: Any = "sound", graph=GRAPH, streams=STREAMS, **options):
    budget = Budget(epsilon=math.inf if mode == "nonprivate" else EPSILON, delta=DELTA)
    plan = plan_of(mode, budget, **options)
    context = Context(ledger=Ledger(plan), streams=streams, store=Store(None))
    return METHOD.fit(planned_run(entry(mode, **options), graph, SPLIT, None, plan, context))


@pytest.mark.parametrize(("hops", "scale"), [(1, 0.5), (2, 1.0), (4, 2.0)])
def test_the_scale_is_two_hops_over_epsilon(hops, scale):
    plan = plan_of(num_hops=hops)
    ((event, count),) = parts(plan.mechanisms[0].event)
    assert (event, count) == (
        LaplaceRelease(relation="add-remove", scale=scale, sensitivity=2.0), hops
    )  # fmt: skip
    claim = plan.claims[0]
    assert (claim.epsilon, claim.delta, claim.accountant, claim.status) == (
        EPSILON, 0.0, "pure", "proved"
    )  # fmt: skip
    # composed losses of the very event come to the pure figure, and to less at a delta
    spent = epsilon(plan.mechanisms[0].event, delta=1e-9, relation="add-remove")
    assert spent == pytest.approx(EPSILON, rel=2e-3)
    assert epsilon(plan.mechanisms[0].event, delta=1e-2, relation="add-remove") < EPSILON


def test_the_copy_in_progap_has_half_the_noise_and_twice_the_epsilon():
    plan = plan_of("published", directed=True, shared_generator=False)
    assert plan.mechanisms[0].details["scale"] == 0.5
    stated, proved = plan.claims
    assert (stated.epsilon, proved.epsilon) == (EPSILON, 2 * EPSILON)
    assert {"directed-sensitivity", "options-tuned-on-edges"} == set(stated.caveats)


def test_as_the_code_runs_nothing_finite_is_proved():
    stated, proved = plan_of("published").claims
    assert stated.caveats == ("options-tuned-on-edges", "noise-reused")
    assert (stated.epsilon, proved.epsilon, proved.delta) == (EPSILON, math.inf, 0.0)
    _, repaired = plan_of("published", shared_generator=False).claims
    assert repaired.epsilon == EPSILON


def test_given_noise_says_what_it_costs():
    plan = plan_of(budget=Budget(epsilon=math.inf, delta=DELTA, noise_multiplier=0.5))
    assert (plan.mechanisms[0].details["scale"], plan.claims[0].epsilon) == (1.0, 4.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": "multilabel"}, r"lpgnet: task must be multiclass, got 'multilabel'"),
        ({"num_classes": 61}, r"number of clusters \(classes\) must be <= the number of nodes, 60"),
    ],
)
def test_a_plan_refuses_what_has_no_clusters(changes, words):
    facts = dataclasses.replace(FACTS, **changes)
    with pytest.raises(ValueError, match=words):
        plan_of(facts=facts)


def test_bad_options_name_themselves():
    for option, value, words in (
        ("num_hops", 0, "num_hops must be"),
        ("hidden", 0, "hidden must be"),
        ("num_workers", 0, "num_workers must be"),
        ("dropout", 1.0, "dropout must be < 1"),
        ("training", {"selection": "best"}, "selection"),
        ("training", {"num_epochs": 0}, "num_epochs must be"),
    ):
        with pytest.raises(ValueError, match=words):
            strict.read(LPGNetConfig, {option: value})
    with pytest.raises(ValueError, match=r"epsilon must be finite.*nonprivate"):
        plan_of(budget=Budget(epsilon=math.inf, delta=DELTA))


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("sparse", [True, False])
def test_written_out_steps_are_those_of_autograd_and_adam_to_the_bit(layers, dropout, sparse):
    rng = np.random.default_rng(0)
    rows = np.where(rng.random((37, 11)) < 0.3, rng.random((37, 11)), 0.0).astype(np.float32)
    x = as_input(sp.csr_array(rows) if sparse else rows)
    y = torch.from_numpy(rng.integers(5, size=37))
    config = LPGNetConfig(
        num_layers=layers, dropout=dropout, hidden=6,
        training=PerceptronTraining(num_epochs=7, lr=0.05, selection="last"),
    )  # fmt: skip
    ours, theirs = (
        network.Perceptron(11, 5, config, torch.Generator().manual_seed(1)) for _ in range(2)
    )
    kept, history = network.train(
        ours, (x, y), (x, y), config, generator=torch.Generator().manual_seed(2),
        progress=Context(ledger=Ledger(Plan()), streams=STREAMS, store=Store(None)).progress(7, ""),
    )  # fmt: skip
    optimizer = torch.optim.Adam(theirs.parameters(), lr=0.05, weight_decay=5e-4)
    masks = Masks(torch.Generator().manual_seed(2))
    for epoch in range(7):
        optimizer.param_groups[0]["lr"] = 0.05 * (1 - epoch / 7)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(theirs(x, masks), y)
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) == history[-1]["train_loss"]
    for name, value in theirs.state_dict().items():
        assert torch.equal(kept[name], value)


def test_given_the_released_degrees_nothing_reads_an_edge(monkeypatch):
    def fixed(adjacency, clusters, num_clusters, **named):
        return np.random.default_rng(int(clusters.sum())).random((len(clusters), num_clusters))

    empty = dataclasses.replace(GRAPH, edge_index=GRAPH.edge_index[:, :0])
    with degrees.noisy_degrees.answered_by(fixed):
        first, other = fit(), fit(graph=empty)
    for name, value in first.state.items():
        assert torch.equal(value, other.state[name]), name
    first, other = fit(), fit(graph=empty)
    assert not torch.equal(first.state["noisy_state.1"], other.state["noisy_state.1"])


def test_hops_and_places_have_noise_of_their_own():
    state = fit().state
    first, second = (state[f"noisy_state.{hop}"].numpy() for hop in (1, 2))
    assert not np.isclose(first, second, atol=1e-9)[first > 0].any()


def test_labels_outside_the_training_and_validation_nodes_are_not_used():
    y = GRAPH.y.copy()
    y[SPLIT.test_idx] = 1 - y[SPLIT.test_idx]
    first, other = fit(), fit(graph=dataclasses.replace(GRAPH, y=y))
    assert all(torch.equal(value, other.state[name]) for name, value in first.state.items())


def test_the_weights_of_the_smallest_validation_loss_are_kept():
    options = {
        "training": PerceptronTraining(lr=0.5, num_epochs=60),
        "dropout": 0.0,
        "num_hops": 1,
    }
    fitted = fit("nonprivate", **options)
    rows = [row for row in fitted.history if row["hop"] == 1]
    val = torch.from_numpy(SPLIT.val_idx.copy())
    loss = torch.nn.functional.cross_entropy(
        fitted.state["logits"][val], torch.from_numpy(GRAPH.y[SPLIT.val_idx])
    )
    assert float(loss) <= min(row["val_loss"] for row in rows) + 1e-6


def test_a_frozen_query_about_the_graph_itself_gives_the_runs_answers():
    fitted, budget = fit(), Budget(epsilon=EPSILON, delta=DELTA)
    run = fitted_run(entry(), GRAPH, SPLIT, None, budget, STREAMS, state=fitted.state)
    same = ask(run, GRAPH)
    assert np.allclose(same, fitted.state["logits"].numpy(), atol=1e-5)
    nodes = np.arange(20)
    moved = ask(run, with_features(GRAPH, nodes, 1 - GRAPH.x[nodes]))
    assert not np.allclose(moved, same)
    rows, members = run.leaks.noisy_rows(run)
    assert rows.shape == members.shape == (GRAPH.num_nodes, GRAPH.num_classes)
    assert (members.sum(axis=1) == 1).all()


FAULTS = {
    "the noise of one direction": lambda a, c, n, *, scale, **named: REAL(
        a, c, n, scale=scale / 2, **named
    ),
    "an edge counted twice": lambda a, c, n, **named: REAL(a * 2.0, c, n, **named),
}
REAL = degrees.noisy_degrees


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_by_the_neighbour_test(fault, monkeypatch):
    broken = FAULTS[fault]

    def planted(adjacency, clusters, num_clusters, **named):
        return broken(adjacency, clusters, num_clusters, **named)

    from dpgnn.methods.lpgnet import fit as lpgnet_fit

    monkeypatch.setattr(lpgnet_fit, "noisy_degrees", planted)
    budget = Budget(epsilon=EPSILON, delta=DELTA)
    (report,) = examine_method(entry(), budget, max_neighbours=10)
    assert any("shift of the release" in found for found in report.faults)


def test_clusters_made_from_exact_degrees_are_found_by_the_neighbour_test(monkeypatch):
    from dpgnn.methods.lpgnet import fit as lpgnet_fit

    def leaking(adjacency, clusters, num_clusters, **named):
        busy = (np.diff(adjacency.indptr) > 2).astype(np.int64)
        return REAL(adjacency, busy, num_clusters, **named)

    monkeypatch.setattr(lpgnet_fit, "noisy_degrees", leaking)
    (report,) = examine_method(entry(), Budget(epsilon=EPSILON, delta=DELTA), max_neighbours=20)
    assert report.faults
