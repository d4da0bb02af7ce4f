"""One table of a user: CSV or Parquet, as a polars frame."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn.core.checks import fail, require
from dpgnn.data.custom.columns import check_names, check_schema, frame_of

if TYPE_CHECKING:
    import polars as pl


def read_table(path: Path) -> pl.DataFrame:
    """All columns of a table; CSV cells as texts, so that messages can quote a bad one.

    Args:
        path: a CSV table with a header line, or a Parquet table.

    Raises:
        ValueError: it is no such table, or a row has another number of cells than the header; names the line.
    """
    import polars as pl

    if path.suffix == ".parquet":
        from dpgnn.core.storage import read_parquet

        table = read_parquet(path, remedy="write it again")
        check_schema(path, table.schema)
        return frame_of(path, table)
    content = _content(path)
    rule = "be a CSV table with one header line"
    try:
        text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
        reader = csv.reader(text)
        header = next(reader, [])
    except csv.Error as error:
        fail(str(path), rule, str(error))
    if not any(header):
        fail(str(path), "begin with a line of column names", "an empty file")
    for separator in (";", "\t"):
        one = len(header) == 1 and separator in header[0]
        require(
            not one, str(path), "separate cells by commas", header[0], "save it as CSV with commas"
        )
    check_names(path, header)
    _check_lengths(path, reader, len(header))
    try:
        return pl.read_csv(content, infer_schema=False)
    except pl.exceptions.PolarsError as error:
        fail(str(path), rule, str(error).split("\n")[0])


def _content(path: Path) -> bytes:
    """A CSV file's UTF-8 lines; blank ones at the end are no rows."""
    content = path.read_bytes().rstrip(b"\r\n")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        remedy = "save the table as UTF-8"
        fail(f"{path}, line {line}", "be UTF-8", f"byte 0x{content[error.start]:02x}", remedy)
    if b"\r" in content and b"\n" not in content:
        remedy = "save it as CSV UTF-8"
        fail(str(path), "end its lines with line feeds", "carriage returns alone", remedy)
    return content


def _check_lengths(path: Path, reader: Any, num_columns: int) -> None:
    """Refuse a row with another number of cells than the header; missing ones would be read as empty.

    Damaged quotes are reported by the reader of the whole table.
    """
    few, many = "write every comma, also of empty cells", "is a name missing in the header?"
    blank = "remove it"
    try:
        for row in reader:
            if len(row) != num_columns:
                remedy = blank if not row else few if len(row) < num_columns else many
                got = f"{len(row)} cells" if row else "a blank line"
                fail(f"{path}, line {reader.line_num}", f"have {num_columns} cells", got, remedy)
    except csv.Error:
        return
