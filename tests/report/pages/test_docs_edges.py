"""Do edges help: fair pairs alone are counted, and told by what is protected."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from dpgnn.records.cells import build_cells
from dpgnn.records.frame import Run
from dpgnn.records.info import Comparison, StudyInfo
from dpgnn.report.pages.docs_edges import about_edges, answer
from dpgnn.report.statistics import comparisons
from dpgnn.report.tables import comparisons_table

EDGES, MLPS, FORMS = (
    "Does reading edges help?",
    "What does privacy cost?",
    "What does soundness cost?",
)


def made(runs: list[Run], info: StudyInfo) -> Any:
    asked = (
        Comparison(
            question=EDGES, entries=("gap", "dp_gcn", "dp_gcn-paper"), against=("mlp", "dp_mlp")
        ),
        Comparison(question=MLPS, entries=("dp_gcn",), against=("gcn",)),
        Comparison(question=FORMS, steps=("dp_gcn-paper", "dp_gcn")),
    )
    info = replace(info, comparisons=asked)
    cells = build_cells(runs, info)
    table = comparisons_table.comparisons_table(comparisons.compared(cells, info))
    return SimpleNamespace(info=info, cells=cells, comparisons=table)


def test_a_question_is_about_edges_where_it_names_an_mlp_to_stand_against(
    runs: list[Run], info: StudyInfo
) -> None:
    results = made(runs, info)
    assert [about_edges(results, question) for question in (EDGES, MLPS, FORMS)] == [
        True, False, False,
    ]  # fmt: skip


def test_each_unit_meets_the_mlp_that_gives_its_guarantee(runs: list[Run], info: StudyInfo) -> None:
    # at epsilon 1 and 8: GAP 70 and 82 against MLP 80; DP-GCN 50 and 72 against DP-MLP 60 and 70. Not
    # counted: GAP against DP-MLP (no common guarantee), DP-GCN against MLP, and the published DP-GCN
    lines = answer([made(runs, info)])
    assert lines[0].startswith("On the 2 graphs of study toy")
    assert "0 ahead, 4 behind and 0 in the noise at ε = 1, 0 ahead" in lines[0]
    assert lines[-1] == (
        "- toy: edge: 0 ahead, 2 behind and 0 in the noise at ε = 1, 0 ahead, 0 behind and 2 in the noise at "
        "ε = 8; node-record: 0 ahead, 2 behind and 0 in the noise at ε = 1, 0 ahead, 0 behind and 2 in the "
        "noise at ε = 8."
    )


def test_nothing_is_said_where_nothing_was_compared(runs: list[Run], info: StudyInfo) -> None:
    results = made([run for run in runs if run.record.key["entry"] != "gap"], info)
    results.comparisons = comparisons_table.comparisons_table([])
    assert answer([results]) == []
