"""What more repeats changed: statements decided from the first splits alone and from all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from helpers import numbers

from dpgnn.records.archive import MAIN_STUDY
from dpgnn.records.cells import Cell
from dpgnn.report.pages import more_repeats, paper_claims
from dpgnn.report.pages.finding_differences import Question
from dpgnn.report.pages.more_repeats import of_first, of_papers, repeat_lines
from dpgnn.report.pages.study_results import StudyResults

# entry less reference at each split: the first three say nothing, all nine say ahead
DIFFERENCES = (-0.03, 0.0, 0.07, 0.02, 0.03, 0.02, 0.03, 0.02, 0.03)
CLAIMS = "drw:\n  - {claim: walks lead, section: '1', entry: dp_gcn, against: dp_mlp}\n"


@pytest.fixture
def longer(
    documented: tuple[StudyResults, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> StudyResults:
    """DP-GCN and DP-MLP on one graph at one budget with nine splits, in the study of a paper."""
    file = tmp_path / "claims.yaml"
    file.write_text(CLAIMS)
    monkeypatch.setattr(paper_claims, "FILE", file)
    found = documented[0]
    chosen = {
        cell.entry: cell
        for cell in found.cells
        if (cell.dataset, cell.epsilon) == ("alpha", "1") and cell.entry in ("dp_gcn", "dp_mlp")
    }
    base = {repeat: 0.5 + 0.01 * (repeat % 4) for repeat in range(len(DIFFERENCES))}
    ahead = {repeat: base[repeat] + DIFFERENCES[repeat] for repeat in base}
    cells = (
        replace(chosen["dp_gcn"], scores=ahead),
        replace(chosen["dp_mlp"], scores=base),
    )
    return replace(found, cells=cells, info=replace(found.info, paper="drw"))


def scores(cells: tuple[Cell, ...]) -> list[list[int]]:
    return [sorted(cell.scores) for cell in cells]


def test_only_the_first_splits_are_kept(longer: StudyResults) -> None:
    assert scores(of_first(longer.cells)) == [[0, 1, 2]] * 2
    late = replace(longer.cells[0], scores={5: 0.5})
    assert scores(of_first([late, longer.cells[1]], 1)) == [[0]]


def test_a_claim_that_three_splits_leave_open_is_decided_by_nine(longer: StudyResults) -> None:
    (decided,) = of_papers([longer])["drw"]
    assert decided.outcomes == ("undecided", "yes")
    assert (decided.first.repeats, decided.all.repeats) == ((3, 3), (9, 9))
    assert decided.changed
    lines = repeat_lines([longer])
    assert "1 of 1 statements changed." in "\n".join(lines)
    (row,) = [line for line in lines if line.startswith("| walks lead |")]
    assert numbers(row) == [0, 0, 1, 1, 0, 1, 9]  # ahead, behind, of; twice; n


def test_a_statement_that_stays_is_counted_and_not_listed(longer: StudyResults) -> None:
    base, ahead = longer.cells[1], longer.cells[0]
    steady = {repeat: score + 0.2 + 0.001 * (repeat % 2) for repeat, score in base.scores.items()}
    text = "\n".join(repeat_lines([replace(longer, cells=(replace(ahead, scores=steady), base))]))
    assert "none of 1 statements changed." in text
    assert "| walks lead |" not in text


def test_three_splits_alone_say_nothing_of_more(longer: StudyResults) -> None:
    short = replace(longer, cells=of_first(longer.cells))
    assert of_papers([short]) == {"drw": []}
    assert repeat_lines([short]) == []


def test_findings_of_the_main_study_are_decided_twice_too(
    longer: StudyResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Question(
        name="q", title="Do edges help?", panels=(("GCN - MLP", "dp_gcn", "dp_mlp"),), more="",
        overturn="",
    )  # fmt: skip
    monkeypatch.setattr(more_repeats, "questions", lambda: [asked])
    main = replace(longer, info=replace(longer.info, paper="", name=MAIN_STUDY))
    (decided,) = more_repeats.of_findings([main])
    assert (decided.first.ahead, decided.all.ahead, decided.changed) == (0, 1, True)
    assert "| GCN - MLP |" in "\n".join(repeat_lines([main]))
