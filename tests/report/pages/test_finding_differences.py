"""Findings from paired differences, with fixed configurations and with both sides tuned alike."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import numbers

from dpgnn.records.cells import Cell
from dpgnn.report.pages.finding_differences import (
    Question,
    beyond_these_splits,
    changed_by_tuning,
    difference_headline,
    finding_pairs,
    questions,
    tuned_note,
)
from dpgnn.report.pages.headline import Headline
from dpgnn.report.pages.study_results import StudyResults
from dpgnn.study.study import load_study

ASKED = Question(
    name="q", title="Do edges help?", more="More.", overturn="",
    panels=(("GCN - MLP", "dp_gcn", "dp_mlp"), ("MLP - GCN", "dp_mlp", "dp_gcn")),
)  # fmt: skip
BASE = {repeat: 0.5 + 0.01 * (repeat % 4) for repeat in range(9)}
POINT = "dp_gcn~lr=0.3"


def of_point(cell: Cell, point: str) -> Cell:
    """The cell with runs of a point of its entry."""
    runs = [
        replace(run, record=replace(run.record, key={**run.record.key, "entry": point}))
        for run in cell.runs
    ]
    return replace(cell, runs=tuple(runs))


@pytest.fixture
def cells(documented: tuple[StudyResults, Path]) -> dict[str, Cell]:
    """DP-GCN and DP-MLP on one graph at one budget."""
    return {
        cell.entry: cell
        for cell in documented[0].cells
        if (cell.dataset, cell.epsilon) == ("alpha", "1") and cell.entry in ("dp_gcn", "dp_mlp")
    }


def made(cells: dict[str, Cell], fixed: float, tuned: float) -> Headline:
    """The finding where DP-GCN is ahead of DP-MLP by so much; 0 is in the noise."""
    reference = replace(cells["dp_mlp"], scores=BASE)

    def ours(gain: float) -> Cell:
        noise = 0.002 if gain else 0.05
        scores = {k: BASE[k] + gain + noise * (-1) ** k for k in BASE}
        return replace(cells["dp_gcn"], scores=scores)

    found = difference_headline(
        ASKED, [ours(fixed), reference], [of_point(ours(tuned), POINT), reference]
    )
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("fixed", "tuned", "words", "moves"),
    [
        (0.1, 0.2, "1/0, 0/1", [2, 2, 0, 0, 0, 0]),
        (0.1, -0.1, "0/1, 1/0", [2, 0, 0, 2, 0, 0]),
        (-0.1, 0.0, "0/0, 0/0", [2, 0, 2, 0, 0, 0]),
        (0.0, 0.1, "1/0, 0/1", [0, 0, 0, 0, 2, 2]),
        (0.0, 0.0, "0/0, 0/0", [0, 0, 0, 0, 2, 0]),
    ],
)
def test_what_tuning_changed_is_counted(
    cells: dict[str, Cell], fixed: float, tuned: float, words: str, moves: list[int]
) -> None:
    found = made(cells, fixed, tuned)
    assert found.more == f"Tuned alike: {words} of 1. More."
    assert tuned_note([found]).startswith("“Tuned alike”: ahead/behind, both")
    lines = changed_by_tuning([found])
    (told,) = [line for line in lines if line.startswith("Of ")]
    # decided when fixed: alike, undecided, turned; undecided when fixed: decided; n, graphs and epsilon
    assert numbers(told) == [*moves, 9, 1, 1]
    rows = [line for line in lines if line.startswith("| GCN") or line.startswith("| MLP")]
    assert len(rows) == 2


@pytest.mark.parametrize(("num_train", "left"), [(10**6, 2), (1, 0)])
def test_decided_differences_are_counted_again_with_overlap(
    cells: dict[str, Cell], num_train: int, left: int
) -> None:
    sized = {
        name: replace(
            cell,
            runs=tuple(
                replace(run, record=replace(run.record, facts={"num_train": num_train}))
                for run in cell.runs
            ),
        )
        for name, cell in cells.items()
    }
    lines = beyond_these_splits([made(sized, 0.1, 0.1)])
    (told,) = [line for line in lines if line.startswith("Verdicts")]
    assert f"{left} of the 2 decided differences" in told
    assert ("| GCN - MLP | 1/0 of 1 | 1/0 of 1 |" in lines) is bool(left)
    assert beyond_these_splits([]) == []


def test_differences_of_tuned_entries_name_the_chosen_points(cells: dict[str, Cell]) -> None:
    rows = finding_pairs([made(cells, 0.1, 0.2)]).rows
    assert [(row.statement, row.entry, row.reference) for row in rows] == [
        ("Do edges help? GCN - MLP", "dp_gcn", "dp_mlp"),
        ("Do edges help? MLP - GCN", "dp_mlp", "dp_gcn"),
        ("Do edges help? GCN - MLP, tuned alike", POINT, "dp_mlp"),
        ("Do edges help? MLP - GCN, tuned alike", "dp_mlp", POINT),
    ]
    assert [round(row.mean, 3) for row in rows] == [0.1, -0.1, 0.2, -0.2]


def test_the_page_names_what_has_two_points_more(repository: Path) -> None:
    """Six points an entry, eight on three graphs for the methods that the sentence names."""
    study = load_study(repository / "workflow" / "studies" / "headtohead.yaml", "M")
    points = defaultdict(set)
    for key in study.keys:
        base, _, point = key.entry.partition("~")
        if point and base in study.config.tuned:
            points[base, key.dataset].add(point)
    assert {len(found) for found in points.values()} == {6, 8}
    with_eight = {pair for pair, found in points.items() if len(found) == 8}
    names = {base for base, _ in with_eight}
    assert with_eight == {(base, graph) for base in names for graph in ("photo", "computers", "cs")}
    told = {
        "MLP": ["mlp"],
        "DP-MLP": [
            f"dp_mlp{form}" for form in ("", "-replace", "-mean1", "-replace-mean1", "-mean2")
        ],
        "DP-GCN": ["dp_gcn", "dp_gcn-bounded"],
        "DP-SAGE": ["dp_sage"],
        "DP-GATv2": ["dp_gatv2"],
        "FDP": ["fdp"],
        "PertGraph at node level": ["pertgraph-record", "pertgraph-bounded"],
    }
    assert names == {name for forms in told.values() for name in forms}
    page = (repository / "docs" / "results" / "comparisons.md").read_text()
    assert f"two more with centred rows for {', '.join([*told][:-1])} and {[*told][-1]}." in page


def test_a_side_that_is_not_tuned_has_no_words(cells: dict[str, Cell]) -> None:
    plain = difference_headline(ASKED, [*cells.values()])
    half = difference_headline(ASKED, [*cells.values()], [cells["dp_gcn"]])
    for found in (plain, half):
        assert found is not None
        assert found.more == "More."
        assert changed_by_tuning([found]) == []
        assert tuned_note([found]) == ""
    assert difference_headline(ASKED, []) is None


def test_numbers_of_the_ladder_in_a_finding_are_those_of_its_page(repository: Path) -> None:
    more = next(question.more for question in questions() if question.name == "soundness")
    page = (repository / "docs" / "results" / "ladder.md").read_text(encoding="utf-8")
    rungs = {
        "DP-GCN: K = 1": "+19.0",
        "DP-GCN, sound: a record added or removed in place of replaced": "+14.7",
        "DP-GCN: the roots that a changed record can reach are counted (sound mode)": "−11.2",
    }
    part = page.partition("\ncora_ml, ε = 4:\n")[2]
    for rung, change in rungs.items():
        assert change[1:] in more
        row = next(line for line in part.splitlines() if line.startswith(f"| {rung} |"))
        assert f"**{change}**" in row
        assert "n 5)" in row
