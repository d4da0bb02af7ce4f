"""Tables of nodes and edges for prediction, and the table of answers, with ids and names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from dpgnn.core.checks import fail, require
from dpgnn.core.paths import regular
from dpgnn.data.custom.check import Problems, RawGraph, check_features
from dpgnn.data.custom.columns import (
    LABEL_COLUMN,
    Rows,
    check_edge_columns,
    ends,
    features,
    texts_of,
)
from dpgnn.data.custom.table import read_table
from dpgnn.release.model import Answered, Model

ID, LABEL = "id", "label"
FLOAT = re.compile(r"-?\d+\.0+")
VOTERS = "voters"  # tensor of votes: whose own votes are taken out of what they read


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Nodes to ask about.

    Attributes:
        data: x, edge_index and, if answers read it, y, for `Model.predict`.
        ids: the nodes' names, or their row numbers as texts.
        nodes: int64, their positions in `data`, which has a row for each node of the fit; None where each row
            is asked about.
    """

    data: Any
    ids: list[str]
    nodes: np.ndarray | None = None


def read_asked(model: Model, nodes: Path, edges: Path | None) -> Asked:
    """Read the tables for a prediction.

    Args:
        model: decides the required columns.
        nodes: as of an own graph (docs/data.md): a column `id` or none, and the model's features in their
            order; the column `split` is left out, and labels too unless answers read the asked node's own. Of
            a model that knows the ids of its nodes any of them, in any order.
        edges: as of an own graph: source and target, which hold ids (row numbers without a column `id`); the
            ids of a model that knows them need no row of their own.

    Raises:
        ValueError: a column is missing, superfluous or misplaced, a cell is not a finite number or a class,
            an id is duplicate or unknown; names it.
    """
    rows = _read(nodes)
    columns = rows.frame.columns
    if ID in columns:
        rows = replace(rows, ids=_ids(rows))
    labels = _labels(model, rows) if VOTERS in model.state else None
    known = [ID, "split", *(name for name in columns if LABEL_COLUMN.fullmatch(name))]
    x = _features(model, rows, [name for name in columns if name not in known])
    ids = rows.ids or [str(row) for row in range(len(x))]
    if not (model.names.ids and model.knows_nodes):
        places = None if rows.ids is None else _places(ids)
        return Asked(data=_data(x, _arcs(edges, places, len(x)), labels), ids=ids)
    places, number = _of_ids(model.names.ids), len(model.names.ids)
    unknown = next((name for name in ids if name not in places), None)
    rule = "be nodes of the fit"
    require(unknown is None, f"{nodes}: id", rule, unknown, "the model keeps rows of those alone")
    asked = np.array([places[name] for name in ids], dtype=np.int64)
    every = _spread(x, asked, number, 0)
    if labels is not None:
        labels = _spread(labels, asked, number, -1)
    of_fit = {"known": "an id of a node of the fit", "remedy": "drop the edge"}
    arcs = _arcs(edges, places, number, **of_fit)
    return Asked(data=_data(every, arcs, labels), ids=ids, nodes=asked)


def _ids(rows: Rows) -> list[str]:
    ids: list[str] = texts_of(rows.frame[ID]).to_list()
    twice = next((name for name, count in Counter(ids).items() if count > 1), None)
    whole = "" not in ids and twice is None
    require(whole, f"{rows.path}: id", "stand in each row, and once", twice)
    return ids


def _spread(rows: np.ndarray, places: np.ndarray, num_nodes: int, fill: int) -> np.ndarray:
    """An array of all nodes with `rows` at `places` and `fill` elsewhere."""
    every = np.full((num_nodes, *rows.shape[1:]), fill, rows.dtype)
    every[places] = rows
    return every


def _data(x: np.ndarray, arcs: np.ndarray, y: np.ndarray | None) -> SimpleNamespace:
    return SimpleNamespace(x=x, edge_index=arcs, y=y)


def _of_ids(ids: Sequence[str]) -> dict[str, int]:
    """Positions by id; 3 is also the node that a bundle of an earlier version calls 3.0."""
    whole = {
        re.sub(r"\.0+$", "", name): place for place, name in enumerate(ids) if FLOAT.fullmatch(name)
    }
    return whole | _places(ids)


def _places(ids: Sequence[str]) -> dict[str, int]:
    return {name: place for place, name in enumerate(ids)}


def _read(path: Path) -> Rows:
    require(regular(path).exists(), str(path), "exist", "no such file")
    return Rows(path=path, frame=read_table(path))


def _features(model: Model, rows: Rows, found: list[str]) -> np.ndarray:
    """float32, shape (num_rows, num_features)."""
    wanted, number = list(model.names.features), model.facts.num_features
    if wanted and found != wanted:
        missing = [name for name in wanted if name not in found]
        more = [name for name in found if name not in wanted]
        parts = {"missing": missing, "too many": more}
        told = {kind: names[:5] for kind, names in parts.items() if names} or "another order"
        fail(f"{rows.path}: columns", "be the model's features in their order", told)
    require(len(found) == number, f"{rows.path}: feature columns", f"be {number}", len(found))
    problems = Problems()
    x = features(rows, found, problems)
    problems.stop()
    assert x is not None
    where, ids = str(rows.path), rows.ids
    raw = RawGraph(where=where, where_edges="", num_nodes=len(x), ids=ids, columns=found)
    check_features(raw, x, problems)
    problems.stop()
    return x


def _labels(model: Model, rows: Rows) -> np.ndarray | None:
    """Classes of the nodes, -1 for empty cells; int64, shape (num_rows,). None without a column."""
    if LABEL not in rows.frame.columns:
        return None
    cells, names = texts_of(rows.frame[LABEL]).to_list(), model.names.classes
    if not names:  # 3, or 3.0 as pandas writes it
        names = tuple(str(number) for number in range(model.facts.num_classes))
        cells = [re.sub(r"\.0*$", "", cell) for cell in cells]
    classes = {"": -1, "-1": -1} | _places(names)
    row = next((row for row, cell in enumerate(cells) if cell not in classes), None)
    if row is not None:
        rule = f"be empty or one of {', '.join(names[:10])}"
        remedy = (
            "" if model.names.classes
            else "the model has no names of classes: give numbers, or release it with --classes"
        )  # fmt: skip
        fail(f"{rows.path}: label of node {rows.name_of(row)}", rule, cells[row], remedy)
    return np.array([classes[cell] for cell in cells], dtype=np.int64)


def _arcs(
    path: Path | None,
    places: Mapping[str, int] | None,
    num_nodes: int,
    **words: str,
) -> np.ndarray:
    """int64, shape (2, num_edges); none without a table. Arguments as for `columns.ends`."""
    if path is None:
        return np.zeros((2, 0), np.int64)
    rows, problems = _read(path), Problems()
    check_edge_columns(path, rows.frame.columns, problems)
    problems.stop()
    source, target = ends(rows, places, num_nodes, problems, **words)
    problems.stop()
    return np.stack([np.asarray(source), np.asarray(target)])


def write_answers(path: Path, asked: Asked, found: Answered) -> None:
    """Write id, answer and its probability as CSV; for multilabel a column for each label."""
    import polars as pl

    from dpgnn.core.storage import write_text

    columns: dict[str, Any] = {ID: asked.ids}
    if found.classes.ndim == 1:
        columns["class"] = list(found.names) or found.classes.tolist()
        columns["probability"] = found.probabilities.max(axis=1).astype(float).round(6).tolist()
    else:
        columns |= {f"label_{i}": column.tolist() for i, column in enumerate(found.classes.T)}
    write_text(path, pl.DataFrame(columns).write_csv())
