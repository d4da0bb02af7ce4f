"""The template of a method: one file, one line, and the checks that every method of the table gets."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import template_method
from contract import DELTA, EPSILON, GRAPH, SPLIT, entry_of, run
from exhaustive.method_neighbours import examine_method
from helpers import tells
from models_in_memory import data_of

import dpgnn
from dpgnn import methods
from dpgnn.accountants.plan import Budget
from dpgnn.attacks.queries import ask
from dpgnn.audits import entry_audit
from dpgnn.audits.request import AuditRequest
from dpgnn.core.randomness import Streams
from dpgnn.methods.base import Entry, facts_of
from dpgnn.methods.queries import FittedRun
from dpgnn.release.bundle import save
from dpgnn.release.verify import verify

BUDGET = Budget(epsilon=EPSILON, delta=DELTA)


@pytest.fixture
def entry(monkeypatch: pytest.MonkeyPatch) -> Entry:
    """An entry of the template, which is in the table by its one line."""
    monkeypatch.setitem(methods.TABLE, "template_method", "template_method")
    return entry_of("template_method", "sound", template_method.METHOD.supports[0])


def test_it_runs_within_its_budget_and_repeats(entry: Entry, tmp_path: Path) -> None:
    first, second = (run(tmp_path / name, entry) for name in "ab")
    assert first == second
    assert first["status"] == "ok"
    assert first["claims"][0]["epsilon"] <= EPSILON
    assert [m["name"] for m in first["plan"]["mechanisms"]] == ["sums"]


def test_the_neighbour_test_measures_its_release(entry: Entry) -> None:
    (report,) = examine_method(entry, BUDGET)
    assert report.passed
    assert report.num_neighbours == 66
    assert report.worst == pytest.approx(1.0)


def test_a_sum_of_longer_rows_is_seen(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_method, "unit_rows", lambda rows: 1.5 * rows)
    (report,) = examine_method(entry, BUDGET, max_neighbours=20)
    assert report.faults
    assert report.faults[0].startswith("shift of the release")


def test_a_release_that_is_not_stated_is_refused(
    entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = dataclasses.replace(template_method.METHOD, releases=tuple)
    monkeypatch.setattr(template_method, "METHOD", silent)
    (report,) = examine_method(entry, BUDGET, max_neighbours=4)
    tells(report.faults[0], "no release", "template_method")


@pytest.mark.parametrize(("factor", "accused"), [(1.0, False), (0.2, True)])
def test_the_audit_runs_its_release(
    entry: Entry, monkeypatch: pytest.MonkeyPatch, factor: float, accused: bool
) -> None:
    real = template_method.noised

    def weaker(value: np.ndarray, noise_stddev: float, draw: Any, step: int = 1) -> np.ndarray:
        return np.asarray(real(value, factor * noise_stddev, draw, step))

    monkeypatch.setattr(template_method, "noised", weaker)
    entry_audit.forget()
    request = AuditRequest(entry=entry, budget=BUDGET, num_runs=200)
    (finding,) = entry_audit.audit(request)
    entry_audit.forget()
    assert finding.mechanism == "sums"
    assert finding.verdict is not None
    assert finding.verdict.rejected == accused


def test_an_attack_that_asks_it_is_told_that_it_states_no_answers(entry: Entry) -> None:
    fitted = FittedRun(
        entry=entry, state={}, graph=GRAPH, split=SPLIT, prepared=None,
        plan=methods.get(entry.method).plan(entry, facts_of(GRAPH, SPLIT, None), BUDGET),
        streams=Streams(root_seed=0, axes={}), leaks=template_method.METHOD.leaks,
    )  # fmt: skip
    with pytest.raises(ValueError, match="quer"):
        ask(fitted, GRAPH)


def test_its_bundle_has_the_tensors_that_it_states(entry: Entry, tmp_path: Path) -> None:
    model = dpgnn.fit(
        data_of(), method="template_method", unit="edge", relation="add-remove", epsilon=8,
        delta=1e-3, num_classes=2, seed=1, **template_method.METHOD.example,
    )  # fmt: skip
    states = {check.what: check.state for check in verify(save(model, tmp_path / "bundle"))}
    assert states["tensors"] == states["answers"] == "ok"
    more = dataclasses.replace(model, state={**model.state, "secret.weight": model.state["logits"]})
    with pytest.raises(ValueError, match=r"no secret\.weight"):
        save(more, tmp_path / "other")
