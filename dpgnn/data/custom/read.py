"""A user's own graph: a folder of CSV, Parquet, npz or saved PyG files in the schema of docs/data.md.

The folder holds one of: nodes.csv with edges.csv; nodes.parquet with edges.parquet; graph.npz;
graph.pt; and, optionally, graph.yaml with public facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dpgnn.core.checks import fail
from dpgnn.core.checksums import OF_FOLDER
from dpgnn.core.paths import regular
from dpgnn.core.wording import count
from dpgnn.data.custom import columns
from dpgnn.data.custom.arrays import read_npz_graph, read_pyg
from dpgnn.data.custom.check import (
    Problems,
    RawGraph,
    check_edges,
    check_features,
    check_labels,
    check_parts,
    check_unlabelled,
)
from dpgnn.data.custom.columns import Rows, texts_of
from dpgnn.data.custom.labels import label_columns, labels
from dpgnn.data.custom.options import Options, graph_file, read_options
from dpgnn.data.custom.table import read_table
from dpgnn.data.files.content import parts_of
from dpgnn.data.files.graph_files import read_graph, was_cut_short
from dpgnn.data.graph import Graph, clean_edges

if TYPE_CHECKING:
    import polars as pl

SHOWN_PROBLEMS = 20


def load_folder(folder: Path, name: str) -> Graph:
    """Read a user's own graph.

    Args:
        folder: one of the formats of docs/data.md.
        name: the graph's name.

    Returns:
        a validated graph.

    Raises:
        ValueError: it is not valid; the message lists up to 20 problems.
    """
    graph, problems = read_folder(folder, name)
    if graph is None:
        shown = "\n  ".join(problems[:SHOWN_PROBLEMS])
        more = len(problems) - SHOWN_PROBLEMS
        rest = f"\n  and {more} more; `dpgnn data validate {folder}` shows all" if more > 0 else ""
        raise ValueError(
            f"{folder} must be a valid graph, got {count(len(problems), 'problem')}:\n  {shown}{rest}"
        )
    return graph


def read_folder(folder: Path, name: str) -> tuple[Graph | None, list[str]]:
    """The graph, or None and all its problems."""
    problems = Problems()
    graph = None
    with problems.caught():
        options = read_options(folder)
        raw = READERS[graph_file(folder).name](graph_file(folder), options, problems)
        graph = _build(name, raw, options, problems)
    return (None if problems.texts else graph), problems.texts


def problems_of(path: Path) -> list[str]:
    """All problems of a graph, [] if it is valid; only the first for a graph that is read in pieces.

    Args:
        path: a folder that `dpgnn data prepare` made (it holds graph.json), or a user's own graph in
            one of the formats of docs/data.md.
    """
    from dpgnn.data.custom import stream

    path = Path(path)
    if not path.is_dir():
        got = "a file" if path.exists() else "no such folder"
        return [f"{path} must be a folder that holds a graph, got {got}; see docs/data.md"]
    if not (path / "graph.json").exists():
        if (path / OF_FOLDER).exists() or was_cut_short(path):
            return [f"{path} must hold graph.json, got none; it is unfinished: make it again"]
        if stream.is_large(path):
            return stream.problems_of(path)
        return read_folder(path, path.name)[1]
    try:
        read_graph(path, full_check=True)
    except (ValueError, OSError) as error:
        return [str(error)]
    return []


def warnings_of(path: Path) -> list[str]:
    """Warnings about a valid graph, for its owner.

    Args:
        path: as for `problems_of`; a graph that is read in pieces has none.
    """
    from dpgnn.data.custom import stream
    from dpgnn.data.custom.declare import undeclared_classes

    if (path / "graph.json").exists() or stream.is_large(path):
        return []
    graph, _ = read_folder(path, path.name)
    line = "" if graph is None else undeclared_classes(path, graph.num_classes)
    if not line:
        return []
    return [
        f"the classes are not declared, so they are counted from private labels and every claim says so; if "
        f"they are public, put this line into {path / 'graph.yaml'}: {line}"
    ]


def _build(name: str, raw: RawGraph, options: Options, problems: Problems) -> Graph | None:
    """Check labels, edges and splits; then make the Graph."""
    num_classes = 0
    if options.public_ids and raw.ids is None:
        remedy = "write ids, or leave the key out"
        problems.add(
            "graph.yaml: public_ids", "stand beside a column `id`", f"none in {raw.where}", remedy
        )
    if raw.x is not None:
        check_features(raw, raw.x, problems)
    if raw.y is not None:
        num_classes = check_labels(raw, raw.y, options, problems)
        check_unlabelled(raw, raw.y, problems)
    if raw.codes is not None:
        check_parts(raw.where, set(raw.codes.tolist()), problems)
    if raw.source is not None and raw.target is not None:
        check_edges(raw, raw.source, raw.target, options, problems)
    if problems.texts:
        return None
    assert raw.source is not None
    assert raw.target is not None
    assert raw.y is not None
    edges = clean_edges(raw.source, raw.target, raw.num_nodes, undirected=not options.directed)
    return Graph(
        name=name,
        x=raw.x,
        edge_index=edges,
        y=raw.y,
        num_classes=num_classes,
        task=options.task,
        directed=options.directed,
        splits={} if raw.codes is None else {"public": parts_of(raw.codes)},
    )


def read_tables(nodes_path: Path, options: Options, problems: Problems) -> RawGraph:
    """Read nodes and edges, and report all problems.

    Args:
        nodes_path: nodes.csv or nodes.parquet; the file of edges is beside it.
        options: graph.yaml.
        problems: gets all problems.
    """
    edges_path = regular(nodes_path.with_stem("edges"))
    if not edges_path.exists():
        fail(
            str(edges_path),
            "stand beside the nodes",
            "no such file",
            "an empty graph needs its header",
        )
    nodes, edges = read_table(nodes_path), read_table(edges_path)
    if not len(nodes):
        fail(str(nodes_path), "have a row for each node", "no rows")
    ids = _ids(nodes_path, nodes, problems)
    rows = Rows(path=nodes_path, frame=nodes, ids=ids)
    features = columns.feature_columns(nodes_path, nodes.columns, problems)
    columns.check_feature_names(nodes_path, features, options.features, problems)
    x = columns.features(rows, features, problems)
    y = labels(rows, label_columns(nodes_path, nodes.columns, options, problems), options, problems)
    codes = columns.codes(rows, problems)
    source = target = None
    if columns.check_edge_columns(edges_path, edges.columns, problems):
        place = None if ids is None else {name: position for position, name in enumerate(ids)}
        edge_rows = Rows(path=edges_path, frame=edges)
        if ids is not None or "id" not in nodes.columns:  # else the ends have no names to be
            source, target = columns.ends(edge_rows, place, len(nodes), problems)
    return RawGraph(
        where=str(nodes_path), where_edges=str(edges_path), num_nodes=len(nodes), x=x, y=y,
        source=source, target=target, codes=codes, ids=ids, columns=features,
    )  # fmt: skip


def node_ids(path: Path) -> tuple[str, ...]:
    """The column `id` of a valid table of nodes; () without one.

    Args:
        path: nodes.csv or nodes.parquet.
    """
    return tuple(_ids(path, read_table(path), Problems()) or ())


def _ids(path: Path, nodes: pl.DataFrame, problems: Problems) -> list[str] | None:
    """The column `id` as texts; None if there is none, or a cell of it is empty."""
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
        if falling:  # so that a graph has one file, one order and one hash
            problems.add(
                f"{path}: id", "ascend", f"{falling[0]} after a larger one", "sort the table by id"
            )
    return ids


NODE_TABLES = ("nodes.csv", "nodes.parquet")
READERS: dict[str, Callable[[Path, Options, Problems], RawGraph]] = {
    "nodes.csv": read_tables,
    "nodes.parquet": read_tables,
    "graph.npz": read_npz_graph,
    "graph.pt": read_pyg,
}
