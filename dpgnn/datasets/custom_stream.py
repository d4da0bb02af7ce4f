"""A user's own Parquet tables that are too large to be read at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.checks import fail, require
from dpgnn.datasets.custom_tables import LABEL_COLUMN, PARTS, SEVERAL_LABELS
from dpgnn.datasets.pieces import Pieces, Rows
from dpgnn.datasets.streaming import Header

if TYPE_CHECKING:
    import pyarrow as pa

    from dpgnn.datasets.custom import Options

STREAMED_BYTES = 1 << 30
ROWS_AT_ONCE = 1 << 16


def is_large(folder: Path) -> bool:
    """Whether the two Parquet tables would take more than 1 GiB in memory."""
    import pyarrow.parquet as pq

    sizes = 0
    for name in ("nodes.parquet", "edges.parquet"):
        path = folder / name
        if not path.exists():
            return False
        try:
            found = pq.read_metadata(path)
        except (OSError, ValueError):
            return False  # damaged: the reader of small tables names what is wrong
        sizes += found.num_rows * found.num_columns * 8
    return sizes > STREAMED_BYTES


def pieces(folder: Path, name: str, options: Options) -> Pieces:
    """The graph of nodes.parquet and edges.parquet, batch by batch.

    Nodes are rows 0, 1, 2, ... (no column id), labels whole numbers, and what a whole graph would be
    searched for first is asked of graph.yaml instead: num_classes and drop_duplicates.

    Raises:
        ValueError: an option or a column is missing, or, while it is read, any value is wrong.
    """
    import pyarrow.parquet as pq

    nodes_path, edges_path = folder / "nodes.parquet", folder / "edges.parquet"
    yaml = folder / "graph.yaml"
    require(
        options.stated_classes is not None, f"{yaml}: num_classes", "be stated", None, TOO_LARGE
    )
    require(options.drop_duplicates, f"{yaml}: drop_duplicates", "be true", False, TOO_LARGE)
    nodes, edges = pq.read_schema(nodes_path), pq.read_schema(edges_path)
    if "id" in nodes.names:
        fail(f"{nodes_path}: column id", "not be there", "id", f"number nodes by row; {TOO_LARGE}")
    if set(edges.names) != {"source", "target"}:
        fail(f"{edges_path}: columns", "be source and target", ", ".join(edges.names))
    labels = sorted(
        (c for c in nodes.names if LABEL_COLUMN.fullmatch(c)), key=lambda c: int(c[6:] or 0)
    )
    if labels != ["label"] and options.task == "multiclass":
        remedy = SEVERAL_LABELS if labels else ""
        fail(f"{nodes_path}: column label", "be there", ", ".join(nodes.names), remedy)
    features = [c for c in nodes.names if c != "split" and c not in labels]
    require(bool(features), f"{nodes_path}: features", "be one column or more", "none")
    has_split = "split" in nodes.names
    header = Header(
        name=name,
        num_nodes=pq.read_metadata(nodes_path).num_rows,
        num_features=len(features),
        num_classes=options.stated_classes or 0,
        expected_edges=(1 if options.directed else 2) * pq.read_metadata(edges_path).num_rows,
        task=options.task,
        directed=options.directed,
        splits=("public",) if has_split else (),
    )

    def rows() -> Iterator[Rows]:
        first = 0
        for batch in _batches(nodes_path):
            table = [_numbers(nodes_path, batch, column, first) for column in features]
            x = np.stack(table, axis=1).astype(np.float32)
            y = _labels(nodes_path, batch, labels, first, options)
            codes = {"public": _codes(nodes_path, batch, first)} if has_split else {}
            first += len(batch)
            yield x, y, codes

    def ends() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        first = 0
        for batch in _batches(edges_path):
            source, target = (_numbers(edges_path, batch, c, first) for c in ("source", "target"))
            loops = source == target
            if loops.any() and not options.drop_self_loops:
                row = first + int(np.argmax(loops))
                remedy = "drop it or set drop_self_loops in graph.yaml"
                fail(
                    f"{edges_path}: edge {row + 1}",
                    "be no self-loop",
                    int(source[row - first]),
                    remedy,
                )
            first += len(batch)
            yield source.astype(np.int64), target.astype(np.int64)

    return Pieces(header=header, nodes=rows, edges=ends)


TOO_LARGE = "the graph is too large to be searched for it first"


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield from file.iter_batches(batch_size=ROWS_AT_ONCE)
    except (pa.ArrowException, OSError) as error:
        fail(str(path), "be an undamaged Parquet file", str(error), "write it again")


def _numbers(path: Path, batch: pa.RecordBatch, column: str, first: int) -> np.ndarray:
    values = batch[column]
    if values.null_count:
        row = first + int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        fail(f"{path}: column {column} of row {row}", "be a number", "an empty cell")
    found = values.to_numpy(zero_copy_only=False)
    require(
        found.dtype.kind in "biuf", f"{path}: column {column}", "hold numbers", str(values.type)
    )
    return found


def _labels(
    path: Path, batch: pa.RecordBatch, labels: list[str], first: int, options: Options
) -> np.ndarray:
    if options.task == "multilabel":
        table = np.stack([_numbers(path, batch, c, first) for c in labels], axis=1)
        right = bool(((table == 0) | (table == 1)).all())
        require(right, f"{path}: labels from row {first}", "be 0 or 1", "another number")
        return table.astype(np.uint8)
    import pyarrow as pa

    values: Any = batch["label"]
    require(pa.types.is_integer(values.type), f"{path}: label", "be integers", str(values.type))
    return values.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


def _codes(path: Path, batch: pa.RecordBatch, first: int) -> np.ndarray:
    cells = ["" if cell is None else str(cell) for cell in batch["split"].to_pylist()]
    for row, cell in enumerate(cells):
        if cell not in PARTS:
            fail(f"{path}: split of row {first + row}", "be train, val, test or empty", cell)
    return np.array([PARTS[cell] for cell in cells], dtype=np.int8)
