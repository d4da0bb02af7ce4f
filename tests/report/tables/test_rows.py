"""Rows hold their columns: a field without a value is a type error, and files keep the names of columns."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import pytest

from dpgnn.report.pages.docs_page import left_out
from dpgnn.report.tables import rows
from dpgnn.report.tables.table import (
    Column,
    Table,
    columns_of,
    committed_name,
    to_csv,
    to_markdown,
)

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "headtohead" / "tables"
FILES = {
    "summary": rows.SummaryRow, "rankings": rows.RankingRow, "mean-ranks": rows.MeanRankRow,
    "refusals": rows.RefusalRow, "differences": rows.DifferenceRow, "comparisons": rows.ComparisonRow,
    "tuned": rows.TunedRow, "claims": rows.ClaimRow,
}  # fmt: skip


def doubled(row: Toy) -> str:
    return f"{2 * row.score:g}"


@dataclass(frozen=True, kw_only=True)
class Toy:
    name: Annotated[str, Column(header="Name")]
    score: Annotated[float, Column(header="Twice", show=doubled)]
    hidden: str


TABLE = Table(
    name="toy", title="Toy", caption="", columns=columns_of(Toy),
    rows=[Toy(name="a", score=0.25, hidden="secret")],
)  # fmt: skip


def test_fields_with_a_column_are_the_columns_in_their_order() -> None:
    assert [(c.key, c.header) for c in TABLE.columns] == [("name", "Name"), ("score", "Twice")]
    assert to_csv(TABLE) == "name,score\na,0.25\n"
    assert "| a | 0.5 |" in to_markdown(TABLE)


def test_a_column_that_no_field_has_is_an_error_and_no_empty_cell() -> None:
    renamed = replace(TABLE, columns=(Column(key="mean", header="Mean"),))
    for form in (to_csv, to_markdown):
        with pytest.raises(AttributeError, match="mean"):
            form(renamed)


@pytest.mark.parametrize(("name", "kind"), FILES.items(), ids=list(FILES))
def test_the_columns_of_committed_tables_are_those_of_their_rows(name: str, kind: Any) -> None:
    path = REFERENCE / committed_name(name)
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        kept = [column.key for column in columns_of(kind) if column.key not in left_out(name)]
        assert next(csv.reader(file)) == kept
