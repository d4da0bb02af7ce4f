"""A user's own Parquet tables that are too large to read at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dpgnn.core.checks import fail, one_line, require
from dpgnn.data.custom import check, columns
from dpgnn.data.custom.check import Problems, RawGraph
from dpgnn.data.custom.columns import Rows as TableRows
from dpgnn.data.custom.labels import label_columns, labels
from dpgnn.data.custom.options import FORMATS, Options, read_options
from dpgnn.data.files.pieces import Pieces, Rows
from dpgnn.data.files.streaming import Header

# peak bytes for each cell of a node and each edge when reading at once, and for the process itself
CELL_BYTES, EDGE_BYTES, OTHER_BYTES = 30, 140, 400_000_000
STREAMED_BYTES = 3_500_000_000
ROWS_AT_ONCE = 1 << 16
TOO_LARGE = "the graph is too large to be searched for it first"


def is_large(folder: Path) -> bool:
    """Whether the graph is two Parquet tables that could not be read at once in about 3.5 GB."""
    tables = [folder / name for name in ("nodes.parquet", "edges.parquet")]
    formats = [name for name in FORMATS if (folder / name).exists()]
    if formats != ["nodes.parquet"] or not all(path.is_file() for path in tables):
        return False
    return (peak_bytes(folder) or 0) > STREAMED_BYTES


def peak_bytes(folder: Path) -> int | None:
    """Approximate peak memory of reading the two Parquet tables at once; None if they are damaged.

    Measured with up to 10 M edges, 40 M cells: 29 bytes a cell, 137 an edge of an undirected graph, 90 of a
    directed one.
    """
    import pyarrow.parquet as pq

    try:
        nodes, edges = (pq.read_metadata(folder / f"{name}.parquet") for name in ("nodes", "edges"))
    except (OSError, ValueError):
        return None  # the reader of small tables reports what is wrong
    cells = nodes.num_rows * nodes.num_columns
    return OTHER_BYTES + CELL_BYTES * cells + EDGE_BYTES * int(edges.num_rows)


def pieces(folder: Path, name: str, options: Options) -> Pieces:
    """The graph of nodes.parquet and edges.parquet, batch by batch.

    Nodes are rows 0, 1, 2, ... (no column id). graph.yaml must state num_classes and drop_duplicates, which
    would need a pass over the whole graph. The rest is read and checked as in memory.

    Raises:
        ValueError: an option or a column is missing, or a value is wrong; raised while reading.
    """
    import pyarrow.parquet as pq

    nodes_path, edges_path, yaml = (
        folder / file for file in ("nodes.parquet", "edges.parquet", "graph.yaml")
    )
    num_classes = _stated(options, yaml)
    nodes, edges = _names(nodes_path), _names(edges_path)
    num_nodes = pq.read_metadata(nodes_path).num_rows
    require(num_nodes > 0, str(nodes_path), "have a row for each node", "no rows")
    if "id" in nodes:
        fail(f"{nodes_path}: column id", "not be there", "id", f"number nodes by row; {TOO_LARGE}")
    problems = Problems()
    features, label = _node_columns(nodes_path, nodes, options, problems)
    columns.check_edge_columns(edges_path, edges, problems)
    problems.stop()
    return Pieces(
        header=Header(
            name=name,
            num_nodes=num_nodes,
            num_features=len(features),
            num_classes=num_classes,
            expected_edges=(1 if options.directed else 2) * pq.read_metadata(edges_path).num_rows,
            task=options.task,
            directed=options.directed,
            splits=("public",) if "split" in nodes else (),
        ),
        nodes=lambda: _rows(nodes_path, features, label, options, problems),
        edges=lambda: _edges(edges_path, num_nodes, options, problems),
    )


def _stated(options: Options, yaml: Path) -> int:
    """The number of classes in graph.yaml, which must state all options that need a pass over the graph."""
    num_classes = options.stated_classes or 0
    require(num_classes > 0, f"{yaml}: num_classes", "be stated", None, TOO_LARGE)
    require(options.drop_duplicates, f"{yaml}: drop_duplicates", "be true", False, TOO_LARGE)
    rule = "be false: a graph this large has no ids"
    require(not options.public_ids, f"{yaml}: public_ids", rule, True)
    return num_classes


def _node_columns(
    path: Path, names: list[str], options: Options, problems: Problems
) -> tuple[list[str], list[str]]:
    """The columns of features and of labels."""
    features = columns.feature_columns(path, names, problems)
    columns.check_feature_names(path, features, options.features, problems)
    label = label_columns(path, names, options, problems)
    if options.task == "multilabel":
        check.check_label_columns(str(path), len(label), options, problems)
    return features, label


def _names(path: Path) -> list[str]:
    """The columns of a file whose schema can be read."""
    import pyarrow.parquet as pq

    schema = pq.read_schema(path)
    columns.check_schema(path, schema)
    return list(schema.names)


def _rows(
    path: Path, features: list[str], label: list[str], options: Options, problems: Problems
) -> Iterator[Rows]:
    """Features, labels and parts of the nodes, batch by batch; checks over all nodes come last."""
    classes, parts, where = set[int](), set[int](), str(path)
    codes: np.ndarray | None = None
    for batch in _batches(path):
        x = columns.features(batch, features, problems)
        y = labels(batch, label, options, problems)
        codes = columns.codes(batch, problems)
        problems.stop()
        assert x is not None
        assert y is not None
        raw = RawGraph(
            where=where, where_edges=where, num_nodes=len(y), codes=codes, columns=features,
            first=batch.first,
        )  # fmt: skip
        check.check_features(raw, x, problems)
        check.check_unlabelled(raw, y, problems)
        if options.task == "multiclass":
            check.check_range(raw, y, options.stated_classes or 0, problems)
            classes.update(np.unique(y[y >= 0]).tolist())
        problems.stop()
        parts.update([] if codes is None else np.unique(codes).tolist())
        yield x, y, {} if codes is None else {"public": codes}
    if options.task == "multiclass":
        check.check_distinct(where, len(classes), problems)
    if codes is not None:
        check.check_parts(where, parts, problems)
    problems.stop()


def _edges(
    path: Path, num_nodes: int, options: Options, problems: Problems
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The two ends of the edges, batch by batch."""
    where = str(path)
    for batch in _batches(path):
        source, target = columns.ends(batch, None, num_nodes, problems)
        problems.stop()
        assert source is not None
        assert target is not None
        raw = RawGraph(where=where, where_edges=where, num_nodes=num_nodes, first_edge=batch.first)
        check.check_edges(raw, source, target, options, problems)
        problems.stop()
        yield source, target


def problems_of(folder: Path) -> list[str]:
    """The first problem of a large graph, as its preparation would report it."""
    problems = Problems()
    with problems.caught():
        found = pieces(folder, folder.name, read_options(folder))
        for batches in (found.edges(), found.nodes()):
            for _ in batches:
                pass
    return problems.texts


def _batches(path: Path) -> Iterator[TableRows]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    first = 0
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(batch_size=ROWS_AT_ONCE):
                if batch.num_rows:
                    yield TableRows(path=path, frame=columns.frame_of(path, batch), first=first)
                first += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        fail(str(path), "be an undamaged Parquet file", one_line(error), "write it again")
