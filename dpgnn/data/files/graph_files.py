"""Graphs on disk: nodes.parquet, edges.parquet and graph.json in one folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpgnn.core import locks
from dpgnn.core.checks import require
from dpgnn.core.checksums import OF_FOLDER, check, write_checksums
from dpgnn.core.storage import (
    DamagedFileError,
    column_of,
    explain_os_errors,
    read_json,
    read_parquet,
    sha256_file,
    values_of,
    write_json,
    write_parquet,
)
from dpgnn.data.files.content import content_hash, part_codes, parts_of
from dpgnn.data.graph import Features, Graph, with_sums

SCHEMA_VERSION = 1
# CSR takes 8 bytes for each entry, dense 4, and its row operations are slower
MAX_SPARSE_DENSITY = 0.25
# files up to this size are hashed on reading; larger ones rely on their pages' checksums
MAX_HASHED_BYTES = 256 << 20
FILES = ("nodes.parquet", "edges.parquet")
# keys of graph.json besides sizes, splits and checksums
STATED = ("name", "num_classes", "task", "directed", "allow_self_loops")
KEYS = {
    *STATED, "schema_version", "files", "splits", "content_sha256", "x_layout", "num_nodes", "num_edges",
    "num_features", "provenance",
}  # fmt: skip
HIDDEN = ".new"  # prefix of the folder where files wait until all are complete


def save_graph(
    graph: Graph, folder: Path, *, provenance: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Write a graph; the same graph gives the same bytes.

    Args:
        graph: any valid graph.
        folder: created if missing; graph.json is written last, so a folder with it is complete.
        provenance: stored in graph.json: origin, licence, citation, caveats, raw files' sha256.

    Returns:
        what graph.json holds.

    Raises:
        OSError: the folder cannot be written, or the disk is full.
    """
    folder = Path(folder)
    layout = feature_layout(graph.x)
    parts = {name: part_codes(graph, name) for name in graph.splits}
    multilabel = graph.task == "multilabel"
    with unfinished(folder) as new:
        nodes = node_table(graph.x, graph.y, parts, layout=layout, multilabel=multilabel)
        write_parquet(new / "nodes.parquet", nodes)
        write_parquet(new / "edges.parquet", _edge_table(graph))
        meta = {
            **described(graph, num_edges=graph.num_edges, provenance=provenance),
            "splits": sorted(graph.splits),
            "x_layout": layout,
            "allow_self_loops": graph.allow_self_loops,
            "content_sha256": content_hash(graph),
            "files": {name: file_facts(new / name) for name in FILES},
        }
        write_json(new / "graph.json", meta)
        put_in_place(new, folder)
    return meta


@contextmanager
def unfinished(folder: Path) -> Iterator[Path]:
    """A hidden folder inside a graph's folder where its files are written; `put_in_place` moves them out.

    Leftovers of killed processes in `folder` are removed first.
    """
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if was_cut_short(folder):
            for name in (*FILES, OF_FOLDER):
                (folder / name).unlink(missing_ok=True)
        with locks.held_folder(folder, HIDDEN) as new:
            yield new


def put_in_place(new: Path, folder: Path) -> None:
    """Move the finished files in place; graph.json is removed first and moved last, for readers."""
    known = {
        name: facts["sha256"] for name, facts in read_json(new / "graph.json")["files"].items()
    }
    write_checksums(new / OF_FOLDER, [new / "graph.json"], known)
    (folder / "graph.json").unlink(missing_ok=True)
    for name in (*FILES, OF_FOLDER, "graph.json"):
        os.replace(new / name, folder / name)


def was_cut_short(folder: Path) -> bool:
    """Whether a process was killed while it put a graph's files in place.

    graph.json, which is moved last, is then still in the hidden folder.
    """
    return not (folder / "graph.json").exists() and any(
        (left / "graph.json").exists() for left in locks.left_folders(folder, HIDDEN)
    )


def read_graph(
    folder: Path, *, full_check: bool = False, features: bool = True, edges: bool = True
) -> Graph:
    """Read a graph that `save_graph` wrote.

    Every page's checksum and both files' sizes are checked; files up to 256 MiB are hashed too.

    Args:
        folder: holds nodes.parquet, edges.parquet, graph.json.
        full_check: hash files of any size, and compare the content's hash.
        features: False leaves x empty (CSR without entries), for graphs that exceed memory.
        edges: False leaves edge_index empty.

    Returns:
        the graph, validated again.

    Raises:
        DamagedFileError: a file is missing, truncated or changed; names it and the remedy.
    """
    folder = Path(folder)
    meta = read_meta(folder)
    for name in FILES:
        _check_file(folder / name, meta["files"][name], full_check)
    wanted = None if features else ["y", *(f"split_{name}" for name in meta["splits"])]
    nodes = read_parquet(folder / "nodes.parquet", wanted)
    edge_index = _edge_index(folder) if edges else np.zeros((2, 0), dtype=np.int64)
    num_edges = edge_index.shape[1] if edges else meta["num_edges"]
    _check_rows(folder, meta, nodes.num_rows, num_edges)
    empty = (meta["num_nodes"], meta["num_features"])
    graph = Graph(
        **{name: meta[name] for name in STATED},
        x=_features(nodes, meta) if features else _no_features(empty),
        edge_index=edge_index,
        y=_labels(nodes, meta),
        splits={name: parts_of(values_of(nodes[f"split_{name}"])) for name in meta["splits"]},
    )
    whole = features and edges
    if full_check and whole and content_hash(graph) != meta["content_sha256"]:
        raise DamagedFileError(f"{folder} must hold the graph graph.json describes; make it again")
    return graph


def read_meta(folder: Path) -> dict[str, Any]:
    """graph.json of a folder, its keys checked.

    Raises:
        DamagedFileError: missing, not JSON, of another version, or a key is missing.
    """
    path = Path(folder) / "graph.json"
    check(path)
    meta = read_json(path)
    missing = sorted(KEYS - set(meta)) if isinstance(meta, dict) else ["everything"]
    if not missing:
        files = meta["files"] if isinstance(meta["files"], dict) else {}
        missing = [f"files: {name}" for name in FILES if not isinstance(files.get(name), dict)]
    if missing:
        raise DamagedFileError(f"{path} must have the keys {', '.join(missing)}; make it again")
    if meta["schema_version"] != SCHEMA_VERSION:
        raise DamagedFileError(
            f"{path} must have schema_version {SCHEMA_VERSION}, got {meta['schema_version']!r}; "
            "make it again with `dpgnn data prepare`"
        )
    return meta


def described(
    graph: Any, *, num_edges: int, provenance: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The part of graph.json that a graph in memory and a streamed one share."""
    return {
        "schema_version": SCHEMA_VERSION,
        "name": graph.name,
        "task": graph.task,
        "directed": graph.directed,
        "num_nodes": graph.num_nodes,
        "num_edges": num_edges,
        "num_features": graph.num_features,
        "num_classes": graph.num_classes,
        "provenance": dict(provenance or {}),
    }


def feature_layout(x: Features) -> str:
    """ "csr" for sparse features with at most a quarter of the entries set, else "dense"."""
    if isinstance(x, np.ndarray):
        return "dense"
    cells = x.shape[0] * x.shape[1]
    return "csr" if cells and x.nnz / cells <= MAX_SPARSE_DENSITY else "dense"


def file_facts(path: Path) -> dict[str, Any]:
    """Size and sha256 of a file, for graph.json."""
    return {"bytes": path.stat().st_size, "sha256": sha256_file(path)}


def node_table(
    x: Features, y: np.ndarray, parts: Mapping[str, np.ndarray], *, layout: str, multilabel: bool
) -> pa.Table:
    """Rows of nodes.parquet; `parts` are int8 codes by split name."""
    columns: dict[str, Any] = {}
    if layout == "csr":
        import scipy.sparse as sp

        rows = with_sums(sp.csr_array(x))
        large = rows.nnz >= 2**31
        offsets = column_of(rows.indptr.astype(np.int64 if large else np.int32))
        kind = pa.LargeListArray if large else pa.ListArray
        columns["x_index"] = kind.from_arrays(offsets, column_of(rows.indices.astype(np.int32)))
        columns["x_value"] = kind.from_arrays(offsets, column_of(rows.data))
    else:
        columns["x"] = _fixed_size(x if isinstance(x, np.ndarray) else x.toarray())
    columns["y"] = _fixed_size(y) if multilabel else column_of(y)
    columns |= {f"split_{name}": column_of(parts[name]) for name in sorted(parts)}
    return pa.table(columns)


def _edge_table(graph: Graph) -> pa.Table:
    source, target = graph.edge_index
    return pa.table({"source": column_of(source), "target": column_of(target)})


def _fixed_size(rows: np.ndarray) -> pa.FixedSizeListArray:
    flat = column_of(np.ascontiguousarray(rows).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])


def _features(nodes: pa.Table, meta: Mapping[str, Any]) -> Features:
    shape = (meta["num_nodes"], meta["num_features"])
    if meta["x_layout"] == "dense":
        return _flat(nodes["x"]).reshape(shape)
    index = nodes["x_index"].combine_chunks()
    lengths = index.value_lengths().to_numpy(zero_copy_only=False)
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    columns, values = _flat(nodes["x_index"]), _flat(nodes["x_value"])
    inside = len(columns) == 0 or (columns.min() >= 0 and columns.max() < shape[1])
    require(bool(inside), "x_index", f"lie in 0..{shape[1] - 1}", "a column outside")
    import scipy.sparse as sp

    return sp.csr_array((values, columns, indptr), shape=shape)


def _no_features(shape: tuple[int, int]) -> Features:
    import scipy.sparse as sp

    return sp.csr_array(shape, dtype=np.float32)


def _edge_index(folder: Path) -> np.ndarray:
    """The edges, read one end after the other, so that they are never in memory twice."""
    edge_index = np.zeros((2, 0), dtype=np.int64)
    for row, name in enumerate(("source", "target")):
        ids = values_of(read_parquet(folder / "edges.parquet", [name])[name])
        if row == 0:
            edge_index = np.empty((2, len(ids)), dtype=np.int64)
        edge_index[row] = ids
        del ids
        pa.default_memory_pool().release_unused()
    return edge_index


def _labels(nodes: pa.Table, meta: Mapping[str, Any]) -> np.ndarray:
    if meta["task"] == "multilabel":
        return _flat(nodes["y"]).reshape(meta["num_nodes"], meta["num_classes"])
    return values_of(nodes["y"])


def _flat(column: pa.ChunkedArray) -> np.ndarray:
    """All values of a list column in one writable array."""
    return np.concatenate([np.from_dlpack(_inner(chunk)) for chunk in column.chunks])


def row_values(column: pa.ChunkedArray) -> np.ndarray:
    """Values of a column of numbers, or of lists of them, in one array, row after row."""
    is_list = pa.types.is_fixed_size_list(column.type)
    return _flat(column) if is_list else values_of(column)


def _inner(chunk: pa.Array) -> pa.Array:
    """The same as `chunk.flatten()` without null lists; that would import all of Arrow's functions."""
    if chunk.null_count or not len(chunk):
        return chunk.flatten()
    if pa.types.is_fixed_size_list(chunk.type):
        size = chunk.type.list_size
        return chunk.values.slice(chunk.offset * size, len(chunk) * size)
    first, last = chunk.offsets[0].as_py(), chunk.offsets[-1].as_py()
    return chunk.values.slice(first, last - first)


def _check_file(path: Path, facts: Mapping[str, Any], full_check: bool) -> None:
    if not path.exists():
        raise DamagedFileError(f"{path} does not exist; make it with `dpgnn data prepare`")
    size = path.stat().st_size
    if size != facts["bytes"]:
        raise DamagedFileError(
            f"{path} must have {facts['bytes']} bytes, got {size}; delete the folder and rerun"
        )
    if (full_check or size <= MAX_HASHED_BYTES) and sha256_file(path) != facts["sha256"]:
        raise DamagedFileError(
            f"{path} must have sha256 {facts['sha256']}; it was changed; delete the folder and rerun"
        )


def _check_rows(folder: Path, meta: Mapping[str, Any], num_nodes: int, num_edges: int) -> None:
    wanted = (meta["num_nodes"], meta["num_edges"])
    if (num_nodes, num_edges) != wanted:
        raise DamagedFileError(
            f"{folder} must hold {wanted[0]} nodes and {wanted[1]} edges as graph.json says, got "
            f"{num_nodes} and {num_edges}; delete the folder and rerun"
        )
