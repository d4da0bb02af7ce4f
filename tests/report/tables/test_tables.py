"""The study's tables: what stands in them, and what never does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dpgnn.records.cells import build_cells
from dpgnn.records.frame import Run
from dpgnn.records.info import StudyInfo
from dpgnn.report.statistics.differences import differences
from dpgnn.report.statistics.ranking import rankings, refusals
from dpgnn.report.tables.run_tables import cost_table, status_table
from dpgnn.report.tables.table import Table, to_csv, to_markdown
from dpgnn.report.tables.tables import (
    differences_table,
    rankings_table,
    refusals_table,
    summary_table,
)


def failed(run: Run, status: str = "failed", reason: str = "plan: epsilon is too small") -> Run:
    return replace(run, record=replace(run.record, status=status, reason=reason))  # type: ignore[arg-type]


def all_tables(runs: list[Run], info: StudyInfo) -> list[Table]:
    cells = build_cells(runs, info)
    return [
        summary_table(cells, info),
        rankings_table(rankings(cells)),
        refusals_table(refusals(cells)),
        differences_table(differences(cells, info), info),
        cost_table(cells),
    ]


def test_the_summary_has_one_row_per_cell_with_its_numbers(
    runs: list[Run], info: StudyInfo
) -> None:
    table = summary_table(build_cells(runs, info), info)
    assert len(table.rows) == 20
    row = table.rows[3]
    assert (row.dataset, row.entry, row.epsilon, row.n) == ("alpha", "dp_mlp", "8", 3)
    assert row.mean == pytest.approx(0.70)
    line = "| alpha (random) | DP-MLP | sound | node (add-remove) | 8 | 70.0 | 1.0 | 67.5 to 72.5 | 3 |"
    assert line in to_markdown(table)


def test_failed_runs_stand_in_no_table_but_the_status_table(
    runs: list[Run], info: StudyInfo
) -> None:
    # a failed run whose record still holds a score that would be seen at once
    poisoned = []
    for run in runs:
        if run.record.key["entry"] == "dp_mlp":
            metrics = {"test": {**run.record.metrics["test"], "accuracy": 0.123456}}
            run = failed(replace(run, record=replace(run.record, metrics=metrics)))
        poisoned.append(run)
    for table in all_tables(poisoned, info):
        assert all(getattr(row, "entry", "") != "dp_mlp" for row in table.rows), table.name
        assert "0.123456" not in to_csv(table)
    status = status_table(poisoned, info)
    assert {row.entry for row in status.rows} == {"dp_mlp"}
    assert {row.reason for row in status.rows} == {"plan: epsilon is too small"}


def test_a_cell_with_a_failed_repeat_says_how_many_are_left(
    runs: list[Run], info: StudyInfo
) -> None:
    table = summary_table(build_cells([failed(runs[0]), *runs[1:]], info), info)
    assert table.rows[0].n == 2
    assert "| 2 of 3 |" in to_markdown(table)


def test_nothing_is_bold_but_leads_clear_of_the_noise(
    runs: list[Run], info: StudyInfo, with_score: Callable[[Run, float], Run]
) -> None:
    rows = rankings_table(rankings(build_cells(runs, info))).rows
    assert {row.entry for row in rows if row.bold} == {"dp_mlp", "dp_gcn"}
    assert all(row.position == 1 for row in rows if row.bold)
    noisy = [
        with_score(run, 0.6 + 0.01 * ((7 * i) % 5)) if run.record.claims else run
        for i, run in enumerate(runs)
    ]
    table = rankings_table(rankings(build_cells(noisy, info)))
    assert not any(row.bold for row in table.rows)
    assert "**" not in to_markdown(table)


def test_the_number_of_comparisons_is_stated(runs: list[Run], info: StudyInfo) -> None:
    cells = build_cells(runs, info)
    assert "22 comparisons were made" in differences_table(differences(cells, info), info).caption
    caption = rankings_table(rankings(cells)).caption
    assert "4 comparisons in 4 rankings" in caption
    assert "8 rankings with a single entry" in caption


def test_the_order_of_records_does_not_change_a_byte(runs: list[Run], info: StudyInfo) -> None:
    forwards = [to_csv(table) + to_markdown(table) for table in all_tables(runs, info)]
    backwards = [to_csv(table) + to_markdown(table) for table in all_tables(runs[::-1], info)]
    assert forwards == backwards


def test_a_study_without_scores_has_tables_that_say_so(info: StudyInfo) -> None:
    for table in all_tables([], info):
        assert table.rows == []
        assert table.empty in to_markdown(table)
