"""Columns of a user's tables -> arrays, for a whole table or a batch of a large one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpgnn.core.checks import fail, one_line, require
from dpgnn.data.custom.check import Problems
from dpgnn.data.custom.options import MAX_FEATURES
from dpgnn.data.files.content import PART_CODES

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

PARTS = {**PART_CODES, "": -1}
LABEL_COLUMN = re.compile(r"label(_\d+)?")
# names that pandas gives to its index: to_csv, read_csv after it, to_parquet
INDEX_COLUMN = re.compile(r"|Unnamed: \d+|__index_level_\d+__")
ENDS = ("source", "target")
MAX_EXACT = 2.0**53  # whole numbers beyond are not told apart as floats
RULE = f"be {MAX_FEATURES} or fewer"


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of one table.

    Attributes:
        path: the table, for messages.
        frame: the rows.
        first: number of the first row in the table, from 0.
        ids: the user's names of nodes, or None if they are positions.
    """

    path: Path
    frame: pl.DataFrame
    first: int = 0
    ids: list[str] | None = None

    def name_of(self, row: int) -> str:
        """The user's name of a row's node."""
        return self.ids[row] if self.ids else str(self.first + row)


def check_names(path: Path, names: Sequence[str]) -> None:
    """Refuse a table with two columns of one name, because it is undefined which is read.

    Raises:
        ValueError: a name is repeated, or there are more than `MAX_FEATURES` columns.
    """
    remedy = "leave features out"
    require(len(names) <= MAX_FEATURES, f"{path}: columns", RULE, len(names), remedy)
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        fail(f"{path}: columns", "have different names", f"{', '.join(twice)} twice")


def check_schema(path: Path, schema: pa.Schema) -> None:
    """Refuse a Parquet table that polars cannot hold.

    Raises:
        ValueError: a name is repeated, or a column holds neither numbers of up to 128 bits nor texts.
    """
    import pyarrow as pa

    check_names(path, schema.names)
    for field in schema:
        if pa.types.is_decimal256(field.type) or pa.types.is_nested(field.type):
            remedy = "write a number or a text in each cell"
            fail(f"{path}: column {field.name}", "hold numbers or texts", str(field.type), remedy)


def frame_of(path: Path, table: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    """A Parquet table as a polars frame.

    Raises:
        ValueError: a text is not UTF-8, lengths disagree, or a type is neither number nor text.
    """
    import polars as pl
    import pyarrow as pa

    try:
        # polars panics, which is not an Exception, if a text or a column's metadata is not UTF-8
        table.validate(full=True)
        return pl.DataFrame(type(table).from_arrays(table.columns, names=table.schema.names))
    except (pa.ArrowException, pl.exceptions.PolarsError) as error:
        fail(str(path), "hold numbers and texts", one_line(error))


def feature_columns(path: Path, names: Sequence[str], problems: Problems) -> list[str]:
    """All columns of nodes except id, labels and split.

    The index of a pandas table is no feature, nor is a column such as ID, which is read as id by nobody.
    """
    columns = [name for name in names if not _is_taken(name)]
    for name in columns:
        lower = name.strip().lower()
        if INDEX_COLUMN.fullmatch(name.strip()):
            rule, shown = "hold a feature", name or "a column without a name"
            problems.add(f"{path}: columns", rule, shown, "write with index=False")
        elif _is_taken(lower):
            remedy = f"did you mean {lower}? Give a feature another name"
            problems.add(f"{path}: column {name}", "be spelled as it is read", name, remedy)
    if not columns:
        problems.add(f"{path}: features", "be one column or more", "none")
    return columns


def _is_taken(name: str) -> bool:
    """Whether a column of nodes is no feature by its name."""
    return name in ("id", "split") or bool(LABEL_COLUMN.fullmatch(name))


def check_feature_names(
    path: Path, found: Sequence[str], stated: Sequence[str], problems: Problems
) -> None:
    """Check that the feature columns are those in graph.yaml, if it names any."""
    if stated and list(found) != list(stated):
        other = [name for name in found if name not in stated]
        missing = [name for name in stated if name not in found]
        shown = ", ".join([*other, *(f"no {name}" for name in missing)][:5]) or "another order"
        problems.add(f"{path}: features", "be those of graph.yaml in their order", shown)


def check_edge_columns(path: Path, names: Sequence[str], problems: Problems) -> bool:
    """Whether both end columns exist; further columns are reported."""
    missing = [name for name in ENDS if name not in names]
    if missing:
        shown = ", ".join(names)
        problems.add(f"{path}: column {missing[0]}", "be there", shown, "name the two ends so")
        return False
    more = sorted(set(names) - set(ENDS))
    if more:
        remedy = "edges carry no weights or features here; drop it"
        problems.add(f"{path}: column {more[0]}", "not be there", ", ".join(more), remedy)
    return True


def texts_of(column: pl.Series) -> pl.Series:
    """Cells as texts without surrounding blanks: "" for an empty cell or NaN, 3 for the float 3.0."""
    import polars as pl

    if column.dtype.is_float():
        column = column.fill_nan(None)
        # below, floats tell all whole numbers apart
        exact = 2**24 if column.dtype == pl.Float32 else 2**53
        whole = (column == column.floor()) & (column.abs() < exact)
        short = column.set(~whole, None).cast(pl.Int64).cast(pl.String)
        return short.zip_with(whole.fill_null(value=True), column.cast(pl.String)).fill_null("")
    kinds = (pl.String, pl.Categorical, pl.Enum, pl.Null)
    if isinstance(column.dtype, kinds) or column.dtype.is_integer():
        texts = column.cast(pl.String)
    else:
        cells = [None if cell is None else str(cell) for cell in column.to_list()]
        texts = pl.Series(column.name, cells, dtype=pl.String)
    return texts.str.strip_chars().fill_null("")


def numbers(rows: Rows, name: str, problems: Problems) -> np.ndarray | None:
    """One column as float64; the first cell that is not a number is reported."""
    import polars as pl

    column = rows.frame[name]
    if column.dtype == pl.String:
        found = column.str.strip_chars().cast(pl.Float64, strict=False)
    elif column.dtype.is_numeric() or column.dtype == pl.Boolean:
        found = column.cast(pl.Float64)
    else:
        problems.add(f"{rows.path}: column {name}", "hold numbers", str(column.dtype))
        return None
    bad = found.is_null()
    if bad.any():
        row = bad.arg_true()[0]
        value = column[row]
        more = f", and {bad.sum() - 1} more cells" if bad.sum() > 1 else ""
        shown = "an empty cell" if value in (None, "") else str(value)
        where = f"{rows.path}: column {name} of node {rows.name_of(row)}"
        problems.add(where, "be a number", shown + more)
        return None
    return found.to_numpy()


def features(rows: Rows, columns: Sequence[str], problems: Problems) -> np.ndarray | None:
    """The columns as float32, shape (num_rows, num_columns)."""
    found = [numbers(rows, name, problems) for name in columns]
    if not found or any(column is None for column in found):
        return None
    with np.errstate(over="ignore"):  # values that overflow to infinity are reported later
        return np.stack([c for c in found if c is not None], axis=1).astype(np.float32)


def codes(rows: Rows, problems: Problems) -> np.ndarray | None:
    """The column `split` as int8 parts; None without one."""
    import polars as pl

    if "split" not in rows.frame.columns:
        return None
    texts = texts_of(rows.frame["split"])
    for cell in texts.unique(maintain_order=True):
        if cell not in PARTS:
            where = f"{rows.path}: split of node {rows.name_of(row_of(texts, cell))}"
            problems.add(where, "be train, val, test or empty", cell)
            return None
    return texts.replace_strict(PARTS, return_dtype=pl.Int8).to_numpy()


def row_of(texts: pl.Series, cell: str) -> int:
    """The first row that holds `cell`."""
    return int((texts == cell).arg_true()[0])


def ends(
    rows: Rows,
    place: Mapping[str, int] | None,
    num_nodes: int,
    problems: Problems,
    *,
    known: str = "an id of a node",
    remedy: str = "add the node or drop the edge",
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Positions of the two ends of each edge.

    Args:
        rows: of the table of edges.
        place: position of each id; None if nodes have no ids.
        num_nodes: of the graph.
        problems: gets the first end that is not a node.
        known, remedy: what an end must be where nodes have ids, and what to do about one that is not.
    """
    found = []
    for name in ENDS:
        column = rows.frame[name]
        positions = _positions(column, place, num_nodes)
        bad = positions < 0
        if bad.any():
            row = int(np.argmax(bad))
            known = f"a node in 0..{num_nodes - 1}" if place is None else known
            shown = texts_of(column.slice(row, 1))[0] or "an empty cell"
            shown += f", and {int(bad.sum()) - 1} more" if bad.sum() > 1 else ""
            where = f"{rows.path}: {name} of edge {rows.first + row + 1}"
            problems.add(where, f"be {known}", shown, remedy)
            return None, None
        found.append(positions)
    return found[0], found[1]


def _positions(column: pl.Series, place: Mapping[str, int] | None, num_nodes: int) -> np.ndarray:
    """Nodes' positions, int64, -1 for unknown nodes."""
    import polars as pl

    if place is not None:
        cells = texts_of(column).to_list()
        return np.array([place.get(cell, -1) for cell in cells], dtype=np.int64)
    if not column.dtype.is_integer():
        texts = texts_of(column)
        column = texts.set(~texts.str.contains(r"^\d{1,18}$"), None)
    positions = column.cast(pl.Int64, strict=False).fill_null(-1).to_numpy()
    return np.where(positions < num_nodes, positions, -1)
