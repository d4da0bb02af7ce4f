"""The three forms of a table: full numbers for programs, rounded ones for people."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pytest

from dpgnn.report.tables.table import (
    Column,
    Table,
    epsilon_text,
    format_value,
    interval_text,
    signed,
    to_csv,
    to_latex,
    to_markdown,
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
