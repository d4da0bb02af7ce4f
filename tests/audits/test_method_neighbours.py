"""The neighbour test of whole methods must see what breaks, and what cannot be measured."""

import dataclasses
import importlib

import numpy as np
import pytest
from exhaustive.method_neighbours import examine_method, small_world
from exhaustive.worlds import make_world
from helpers import tells

from dpgnn import methods
from dpgnn.accountants.events import GaussianRelease
from dpgnn.accountants.plan import Budget, Mechanism
from dpgnn.core import config as strict
from dpgnn.methods.base import Entry

BUDGET = Budget(epsilon=4.0, delta=1e-3)


def entry(method, unit, relation="add-remove", options=None):
    chosen = methods.get(method)
    return Entry(
        name=method, method=method, mode="sound", privacy_unit=unit, relation=relation,
        options=strict.read(chosen.config, chosen.example if options is None else options),
    )  # fmt: skip


def dp_gnn():
    training = {"num_steps": 4, "expected_batch_size": 5}
    return entry(
        "dp_gnn", "node-record", options={"width": 4, "max_degree": 2, "training": training}
    )


def gap_node():
    stage = {"batch_size": 5, "num_epochs": 2}
    head = {"hidden": 4, "encoder_layers": 0}
    node = {"max_degree": 2, "encoder": stage, "head": stage}
    return entry("gap", "node-record", options={"num_hops": 1, "head": head, "node": node})


def faults_of(chosen):
    return {report.mechanism: report.faults for report in examine_method(chosen, BUDGET)}


def test_the_small_world_has_a_hub_and_both_directions():
    world = small_world()
    degrees = np.bincount(world.arcs[0], minlength=world.num_nodes)
    assert degrees.max() >= 7
    assert degrees.min() >= 1


def test_the_bound_of_own_lists_is_reached():
    (report,) = examine_method(dp_gnn(), BUDGET)
    assert report.passed
    assert report.num_neighbours == small_world().num_nodes
    assert report.worst == 1.0


def test_a_mechanism_that_nothing_measures_fails(monkeypatch):
    gap = methods.get("gap")
    release = GaussianRelease(relation="add-remove", noise_stddev=1.0, sensitivity=1.0)
    unknown = Mechanism(name="degrees", event=release, noise_stddev=1.0, sensitivity=1.0)

    def plan(*arguments):
        made = gap.plan(*arguments)
        return dataclasses.replace(made, mechanisms=(*made.mechanisms, unknown))

    monkeypatch.setattr("dpgnn.methods.get", lambda name: dataclasses.replace(gap, plan=plan))
    faults = faults_of(entry("gap", "edge"))
    assert not faults["aggregate"]
    tells(faults["degrees"][0], "no release", "gap")


def test_a_method_that_reads_edges_past_its_sampler_fails(monkeypatch):
    """The perceptron is given each node's degree: nobody's list, so nobody's record."""
    from dpgnn.methods import dp_mlp

    real = dp_mlp.fit

    def fit(run):
        graph = run.graph
        x = graph.x * (1 + np.bincount(graph.edge_index[0], minlength=graph.num_nodes)[:, None])
        wider = dataclasses.replace(graph, x=x.astype(np.float32))
        return real(dataclasses.replace(run, graph=wider))

    method = dataclasses.replace(methods.get("dp_mlp"), fit=fit)
    monkeypatch.setattr("dpgnn.methods.get", lambda name: method)
    options = {
        "width": 4,
        "row_norm": "none",
        "training": {"num_steps": 4, "expected_batch_size": 5},
    }
    (fault, *_) = faults_of(entry("dp_mlp", "node-record", options=options))["train"]
    assert "whose record holds an edge" in fault


def test_a_fault_in_the_occurrence_cap_is_seen_without_any_draw(monkeypatch):
    from dpgnn.samplers import own_list

    real, called = own_list.top_k_slots, []

    def no_cap(arcs, num_nodes, capacity, **named):
        called.append(capacity)
        return real(arcs, num_nodes, 1000, **named)

    monkeypatch.setattr(own_list, "top_k_slots", no_cap)
    monkeypatch.setattr("dpgnn.samplers.subgraphs.Subgraphs.check", lambda self, size: self)
    faults = faults_of(dp_gnn())["train"]
    assert called
    assert any(fault.startswith("changed roots") for fault in faults)
    assert any(
        fault.startswith("shift of the release") for fault in faults_of(gap_node())["aggregate"]
    )


def test_clipping_to_twice_the_norm_is_seen_in_the_sums(monkeypatch):
    from dpgnn.training.compiled import CompiledEngine

    real, called = CompiledEngine.add_clipped_sum, []

    def twice(self, named, chunk, parts, *rest, **named_rest):
        called.append(1)
        return real(self, named, chunk, (parts[0], np.asarray(parts[1]) * 2), *rest, **named_rest)

    monkeypatch.setattr(CompiledEngine, "add_clipped_sum", twice)
    training = {"num_steps": 4, "expected_batch_size": 5}
    faults = faults_of(entry("dp_mlp", "node", options={"width": 4, "training": training}))
    assert called
    assert any(fault.startswith("shift of the clipped sum") for fault in faults["train"])


def test_a_gradient_that_mixes_roots_is_seen(monkeypatch):
    from dpgnn.training.gradients import RootGradients

    real = RootGradients.__call__

    def mixed(self, parameters, roots):
        total = real(self, parameters, roots)
        return total * (1 + 0.01 * float(self.trees.y.sum()))

    monkeypatch.setattr(RootGradients, "__call__", mixed)
    training = {"num_steps": 4, "expected_batch_size": 5}
    faults = faults_of(entry("dp_mlp", "node", options={"width": 4, "training": training}))
    assert any(fault.startswith("a gradient depends on other roots") for fault in faults["train"])


def test_too_small_a_sensitivity_of_a_release_is_seen(monkeypatch):
    monkeypatch.setattr("dpgnn.methods.gap.plan.SQRT2", 1.0)
    faults = faults_of(entry("gap", "edge"))["aggregate"]
    assert "moves 1.41421 of 1" in faults[0]


def caribou_node(release, max_degree=12):
    stage = {"batch_size": 5, "num_epochs": 2}
    head = {"hidden": 4, "encoder_layers": 0}
    node = {"max_degree": max_degree, "encoder": stage, "head": stage}
    layer = {"num_hops": 2, "contraction": 0.9, "beta": 1.0, "alpha1": 1.0}
    options = {**layer, "head": head, "node": node, "release": release}
    return entry("caribou", "node-bounded", "null-one", options=options)


def path_world():
    """A path of twelve nodes, ten of them for training."""
    first = np.arange(11)
    pairs = np.stack([first, first + 1])
    return make_world(np.concatenate([pairs, pairs[::-1]], axis=1), 12, np.arange(10))


@pytest.mark.parametrize("release", ["weights", "noisy-state"])
def test_hops_of_caribou_stay_within_their_sensitivity(release):
    assert not faults_of(caribou_node(release))["aggregate"]
    reports = examine_method(caribou_node(release, 2), BUDGET, world=path_world())
    assert all(report.passed for report in reports)


def test_states_that_are_not_brought_back_into_the_ball_are_seen(monkeypatch):
    monkeypatch.setattr("dpgnn.methods.shared.aggregate.project_rows", lambda rows: rows)
    for release in ("weights", "noisy-state"):
        faults = faults_of(caribou_node(release))["aggregate"]
        assert any(fault.startswith("shift of the release") for fault in faults)
    monkeypatch.setitem(importlib.import_module("dpgnn.methods.gap.fit").NORMALIZE, "l2", np.copy)
    faults = faults_of(entry("gap", "edge"))["aggregate"]
    assert any(fault.startswith("shift of the release") for fault in faults)


def test_a_missing_projection_before_the_noise_is_seen_with_own_rows(monkeypatch):
    """With own rows released, the state that enters the draw lies in the ball itself."""
    from dpgnn.methods.shared import aggregate

    def without(x, noisy, *, emptied, own_rows):
        return aggregate.project_rows(x if noisy is None else noisy(x))

    monkeypatch.setattr(aggregate, "end_of_hop", without)
    reports = examine_method(caribou_node("noisy-state", 2), BUDGET, world=path_world())
    (faults,) = [report.faults for report in reports if report.mechanism == "aggregate"]
    assert any(fault.startswith("shift of the release") for fault in faults)


def test_a_record_outside_a_mechanisms_population_may_not_move_it(monkeypatch):
    """The board of votes is for training nodes; a plan that says it is for the others is wrong."""
    method = methods.get("votes")

    def swapped(*given):
        plan = method.plan(*given)
        mechanisms = [
            dataclasses.replace(m, population="others" if m.name == "board" else m.population)
            for m in plan.mechanisms
        ]
        return dataclasses.replace(plan, mechanisms=tuple(mechanisms))

    wrong = dataclasses.replace(method, plan=swapped)
    monkeypatch.setattr(methods, "get", lambda name: wrong)
    faults = {r.mechanism: r.faults for r in examine_method(entry("votes", "node-record"), BUDGET)}
    assert faults["board"][0].startswith("entered by a record of another population")
    assert not faults["train"] + faults["second-board"]
