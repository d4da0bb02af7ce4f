"""The labels of a user's tables: their columns, and the class of each cell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpgnn.core.checks import is_number_text
from dpgnn.data.custom.check import Problems
from dpgnn.data.custom.columns import LABEL_COLUMN, MAX_EXACT, Rows, numbers, row_of, texts_of
from dpgnn.data.custom.options import Options

if TYPE_CHECKING:
    import polars as pl

WHOLE = re.compile(r"-?\d+(\.0*)?")  # 3, and 3.0 as pandas writes it if the column has empty cells
MAX_DIGITS = 18  # of a number that fits into int64
SEVERAL_LABELS = "for several labels a node set task: multilabel in graph.yaml"
NAME_THEM = "name all classes in their order in graph.yaml: `classes: [...]`"


def label_columns(
    path: Path, names: Sequence[str], options: Options, problems: Problems
) -> list[str]:
    """The columns of labels in order; [] if there are none. A superfluous column is reported."""
    found = [name for name in names if LABEL_COLUMN.fullmatch(name)]
    several = sorted((name for name in found if name != "label"), key=lambda name: int(name[6:]))
    if options.task == "multilabel":
        if not several:
            problems.add(f"{path}: labels", "be columns label_0, label_1, ...", "none")
        elif "label" in found:
            rule, remedy = f"not be there beside {several[0]}", "drop or rename one of the two"
            problems.add(f"{path}: column label", rule, ", ".join(found), remedy)
        return several
    if "label" not in found:
        remedy = SEVERAL_LABELS if several else "rename the column that holds the class"
        problems.add(f"{path}: column label", "be there", ", ".join(names), remedy)
        return []
    if several:
        remedy = f"drop or rename one of the two; {SEVERAL_LABELS}"
        rule = "not be there beside label"
        problems.add(f"{path}: column {several[0]}", rule, ", ".join(found), remedy)
    return ["label"]


def labels(
    rows: Rows, columns: Sequence[str], options: Options, problems: Problems
) -> np.ndarray | None:
    """int64 classes, -1 where unlabelled, or uint8 columns for the multi-label task.

    Args:
        rows: of the table of nodes.
        columns: from `label_columns`.
        options: graph.yaml.
        problems: gets the first cell that is not a label.
    """
    if not columns:
        return None
    if options.task == "multiclass":
        return _classes(rows, options, problems)
    found = [numbers(rows, name, problems) for name in columns]
    if any(column is None for column in found):
        return None
    table = np.stack([column for column in found if column is not None], axis=1)
    bad = ~np.isin(table, (0, 1))
    if bad.any():
        row, column = (int(place) for place in np.argwhere(bad)[0])
        where = f"{rows.path}: {columns[column]} of node {rows.name_of(row)}"
        problems.add(where, "be 0 or 1", float(table[row, column]))
        return None
    return table.astype(np.uint8)


def _classes(rows: Rows, options: Options, problems: Problems) -> np.ndarray | None:
    """Whole numbers as they are; names by their position in `classes`, or in alphabetical order."""
    import polars as pl

    texts = _texts(rows, options, problems)
    if texts is None:
        return None
    found = [text for text in texts.unique(maintain_order=True) if text]
    if options.classes:
        values = {name: number for number, name in enumerate(options.classes)}
        wrong = _not_stated(found, options)
    elif any(not WHOLE.fullmatch(text) for text in found):
        named = sorted(text for text in found if text != "-1")
        values = {name: number for number, name in enumerate(named)}
        wrong = _no_name(found, options)
    else:
        values = {text: int(text.partition(".")[0][: MAX_DIGITS + 1]) for text in found}
        wrong = _no_class(values)
    if wrong:
        text, rule, remedy = wrong
        where = f"{rows.path}: label of node {rows.name_of(row_of(texts, text))}"
        problems.add(where, rule, text, remedy)
        return None
    places = {"": -1, "-1": -1} | values
    return texts.replace_strict(places, return_dtype=pl.Int64).to_numpy()


def _texts(rows: Rows, options: Options, problems: Problems) -> pl.Series | None:
    """Labels as texts; whole floats as integers, true and false as 1 and 0 unless classes are named."""
    import polars as pl

    column = rows.frame["label"]
    if column.dtype == pl.Boolean and not options.classes:
        column = column.cast(pl.Int8)
    if column.dtype.is_float():
        values = column.fill_nan(None)
        bad = ((values != values.floor()) | (values.abs() > MAX_EXACT)).fill_null(False)
        if bad.any():
            row = bad.arg_true()[0]
            where = f"{rows.path}: label of node {rows.name_of(row)}"
            problems.add(where, "be a whole number or a name", values[row])
            return None
        column = values.cast(pl.Int64)
    kinds = (pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Null)
    if not (isinstance(column.dtype, kinds) or column.dtype.is_integer()):
        problems.add(f"{rows.path}: label", "hold whole numbers or names", str(column.dtype))
        return None
    return texts_of(column)


# a label, the violated rule, the remedy
Wrong = tuple[str, str, str]


def _not_stated(found: Sequence[str], options: Options) -> Wrong | None:
    """The first label that is not among the classes in graph.yaml."""
    rule = f"be one of the classes in graph.yaml: {', '.join(options.classes)}"
    known = {*options.classes, "-1"}
    return next(((text, rule, "") for text in found if text not in known), None)


def _no_name(found: Sequence[str], options: Options) -> Wrong | None:
    """The first label that is not allowed among undeclared names.

    A number among names may be a class or mark a missing label, like nan, so it is an error. If the number of
    classes is stated, names are not numbered as they occur, because one more private node could change the
    class of all others.
    """
    names = [text for text in found if not WHOLE.fullmatch(text)]
    whole = [text for text in found if WHOLE.fullmatch(text) and text != "-1"]
    remedy = f"leave it empty where unlabelled, or {NAME_THEM}"
    if whole:
        return names[0], f"be a whole number, as {whole[0]} is", remedy
    odd = [text for text in names if is_number_text(text)]
    if odd:
        return odd[0], "be a whole number or a name", remedy
    if options.num_classes is not None:
        rule = "be a whole number, as graph.yaml states num_classes and no names"
        return names[0], rule, NAME_THEM
    return None


def _no_class(values: dict[str, int]) -> Wrong | None:
    """The first whole number that is not a class."""
    for text, value in values.items():
        if len(str(abs(value))) > MAX_DIGITS:
            return text, "be a class 0, 1, 2, ...", ""
        if value < -1:
            return text, "be >= 0, or empty", ""
    return None
