"""Claimed, proved and measured epsilon stand side by side."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpgnn.core.storage import write_json
from dpgnn.records.attacks import KEY as NAMES
from dpgnn.records.cells import build_cells
from dpgnn.records.frame import Run
from dpgnn.records.info import StudyInfo
from dpgnn.report.tables.claims_table import (
    audits_table,
    claims_table,
    measured_epsilon,
    proved_elsewhere,
    proved_epsilon,
    read_audits,
)
from dpgnn.report.tables.pivots import Guarantee, guarantee_lines
from dpgnn.report.tables.table import to_csv, to_markdown

KEY = {
    "dataset": "alpha",
    "setting": "random",
    "entry": "dp_gcn-paper",
    "epsilon": "8",
    "repeat": 0,
}


def test_a_published_cell_shows_the_papers_epsilon_and_what_can_be_proved(
    runs: list[Run], info: StudyInfo
) -> None:
    rows = claims_table(build_cells(runs, info)).rows
    row = next(row for row in rows if row.entry == "dp_gcn-paper" and row.epsilon == "8")
    assert (row.claimed, row.proved) == (8.0, math.inf)
    assert row.caveats == ("sampler-ripple",)
    sound = next(row for row in rows if row.entry == "dp_gcn")
    assert (sound.claimed, sound.proved) == (1.0, 1.0)


def test_a_proof_of_something_weaker_does_not_count(runs: list[Run], info: StudyInfo) -> None:
    changed = []
    for run in runs:
        record = run.record
        if record.key["entry"] == "dp_gcn-paper":
            weaker = {**record.claims[1], "privacy_unit": "edge", "epsilon": 0.5}
            record = replace(record, claims=(record.claims[0], weaker))
        changed.append(replace(run, record=record))
    cell = next(c for c in build_cells(changed, info) if c.entry == "dp_gcn-paper")
    assert proved_epsilon(cell) is None
    assert "nothing proved" in to_markdown(claims_table([cell]))


def test_a_proof_under_another_relation_is_shown_as_such(runs: list[Run], info: StudyInfo) -> None:
    changed = []
    for run in runs:
        record = run.record
        if record.key["entry"] == "dp_gcn-paper":
            epsilon = {"1": 212.4, "8": 2716.0}[record.key["epsilon"]]
            other = {**record.claims[1], "relation": "replace-one", "epsilon": epsilon}
            record = replace(record, claims=(record.claims[0], other))
        changed.append(replace(run, record=record))
    cells = [c for c in build_cells(changed, info) if c.entry == "dp_gcn-paper"]
    assert [proved_epsilon(cell) for cell in cells] == [None] * 4
    table = claims_table(cells)
    assert "nothing; 212.4 under replace-one" in to_markdown(table)
    assert "212.4,replace-one" in to_csv(table)
    rows = [Guarantee(study="toy", method="m", voiding=(), claim=row) for row in table.rows]
    lines = guarantee_lines(rows)
    assert "| nothing; 212.4 to 2716 under replace-one |" in lines[-1]
    none = replace(rows[0], claim=replace(rows[0].claim, proved_elsewhere=None))
    assert "| nothing; 212.4 to 2716 under replace-one in 4 |" in guarantee_lines([*rows, none])[-1]
    # a delta above the claim's, or an epsilon that is none, tells nothing
    claims = cells[0].claims
    assert proved_elsewhere((claims[0], replace(claims[1], delta=1e-2))) is None
    assert proved_elsewhere((claims[0], replace(claims[1], epsilon=math.inf))) is None


def test_entries_without_privacy_have_no_row(runs: list[Run], info: StudyInfo) -> None:
    rows = claims_table(build_cells(runs, info)).rows
    assert len(rows) == 16
    assert {row.mode for row in rows} == {"sound", "published"}


def test_the_largest_lower_bound_of_the_audits_joins(
    tmp_path: Path, runs: list[Run], info: StudyInfo
) -> None:
    write_json(tmp_path / "a.json", {"key": KEY, "epsilon_lower_bound": 2.5, "attack": "canary"})
    write_json(
        tmp_path / "b.json",
        [
            {"key": KEY, "epsilon_lower_bound": 9.75, "attack": "worlds", "confidence": 0.95},
            {"key": KEY, "epsilon_lower_bound": None, "attack": "gave up"},
        ],
    )
    audits = read_audits(tmp_path)
    rows = claims_table(build_cells(runs, info), audits).rows
    row = next(row for row in rows if row.entry == "dp_gcn-paper" and row.epsilon == "8")
    assert (row.measured, row.attack, row.confidence) == (9.75, "worlds", 0.95)
    assert sum(row.measured is not None for row in rows) == 1
    assert len(audits_table(audits).rows) == 3
    assert "worlds" in to_csv(audits_table(audits))
    cells = [replace(cell, label=f"title of {cell.entry}") for cell in build_cells(runs, info)]
    assert audits_table(audits, cells).rows[0].label == "title of dp_gcn-paper"


@pytest.mark.parametrize(
    ("attack", "share", "shown"),
    [
        ("select: two worlds, canary, the noisy release", None, None),
        ("aggregate: two worlds, canary, the noisy release", 0.9, 3.5),
        ("train: two worlds, canary, all iterates seen", 0.0, 3.5),
        ("choice: two worlds, the best of runs drawn from their planned losses", None, 3.5),
        (None, None, None),
    ],
)
def test_what_is_detected_at_an_unknown_share_is_not_shown(
    attack: str | None, share: float | None, shown: float | None
) -> None:
    stated = {"attack": attack, "attained_share_of_sensitivity": share, "detectable_epsilon": 3.5}
    (row,) = audits_table([{"key": KEY, "epsilon_lower_bound": 0.0, **stated}]).rows
    assert (row.detectable_epsilon, row.attained) == (shown, share)


@pytest.mark.parametrize(
    "change", [{"relation": "null-one"}, {"claimed_epsilon": 3.0}, {"delta": 0.25}]
)
def test_an_audit_of_an_entry_that_was_changed_since_measures_nothing(
    runs: list[Run], info: StudyInfo, change: dict[str, Any]
) -> None:
    cells = build_cells(runs, info)
    (cell,) = (c for c in cells if all(str(KEY[n]) == getattr(c, n) for n in NAMES))
    claim = cell.claims[0]
    audit = {
        "key": KEY, "epsilon_lower_bound": 2.5, "attack": "canary", "outcome": "passed",
        "privacy_unit": claim.privacy_unit, "relation": claim.relation, "delta": claim.delta,
        "claimed_epsilon": claim.epsilon,
    }  # fmt: skip
    assert measured_epsilon(cell, [audit])["epsilon_lower_bound"] == 2.5
    assert audits_table([audit], cells).rows[0].outcome == "passed"
    stale = audit | change
    assert measured_epsilon(cell, [stale]) == {}
    row = audits_table([stale], cells).rows[0]
    assert (row.outcome, (row.note or "")[-14:]) == ("of another claim", "audit it again")


def test_a_run_of_a_choice_may_be_tested_at_a_smaller_delta_than_is_claimed(
    runs: list[Run], info: StudyInfo
) -> None:
    cells = build_cells(runs, info)
    (cell,) = (c for c in cells if all(str(KEY[n]) == getattr(c, n) for n in NAMES))
    audit = {"key": KEY, "outcome": "passed", "delta": 0.0, "claimed_delta": cell.claims[0].delta}
    assert audits_table([audit], cells).rows[0].outcome == "passed"
    stale = audit | {"claimed_delta": 0.25}
    assert audits_table([stale], cells).rows[0].outcome == "of another claim"


def test_an_audit_that_names_no_run_is_refused(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"epsilon_lower_bound": 1.0})
    with pytest.raises(ValueError, match=r"a\.json: audit must name its run"):
        read_audits(tmp_path)
    write_json(tmp_path / "a.json", {"key": {"dataset": "alpha"}})
    with pytest.raises(ValueError, match="setting"):
        read_audits(tmp_path)


def test_a_study_without_audits_says_that_nothing_was_audited(
    tmp_path: Path, runs: list[Run], info: StudyInfo
) -> None:
    assert read_audits(tmp_path / "none") == []
    assert "not audited" in to_markdown(claims_table(build_cells(runs, info)))


def test_verdicts_of_a_study_are_corrected_over_its_audits() -> None:
    def made(entry: str, p: float, outcome: str) -> dict[str, Any]:
        key = {"dataset": "alpha", "setting": "random", "entry": entry, "epsilon": "1"}
        return {
            "key": key, "attack": "worlds", "outcome": outcome, "p_value": p, "confidence": 0.99, "note": "",
            "epsilon_lower_bound": 0.1,
        }  # fmt: skip

    quiet = [made(f"e{i}", 0.5, "passed") for i in range(9)]
    table = audits_table([made("clear", 1e-6, "failed"), made("weak", 0.008, "failed"), *quiet])
    rows = {row.entry: row for row in table.rows}
    assert (rows["clear"].outcome, rows["clear"].p) == ("failed", pytest.approx(11e-6))
    assert (rows["weak"].outcome, rows["weak"].p) == ("unclear", pytest.approx(0.08))
    assert "at most 0.05" in table.caption
    assert "at most 0.01." in audits_table([quiet[0]]).caption
    # audits made before there were p values keep their outcome
    del quiet[0]["p_value"]
    assert audits_table([quiet[0]]).rows[0].outcome == "passed"
