"""A graph's arcs in partitions: one Parquet file each, with statistics and a checksum."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpgnn.core import locks
from dpgnn.core.checks import at_least, require
from dpgnn.core.storage import (
    DamagedFileError,
    atomic_write,
    canonical_json,
    column_of,
    read_json,
    values_of,
    write_json,
)
from dpgnn.data.files.graph_files import read_meta
from dpgnn.samplers.partitioned.scheduler import Scheduler

MANIFEST = "partitions.json"
KEPT = Path("work/partitions")
LARGEST = 1 << 23  # default number of arcs of a partition: half a gigabyte for a task
COLUMNS = {"source": "DELTA_BINARY_PACKED", "target": "PLAIN"}  # and how they are encoded
REMEDY = "make the partitions again with `dpgnn data partition`"


@dataclass(frozen=True, kw_only=True)
class Part:
    """One partition and its statistics; sensitive.

    Attributes:
        name: of the file.
        rows: arcs.
        source, target: smallest and largest id, [] without arcs.
        bytes, sha256: of the file.
    """

    name: str
    rows: int
    source: tuple[int, ...]
    target: tuple[int, ...]
    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Partitions:
    """The arcs of a graph in the order of its edges.parquet, cut into partitions.

    Attributes:
        folder: holds the files.
        graph: name, content_sha256, num_nodes, num_edges, directed, allow_self_loops of the graph.
        parts: in order.
    """

    folder: Path
    graph: Mapping[str, Any]
    parts: tuple[Part, ...]


@dataclass(frozen=True, kw_only=True)
class _Cut:
    edges: Path
    first: int
    stop: int
    out: Path
    graph_sha256: str


def _cuts(edges: Path, meta: Mapping[str, Any], folder: Path, num_partitions: int) -> list[_Cut]:
    """Ranges of rows of equal size, each with the file that it goes to."""
    bounds = [meta["num_edges"] * i // num_partitions for i in range(num_partitions + 1)]
    return [
        _Cut(
            edges=edges.resolve(), first=first, stop=stop,
            out=(folder / f"part-{number:05}.parquet").resolve(),
            graph_sha256=meta["content_sha256"],
        )
        for number, (first, stop) in enumerate(zip(bounds, bounds[1:]))
    ]  # fmt: skip


def write_partitions(
    graph: Path, folder: Path, num_partitions: int, *, scheduler: Scheduler
) -> Partitions:
    """Cut a graph's edges.parquet into partitions of equal size; a task holds one partition.

    Args:
        graph: the graph's folder.
        folder: new, empty, or of partitions of the same graph, which are replaced.
        num_partitions: >= 1.
        scheduler: runs the tasks.

    Raises:
        ValueError: num_partitions is below 1, or the folder holds something else.
        DamagedFileError: the graph is incomplete.
        BusyError: another process writes there.
        OSError: the folder cannot be written, or the disk is full.
    """
    at_least("num_partitions", num_partitions, 1)
    meta = read_meta(graph)
    edges, facts = graph / "edges.parquet", meta["files"]["edges.parquet"]
    if not edges.exists() or edges.stat().st_size != facts["bytes"]:
        raise DamagedFileError(f"{edges} must have {facts['bytes']} bytes; make the graph again")
    _check_folder(folder, meta["content_sha256"])
    folder.mkdir(parents=True, exist_ok=True)
    with locks.exclusive(folder.parent / f".{folder.name}.lock", f"{folder} is being written"):
        (folder / MANIFEST).unlink(missing_ok=True)
        parts = scheduler.run("partitions", _write_part, _cuts(edges, meta, folder, num_partitions))
        known = {part.name for part in parts}
        for left in folder.glob("part-*.parquet"):
            if left.name not in known:
                left.unlink()
        kept = ("name", "content_sha256", "num_nodes", "num_edges", "directed", "allow_self_loops")
        facts = {name: meta[name] for name in kept}
        write_json(folder / MANIFEST, {"graph": facts, "parts": [asdict(part) for part in parts]})
    return Partitions(folder=folder, graph=facts, parts=tuple(parts))


def _check_folder(folder: Path, graph_sha256: str) -> None:
    """Refuse a folder with other files, or with partitions of another graph; nothing of them is replaced."""
    found = list(folder.iterdir()) if folder.is_dir() else []
    remedy = "name another folder, or delete it first"
    for path in found:
        ours = path.name == MANIFEST or path.match("part-*.parquet") or path.name.startswith(".")
        require(
            ours,
            str(folder),
            "be new, empty or of partitions",
            f"a folder with {path.name}",
            remedy,
        )
    if folder / MANIFEST in found:
        graph = read_json(folder / MANIFEST)["graph"]
        rule = f"hold partitions of the graph {graph_sha256[:12]}, if any"
        shown = f"those of {graph['name']} ({graph['content_sha256'][:12]})"
        require(graph["content_sha256"] == graph_sha256, str(folder), rule, shown, remedy)


def read_partitions(folder: Path, graph_sha256: str | None = None) -> Partitions:
    """The partitions of a folder.

    Args:
        folder: made by `write_partitions`.
        graph_sha256: expected content hash of the graph; None for any.

    Raises:
        DamagedFileError: a file is missing or has another size, or they are of another graph.
    """
    found = read_json(folder / MANIFEST)
    try:
        graph, parts = found["graph"], tuple(Part(**part) for part in found["parts"])
        own = graph["content_sha256"]
    except (KeyError, TypeError):
        raise DamagedFileError(f"{folder / MANIFEST} must list partitions; {REMEDY}") from None
    if graph_sha256 not in (None, own):
        raise DamagedFileError(
            f"{folder} must hold partitions of the graph {str(graph_sha256)[:16]}..., got those of "
            f"{graph['name']}, {own[:16]}...; {REMEDY}"
        )
    for part in parts:
        path = folder / part.name
        if not path.exists():
            raise DamagedFileError(f"{path} does not exist; {REMEDY}")
        if path.stat().st_size != part.bytes:
            raise DamagedFileError(f"{path} must have {part.bytes} bytes; {REMEDY}")
    rows = sum(part.rows for part in parts)
    if rows != graph["num_edges"]:
        raise DamagedFileError(
            f"{folder} must hold {graph['num_edges']} arcs, got {rows}; {REMEDY}"
        )
    return Partitions(folder=folder, graph=graph, parts=parts)


def partitions_for(
    graph: Path,
    meta: Mapping[str, Any],
    num_workers: int,
    *,
    scheduler: Scheduler,
    kept: Path = KEPT,
) -> Partitions:
    """Partitions of at most 2^23 arcs below work/partitions, made if missing.

    Args:
        graph: the graph's folder.
        meta: its graph.json.
        num_workers: at least one partition for each.
        scheduler: runs the tasks.
        kept: parent folder of the partitions.

    Raises:
        DamagedFileError, BusyError, OSError: as `write_partitions`.
    """
    folder, number = place_of(meta, num_workers, kept)
    if (folder / MANIFEST).exists():
        try:
            return read_partitions(folder, str(meta["content_sha256"]))
        except DamagedFileError as error:
            print(f"{error}: made again", file=sys.stderr)
    return write_partitions(graph, folder, number, scheduler=scheduler)


def place_of(meta: Mapping[str, Any], num_workers: int = 1, kept: Path = KEPT) -> tuple[Path, int]:
    """The folder of a graph's partitions and their number; arguments as for `partitions_for`."""
    number = max(num_workers, 1, -(-int(meta["num_edges"]) // LARGEST))
    return kept / f"{str(meta['content_sha256'])[:16]}-{number}", number


def read_part(path: Path, part: Part) -> tuple[np.ndarray, np.ndarray]:
    """Sources and targets of one partition, int32.

    Args:
        path: its file.
        part: its statistics.

    Raises:
        DamagedFileError: the file is missing or was changed.
    """
    pieces = [(np.zeros(0, np.int32), np.zeros(0, np.int32)), *read_pieces(path, part)]
    source, target = (np.concatenate([piece[end] for piece in pieces]) for end in (0, 1))
    return source, target


def read_pieces(path: Path, part: Part) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The arcs of `read_part` piece by piece, so that a piece fits into the cache; read-only.

    Raises:
        DamagedFileError: as `read_part`, before the first piece.
    """
    if not path.exists():
        raise DamagedFileError(f"{path} does not exist; {REMEDY}")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != part.sha256:
        raise DamagedFileError(f"{path} must be as it was made, got other bytes; {REMEDY}")
    with pq.ParquetFile(pa.BufferReader(content)) as file:
        for number in range(file.num_row_groups):
            table = file.read_row_group(number, columns=list(COLUMNS), use_threads=False)
            ends = [np.from_dlpack(table[name].combine_chunks()) for name in COLUMNS]
            yield ends[0], ends[1]


def _arcs_file(source: np.ndarray, target: np.ndarray, graph_sha256: str) -> pa.Buffer:
    """A Parquet file of arcs that is fast to read: delta-encoded sources, plain targets."""
    table = pa.table(dict(zip(COLUMNS, map(column_of, (source, target)))))
    table = table.replace_schema_metadata({"dpgnn": canonical_json({"graph_sha256": graph_sha256})})
    out = pa.BufferOutputStream()
    pq.write_table(
        table, out, compression="none", use_dictionary=False, row_group_size=1 << 20,
        column_encoding=COLUMNS, write_page_checksum=True,
    )  # fmt: skip
    return out.getvalue()


def _write_part(cut: _Cut) -> Part:
    """Rows first..stop-1 of edges.parquet as a file of their own."""
    pieces = list(_row_groups(cut))
    source, target = (
        np.concatenate([np.zeros(0, np.int32), *(piece[end] for piece in pieces)]) for end in (0, 1)
    )
    require(len(source) == cut.stop - cut.first, str(cut.edges), "hold all rows", len(source))
    content = _arcs_file(source, target, cut.graph_sha256)
    with atomic_write(cut.out) as file:
        file.write(content)
    ends = [(int(ids.min()), int(ids.max())) if len(ids) else () for ids in (source, target)]
    return Part(
        name=cut.out.name, rows=len(source), source=ends[0], target=ends[1],
        bytes=content.size, sha256=hashlib.sha256(content).hexdigest(),
    )  # fmt: skip


def _row_groups(cut: _Cut) -> Any:
    """The wanted rows of each row group as (source, target), int32."""
    start = 0
    with pq.ParquetFile(cut.edges, page_checksum_verification=True) as file:
        for number in range(file.num_row_groups):
            rows = file.metadata.row_group(number).num_rows
            low, high = max(cut.first - start, 0), min(cut.stop - start, rows)
            if low < high:
                table = file.read_row_group(number, columns=["source", "target"])
                yield tuple(
                    values_of(table[name])[low:high].astype(np.int32)
                    for name in ("source", "target")
                )
            start += rows
