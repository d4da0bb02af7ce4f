"""Cells gather repeats; intervals are those worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from dpgnn.records.cells import Cell, build_cells, claims_of
from dpgnn.records.frame import Run
from dpgnn.records.info import EntryInfo, StudyInfo


def cell_of(cells: list[Cell], dataset: str, entry: str, epsilon: str) -> Cell:
    found = [c for c in cells if (c.dataset, c.entry, c.epsilon) == (dataset, entry, epsilon)]
    assert len(found) == 1
    return found[0]


def test_a_cell_has_the_interval_computed_by_hand(runs: list[Run], info: StudyInfo) -> None:
    # 0.69, 0.70, 0.71: mean 0.70, std 0.01, half width 4.30265 * 0.01 / sqrt(3) = 0.024841
    found = cell_of(build_cells(runs, info), "alpha", "dp_mlp", "8").interval
    assert found.mean == pytest.approx(0.70)
    assert found.std == pytest.approx(0.01)
    assert found.low == pytest.approx(0.70 - 0.0248414, abs=1e-6)
    assert found.high == pytest.approx(0.70 + 0.0248414, abs=1e-6)
    assert found.n == 3


def test_cells_come_in_the_order_of_the_study(runs: list[Run], info: StudyInfo) -> None:
    cells = build_cells(list(reversed(runs)), info)
    assert [(c.dataset, c.entry, c.epsilon) for c in cells[:4]] == [
        ("alpha", "mlp", "inf"),
        ("alpha", "gcn", "inf"),
        ("alpha", "dp_mlp", "1"),
        ("alpha", "dp_mlp", "8"),
    ]
    assert list(cells[0].scores) == [0, 1, 2]


def test_an_interval_is_cut_to_where_scores_lie(
    runs: list[Run], info: StudyInfo, with_score: Callable[[Run, float], Run]
) -> None:
    high = [with_score(run, score) for run, score in zip(runs[:3], (0.9, 1.0, 1.0))]
    found = build_cells(high, info)[0].interval
    assert found.high == 1.0
    assert found.low < 0.9


def test_failed_runs_are_in_no_cell(runs: list[Run], info: StudyInfo) -> None:
    failed = replace(runs[0], record=replace(runs[0].record, status="failed", reason="lr"))
    cell = build_cells([failed, *runs[1:]], info)[0]
    assert (list(cell.scores), cell.planned) == ([1, 2], 3)


def test_the_claim_of_a_cell_is_the_weakest_of_its_repeats(
    runs: list[Run], info: StudyInfo
) -> None:
    position = next(i for i, run in enumerate(runs) if run.record.key["entry"] == "dp_mlp")
    record = runs[position].record
    weaker = {**record.claims[0], "epsilon": 1.5}
    runs[position] = replace(runs[position], record=replace(record, claims=(weaker,)))
    claim = cell_of(build_cells(runs, info), "alpha", "dp_mlp", "1").claim
    assert claim is not None
    assert claim.epsilon == 1.5


def test_a_record_from_before_claims_said_so_says_which_sizes_are_public(
    runs: list[Run], info: StudyInfo
) -> None:
    run = next(run for run in runs if run.record.key["entry"] == "dp_mlp")
    assert run.record.claims[0]["caveats"] == []
    (claim,) = claims_of(run.record)
    assert claim.caveats == ("population-changes",)
    sizes = ("number of nodes", "number of features", "number of classes")
    assert claim.assumed_public == (*run.record.claims[0]["assumed_public"], *sizes)
    cell = cell_of(build_cells(runs, info), "alpha", "dp_mlp", "8")
    assert cell.claim is not None
    assert cell.claim.caveats == claim.caveats
    assert "(population-changes)" in cell.words[0]
    facts = {**run.record.facts, "public_population": True}
    (declared,) = claims_of(replace(run.record, facts=facts))
    assert declared.to_dict() == {k: v for k, v in run.record.claims[0].items() if k != "words"}


def test_a_published_cell_keeps_what_can_be_proved_as_its_second_claim(
    runs: list[Run], info: StudyInfo
) -> None:
    cell = cell_of(build_cells(runs, info), "alpha", "dp_gcn-paper", "8")
    assert [claim.status for claim in cell.claims] == ["as-published", "proved"]
    assert math.isinf(cell.claims[1].epsilon)


def test_a_label_is_marked_where_answers_are_not_covered(runs: list[Run], info: StudyInfo) -> None:
    open_ = {"answers": "none", "note": "reads edges"}
    runs = [
        replace(run, record=replace(run.record, prediction=open_))
        if run.record.key["entry"] == "gap" and run.record.key["repeat"] == 2
        else run
        for run in runs
    ]
    cells = build_cells(runs, info)
    gap, mlp = (cell_of(cells, "alpha", *key) for key in (("gap", "8"), ("mlp", "inf")))
    assert (gap.answers, gap.marked_label) == ("none", "GAP°")
    # an entry without privacy has no claim that could cover its answers
    assert (mlp.answers, mlp.marked_label) == ("none", "MLP")


def test_the_first_entry_of_a_title_has_it_and_others_add_their_name(
    runs: list[Run], info: StudyInfo
) -> None:
    twins = [
        replace(entry, title="Twin") if i < 2 else entry for i, entry in enumerate(info.entries)
    ]
    labels = replace(info, entries=tuple(twins)).labels
    assert (labels["mlp"], labels["gcn"], labels["dp_mlp"]) == ("Twin", "Twin (gcn)", "DP-MLP")
    assert info.labels["dp_gcn-paper"] == "dp_gcn-paper"


def test_points_of_a_sweep_are_called_by_what_it_sets_and_take_no_title_away(
    info: StudyInfo,
) -> None:
    points = [
        EntryInfo(name=f"dp_gcn~{change}", title="DP-GCN", method="dp_gnn", mode="sound")
        for change in ("max_degree=2", "max_degree=3~lr=0.1")
    ]
    labels = replace(info, entries=(*info.entries, *points)).labels
    assert labels["dp_gcn"] == "DP-GCN"
    assert labels["dp_gcn~max_degree=2"] == "DP-GCN, max_degree=2"
    assert labels["dp_gcn~max_degree=3~lr=0.1"] == "DP-GCN, max_degree=3, lr=0.1"
