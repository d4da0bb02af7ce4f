"""A graph with features and arcs on disk: the files, and the graph that reads them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpgnn.core import locks
from dpgnn.core.checks import fail, one_line, require
from dpgnn.core.storage import (
    DamagedFileError,
    explain_os_errors,
    read_json,
    sha256_file,
    write_json,
)
from dpgnn.data.files.graph_files import (
    MAX_HASHED_BYTES,
    STATED,
    file_facts,
    read_meta,
    row_values,
)
from dpgnn.data.graph import Graph
from dpgnn.data.stored import FileArray, StoredLists, StoredRows, write_header

MANIFEST, PROGRESS = "features.json", "progress.json"
# row groups of nodes.parquet between two progress notes
NOTE_EVERY = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredGraph(Graph):
    """A graph with only the labels in memory.

    `edge_index` is empty, and `x` reads rows on request. Checks made when the folder was written are not
    repeated.

    Attributes:
        lists: mirrored -> the nodes that each node reads in the setting, without loops; mirrored adds the
            other direction of each arc. Made at the first call and kept.
        num_stored_edges: edges of the whole graph, in any setting.
    """

    lists: Callable[[bool], StoredLists]
    num_stored_edges: int

    def __post_init__(self) -> None:
        rows = (
            (self.num_nodes,) if self.task == "multiclass" else (self.num_nodes, self.num_classes)
        )
        require(self.y.shape == rows, f"graph {self.name}: y", f"have shape {rows}", self.y.shape)
        require(isinstance(self.x, StoredRows), f"graph {self.name}: x", "be stored", type(self.x))

    @property
    def num_edges(self) -> int:
        """Number of stored directed edges of the whole graph."""
        return self.num_stored_edges


def open_graph(folder: Path, place: Path, lists: Callable[[bool], StoredLists]) -> StoredGraph:
    """The graph of a folder, with its features in a file of `place`, which is made if missing.

    Args:
        folder: holds nodes.parquet, edges.parquet and graph.json.
        place: folder for this graph's features; needs 4 bytes for each feature of each node.
        lists: see `StoredGraph`.

    Raises:
        ValueError: features are sparse.
        DamagedFileError: a file is missing, truncated or of another graph.
        BusyError: another process copies the features.
        OSError: `place` cannot be written, or the disk is full.
    """
    meta = read_meta(folder)
    store_features(folder, place)
    return StoredGraph(
        **{name: meta[name] for name in STATED},
        x=StoredRows(FileArray(place / "x.npy")),
        y=np.load(place / "y.npy", mmap_mode="r"),
        edge_index=np.zeros((2, 0), dtype=np.int64), lists=lists,
        num_stored_edges=int(meta["num_edges"]),
    )  # fmt: skip


def store_features(folder: Path, place: Path) -> None:
    """Copy features and labels of a graph to x.npy and y.npy; an interrupted copy is resumed.

    Args:
        folder: the graph's.
        place: folder of the copies; features.json is written last.

    Raises:
        ValueError, DamagedFileError, BusyError, OSError: as `open_graph`.
    """
    meta = read_meta(folder)
    if meta["x_layout"] != "dense":
        remedy = "give more memory; sparse features are read at once"
        fail(f"features of {meta['name']}", "be dense to stay on disk", meta["x_layout"], remedy)
    if (place / MANIFEST).exists():
        _check_copy(place, meta)
        return
    with explain_os_errors(place):
        place.mkdir(parents=True, exist_ok=True)
        lock = place.parent / f".{place.name}.lock"
        with locks.exclusive(lock, f"{place} is being written"):
            _copy(folder / "nodes.parquet", place, meta)
            files = {name: file_facts(place / name) for name in ("x.npy", "y.npy")}
            stated = {"graph_sha256": meta["content_sha256"], "files": files}
            write_json(place / MANIFEST, stated)
            (place / PROGRESS).unlink(missing_ok=True)


def _check_copy(place: Path, meta: Mapping[str, Any]) -> None:
    """Check that the copy is complete and of this graph; files up to 256 MiB are hashed, as for graphs."""
    stated, remedy = read_json(place / MANIFEST), f"delete {place} and rerun"
    if stated.get("graph_sha256") != meta["content_sha256"]:
        raise DamagedFileError(
            f"{place} must hold features of the graph {meta['name']}, got those of another; {remedy}"
        )
    for name, facts in stated["files"].items():
        path = place / name
        size = path.stat().st_size if path.exists() else None
        if size != facts["bytes"]:
            raise DamagedFileError(f"{path} must have {facts['bytes']} bytes, got {size}; {remedy}")
        if size <= MAX_HASHED_BYTES and sha256_file(path) != facts["sha256"]:
            raise DamagedFileError(f"{path} must have sha256 {facts['sha256']}; {remedy}")


def _copy(nodes: Path, place: Path, meta: Mapping[str, Any]) -> None:
    """Copy row group by row group, and note the progress; rows after the note are written again."""
    done = _noted(place, meta)
    with (
        open(place / "x.npy", "r+b" if done else "w+b") as x,
        open(place / "y.npy", "r+b" if done else "w+b") as y,
    ):
        if not done:
            write_header(x, (meta["num_nodes"], meta["num_features"]), np.float32)
            wide = meta["task"] == "multilabel"
            shape = (meta["num_nodes"], *([meta["num_classes"]] if wide else []))
            write_header(y, shape, np.uint8 if wide else np.int64)
        else:
            for file, end in ((x, done["x"]), (y, done["y"])):
                file.truncate(end)
                file.seek(end)
        rows = _copy_groups(nodes, place, meta, (x, y), done)
    if rows != meta["num_nodes"]:
        raise DamagedFileError(f"{nodes} must have {meta['num_nodes']} rows, got {rows}")


def _noted(place: Path, meta: Mapping[str, Any]) -> dict[str, Any]:
    """The progress of a copy of this graph; {} if there is none."""
    if not (place / PROGRESS).exists():
        return {}
    noted: dict[str, Any] = read_json(place / PROGRESS)
    return noted if noted.get("graph_sha256") == meta["content_sha256"] else {}


def _copy_groups(
    nodes: Path, place: Path, meta: Mapping[str, Any], files: tuple[IO[bytes], IO[bytes]],
    done: Mapping[str, Any],
) -> int:  # fmt: skip
    """Append the remaining rows; returns the total number of rows."""
    rows, said = int(done.get("rows", 0)), time.monotonic()
    try:
        with pq.ParquetFile(nodes, page_checksum_verification=True) as source:
            for group in range(int(done.get("groups", 0)), source.num_row_groups):
                table = source.read_row_group(group, columns=["x", "y"])
                x, y = (row_values(table[name]) for name in ("x", "y"))
                require(bool(np.isfinite(x).all()), f"{nodes}: x", "be finite", "another value")
                for file, values in zip(files, (x, y), strict=True):
                    file.write(values.data)
                rows += table.num_rows
                if (group + 1) % NOTE_EVERY == 0:
                    _note(place, meta, files, {"groups": group + 1, "rows": rows})
                if time.monotonic() - said > 2:
                    said = time.monotonic()
                    total = f"{meta['num_nodes']:,}"
                    print(f"features to {place}: {rows:,} of {total} nodes", file=sys.stderr)
    except pa.ArrowException as error:
        raise DamagedFileError(f"{nodes} must be an undamaged file: {one_line(error)}") from None
    return rows


def _note(
    place: Path, meta: Mapping[str, Any], files: tuple[IO[bytes], IO[bytes]], done: dict[str, int]
) -> None:
    for file in files:
        file.flush()
        os.fsync(file.fileno())
    ends = {"x": files[0].tell(), "y": files[1].tell()}
    write_json(place / PROGRESS, {"graph_sha256": meta["content_sha256"], **ends, **done})
