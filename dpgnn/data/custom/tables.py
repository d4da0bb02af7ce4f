"""Own graphs as two tables: nodes.csv with edges.csv, or nodes.parquet with edges.parquet."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

from dpgnn.core.checks import fail
from dpgnn.data.custom import columns
from dpgnn.data.custom.columns import Rows, check_names, check_schema, texts_of
from dpgnn.data.custom.labels import label_columns, labels
from dpgnn.data.custom.raw_graph import Problems, RawGraph

if TYPE_CHECKING:
    import polars as pl

    from dpgnn.data.custom.read import Options


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
    rows = Rows(path=nodes_path, frame=nodes, ids=ids)
    features = columns.feature_columns(nodes_path, nodes.columns, problems)
    x = columns.features(rows, features, problems)
    y = labels(rows, label_columns(nodes_path, nodes.columns, options, problems), options, problems)
    codes = columns.codes(rows, problems)
    source = target = None
    if columns.check_edge_columns(edges_path, edges.columns, problems):
        place = None if ids is None else {name: position for position, name in enumerate(ids)}
        edge_rows = Rows(path=edges_path, frame=edges)
        source, target = columns.ends(edge_rows, place, len(nodes), problems)
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
        columns=features,
    )


def _read(path: Path) -> pl.DataFrame:
    """All columns of a table; CSV cells as texts, so that a bad one can be named."""
    import polars as pl

    if path.suffix == ".parquet":
        from dpgnn.core.storage import read_parquet

        table = read_parquet(path, remedy="write it again")
        check_schema(path, table.schema)
        try:
            return pl.DataFrame(table)
        except pl.exceptions.PolarsError as error:
            fail(str(path), "hold numbers and texts", str(error).split("\n")[0])
    content = path.read_bytes()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        remedy = "save the table as UTF-8"
        fail(f"{path}, line {line}", "be UTF-8", f"byte 0x{content[error.start]:02x}", remedy)
    rule = "be a CSV table with one header line"
    try:
        text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
        header = next(csv.reader(text), [])
    except csv.Error as error:
        fail(str(path), rule, str(error))
    if not any(header):
        fail(str(path), "begin with a line of column names", "an empty file")
    check_names(path, header)
    try:
        return pl.read_csv(content, infer_schema=False)
    except pl.exceptions.PolarsError as error:
        fail(str(path), rule, str(error).split("\n")[0])


def _ids(path: Path, nodes: pl.DataFrame, problems: Problems) -> list[str] | None:
    """The column `id` as texts; None when there is none or it is 0, 1, 2, ..."""
    if "id" not in nodes.columns:
        return None
    ids = texts_of(nodes["id"]).to_list()
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
    if all(re.fullmatch(r"-?\d{1,4000}", value) for value in ids):
        numbers = [int(value) for value in ids]
        falling = [b for a, b in zip(numbers, numbers[1:]) if b < a]
        if falling:  # so that one graph has one file, one order and one hash
            problems.add(
                f"{path}: id", "ascend", f"{falling[0]} after a larger one", "sort the table by id"
            )
    return ids
