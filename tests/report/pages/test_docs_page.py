"""Pages of docs from records: numbers, anchors, commands, and the same bytes a second time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import tells

from dpgnn.report.pages import front_figure
from dpgnn.report.pages.docs_page import write_docs
from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.tables import pivots


def test_the_study_page_sums_differences_up_and_its_csv_has_each(
    documented: tuple[StudyResults, Path],
) -> None:
    text = (documented[1] / "results" / "toy.md").read_text(encoding="utf-8")
    assert "**Does DP-GCN beat DP-MLP?**" in text
    # 0.50 - 0.60 and 0.72 - 0.70 on both data sets
    assert "| DP-GCN | DP-MLP | −10.0 to −10.0 (2 behind) | +2.0 to +2.0 (2 ahead) |" in text
    folder = documented[1] / "reference" / "toy" / "tables"
    assert "[CSV](../reference/toy/tables/comparisons.csv)" in text
    header, *rows = (folder / "comparisons.csv").read_text(encoding="utf-8").splitlines()
    row = dict(zip(header.split(","), rows[0].split(",")))
    # half a width of 4.30265 * 0.005 / sqrt(3) = 1.24 points
    assert [round(100 * float(row[name]), 1) for name in ("mean", "low", "high")] == [
        -10.0,
        -11.2,
        -8.8,
    ]
    assert not [*folder.glob("*.md")]


def test_the_index_says_which_guarantees_hold_and_what_soundness_costs(
    documented: tuple[StudyResults, Path],
) -> None:
    docs = documented[1]
    text = (docs / "results" / "guarantees.md").read_text(encoding="utf-8")
    tells(text, "Of 4 cells run as published", "0 state an ε", "for 4 no finite ε")
    assert "[sampler-ripple](../soundness.md#sampler-ripple)" in text
    text = (docs / "results" / "comparisons.md").read_text(encoding="utf-8")
    assert "| DP-GCN | dp_gcn-paper | −15.0 to −15.0 (2 behind) | −6.0 to −6.0 (2 behind) |" in text
    text = (docs / "results.md").read_text(encoding="utf-8")
    tells(text, "**Of 4 cells run as published, 0 state an ε")
    assert "](figures/findings/guarantees.png)" in text
    assert (documented[1] / "figures" / "front.png").stat().st_size > 10_000


def test_every_link_between_the_pages_has_its_anchor(documented: tuple[StudyResults, Path]) -> None:
    docs = documented[1]
    text = (docs / "results.md").read_text(encoding="utf-8")
    for name, anchor in re.findall(r"\((results/\w+\.md)#([^)]+)\)", text):
        assert f'id="{anchor}"' in (docs / name).read_text(encoding="utf-8")
    page = (docs / "results" / "toy.md").read_text(encoding="utf-8")
    for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page):
        assert (docs / "results" / picture).exists()


def test_the_same_records_give_the_same_pages(documented: tuple[StudyResults, Path]) -> None:
    found, docs = documented
    before = {path: path.read_bytes() for path in docs.rglob("*") if path.is_file()}
    write_docs([found], [found.info], docs)
    assert before == {path: path.read_bytes() for path in docs.rglob("*") if path.is_file()}


def test_entries_whose_answers_no_claim_covers_are_marked(
    documented: tuple[StudyResults, Path],
) -> None:
    table = documented[0].rankings
    assert {row.answers for row in table.rows} == {"own-record"}
    assert "°" not in "\n".join(pivots.leaders(table.rows))
    rows = [
        replace(row, answers="none" if row.entry == "dp_gcn" else row.answers) for row in table.rows
    ]
    lines = pivots.leaders(rows)
    (line,) = [line for line in lines if line.startswith(f"| {table.rows[0].guarantee} | 8 |")]
    clear = "DP-GCN° (2: alpha, beta)"
    assert line.endswith(f"| 8 | {clear} | {clear} |")
    assert lines[-1].startswith("° the weights are covered")


def test_the_front_figure_shows_the_largest_graphs_and_says_so(
    documented: tuple[StudyResults, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = documented
    whole = front_figure.front_figure([found])
    assert whole is not None
    assert whole.caption.endswith("tier S.")
    places = list(dict.fromkeys(row.dataset for row in found.rankings.rows))
    assert len(places) > 1
    monkeypatch.setattr(front_figure, "MAX_PANELS", 1)
    monkeypatch.setattr(front_figure, "_sizes", lambda results: {p: len(p) for p in places})
    part = front_figure.front_figure([found])
    assert part is not None
    assert part.caption.endswith(
        f"tier S, its 1 largest real graphs of {len(places)} with repeated runs."
    )


def test_a_study_that_cannot_be_read_leaves_the_pages_as_they_were(
    documented: tuple[StudyResults, Path], tmp_path: Path
) -> None:
    found, _ = documented

    def studies() -> Iterator[StudyResults]:
        yield found
        raise ValueError("runs.parquet is damaged")

    kept = tmp_path / "figures" / found.info.name / "kept.png"
    kept.parent.mkdir(parents=True)
    kept.touch()
    with pytest.raises(ValueError, match="is damaged"):
        write_docs(studies(), [found.info], tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [kept]
    write_docs([found], [found.info], tmp_path)
    assert not kept.exists()


def test_the_front_figure_leaves_out_stand_ins_and_graphs_without_intervals(
    documented: tuple[StudyResults, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = documented
    rankings = found.rankings
    first, second = dict.fromkeys(row.dataset for row in rankings.rows)
    drawn = []
    monkeypatch.setattr(front_figure, "_panel", lambda axis, dataset, *rest: drawn.append(dataset))

    def draw(change: dict[str, Any]) -> list[str]:
        drawn.clear()
        rows = [replace(row, **change) if row.dataset == first else row for row in rankings.rows]
        changed = replace(found, rankings=replace(rankings, rows=rows))
        picture = front_figure.front_figure([changed])
        assert picture is not None
        assert picture.figure.axes
        return drawn.copy()

    assert draw({}) == [first, second]
    assert draw({"n": 1}) == [second]
    assert draw({"dataset": "synthetic-flickr"}) == [second]
