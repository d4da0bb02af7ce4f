"""Own graphs as two tables: nodes.csv with edges.csv, or nodes.parquet with edges.parquet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.checks import fail
from dpgnn.datasets.raw_graph import Problems, RawGraph

if TYPE_CHECKING:
    import polars as pl

    from dpgnn.datasets.custom import Options

MAX_DIGITS = 18  # of a number that fits into int64
PARTS = {"train": 0, "val": 1, "test": 2, "": -1}
SEVERAL_LABELS = "for several labels a node set task: multilabel in graph.yaml"
LABEL_COLUMN = re.compile(r"label(_\d+)?")


def read_tables(nodes_path: Path, options: Options, problems: Problems) -> RawGraph:
    """Read nodes and edges, noting all that is wrong.

    Args:
        nodes_path: nodes.csv or nodes.parquet; edges are looked for beside it.
        options: graph.yaml.
        problems: gets everything that is wrong.
    """
    edges_path = nodes_path.with_stem("edges")
    if not edges_path.exists():
        fail(
            str(edges_path),
            "stand beside the nodes",
            "no such file",
            "an empty graph needs its header",
        )
    nodes, edges = _read(nodes_path), _read(edges_path)
    if not len(nodes):
        fail(str(nodes_path), "have a row for each node", "no rows")
    ids = _ids(nodes_path, nodes, problems)
    x, columns = _features(nodes_path, nodes, ids, problems)
    y = _labels(nodes_path, nodes, ids, options, problems)
    codes = _codes(nodes_path, nodes, ids, problems)
    source, target = _edges(edges_path, edges, ids, len(nodes), problems)
    return RawGraph(
        where=str(nodes_path),
        where_edges=str(edges_path),
        num_nodes=len(nodes),
        x=x,
        y=y,
        source=source,
        target=target,
        codes=codes,
        ids=ids,
        columns=columns,
    )


def _read(path: Path) -> pl.DataFrame:
    """All columns of a table; CSV cells as texts, so that a bad one can be named."""
    import polars as pl

    if path.suffix == ".parquet":
        from dpgnn.storage import read_parquet

        return pl.DataFrame(pl.from_arrow(read_parquet(path, remedy="write it again")))
    content = path.read_bytes()
    try:
        header = content.split(b"\n", 1)[0].decode("utf-8-sig").strip("\r").split(",")
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        remedy = "save the table as UTF-8"
        fail(f"{path}, line {line}", "be UTF-8", f"byte 0x{content[error.start]:02x}", remedy)
    if header == [""]:
        fail(str(path), "begin with a line of column names", "an empty file")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        fail(f"{path}: columns", "have different names", f"{', '.join(twice)} twice")
    try:
        return pl.read_csv(content, infer_schema=False)
    except pl.exceptions.PolarsError as error:
        fail(str(path), "be a CSV table with one header line", str(error).split("\n")[0])


def _ids(path: Path, nodes: pl.DataFrame, problems: Problems) -> list[str] | None:
    """The column `id` as texts; None when there is none or it is 0, 1, 2, ..."""
    if "id" not in nodes.columns:
        return None
    ids = ["" if value is None else str(value).strip() for value in nodes["id"].to_list()]
    for row, value in enumerate(ids):
        if not value:
            problems.add(f"{path}: id of row {row + 1}", "not be empty", value)
            return None
    seen: set[str] = set()
    for value in ids:
        if value in seen:
            problems.add(f"{path}: id", "name each node once", f"{value} twice")
            break
        seen.add(value)
    if all(re.fullmatch(r"-?\d+", value) for value in ids):
        numbers = [int(value) for value in ids]
        falling = [b for a, b in zip(numbers, numbers[1:]) if b < a]
        if falling:  # so that one graph has one file, one order and one hash
            problems.add(
                f"{path}: id", "ascend", f"{falling[0]} after a larger one", "sort the table by id"
            )
    return ids


def _features(
    path: Path, nodes: pl.DataFrame, ids: list[str] | None, problems: Problems
) -> tuple[np.ndarray | None, list[str]]:
    """All columns but id, label and split, as float32."""
    taken = ("id", "split")
    columns = [c for c in nodes.columns if c not in taken and not LABEL_COLUMN.fullmatch(c)]
    if not columns:
        problems.add(f"{path}: features", "be one column or more", "none")
        return None, columns
    found = [_numbers(path, nodes[name], name, ids, problems) for name in columns]
    if any(column is None for column in found):
        return None, columns
    return np.stack([c for c in found if c is not None], axis=1).astype(np.float32), columns


def _numbers(
    path: Path, column: pl.Series, name: str, ids: list[str] | None, problems: Problems
) -> np.ndarray | None:
    """One column as float64; the first cell that is no number is named."""
    import polars as pl

    if column.dtype == pl.String:
        cells = column.str.strip_chars()
        numbers = cells.cast(pl.Float64, strict=False)
    elif column.dtype.is_numeric() or column.dtype == pl.Boolean:
        numbers = column.cast(pl.Float64)
    else:
        problems.add(f"{path}: column {name}", "hold numbers", str(column.dtype))
        return None
    bad = numbers.is_null()
    if bad.any():
        row = bad.arg_true()[0]
        node = ids[row] if ids else row
        value = column[row]
        more = f", and {bad.sum() - 1} more cells" if bad.sum() > 1 else ""
        shown = "an empty cell" if value in (None, "") else str(value)
        problems.add(f"{path}: column {name} of node {node}", "be a number", shown + more)
        return None
    return numbers.to_numpy()


def _labels(
    path: Path, nodes: pl.DataFrame, ids: list[str] | None, options: Options, problems: Problems
) -> np.ndarray | None:
    """int64 classes, or uint8 columns for the multi-label task."""
    if options.task == "multilabel":
        names = sorted(
            (c for c in nodes.columns if re.fullmatch(r"label_\d+", c)),
            key=lambda name: int(name.split("_")[1]),
        )
        if not names:
            problems.add(f"{path}: labels", "be columns label_0, label_1, ...", "none")
            return None
        found = [_numbers(path, nodes[name], name, ids, problems) for name in names]
        if any(column is None for column in found):
            return None
        table = np.stack([c for c in found if c is not None], axis=1)
        if not np.isin(table, (0, 1)).all():
            problems.add(f"{path}: labels", "be 0 or 1", float(table[~np.isin(table, (0, 1))][0]))
            return None
        return table.astype(np.uint8)
    if "label" not in nodes.columns:
        several = any(LABEL_COLUMN.fullmatch(name) for name in nodes.columns)
        remedy = SEVERAL_LABELS if several else "rename the column that holds the class"
        problems.add(f"{path}: column label", "be there", ", ".join(nodes.columns), remedy)
        return None
    return _classes(path, nodes["label"].to_list(), ids, options, problems)


def _classes(
    path: Path, cells: list[Any], ids: list[str] | None, options: Options, problems: Problems
) -> np.ndarray | None:
    """Whole numbers as they are; texts by their place in `classes`, or in alphabetical order."""
    texts = ["" if cell is None else str(cell).strip() for cell in cells]
    if not options.classes and all(re.fullmatch(r"-?\d+|", text) for text in texts):
        long = [row for row, text in enumerate(texts) if len(text) > MAX_DIGITS]
        if long:
            node = ids[long[0]] if ids else long[0]
            problems.add(f"{path}: label of node {node}", "be a class 0, 1, 2, ...", texts[long[0]])
            return None
        y = np.array([int(text) if text else -1 for text in texts], dtype=np.int64)
        negative = np.array([text.startswith("-") and text != "-1" for text in texts])
        if negative.any():
            row = int(np.argmax(negative))
            node = ids[row] if ids else row
            problems.add(f"{path}: label of node {node}", "be >= 0, or empty", texts[row])
            return None
        return y
    names = list(options.classes) or sorted(set(texts) - {""})
    place = {name: number for number, name in enumerate(names)} | {"": -1}
    for row, text in enumerate(texts):
        if text not in place:
            node = ids[row] if ids else row
            rule = f"be one of the classes in graph.yaml: {', '.join(names)}"
            problems.add(f"{path}: label of node {node}", rule, text)
            return None
    if not options.classes and all(re.fullmatch(r"-?\d+(\.\d*)?", name) for name in names):
        problems.add(f"{path}: label", "be whole numbers or names", names[0], "write 3, not 3.0")
        return None
    return np.array([place[text] for text in texts], dtype=np.int64)


def _codes(
    path: Path, nodes: pl.DataFrame, ids: list[str] | None, problems: Problems
) -> np.ndarray | None:
    if "split" not in nodes.columns:
        return None
    cells = ["" if cell is None else str(cell).strip() for cell in nodes["split"].to_list()]
    for row, cell in enumerate(cells):
        if cell not in PARTS:
            node = ids[row] if ids else row
            problems.add(f"{path}: split of node {node}", "be train, val, test or empty", cell)
            return None
    return np.array([PARTS[cell] for cell in cells], dtype=np.int8)


def _edges(
    path: Path, edges: pl.DataFrame, ids: list[str] | None, num_nodes: int, problems: Problems
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Positions of the two ends of each edge."""
    missing = [name for name in ("source", "target") if name not in edges.columns]
    if missing:
        shown = ", ".join(edges.columns)
        problems.add(f"{path}: column {missing[0]}", "be there", shown, "name the two ends so")
        return None, None
    more = sorted(set(edges.columns) - {"source", "target"})
    if more:
        remedy = "edges carry no weights or features here; drop it"
        problems.add(f"{path}: column {more[0]}", "not be there", ", ".join(more), remedy)
    place = None if ids is None else {name: position for position, name in enumerate(ids)}
    ends = []
    for name in ("source", "target"):
        cells = [str(cell).strip() for cell in edges[name].to_list()]
        found = np.array([_position(cell, place, num_nodes) for cell in cells], dtype=np.int64)
        bad = found < 0
        if bad.any():
            row = int(np.argmax(bad))
            unknown = "an id of a node" if ids else f"a node in 0..{num_nodes - 1}"
            shown = cells[row] + (f", and {int(bad.sum()) - 1} more" if bad.sum() > 1 else "")
            remedy = "add the node or drop the edge"
            problems.add(f"{path}: {name} of edge {row + 1}", f"be {unknown}", shown, remedy)
            return None, None
        ends.append(found)
    return ends[0], ends[1]


def _position(cell: str, place: dict[str, int] | None, num_nodes: int) -> int:
    """A node's position, -1 when there is no such node."""
    if place is not None:
        return place.get(cell, -1)
    number = int(cell) if re.fullmatch(r"\d{1,18}", cell) else -1
    return number if number < num_nodes else -1
