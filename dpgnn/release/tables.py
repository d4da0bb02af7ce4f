"""Tables of nodes and edges for prediction, and the table of answers, with ids and names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from dpgnn.core.checks import fail, require
from dpgnn.core.paths import regular
from dpgnn.data.custom.columns import ENDS, LABEL_COLUMN, check_names
from dpgnn.release.model import Answered, Model

ID, LABEL = "id", "label"
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
        nodes: CSV with a column `id` or none, and the model's features in their order; columns of parts, as
            own graphs have them, are left out, and labels too unless answers read the asked node's own. Of a
            model that knows the ids of its nodes any of them, in any order.
        edges: CSV with the columns source and target, which hold ids (row numbers without a column `id`);
            the ids of a model that knows them need no row of their own.

    Raises:
        ValueError: a column is missing, superfluous or misplaced, a cell is not a finite number or a class,
            an id is duplicate or unknown; names it.
    """
    frame = _read(nodes)
    check_names(nodes, frame.columns)
    ids = [str(i) for i in range(frame.height)]
    if ID in frame.columns:
        ids = _ids(nodes, frame)
        frame = frame.drop(ID)
    labels = _labels(model, nodes, frame) if VOTERS in model.state else None
    known = [name for name in frame.columns if LABEL_COLUMN.fullmatch(name) or name == "split"]
    x = _features(model, nodes, frame.drop(known))
    if not (model.names.ids and model.knows_nodes):
        return Asked(
            data=_data(x, _arcs(edges, _places(ids), "the table of nodes"), labels), ids=ids
        )
    places = _places(model.names.ids)
    unknown = next((name for name in ids if name not in places), None)
    rule = "be nodes of the fit"
    require(unknown is None, f"{nodes}: id", rule, unknown, "the model keeps rows of those alone")
    asked = np.array([places[name] for name in ids], dtype=np.int64)
    every = _spread(x, asked, len(places), 0)
    if labels is not None:
        labels = _spread(labels, asked, len(places), -1)
    arcs = _arcs(edges, places, "the model")
    return Asked(data=_data(every, arcs, labels), ids=ids, nodes=asked)


def _ids(path: Path, frame: Any) -> list[str]:
    ids: list[str] = frame[ID].to_list()
    twice = next((name for name, count in Counter(ids).items() if count > 1), None)
    whole = None not in ids and twice is None
    require(whole, f"{path}: id", "stand in each row, and once", twice)
    return ids


def _spread(rows: np.ndarray, places: np.ndarray, num_nodes: int, fill: int) -> np.ndarray:
    """An array of all nodes with `rows` at `places` and `fill` elsewhere."""
    every = np.full((num_nodes, *rows.shape[1:]), fill, rows.dtype)
    every[places] = rows
    return every


def _data(x: np.ndarray, arcs: np.ndarray, y: np.ndarray | None) -> SimpleNamespace:
    return SimpleNamespace(x=x, edge_index=arcs, y=y)


def _places(ids: Sequence[str]) -> dict[str | None, int]:
    return {name: place for place, name in enumerate(ids)}


def _read(path: Path) -> Any:
    import polars as pl

    try:
        return pl.read_csv(regular(path), infer_schema=False)
    except FileNotFoundError:
        fail(str(path), "exist", "no such file")
    except pl.exceptions.PolarsError as error:
        fail(str(path), "be a CSV table with a head", str(error).splitlines()[0])


def _features(model: Model, path: Path, frame: Any) -> np.ndarray:
    """float32, shape (num_rows, num_features)."""
    import polars as pl

    wanted, found = list(model.names.features), frame.columns
    if wanted and found != wanted:
        missing = [name for name in wanted if name not in found]
        more = [name for name in found if name not in wanted]
        parts = {"missing": missing, "too many": more}
        told = {kind: names[:5] for kind, names in parts.items() if names} or "another order"
        fail(f"{path}: columns", "be the model's features in their order", told)
    number = model.facts.num_features
    require(len(found) == number, f"{path}: feature columns", f"be {number}", len(found))
    cells = frame.with_columns(pl.all().cast(pl.Float32, strict=False))
    for name in found:
        wrong = np.flatnonzero(~np.isfinite(cells[name].fill_null(float("nan")).to_numpy()))
        if wrong.size:
            value = frame[name][int(wrong[0])]
            fail(f"{path}, row {wrong[0] + 1}: {name}", "be a finite number", value)
    return np.asarray(cells.to_numpy(), dtype=np.float32)


def _labels(model: Model, path: Path, frame: Any) -> np.ndarray | None:
    """Classes of the nodes, -1 for empty cells; int64, shape (num_rows,). None without a column."""
    if LABEL not in frame.columns:
        return None
    names = model.names.classes or tuple(str(number) for number in range(model.facts.num_classes))
    classes: dict[str | None, int] = {None: -1, "": -1}
    classes.update(_places(names))
    cells = frame[LABEL].to_list()
    row = next((row for row, cell in enumerate(cells) if cell not in classes), None)
    if row is not None:
        rule = f"be empty or one of {', '.join(names[:10])}"
        fail(f"{path}, row {row + 1}: {LABEL}", rule, cells[row])
    return np.array([classes[cell] for cell in cells], dtype=np.int64)


def _arcs(path: Path | None, places: Mapping[str | None, int], known: str) -> np.ndarray:
    """int64, shape (2, num_edges); none without a table."""
    if path is None:
        return np.zeros((2, 0), np.int64)
    frame = _read(path)
    rule = f"be {', '.join(ENDS)}"
    require(list(frame.columns) == list(ENDS), f"{path}: columns", rule, frame.columns)
    ends = []
    for end in ENDS:
        names = frame[end].to_list()
        unknown = next((name for name in names if name not in places), None)
        if unknown is not None or None in names:
            fail(f"{path}: {end}", f"be ids of {known}", unknown)
        ends.append([places[name] for name in names])
    return np.array(ends, dtype=np.int64).reshape(2, -1)


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
