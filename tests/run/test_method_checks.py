"""A run stops, naming the method, where a plan, a fit or an answer is not what was asked for."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from contract import GRAPH, entry_of, inputs_of

from dpgnn import methods
from dpgnn.core.storage import read_parquet
from dpgnn.methods.base import Method, PlannedRun, Support
from dpgnn.run.execute import run_one

NODE = Support(privacy_unit="node", relation="add-remove")


def patched(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Method:
    """DP-MLP with some of its functions replaced."""
    method = methods.get("dp_mlp")
    changed = dataclasses.replace(method, **changes)
    monkeypatch.setattr(methods, "get", lambda name: changed)
    return method


def made(folder: Path, randomness: Any = "study") -> Any:
    return run_one(
        inputs_of(entry_of("dp_mlp", "sound", NODE), randomness=randomness), folder, work=None
    )


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (
            {"privacy_unit": "edge"},
            "first claim must be of node, add-remove, got 'edge, add-remove'",
        ),
        (
            {"relation": "replace-one"},
            "first claim must be of node, add-remove, got 'node, replace-one'",
        ),
        ({"epsilon": 50.0}, "first claim's epsilon must be <= 4, got 50"),
        (None, "must have a claim, got 'none'"),
    ],
)
def test_a_plan_that_claims_something_else_is_a_failed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any, rule: str
) -> None:
    def plan(entry: Any, facts: Any, budget: Any) -> Any:
        right = method.plan(entry, facts, budget)
        if change is None:
            return dataclasses.replace(right, claims=(), mechanisms=())
        return dataclasses.replace(right, claims=(dataclasses.replace(right.claims[0], **change),))

    method = patched(monkeypatch, plan=plan)
    record = made(tmp_path)
    assert record.status == "failed"
    assert "dp_mlp: plan of" in record.reason
    assert rule in record.reason


def test_a_plan_that_is_none_is_a_failed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patched(monkeypatch, plan=lambda entry, facts, budget: None)
    record = made(tmp_path)
    assert record.status == "failed"
    assert "must be a Plan, got 'NoneType'; return one from `plan`" in record.reason


def test_a_plan_with_a_wrong_type_is_a_failed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan(entry: Any, facts: Any, budget: Any) -> Any:
        raise TypeError("FixedSizeRoots cannot be counted under add-remove")

    patched(monkeypatch, plan=plan)
    record = made(tmp_path)
    assert (record.status, record.reason[:26]) == ("failed", "plan: FixedSizeRoots canno")


@pytest.mark.parametrize(
    ("give", "rule"),
    [
        (lambda right: None, "be a Fitted, got 'NoneType'"),
        (
            lambda right: dataclasses.replace(right, state={"w": np.zeros(2)}),
            "state w must be a tensor, got 'ndarray'",
        ),
        (lambda right: dataclasses.replace(right, history=({"epsilon": 1.0},)), "have a step"),
        (
            lambda right: dataclasses.replace(
                right, state={**right.state, "logits": torch.zeros(60, 2)}
            ),
            "state must hold only what a claim on weights covers.*, got 'logits'",
        ),
    ],
)
def test_a_fit_that_gives_something_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, give: Any, rule: str
) -> None:
    method = patched(monkeypatch, fit=lambda run: give(method.fit(run)))
    with pytest.raises(ValueError, match=f"dp_mlp: what fit gives for .*{rule}"):
        made(tmp_path)
    assert not (tmp_path / "record.json").exists()


@pytest.mark.parametrize("randomness", ["study", "release"])
@pytest.mark.parametrize(
    "bend",
    [
        lambda logits: logits[:-1],
        lambda logits: torch.cat([logits, logits]),
        lambda logits: torch.cat([logits, logits], dim=1),
        lambda logits: logits[:, 0],
        lambda logits: logits.numpy(),
    ],
)
def test_answers_of_another_shape_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bend: Any, randomness: Any
) -> None:
    def predict(*arguments: Any) -> Any:
        right = method.predict(*arguments)
        return SimpleNamespace(logits=bend(right.logits), answers=right.answers, note=right.note)

    method = patched(monkeypatch, predict=predict)
    with pytest.raises(ValueError, match=r"dp_mlp: logits that predict gives for .* must"):
        made(tmp_path, randomness)
    assert not (tmp_path / "record.json").exists()


def test_a_release_keeps_no_column_but_steps_and_epsilon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ({"step": 1, "epsilon": 0.5, "loss": 2.5},)
    method = patched(
        monkeypatch, fit=lambda run: dataclasses.replace(method.fit(run), history=rows)
    )
    for randomness, columns in (
        ("release", {"step", "epsilon"}),
        ("study", {"step", "epsilon", "loss"}),
    ):
        made(tmp_path / randomness, randomness)
        found = read_parquet(tmp_path / randomness / "history.parquet")
        assert set(found.column_names) == columns


def test_a_method_that_says_it_reads_no_edge_gets_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def fit(run: PlannedRun) -> Any:
        seen.append(run.graph.num_edges)
        return method.fit(run)

    def predict(entry: Any, fitted: Any, graph: Any, nodes: Any) -> Any:
        seen.append(graph.num_edges)
        return method.predict(entry, fitted, graph, nodes)

    for uses_edges in (False, True):
        method = patched(monkeypatch, fit=fit, predict=predict, uses_edges=uses_edges)
        made(tmp_path / str(uses_edges))
        monkeypatch.undo()
    assert seen[:2] == [0, 0]
    assert seen[2:] == [GRAPH.num_edges, GRAPH.num_edges]


@pytest.mark.parametrize("unit", ["node-bounded", "node-record"])
def test_a_node_level_run_that_writes_its_logits_into_the_model_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: str
) -> None:
    gap = methods.get("gap")

    def fit(run: PlannedRun) -> Any:
        fitted = gap.fit(run)
        return dataclasses.replace(fitted, state={**fitted.state, **fitted.kept})

    monkeypatch.setattr(methods, "get", lambda name: dataclasses.replace(gap, fit=fit))
    entry = entry_of("gap", "sound", Support(privacy_unit=unit, relation="add-remove"))
    with pytest.raises(ValueError, match=r"gap: what fit gives for .*: state must .*got 'logits'"):
        run_one(inputs_of(entry), tmp_path, work=None)
    assert not (tmp_path / "record.json").exists()
