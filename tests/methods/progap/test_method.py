"""ProGAP's fits: what reads what, warm starts, frozen bases, and queries."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from contract import DELTA, EPSILON, GRAPH, SPLIT, entry_of, inputs_of
from exhaustive.method_neighbours import examine_method
from helpers import planned_run

from dpgnn import methods
from dpgnn.accountants.plan import Budget, Ledger
from dpgnn.attacks.queries import ask, fitted_run
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import Store
from dpgnn.methods.base import Context, Support, facts_of
from dpgnn.methods.progap import aggregate, node_model
from dpgnn.methods.progap import fit as progap_fit
from dpgnn.methods.releases import noised
from dpgnn.models.forward import full_graph_logits
from dpgnn.models.trees import lone_roots
from dpgnn.training.clipping import global_clipping
from dpgnn.training.gradients import Execution, RootGradients

METHOD = methods.get("progap")
STREAMS = Streams(root_seed=5, axes={})
UNITS = {"edge": "add-remove", "node-record": "null-one"}
BUDGET = Budget(epsilon=EPSILON, delta=DELTA)


def entry(unit="edge", mode="sound", **options):
    made = entry_of("progap", mode, Support(privacy_unit=unit, relation=UNITS[unit]))
    return dataclasses.replace(made, options=dataclasses.replace(made.options, **options))


def fit(unit="edge", graph=GRAPH, **options):
    asked = entry(unit, **options)
    prepared = inputs_of(asked).prepared
    plan = METHOD.plan(asked, facts_of(graph, SPLIT, prepared), BUDGET)
    context = Context(ledger=Ledger(plan), streams=STREAMS, store=Store(None))
    return METHOD.fit(planned_run(asked, graph, SPLIT, prepared, plan, context))


def same(a, b):
    assert a.state.keys() == b.state.keys()
    return all(torch.equal(value, b.state[name]) for name, value in a.state.items())


def test_given_the_released_sums_nothing_reads_an_edge():
    def fixed(value, noise_stddev, draw, step=1):
        return np.random.default_rng(step).standard_normal(value.shape)

    empty = dataclasses.replace(GRAPH, edge_index=GRAPH.edge_index[:, :0])
    with noised.answered_by(fixed):
        assert same(fit(), fit(graph=empty))
    assert not same(fit(), fit(graph=empty))


def test_labels_of_test_nodes_are_not_used():
    y = GRAPH.y.copy()
    y[SPLIT.test_idx] = 1 - y[SPLIT.test_idx]
    changed = dataclasses.replace(GRAPH, y=y)
    assert same(fit(), fit(graph=changed))
    assert same(fit("node-record"), fit("node-record", graph=changed))


@pytest.mark.parametrize("unit", UNITS)
def test_frozen_bases_stay_and_others_are_trained_on(unit):
    for layerwise in (True, False):
        state = fit(unit, layerwise=layerwise).state
        sent = {n: v for n, v in state.items() if n.startswith("sent.0.") and n.endswith("weight")}
        assert sent
        for name, value in sent.items():
            last = name.replace("sent.0.base.", "last.base.").replace(
                "sent.0.layers", "last.base.0.layers"
            )
            last = last.replace("sent.0.norms", "last.base.0.norms")
            assert torch.equal(value, state[last]) == layerwise, name


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("layerwise", [False, True])
def test_a_frozen_query_about_the_graph_itself_gives_the_runs_answers(unit, layerwise):
    asked, fitted = entry(unit, layerwise=layerwise), fit(unit, layerwise=layerwise)
    prepared = inputs_of(asked).prepared
    run = fitted_run(asked, GRAPH, SPLIT, prepared, BUDGET, STREAMS, state=fitted.state)
    logits = {**fitted.state, **fitted.kept}["logits"].numpy()
    assert np.allclose(ask(run, GRAPH, prepared=prepared), logits, atol=1e-4)


def test_clipped_sums_of_a_stage_are_those_of_one_root_at_a_time():
    config = entry("node-record", base_layers=2, head_layers=2).options
    rng = np.random.default_rng(0)
    x = rng.standard_normal((9, 5 + 8 + 8)).astype(np.float32)
    y = rng.integers(2, size=9)
    network = node_model.stage_network(config, [5, 8, 8], GRAPH)
    flat = network.initial(rng=rng)
    trees = lone_roots(np.arange(9), y)
    sums = RootGradients(network, x, trees, clipping=global_clipping(0.3))
    assert sums.path == "autograd"
    expected = torch.zeros_like(flat)
    for root in range(9):
        leaf = flat.clone().requires_grad_()
        logits = _logits(network, leaf, x[root : root + 1])
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor([y[root]]))
        (gradient,) = torch.autograd.grad(loss, leaf)
        expected += gradient * min(1.0, 0.3 / float(gradient.norm()))
    assert torch.allclose(sums(flat, np.arange(9)), expected, atol=2e-6)
    with pytest.raises(ValueError, match="path"):
        RootGradients(network, x, trees, clipping=None, execution=Execution(path="compiled"))


def _logits(network, leaf, x):
    from dpgnn.models.forward import evaluate, graph_layout

    layout = graph_layout(np.zeros((2, 0), dtype=np.int64), len(x), "gcn")
    return evaluate(network, network.views(leaf), layout, torch.from_numpy(x))


def test_a_row_of_a_stage_reads_no_other_row():
    config = entry("node-record").options
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 5 + 8)).astype(np.float32)
    network = node_model.stage_network(config, [5, 8], GRAPH)
    weights = network.named(network.initial(rng=rng))
    before = full_graph_logits(network, weights, x, None)
    x[0] *= -3.0
    after = full_graph_logits(network, weights, x, None)
    assert not torch.allclose(before[0], after[0])
    assert torch.allclose(before[1:], after[1:], atol=1e-6)


FAULTS = {
    "weights above one": lambda adjacency, x0, **named: REAL(adjacency * 1.5, x0, **named),
    "edges counted twice": lambda adjacency, x0, **named: REAL(adjacency * 2.0, x0, **named),
}
REAL = aggregate.noisy_sum


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_by_the_neighbour_test(unit, fault, monkeypatch):
    monkeypatch.setattr(progap_fit, "noisy_sum", FAULTS[fault])
    node = dataclasses.replace(entry().options.node, max_degree=8)
    reports = examine_method(entry(unit, node=node), BUDGET, max_neighbours=30)
    found = [
        text for report in reports for text in report.faults if report.mechanism == "aggregate"
    ]
    assert any("shift of the release" in text for text in found)


def test_a_hop_that_is_left_out_is_found_by_the_neighbour_test(monkeypatch):
    def once(stages, stage, channels, *arguments):
        return REAL_NEXT(stages, stage, channels, *arguments) if stage == 0 else channels[-1]

    monkeypatch.setattr(progap_fit, "next_channel", once)
    reports = examine_method(entry(), BUDGET, max_neighbours=10)
    assert any(report.faults for report in reports)


REAL_NEXT = progap_fit.next_channel
