"""Audits and attacks keep what makes their verdicts mean something."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from exhaustive.method_neighbours import examine_method
from exhaustive.worlds import make_world, neighbours

from dpgnn import methods
from dpgnn.accountants.composition import curve
from dpgnn.accountants.events import compose, parts
from dpgnn.accountants.plan import Budget
from dpgnn.attacks import linkteller, statistics
from dpgnn.audits.findings import Finding
from dpgnn.audits.one_run import OneRun
from dpgnn.audits.one_run_audit import audit_in_one_run
from dpgnn.audits.request import AuditRequest, case_of
from dpgnn.core import config as strict
from dpgnn.methods.base import Entry


def dp_mlp(**training):
    chosen = methods.get("dp_mlp")
    options = {"width": 4, "training": {"num_steps": 8, "expected_batch_size": "full"} | training}
    return Entry(
        name="e", method="dp_mlp", mode="sound", privacy_unit="node", relation="add-remove",
        options=strict.read(chosen.config, options),
    )  # fmt: skip


@pytest.mark.parametrize(("p_value", "outcome"), [(0.02, "passed"), (0.009, "failed")])
def test_right_guesses_that_the_claim_of_the_steps_does_not_admit_fail(p_value, outcome):
    run = OneRun(num_canaries=50, num_guesses=20, num_correct=20, epsilon_lower_bound=1.0,
                 confidence=0.99, delta=1e-5, p_value=p_value)  # fmt: skip
    finding = Finding(
        mechanism="train", attack="one run", verdict=None, one_run=run, claimed_of_steps=2.0
    )
    assert finding.outcome == outcome


def test_one_run_of_fewer_steps_is_held_against_the_claim_of_as_many():
    request = AuditRequest(entry=dp_mlp(), budget=Budget(epsilon=4.0, delta=1e-4), max_steps=3)
    ((event, planned),) = parts(case_of(request).plan.mechanisms[0].event)
    (finding,) = audit_in_one_run(request, 8)
    assert planned == 8
    assert finding.num_steps == 3
    assert finding.claimed_of_steps == pytest.approx(curve(compose(event, 3)).epsilon(1e-4))


def test_one_side_with_more_changed_roots_than_counted_is_a_fault(monkeypatch):
    """Own lists of two: three roots of G lose their equal and two of G' gain one, counted as (2, 2)."""
    real = methods.get("dp_gnn")
    training = {"num_steps": 4, "expected_batch_size": 5}
    entry = Entry(
        name="e", method="dp_gnn", mode="sound", privacy_unit="node-record", relation="add-remove",
        options=strict.read(real.config, {"width": 4, "max_degree": 2, "training": training}),
    )  # fmt: skip

    def plan(*arguments):
        made = real.plan(*arguments)
        ((event, count),) = parts(made.mechanisms[0].event)
        assert (event.d_plus, event.d_minus) == (3, 2)
        fewer = compose(dataclasses.replace(event, d_plus=2), count)
        return dataclasses.replace(
            made, mechanisms=(dataclasses.replace(made.mechanisms[0], event=fewer),)
        )

    monkeypatch.setattr("dpgnn.methods.get", lambda name: dataclasses.replace(real, plan=plan))
    (report,) = examine_method(entry, Budget(epsilon=4.0, delta=1e-3))
    assert any(fault.startswith("changed roots") for fault in report.faults), report.faults


@pytest.mark.parametrize("owner", ["source", "target"])
@pytest.mark.parametrize("unit", ["node", "node-bounded", "node-record"])
def test_an_emptied_node_keeps_its_id_and_nothing_else(unit, owner):
    edges = np.array([[0, 1], [0, 2], [1, 2], [2, 3]]).T
    world = make_world(np.concatenate([edges, edges[::-1]], axis=1), 5)
    pairs = list(neighbours(world, unit, "null-one", owner=owner, rng=np.random.default_rng(0),
                            degree_bound=4))  # fmt: skip
    assert len(pairs) == 5
    for (node,), first, second in pairs:
        assert first is world
        assert second.present.all()
        assert second.values[node] != first.values[node]
        mine = second.arcs[0 if owner == "source" else 1] == node
        assert not mine.any()
        touched = (second.arcs == node).any()
        assert touched == (unit == "node-record" and (world.arcs == node).any())


def test_a_threshold_is_tested_on_the_half_it_was_not_chosen_on():
    half = 200
    second = np.random.default_rng(0).standard_normal(2 * half)
    scores = np.concatenate([np.full(half, 5.0), second[:half], np.full(half, -5.0), second[half:]])
    member = np.arange(4 * half) < 2 * half
    straight = SimpleNamespace(permutation=np.arange)
    found = statistics.line_test(
        scores,
        member,
        epsilon=0.5,
        delta=0.0,
        level=0.05,
        rng=straight,  # type: ignore[arg-type]
    )
    assert not found.crossed
    assert found.epsilon_lower_bound < 1.0


@pytest.mark.parametrize("method", sorted(methods.TABLE))
@pytest.mark.parametrize("noise", ["frozen", "fresh"])
def test_answers_are_covered_only_where_a_query_reads_what_was_released_once(method, noise):
    if methods.get(method).queries is None:
        pytest.skip("every attack that asks it refuses it")
    for mode, unit in (("sound", "edge"), ("sound", "node-bounded"), ("nonprivate", None)):
        entry = SimpleNamespace(method=method, mode=mode, privacy_unit=unit)
        wanted = noise == "frozen" and unit == "edge" and method in (
            "edgerand", "lapgraph", "pertgraph", "dpdgc",
        )  # fmt: skip
        assert linkteller.is_covered(SimpleNamespace(entry=entry), noise) == wanted
