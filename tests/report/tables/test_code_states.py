"""Which code made the records: counted by study, method and hash."""

from __future__ import annotations

from dataclasses import replace

from dpgnn.records.frame import Run
from dpgnn.report.tables.code_states import code_states, code_states_table, told
from dpgnn.report.tables.table import to_csv


def with_code(run: Run, code: str, started: str) -> Run:
    record = replace(run.record, code_sha256=code)
    return replace(run, record=record, resources={**run.resources, "started": started})


def test_runs_are_counted_by_the_code_that_made_them(runs: list[Run]) -> None:
    gap = [run for run in runs if run.record.entry["method"] == "gap"][:4]
    mlp = [run for run in runs if run.record.entry["method"] == "mlp"][:1]
    made = [
        with_code(gap[0], "b", "2026-01-02T00:00:00Z"),
        with_code(gap[1], "a", "2026-01-03T00:00:00Z"),
        with_code(gap[2], "b", "2026-01-01T00:00:00Z"),
        with_code(gap[3], "b", ""),
        *mlp,
    ]
    rows = code_states({"toy": made})
    assert [(row.method, row.code_sha256, row.runs) for row in rows] == [
        ("gap", "b", 3),
        ("gap", "a", 1),
        ("mlp", "d" * 64, 1),
    ]
    assert (rows[0].first, rows[0].last) == ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")
    assert told(rows, "toy") == "1 to 2"
    assert told(code_states({"toy": mlp}), "toy") == "1"
    header, first, *_ = to_csv(code_states_table(rows)).splitlines()
    assert header == "study,method,code_sha256,runs,first,last"
    assert first.startswith("toy,gap,b,3,")
