"""Titles that a spreadsheet or a Markdown reader would run stay text."""

from __future__ import annotations

import csv
import io

import polars as pl
import pytest

from dpgnn.report.tables.escaping import csv_text, markdown_text, without_tags
from dpgnn.report.tables.table import Column, Table, to_csv, to_markdown

FORMULAS = ["=1+1", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1"]


def _table(text: str) -> Table:
    columns = (Column(key="title", header="T"), Column(key="score", header="S", kind="number"))
    rows = [{"title": text, "score": -0.25}, {"title": [text, text], "score": float("-inf")}]
    return Table(name="t", title=text, caption=text, columns=columns, rows=rows)


@pytest.mark.parametrize("text", FORMULAS)
def test_a_title_is_never_a_formula_and_numbers_stay_numbers(text: str) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(_table(text)), newline="")))
    plain = text.replace("\r", "\n")
    assert [row["title"] for row in rows] == [f"'{plain}", f"'{plain}; {plain}"]
    assert [float(row["score"]) for row in rows] == [-0.25, float("-inf")]
    assert pl.read_csv(to_csv(_table("x")).encode())["score"].to_list() == [-0.25, float("-inf")]


def test_a_carriage_return_begins_no_row() -> None:
    rows = list(csv.reader(io.StringIO(to_csv(_table("a\r=1")), newline="")))
    assert [row[0] for row in rows] == ["title", "a\n=1", "a\n=1; a\n=1"]


@pytest.mark.parametrize("text", ["a=b", "-0.5", "+3", "-inf", "−5.0", "", "dp-gnn"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert csv_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "<img src=x onerror=alert(1)>", "</td>", "<!-- x", "<?php", "\\<script>", "<https://x.org>",
        "[a](javascript:alert(1))", "![a](https://x.org/a.png)", "\\[a](x)", "a\n# b",
    ],
)  # fmt: skip
def test_markdown_of_a_title_makes_no_element(text: str) -> None:
    markdown_it = pytest.importorskip("markdown_it")
    html = markdown_it.MarkdownIt("commonmark").enable("table").render(to_markdown(_table(text)))
    for live in ("<img", "<script", "<!--", "<?php", "<a ", "<h1"):
        assert live not in html
    assert html.count("</td>") == 4


def test_comparisons_are_no_tags_and_links_of_ours_stay() -> None:
    assert markdown_text("degree <= 10, p < 0.05") == "degree <= 10, p < 0.05"
    assert without_tags("[a](b.md) <b>") == "[a](b.md) &lt;b>"
