"""Tables, and their forms: CSV with full or chosen precision, Markdown and LaTeX with rounded numbers.

A row that pages also read is a frozen dataclass whose annotations hold the columns (`columns_of`), so that a
type checker sees every use of a value. Rows that are only shown may be mappings, with a list of columns.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar, get_type_hints

from dpgnn.core.checks import is_number_text
from dpgnn.core.storage import write_text
from dpgnn.report.tables.latex import Cell, longtable

Kind = Literal[
    "text", "integer", "number", "percent", "points", "epsilon", "seconds", "megabytes", "p"
]
MEASURED = ("percent", "points", "p")  # kinds of scores, their differences and p values
# written compressed in docs/reference
COMPRESSED = ("claims", "copied", "differences", "summary", "tuned-comparisons")
Row = Mapping[str, Any]
R = TypeVar("R", covariant=True)
DASH = "–"


class CellRow(Protocol):
    """A row about one entry at one data set, setting and epsilon."""

    @property
    def dataset(self) -> str: ...
    @property
    def setting(self) -> str: ...
    @property
    def entry(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def epsilon(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column.

    Attributes:
        key: the value's name in a row and the column's name in CSV; the field's name if given in an
            annotation.
        header: the printed name.
        kind: how a value is written; fractions are shown as percent or percentage points.
        show: makes the printed text from the row, if `kind` is not enough.
        form: "both", "csv" (in the CSV only), "read" (not in the CSV), or "screen" (as both, but not in
            LaTeX, where it would not fit).
        optional: shown only if a row has a value.
    """

    key: str = ""
    header: str
    kind: Kind = "text"
    show: Callable[[Any], str] | None = None
    form: Literal["both", "csv", "read", "screen"] = "both"
    optional: bool = False

    def value(self, row: Any) -> Any:
        """The cell's value; None if a mapping has none."""
        return row.get(self.key) if isinstance(row, Mapping) else getattr(row, self.key)

    def text(self, row: Any) -> str:
        """The cell as printed."""
        return self.show(row) if self.show else format_value(self.value(row), self.kind)

    @property
    def is_number(self) -> bool:
        """Whether it is right-aligned."""
        return self.kind != "text"


@cache
def columns_of(row_type: type[Any]) -> tuple[Column, ...]:
    """The columns that a row's annotations hold, in the order of its fields."""
    hints = get_type_hints(row_type, include_extras=True)
    return tuple(
        replace(column, key=name)
        for name, hint in hints.items()
        for column in getattr(hint, "__metadata__", ())
        if isinstance(column, Column)
    )


@dataclass(frozen=True, kw_only=True)
class Table(Generic[R]):
    """A table with its caption.

    Attributes:
        name: the files' stem.
        title: a few words.
        caption: what the reader must know: units, kind of interval, number of comparisons.
        columns, rows: the content; a row's `bold` names the columns set in bold.
        empty: the text in place of a table without rows.
        reproduces: False if a paper's numbers stand beside other mechanisms.
    """

    name: str
    title: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[R] = field(default_factory=list)
    empty: str = "There is nothing to show."
    reproduces: bool = True

    @property
    def read_columns(self) -> list[Column]:
        """The columns that pages show."""
        return [
            column
            for column in self.columns
            if column.form != "csv"
            and not (column.optional and all(column.value(row) in (None, "") for row in self.rows))
        ]

    @property
    def printed(self) -> list[Column]:
        """The columns in LaTeX."""
        return [column for column in self.read_columns if column.form != "screen"]

    def is_bold(self, row: Any, column: Column) -> bool:
        """Whether a cell is set in bold."""
        bold = row.get("bold", ()) if isinstance(row, Mapping) else getattr(row, "bold", ())
        return column.key in bold


def format_value(value: Any, kind: Kind) -> str:
    """A value as printed; a missing one is a dash."""
    if value is None or value == "":
        return DASH
    if kind == "text":
        return str(value)
    if kind == "epsilon":
        return epsilon_text(value)
    number = float(value)
    if math.isinf(number):
        return "∞" if number > 0 else "−∞"
    if kind == "integer":
        return f"{int(value):,}".replace(",", "\u202f")  # narrow no-break space
    if kind == "percent":
        return f"{100 * number:.1f}"
    if kind == "points":
        return signed(100 * number)
    if kind == "seconds":
        return f"{number:.1f}" if number < 100 else f"{number:.0f}"
    if kind == "megabytes":
        return f"{number:.0f}"
    if kind == "p":
        return "< 0.001" if number < 0.001 else f"{number:.3f}"
    return f"{number:.4g}"


def signed(number: float, digits: int = 1) -> str:
    """A number with its sign, a true minus, and no "-0.0"."""
    text = f"{abs(number):.{digits}f}"
    if float(text) == 0:
        return text
    return ("+" if number > 0 else "−") + text


def epsilon_text(value: Any) -> str:
    """An epsilon, text or number: "8", "7.996", "∞"."""
    number = float(value)
    return "∞" if math.isinf(number) else f"{number:.4g}"


def interval_text(low: float | None, high: float | None, kind: Kind = "percent") -> str:
    """ "LOW to HIGH" in percent or points; a dash for one repeat."""
    if low is None or high is None:
        return DASH
    return f"{format_value(low, kind)} to {format_value(high, kind)}"


def committed_name(table: str) -> str:
    """File name of a table in docs/reference; the longest are compressed, which readers of CSV undo."""
    return f"{table}.csv.gz" if table in COMPRESSED else f"{table}.csv"


def to_csv(table: Table[Any], *, digits: int | None = None) -> str:
    """The table as CSV: infinity as inf, missing values empty, no text that is a formula.

    Args:
        table: the table.
        digits: significant digits of scores, differences and p values; None for full precision, which every
            other number has.
    """
    columns = [column for column in table.columns if column.form != "read"]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([csv_text(column.key) for column in columns])
    for row in table.rows:
        writer.writerow([_csv_value(_rounded(column, row, digits)) for column in columns])
    return buffer.getvalue()


def to_markdown(table: Table[Any]) -> str:
    """The table as Markdown: title, table, caption."""
    lines = [f"## {markdown_text(table.title)}", ""]
    columns = table.read_columns
    if table.rows:
        lines.append("| " + " | ".join(_markdown(column.header) for column in columns) + " |")
        lines.append("|" + "|".join("---:" if c.is_number else "---" for c in columns) + "|")
        for row in table.rows:
            cells = []
            for column in columns:
                text = _markdown(column.text(row))
                cells.append(f"**{text}**" if table.is_bold(row, column) else text)
            lines.append("| " + " | ".join(cells) + " |")
    else:
        lines.append(markdown_text(table.empty))
    return "\n".join([*lines, "", markdown_text(table.caption)]) + "\n"


def to_latex(table: Table[Any]) -> str:
    """A longtable that breaks over pages and fits one; see `latex`.

    Columns of the form "screen" are left out.
    """
    columns = table.printed
    return longtable(
        name=table.name,
        caption=f"{table.title}. {table.caption}",
        heads=[column.header for column in columns],
        is_number=[column.is_number for column in columns],
        rows=[
            [Cell(text=column.text(row), bold=table.is_bold(row, column)) for column in columns]
            for row in table.rows
        ],
        empty=table.empty,
    )


def write_table(folder: str | Path, table: Table[Any]) -> None:
    """Write NAME.csv, NAME.md and NAME.tex."""
    folder = Path(folder)
    for suffix, form in ((".csv", to_csv), (".md", to_markdown), (".tex", to_latex)):
        write_text(folder / f"{table.name}{suffix}", form(table))


def _rounded(column: Column, row: Any, digits: int | None) -> Any:
    """The cell's value; a score, difference or p value with so many significant digits."""
    value = column.value(row)
    if digits is None or column.kind not in MEASURED or not isinstance(value, float):
        return value
    return float(f"{value:.{digits}g}")


def _csv_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return csv_text("; ".join(str(item) for item in value))
    return repr(value) if isinstance(value, float) else csv_text(str(value))


def _markdown(text: str) -> str:
    return markdown_text(text).replace("|", "\\|")


# a spreadsheet takes a cell that begins so for a formula; the wide letters too in some languages
_FORMULA = tuple("=+-@\t\n＝＋－＠")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")


def csv_text(text: str) -> str:
    """A CSV cell that no spreadsheet evaluates: a text that would start a formula gets a leading apostrophe.

    Numbers are unchanged. A lone carriage return becomes a newline, because the csv module quotes only
    newlines.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    is_number = is_number_text(text) and not text[0].isspace()
    return f"'{text}" if text.startswith(_FORMULA) and not is_number else text


def markdown_text(text: str) -> str:
    """The text with HTML, links and images escaped; comparisons such as `a < b` stay as they are."""
    return without_tags(text.replace("\\", "\\\\")).replace("[", "\\[").replace("\n", " ")


def without_tags(text: str) -> str:
    """Markdown with HTML tags and comments escaped; links stay links."""
    return _TAG.sub("&lt;", text)
