"""The last words on a small study: its numbers, what each protects, and who may see an answer."""

from __future__ import annotations

from dpgnn.records.cells import build_cells
from dpgnn.records.frame import Run
from dpgnn.records.info import StudyInfo
from dpgnn.report.pages.closing import closing_lines


def test_a_table_and_sentences(runs: list[Run], info: StudyInfo) -> None:
    lines = closing_lines(build_cells(runs, info))
    rows = [line.split() for line in lines if line and not line.startswith("-")]
    assert rows[0][:3] == ["alpha,", "3", "splits"]
    by_label = {row[0]: row[1:] for row in rows[1:]}
    assert by_label["GCN"][:3] == ["90.0", "90.0", "nothing"]
    assert by_label["DP-MLP"][:2] == ["60.0", "70.0"]
    assert by_label["GAP"][2:4] == ["one", "edge"]
    assert list(by_label)[:3] == ["MLP", "GCN", "GAP"]
    sentences = [line for line in lines if line.startswith("- ")]
    assert sentences[0] == "- Without privacy GCN reaches 90.0 % and MLP 80.0 %."
    assert "8.0 below that" in sentences[1]
    assert any("DP-MLP, which reads no edge, reaches 70.0 %" in line for line in sentences)
    assert len(sentences) == 5


def test_a_study_without_privacy_has_none(runs: list[Run], info: StudyInfo) -> None:
    cells = [cell for cell in build_cells(runs, info) if not cell.is_private]
    assert closing_lines(cells) == []
