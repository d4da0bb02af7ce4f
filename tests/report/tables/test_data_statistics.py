import csv
from pathlib import Path

import pytest
from helpers import tells

from dpgnn.records.info import PAPERS
from dpgnn.report.tables.data_statistics import NAMES, as_markdown, statistics_rows, write_rows


@pytest.fixture
def nothing(monkeypatch, tmp_path):
    monkeypatch.delenv("DPGNN_MIRROR", raising=False)
    return tmp_path


def test_what_is_not_here_is_not_available_with_the_reason(nothing):
    rows = statistics_rows(nothing)
    by_set = {(row.paper, row.dataset): row for row in rows}
    assert set(by_set) == set(NAMES)
    assert by_set["drw", "pubmed"].verdict == "not-available"
    tells(by_set["drw", "pubmed"].reason, "`dpgnn data prepare`")
    assert "place it by hand" in by_set["drw", "ppi"].reason
    assert all(row.our_value == "" for row in rows if row.verdict == "not-available")


def test_the_chains_are_the_papers(nothing):
    rows = [row for row in statistics_rows(nothing) if row.loaded_as.startswith("chains")]
    assert len(rows) == 4 * 8
    assert {row.verdict for row in rows} == {"equal"}


@pytest.mark.data
def test_every_value_that_can_be_checked_equals_the_papers_but_one(mirror, monkeypatch, tmp_path):
    monkeypatch.setenv("DPGNN_MIRROR", str(mirror))
    rows = statistics_rows(tmp_path)
    checked = [row for row in rows if row.verdict != "not-available"]
    assert len(checked) >= 73
    (differs,) = [row for row in checked if row.verdict == "differs"]
    assert (differs.dataset, differs.quantity, differs.paper_value) == ("Physics", "classes", "8")
    assert differs.our_value == "5"
    page = (Path(__file__).parents[3] / "docs" / "data_statistics.md").read_text()
    assert page == as_markdown(rows)
    edges = {row.dataset: row.reason for row in checked if row.quantity == "edges"}
    assert edges["CS"] == "twice the directed edges"
    assert edges["Cora-ML"] == "entries of the raw file"


def test_rows_are_written_as_csv_and_markdown(nothing, tmp_path):
    rows = statistics_rows(nothing)
    write_rows(rows, tmp_path / "a.csv")
    with open(tmp_path / "a.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == len(rows)
    write_rows(rows, tmp_path / "a.md")
    text = as_markdown(rows)
    assert (tmp_path / "a.md").read_text() == text
    assert sum(line.endswith("|") for line in text.splitlines()) == len(rows) + 2 * 4
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == [f"## {PAPERS[paper]}" for paper in ("dpgnn", "drw", "dpar", "caribou")]
    assert '<a id="caribou"></a>' in text
