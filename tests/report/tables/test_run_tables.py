"""The tables of runs: without a result, their cost, their data, all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dpgnn.core.paths import Paths
from dpgnn.core.storage import write_json
from dpgnn.records.cells import build_cells
from dpgnn.records.frame import Run
from dpgnn.records.info import StudyInfo
from dpgnn.report.tables.run_tables import cost_table, datasets_table, runs_table, status_table
from dpgnn.report.tables.table import to_csv


def failed(run: Run, status: str = "failed", reason: str = "plan: epsilon is too small") -> Run:
    return replace(run, record=replace(run.record, status=status, reason=reason))  # type: ignore[arg-type]


def test_the_status_table_tells_failed_missing_unavailable_and_released_apart(
    runs: list[Run], info: StudyInfo
) -> None:
    released = replace(runs[3], record=replace(runs[3].record, metrics={}))
    changed = [
        failed(runs[0]),
        failed(runs[1], "not-available", "no raw files"),
        released,
        *runs[4:],
    ]
    table = status_table(changed, info)
    found = {(row.entry, row.repeats): row.status for row in table.rows}
    assert found == {
        ("mlp", "0"): "failed",
        ("mlp", "1"): "not-available",
        ("mlp", "2"): "not run",
        ("gcn", "0"): "released",
    }


def test_costs_are_sums_over_the_runs_of_an_entry(runs: list[Run], info: StudyInfo) -> None:
    rows = cost_table(build_cells(runs, info)).rows
    row = next(row for row in rows if (row.dataset, row.entry) == ("alpha", "dp_mlp"))
    assert (row.runs, row.total_seconds, row.max_seconds) == (6, 18.0, 4.0)


def test_a_release_tells_no_time_and_no_memory(runs: list[Run], info: StudyInfo) -> None:
    secret = [
        replace(run, record=replace(run.record, randomness={"kind": "release"}))
        if run.record.key["entry"] == "dp_mlp" else run
        for run in runs
    ]  # fmt: skip
    cells = build_cells(secret, info)
    entries = {cell.entry for cell in cells}
    assert {row.entry for row in cost_table(cells).rows} == entries - {"dp_mlp"} < entries


def test_data_sets_have_the_counts_of_their_graph_and_of_the_runs(
    tmp_path: Path, runs: list[Run]
) -> None:
    meta = {"num_nodes": 1000, "num_edges": 4000, "num_features": 4, "num_classes": 3}
    origin = {"licence": "CC0", "version": "1", "citation": "someone2020"}
    path = tmp_path / "graphs" / "alpha" / "graph.json"
    write_json(path, meta | {"task": "multiclass", "provenance": origin})
    rows = datasets_table(runs, Paths(results=tmp_path)).rows
    assert [row.dataset for row in rows] == ["alpha", "beta"]
    assert (rows[0].num_edges, rows[0].licence, rows[0].num_test) == (4000, "CC0", "200")
    # without its graph's file, what the records say
    assert (rows[1].num_nodes, rows[1].num_edges, rows[1].num_train) == (1000, None, "600")


def test_declared_numbers_of_training_nodes_are_no_counts(tmp_path: Path, runs: list[Run]) -> None:
    declared = {"public_population": True, "num_train": 2000, "num_nodes": 5000}

    def with_declared(some: list[Run]) -> list[Run]:
        return [
            replace(run, record=replace(run.record, facts={**run.record.facts, **declared}))
            for run in some
        ]

    some = [run for run in runs if run.record.key["dataset"] == "beta"]
    (row,) = datasets_table([*with_declared(some[:2]), *some[2:]], Paths(results=tmp_path)).rows
    assert (row.num_train, row.num_nodes) == ("600", 1000)
    (row,) = datasets_table(with_declared(some), Paths(results=tmp_path)).rows
    assert row.num_train == "2000 (declared)"


def test_a_release_with_declared_numbers_tells_no_count(tmp_path: Path, runs: list[Run]) -> None:
    """Neither the number of nodes nor that of edges, which tell neighbouring graphs apart."""
    declared = {"public_population": True, "num_train": 2000, "num_nodes": 5000}
    some = [
        replace(run, record=replace(
            run.record, facts={**run.record.facts, **declared}, randomness={"kind": "release"},
        ))
        for run in runs if run.record.key["dataset"] == "alpha"
    ]  # fmt: skip
    paths = Paths(results=tmp_path)
    write_json(paths.graph("alpha") / "graph.json", {"num_nodes": 4711, "num_edges": 4000})
    (row,) = datasets_table(some, paths).rows
    assert (row.num_nodes, row.num_edges, row.num_train) == (5000, None, "2000 (declared)")


def test_every_run_is_a_row_of_the_table_of_runs(runs: list[Run]) -> None:
    lines = to_csv(runs_table([failed(runs[0]), *runs[1:]])).splitlines()
    assert len(lines) == 61
    assert "plan: epsilon is too small" in lines[1]
