"""ogbn-arxiv, ogbn-products and ogbn-mag (papers and citations only) from OGB's raw CSV files.

Counts (nodes, raw edges, features, classes): ogbn-arxiv 169343, 1166243, 128, 40; ogbn-products
2449029, 61859140, 100, 47; ogbn-mag papers 736389, 5416271, 128, 349. Raw edges are the rows of the
edge file; the graph here has both directions of each, once.

The package ogb is not used: its reader loads pickles that current torch refuses.

Source: Hu et al. (2020), arXiv:2005.00687.
"""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

import numpy as np

from dpgnn.core.checks import fail, require
from dpgnn.data.files.content import PART_CODES
from dpgnn.data.files.pieces import Pieces, Rows
from dpgnn.data.files.streaming import Header
from dpgnn.data.raw.arrays import DAMAGED

if TYPE_CHECKING:
    import polars as pl

    from dpgnn.data.raw.files import RawFiles

BLOCK_BYTES = 32 << 20
PARTS = {"train": "train", "valid": "val", "test": "test"}


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Paths of a data set's tables inside its archive."""

    archive: str
    split: str
    nodes: str = ""
    relation: str = ""


LAYOUTS = {
    "ogbn-arxiv": Layout(archive="arxiv", split="time"),
    "ogbn-products": Layout(archive="products", split="sales_ranking"),
    "ogbn-mag": Layout(
        archive="mag", split="time", nodes="paper/", relation="relations/paper___cites___paper/"
    ),
}


def pieces(name: str, files: RawFiles, root_seed: int) -> Pieces:
    """The graph of one OGB data set, block by block; both directions of every citation or purchase.

    Reads the archive as OGB publishes it, or the unpacked folder (ogbn_arxiv/raw/edge.csv.gz, ...)
    below data/raw or a mirror folder.

    Raises:
        ValueError: a table has other columns, rows or values than published.
    """
    layout, source = LAYOUTS[name], files.source
    tables = Tables(layout, files)
    counts = source.counts()
    num_nodes, num_raw_edges = counts["num_nodes"], counts["num_edges"]
    by_type = ("node-feat/", "node-label/") if layout.nodes else ("", "")
    features = f"raw/{by_type[0]}{layout.nodes}node-feat.csv.gz"
    labels = f"raw/{by_type[1]}{layout.nodes}node-label.csv.gz"

    def nodes() -> Iterator[Rows]:
        y = _labels(tables, labels, num_nodes, counts["num_classes"])
        codes = _split_codes(tables, layout, num_nodes)
        first = 0
        for x in _features(tables, features, counts["num_features"], num_nodes, name):
            rows = slice(first, first + len(x))
            yield x, y[rows], {"public": codes[rows]}
            first = rows.stop

    return Pieces(
        header=Header(
            name=name,
            num_nodes=num_nodes,
            num_features=counts["num_features"],
            num_classes=counts["num_classes"],
            expected_edges=2 * num_raw_edges,
            splits=("public",),
        ),
        nodes=nodes,
        edges=lambda: _edges(tables, f"raw/{layout.relation}edge.csv.gz", num_raw_edges, name),
    )


class Tables:
    """The gzipped CSV tables of one data set, from its archive or its unpacked folder."""

    def __init__(self, layout: Layout, files: RawFiles) -> None:
        self._layout = layout
        for place in (files.folder, *files.mirrors):
            if (place / f"ogbn_{layout.archive}" / "raw").is_dir():
                self._place = place / f"ogbn_{layout.archive}"
                return
        self._place = files.path(f"{layout.archive}.zip")

    def blocks(self, table: str, num_columns: int, *, real: bool) -> Iterator[pl.DataFrame]:
        """Frames of about 32 MB of text; all columns float32 or int64.

        Raises:
            ValueError: the table is missing or damaged, or a line is not `num_columns` numbers.
        """
        import polars as pl

        dtype = pl.Float32 if real else pl.Int64
        schema = {f"column_{i + 1}": dtype for i in range(num_columns)}
        with self._open(table) as raw, gzip.open(raw) as text:
            rest, first = b"", 1
            while True:
                try:
                    more = text.read(BLOCK_BYTES)
                except DAMAGED as error:
                    where = f"{self._place}: {table}"
                    fail(where, "be a whole gzip file", str(error), "fetch it again")
                block, _, rest = (rest + more).rpartition(b"\n") if more else (rest, b"", b"")
                if block.strip():
                    width = block.split(b"\n", 1)[0].count(b",") + 1
                    require(width == num_columns, table, f"have {num_columns} columns", width)
                    try:
                        frame = pl.read_csv(io.BytesIO(block), has_header=False, schema=schema)
                    except pl.exceptions.PolarsError as error:
                        where = f"{table}, from line {first}"
                        fail(where, f"hold {num_columns} numbers a line", str(error)[:150])
                    if sum(frame.null_count().row(0)):
                        fail(f"{table}, from line {first}", "hold no empty cell", "one")
                    first += len(frame)
                    yield frame
                if not more:
                    return

    def _open(self, table: str) -> IO[bytes]:
        try:
            if self._place.is_dir():
                return open(self._place / table, "rb")
            # the archive stays open as long as its member does
            return zipfile.ZipFile(self._place).open(f"{self._layout.archive}/{table}")
        except (KeyError, *DAMAGED) as error:
            where = f"{self._place}: {table}"
            fail(where, "be there and whole", str(error), "fetch the archive again")


def _features(
    tables: Tables, table: str, num_features: int, num_nodes: int, name: str
) -> Iterator[np.ndarray]:
    """Blocks of float32 features, shape (n, num_features), of `num_nodes` nodes in all."""
    seen = 0
    for frame in tables.blocks(table, num_features, real=True):
        seen += len(frame)
        require(seen <= num_nodes, table, f"have {num_nodes} rows", "more")
        yield np.ascontiguousarray(frame.to_numpy(), dtype=np.float32)
    require(seen == num_nodes, f"{name}: {table}", f"have {num_nodes} rows", seen)


def _edges(
    tables: Tables, table: str, num_edges: int, name: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Blocks of sources and targets, int64, of `num_edges` edges in all."""
    seen = 0
    for frame in tables.blocks(table, 2, real=False):
        seen += len(frame)
        yield frame["column_1"].to_numpy(), frame["column_2"].to_numpy()
    require(seen == num_edges, f"{name}: {table}", f"have {num_edges} rows", seen)


def _labels(tables: Tables, table: str, num_nodes: int, num_classes: int) -> np.ndarray:
    frames = tables.blocks(table, 1, real=False)
    y = np.concatenate([frame["column_1"].to_numpy() for frame in frames])
    require(len(y) == num_nodes, table, f"have {num_nodes} rows", len(y))
    require(bool((y < num_classes).all()), table, f"hold classes below {num_classes}", int(y.max()))
    return y.astype(np.int64)


def _split_codes(tables: Tables, layout: Layout, num_nodes: int) -> np.ndarray:
    codes = np.full(num_nodes, -1, dtype=np.int8)
    for file, part in PARTS.items():
        table = f"split/{layout.split}/{layout.nodes}{file}.csv.gz"
        for frame in tables.blocks(table, 1, real=False):
            idx = frame["column_1"].to_numpy()
            inside = bool(((idx >= 0) & (idx < num_nodes)).all())
            require(inside, table, f"lie in 0..{num_nodes - 1}", "a node outside")
            codes[idx] = PART_CODES[part]
    return codes
