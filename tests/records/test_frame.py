"""Records become rows: one per run, scores only where a run succeeded."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from dpgnn.core.storage import DamagedFileError, write_json
from dpgnn.records.frame import Run, load_runs, to_frame
from dpgnn.records.schema import Record


def lay_out(folder: Path, runs: list[Run]) -> None:
    for run in runs:
        write_json(folder / run.name / "record.json", run.record)
        write_json(folder / run.name / "resources.json", run.resources)


def test_each_run_is_one_row_with_its_key_and_scores(runs: list[Run]) -> None:
    frame = to_frame(runs)
    assert len(frame) == len(runs) == 60
    row = frame.filter(entry="dp_mlp", dataset="alpha", epsilon="8", repeat=0).row(0, named=True)
    assert row["score"] == row["accuracy"] == pytest.approx(0.69)
    assert (row["metric"], row["num_test"], row["seconds"]) == ("accuracy", 200, 2.0)
    assert (row["privacy_unit"], row["claim_status"], row["spent_epsilon"]) == (
        "node",
        "proved",
        8.0,
    )


def test_a_run_without_privacy_has_an_infinite_budget_and_no_claim(runs: list[Run]) -> None:
    row = to_frame(runs).filter(entry="mlp", dataset="alpha", repeat=0).row(0, named=True)
    assert math.isinf(row["target_epsilon"])
    assert (row["spent_epsilon"], row["claim_status"]) == (None, None)


def test_a_multi_label_run_is_scored_by_micro_f1(runs: list[Run]) -> None:
    record = runs[0].record
    metrics = {"test": {**record.metrics["test"], "micro_f1": 0.123}}
    record = replace(record, facts={**record.facts, "task": "multilabel"}, metrics=metrics)
    row = to_frame([replace(runs[0], record=record)]).row(0, named=True)
    assert (row["metric"], row["score"], row["val_score"]) == ("micro_f1", 0.123, None)


def test_a_failed_run_has_no_score_even_when_its_record_holds_metrics(runs: list[Run]) -> None:
    failed = replace(runs[0], record=replace(runs[0].record, status="failed", reason="plan: no"))
    row = to_frame([failed]).row(0, named=True)
    assert (row["score"], row["accuracy"], row["reason"]) == (None, None, "plan: no")


def test_runs_are_loaded_in_the_planned_order_and_others_are_left_alone(
    tmp_path: Path, runs: list[Run]
) -> None:
    lay_out(tmp_path, runs[:4])
    wanted = [runs[2].name, runs[0].name, runs[10].name]
    assert [run.name for run in load_runs(tmp_path, wanted)] == wanted[:2]
    assert len(load_runs(tmp_path)) == 4
    assert load_runs(tmp_path, wanted)[0].resources["seconds"] == 4.0


def test_a_record_in_another_runs_folder_is_refused(tmp_path: Path, runs: list[Run]) -> None:
    write_json(tmp_path / runs[1].name / "record.json", runs[0].record)
    with pytest.raises(ValueError, match="be that of its folder"):
        load_runs(tmp_path)


def test_a_damaged_record_is_named(tmp_path: Path, runs: list[Run]) -> None:
    path = tmp_path / runs[0].name / "record.json"
    path.parent.mkdir(parents=True)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(DamagedFileError, match=r"record\.json must be JSON"):
        load_runs(tmp_path)


def test_a_score_that_is_not_finite_is_refused(runs: list[Run]) -> None:
    record: Record = runs[0].record
    metrics = {"test": {**record.metrics["test"], "accuracy": "inf"}}
    with pytest.raises(ValueError, match="be a finite number"):
        to_frame([replace(runs[0], record=replace(record, metrics=metrics))])
