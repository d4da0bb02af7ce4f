"""Writes graphs larger than memory: rows and edges arrive in pieces and become a graph folder.

Edges are spilled to files by range of their source node and sorted one range at a time, so memory is bounded
by a budget and not by the graph. The folder has the same content, byte for byte, as the one that `save_graph`
writes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpgnn.core.checks import at_least, fail, require
from dpgnn.core.storage import atomic_write, write_json
from dpgnn.data.files import graph_files
from dpgnn.data.files.content import ContentHash, hashed_head
from dpgnn.data.files.spills import Spills, scratch_folder
from dpgnn.data.graph import Task

ROW_GROUP = 1 << 16
EDGE_ROW_GROUP = 1 << 20
DEFAULT_MEMORY_BYTES = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Header:
    """Facts that must be known before the first row arrives; all are public.

    Attributes:
        name: the data set's name.
        num_nodes, num_features, num_classes: the sizes; checked at the end.
        expected_edges: approximate number of stored edges; decides the number of spill files.
        x_layout: "dense" or "csr".
        splits: names of published splits; each batch of rows has their codes.
    """

    name: str
    num_nodes: int
    num_features: int
    num_classes: int
    expected_edges: int
    task: Task = "multiclass"
    directed: bool = False
    x_layout: str = "dense"
    splits: tuple[str, ...] = ()

    def estimate(self, memory_bytes: int = DEFAULT_MEMORY_BYTES) -> str:
        """One line for the user before the work starts: disk, scratch space, memory."""
        rows = self.num_nodes * (4 * self.num_features + 8) if self.x_layout == "dense" else 0
        edges = 16 * self.expected_edges
        scratch = 8 * self.expected_edges
        return (
            f"{self.name}: {self.num_nodes:,} nodes, about {self.expected_edges:,} edges; about "
            f"{(rows + edges) / 1e9:.2f} GB before compression, {scratch / 1e9:.2f} GB of scratch "
            f"space, {memory_bytes / 1e9:.1f} GB of memory for sorting edges"
        )


class GraphWriter:
    """Writes a graph folder from batches; use it as a context manager, then `finish`.

    The folder stays empty until `finish` has checked the whole graph.

    Args:
        folder: of the graph.
        header: the sizes.
        memory_bytes: budget for sorting edges.
        scratch: folder of spilled edges; needs 8 bytes for each edge, 16 if reverse edges are added.
        resume: name under which spilled edges are kept and reused after a kill; None keeps nothing.
    """

    def __init__(
        self,
        folder: Path,
        header: Header,
        *,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        scratch: Path = Path("work/streaming"),
        quiet: bool = False,
        resume: str | None = None,
    ) -> None:
        self.folder, self.header = Path(folder), header
        self._hash = ContentHash()
        self._rows = 0
        # sorting holds the keys, a copy of them and the two resulting columns
        per_bucket = max(1, memory_bytes // (6 * 8))
        self._num_buckets = max(1, -(-header.expected_edges // per_bucket))
        self._scratch_root, self._resume = scratch, resume
        self._progress = _Progress(header, quiet)

    def __enter__(self) -> GraphWriter:
        with ExitStack() as stack:
            held = scratch_folder(self._scratch_root, self.header.name, self._resume)
            scratch, kept = stack.enter_context(held), self._resume is not None
            spills = Spills(scratch, self.header.num_nodes, self._num_buckets, kept=kept)
            self._spills = stack.enter_context(spills)
            self._new = stack.enter_context(graph_files.unfinished(self.folder))
            self._stack = stack.pop_all()
        self._files = ExitStack()  # the two Parquet files
        self._nodes: pq.ParquetWriter | None = None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._files.__exit__(kind, error, trace)
        self._stack.__exit__(kind, error, trace)

    def add_nodes(
        self, x: Any, y: np.ndarray, parts: Mapping[str, np.ndarray] | None = None
    ) -> None:
        """The next rows.

        Args:
            x: float32, shape (num_rows, num_features), dense or CSR as the header says.
            y: int64, shape (num_rows,), or uint8, shape (num_rows, num_classes).
            parts: int8 codes of each published split: 0 train, 1 val, 2 test, -1 none.

        Raises:
            ValueError: a wrong shape or dtype, a value that is not finite, a label out of range; the
                message names the node.
        """
        parts = dict(parts or {})
        _check_batch(self.header, self._rows, x, y, parts)
        table = graph_files.node_table(
            x, y, parts, layout=self.header.x_layout, multilabel=self.header.task == "multilabel"
        )
        if self._nodes is None:
            self._nodes = self._open("nodes.parquet", table.schema)
        self._nodes.write_table(table, row_group_size=ROW_GROUP)
        self._hash.add_rows(x, y, parts)
        self._rows += len(y)
        self._progress.nodes(self._rows)

    def add_edges(self, source: np.ndarray, target: np.ndarray) -> None:
        """More edges, in any order; self-loops are dropped, duplicates are dropped by `finish`.

        Raises:
            ValueError: an id outside 0..num_nodes-1.
        """
        header = self.header
        if not self._spills.begin():
            self._progress.edges(len(source))
            return
        for end, ids in (("source", source), ("target", target)):
            bad = (ids < 0) | (ids >= header.num_nodes)
            if bad.any():
                rule = f"be a node in 0..{header.num_nodes - 1}"
                fail(f"graph {header.name}: edge {end}", rule, int(ids[np.argmax(bad)]))
        keep = source != target
        source, target = source[keep].astype(np.int64), target[keep].astype(np.int64)
        self._spills.add(source, target)
        if not header.directed:
            self._spills.add(target, source)
        self._spills.end()
        self._progress.edges(len(source))

    def finish(self, provenance: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Sort the edges, check the counts, put all three files in place.

        Returns:
            what graph.json holds.

        Raises:
            ValueError: fewer or more rows than the header says.
        """
        header = self.header
        rule = f"be {header.num_nodes}, as its header says"
        require(self._rows == header.num_nodes, f"graph {header.name}: rows", rule, self._rows)
        assert self._nodes is not None
        self._nodes.close()
        num_edges = self._write_edges()
        self._files.close()
        facts = {name: graph_files.file_facts(self._new / name) for name in graph_files.FILES}
        meta = {
            **graph_files.described(header, num_edges=num_edges, provenance=provenance),
            "splits": sorted(header.splits),
            "x_layout": header.x_layout,
            "allow_self_loops": False,
            "content_sha256": self._hash.hexdigest(hashed_head(header)),
            "files": facts,
        }
        write_json(self._new / "graph.json", meta)
        graph_files.put_in_place(self._new, self.folder)
        self._progress.done(num_edges)
        return meta

    def _open(self, name: str, schema: pa.Schema) -> pq.ParquetWriter:
        file = self._files.enter_context(atomic_write(self._new / name))
        writer = pq.ParquetWriter(
            file, schema, compression="zstd", compression_level=3, write_page_checksum=True
        )
        self._files.callback(writer.close)
        return writer

    def _write_edges(self) -> int:
        schema = pa.schema([("source", pa.int64()), ("target", pa.int64())])
        writer = self._open("edges.parquet", schema)
        none = np.zeros(0, dtype=np.int64)
        self._hash.add_edges(none, none)
        num_edges = 0
        for number, keys in self._spills.ranges():
            source, target = np.divmod(keys, self.header.num_nodes)
            writer.write_table(
                pa.table({"source": source, "target": target}), row_group_size=EDGE_ROW_GROUP
            )
            self._hash.add_edges(source, target)
            num_edges += len(keys)
            self._progress.sorted(number + 1, self._num_buckets)
        writer.close()
        return num_edges


def _check_batch(
    header: Header, first: int, x: Any, y: np.ndarray, parts: Mapping[str, np.ndarray]
) -> None:
    """The rules of Graph, for rows that start at node `first`."""
    import scipy.sparse as sp

    where = f"graph {header.name}"
    at_least(f"{where}: rows of a batch", len(y), 1)
    require(x.dtype == np.float32, f"{where}: x", "be float32", str(x.dtype))
    shape = (len(y), header.num_features)
    require(x.shape == shape, f"{where}: x", f"have shape {shape}", x.shape)
    values = x.data if sp.issparse(x) else x
    if not np.isfinite(values).all():
        rows = sp.csr_array(x)
        entry = int(np.argmax(~np.isfinite(rows.data)))
        node = first + int(np.searchsorted(rows.indptr, entry, side="right")) - 1
        remedy = "replace or drop that value"
        fail(f"{where}: x of node {node}", "be finite", float(rows.data[entry]), remedy)
    low, high = (0, 1) if header.task == "multilabel" else (-1, header.num_classes - 1)
    bad = (y < low) | (y > high)
    if bad.any():
        row = int(np.argwhere(bad)[0][0])
        fail(f"{where}: y of node {first + row}", f"lie in {low}..{high}", int(y[bad][0]))
    require(set(parts) == set(header.splits), f"{where}: splits", f"be {header.splits}", set(parts))


class _Progress:
    """A line on standard error every two seconds."""

    def __init__(self, header: Header, quiet: bool) -> None:
        self.header, self.quiet, self.last, self.num_edges = header, quiet, time.monotonic(), 0
        self.start = self.last

    def nodes(self, rows: int) -> None:
        self._say(f"{rows:,} of {self.header.num_nodes:,} nodes")

    def edges(self, more: int) -> None:
        self.num_edges += more
        self._say(f"{self.num_edges:,} edges read")

    def sorted(self, number: int, of: int) -> None:
        self._say(f"edges sorted: part {number} of {of}")

    def done(self, num_edges: int) -> None:
        seconds = time.monotonic() - self.start
        self._say(f"done, {num_edges:,} edges in {seconds:.0f} s", always=seconds > 2)

    def _say(self, text: str, *, always: bool = False) -> None:
        now = time.monotonic()
        if not self.quiet and (always or now - self.last > 2):
            self.last = now
            print(f"{self.header.name}: {text}", file=sys.stderr)
