"""The three forms of a table: full numbers for programs, rounded ones for people; titles stay text."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import polars as pl
import pytest

from dpgnn.report.tables.table import (
    Column,
    Table,
    csv_text,
    epsilon_text,
    format_value,
    interval_text,
    markdown_text,
    signed,
    to_csv,
    to_latex,
    to_markdown,
    without_tags,
    write_table,
)

TABLE = Table(
    name="toy",
    title="A toy",
    caption="Values in %.",
    columns=(
        Column(key="name", header="Name"),
        Column(key="mean", header="Mean %", kind="percent"),
        Column(
            key="low",
            header="Interval",
            kind="percent",
            show=lambda row: interval_text(row["low"], row["high"]),
        ),
        Column(key="high", header="high", form="csv"),
        Column(key="note", header="Note", optional=True),
    ),
    rows=[
        {"name": "a|b_c", "mean": 2 / 3, "low": 0.6, "high": 0.7, "bold": ("mean",)},
        {"name": "d & e", "mean": None, "low": None, "high": None},
    ],
)


def test_csv_keeps_full_precision_and_leaves_missing_values_empty() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(TABLE))))
    assert list(rows[0]) == ["name", "mean", "low", "high", "note"]
    assert float(rows[0]["mean"]) == 2 / 3
    assert rows[1]["mean"] == ""


def test_csv_of_committed_tables_rounds_what_was_measured_and_nothing_else() -> None:
    columns = [
        Column(key="mean", header="Mean %", kind="percent"),
        Column(key="gain", header="Gain", kind="points"),
        Column(key="p", header="p", kind="p"),
        Column(key="claimed", header="Claimed", kind="epsilon"),
        Column(key="delta", header="Delta", kind="number"),
        Column(key="n", header="n", kind="percent"),
    ]
    row = {"mean": 2 / 3, "gain": -1 / 3000, "p": 1 / 3e9, "claimed": 1 / 3, "delta": 1 / 7, "n": 3}
    table = Table(name="toy", title="A toy", caption="", columns=columns, rows=[row])
    made = to_csv(table, digits=8).splitlines()[1]
    assert made == f"0.66666667,-0.00033333333,3.3333333e-10,{1 / 3!r},{1 / 7!r},3"
    infinite = Table(
        name="toy", title="", caption="", columns=columns[:1], rows=[{"mean": math.inf}]
    )
    assert to_csv(infinite, digits=8).splitlines()[1] == "inf"


def test_markdown_rounds_joins_and_sets_bold_what_is_bold() -> None:
    lines = to_markdown(TABLE).splitlines()
    assert lines[0] == "## A toy"
    assert lines[2] == "| Name | Mean % | Interval |"
    assert lines[4] == "| a\\|b_c | **66.7** | 60.0 to 70.0 |"
    assert lines[5] == "| d & e | – | – |"
    assert lines[-1] == "Values in %."


def test_latex_is_escaped_and_uses_booktabs() -> None:
    text = to_latex(TABLE)
    assert r"\toprule" in text
    assert r"a|b\_c & \textbf{66.7} & 60.0 to 70.0 \\" in text
    assert r"d \& e & -- & -- \\" in text
    assert r"\caption{A toy. Values in \%.}" in text
    assert text.count("{") == text.count("}")


def test_an_optional_column_is_shown_only_where_a_row_has_a_value() -> None:
    assert "Note" not in to_markdown(TABLE)
    filled = Table(
        name="toy",
        title="",
        caption="",
        columns=TABLE.columns,
        rows=[{"name": "x", "low": 0.1, "high": 0.2, "note": "y"}],
    )
    assert "Note" in to_markdown(filled)


def test_an_empty_table_says_why() -> None:
    table = Table(name="none", title="None", caption="", columns=TABLE.columns, empty="Not run.")
    assert "Not run." in to_markdown(table)
    assert "Not run." in to_latex(table)
    assert "tabular" not in to_latex(table)


def test_all_three_files_are_written_and_equal_tables_give_equal_bytes(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write_table(tmp_path / folder, TABLE)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["toy.csv", "toy.md", "toy.tex"]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (0.12345, "percent", "12.3"),
        (0.12345, "points", "+12.3"),
        (-0.0001, "points", "0.0"),
        (-0.05, "points", "−5.0"),
        (1234567, "integer", "1\u202f234\u202f567"),
        ("inf", "epsilon", "∞"),
        (7.99961, "epsilon", "8"),
        (0.0004, "p", "< 0.001"),
        (math.inf, "number", "∞"),
        (None, "percent", "–"),
        (123.4, "seconds", "123"),
    ],
)
def test_values_are_written_for_people(value: object, kind: str, text: str) -> None:
    assert format_value(value, kind) == text  # type: ignore[arg-type]


def test_signs_and_epsilons() -> None:
    assert (signed(1.04), signed(-1.04), signed(0.04), signed(-0.04)) == (
        "+1.0",
        "−1.0",
        "0.0",
        "0.0",
    )
    assert (epsilon_text("0.5"), epsilon_text(math.inf)) == ("0.5", "∞")


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
