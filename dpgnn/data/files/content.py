"""One hash of a graph's values, equal for graphs written at once and streamed."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.data.graph import Features, Graph, with_sums

if TYPE_CHECKING:
    import scipy.sparse as sp

VERSION = 1
ROWS_AT_ONCE = 1 << 16
PART_CODES = {"train": 0, "val": 1, "test": 2}


class ContentHash:
    """sha256 over features, labels, splits and edges, fed in pieces, in order.

    Features are hashed as sparse rows, so a dense and a CSR copy of one graph agree.
    """

    def __init__(self) -> None:
        self._streams: dict[str, Any] = {}

    def add_rows(self, x: Features, y: np.ndarray, parts: Mapping[str, np.ndarray]) -> None:
        """The next rows: features, labels, and for each split its int8 codes."""
        self.add_features(x)
        self._feed("y", y, "<i8")
        for name, codes in parts.items():
            self._feed(f"split {name}", codes, "<i1")

    def add_features(self, x: Features) -> None:
        """The next rows of features only."""
        import scipy.sparse as sp

        rows = _without_zeros(with_sums(sp.csr_array(x)))
        self._feed("lengths", np.diff(rows.indptr), "<i8")
        self._feed("columns", rows.indices, "<i8")
        self._feed("values", rows.data, "<f4")

    def add_edges(self, source: np.ndarray, target: np.ndarray) -> None:
        """The next edges in ascending order of (source, target)."""
        self._feed("source", source, "<i8")
        self._feed("target", target, "<i8")

    def hexdigest(self, head: Mapping[str, Any]) -> str:
        """64 hexadecimal digits; `head` holds task, directed and sizes."""
        streams = {name: digest.hexdigest() for name, digest in self._streams.items()}
        text = json.dumps([VERSION, dict(head), streams], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _feed(self, stream: str, array: np.ndarray, dtype: str) -> None:
        content = np.ascontiguousarray(array, dtype=dtype).tobytes()
        self._streams.setdefault(stream, hashlib.sha256()).update(content)


def features_hash(graph: Graph) -> str:
    """The hash of a graph's number of nodes and features; no label or edge is read."""
    found = ContentHash()
    for start in range(0, graph.num_nodes, ROWS_AT_ONCE):
        found.add_features(graph.x[start : start + ROWS_AT_ONCE])
    return found.hexdigest({"num_nodes": graph.num_nodes, "num_features": graph.num_features})


def content_hash(graph: Graph) -> str:
    """The hash of a graph in memory, independent of file layout and order of edges."""
    found = ContentHash()
    codes = {name: part_codes(graph, name) for name in graph.splits}
    for start in range(0, graph.num_nodes, ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        found.add_rows(graph.x[rows], graph.y[rows], {k: v[rows] for k, v in codes.items()})
    found.add_edges(*_sorted_edges(graph))
    return found.hexdigest(hashed_head(graph))


def structure_hash(graph: Graph) -> str:
    """The hash of features and edges; labels and splits do not change it."""
    found = ContentHash()
    found.add_features(graph.x)
    found.add_edges(*_sorted_edges(graph))
    return found.hexdigest({"num_nodes": graph.num_nodes, "num_features": graph.num_features})


def _sorted_edges(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    source, target = graph.edge_index
    if is_sorted(source, target):
        return source, target
    order = np.lexsort((target, source))
    return source[order], target[order]


def hashed_head(graph: Any) -> dict[str, Any]:
    """The part of a graph's hash besides arrays, from a Graph or a stream's header."""
    names = ("task", "directed", "num_nodes", "num_features", "num_classes")
    return {name: getattr(graph, name) for name in names}


def part_codes(graph: Graph, name: str) -> np.ndarray:
    """One published split as int8, shape (num_nodes,): 0 train, 1 val, 2 test, -1 in no part."""
    codes = np.full(graph.num_nodes, -1, dtype=np.int8)
    for part, idx in graph.splits[name].items():
        codes[idx] = PART_CODES[part]
    return codes


def parts_of(codes: np.ndarray) -> dict[str, np.ndarray]:
    """The positions of each part in int8 codes: the inverse of `part_codes`."""
    return {part: np.flatnonzero(codes == code) for part, code in PART_CODES.items()}


def is_sorted(source: np.ndarray, target: np.ndarray) -> bool:
    """Whether edges ascend by (source, target)."""
    up = source[1:] > source[:-1]
    level = (source[1:] == source[:-1]) & (target[1:] >= target[:-1])
    return bool((up | level).all())


def row_hashes(x: Features) -> np.ndarray:
    """sha256 of each row of features, dense or CSR: uint8, shape (num_rows, 32).

    Args:
        x: shape (num_rows, num_features).
    """
    import scipy.sparse as sp

    found = np.zeros((x.shape[0], 32), dtype=np.uint8)
    for first in range(0, x.shape[0], ROWS_AT_ONCE):
        rows = _without_zeros(with_sums(sp.csr_array(x[first : first + ROWS_AT_ONCE])))
        columns, values = rows.indices.astype("<i8"), rows.data.astype("<f4")
        for row, (start, stop) in enumerate(itertools.pairwise(rows.indptr)):
            digest = hashlib.sha256(columns[start:stop].tobytes())
            digest.update(values[start:stop].tobytes())
            found[first + row] = np.frombuffer(digest.digest(), np.uint8)
    return found


def _without_zeros(rows: sp.csr_array) -> sp.csr_array:
    """The same rows with no stored zeros; -0.0 counts as zero."""
    if (rows.data != 0).all():
        return rows
    rows = rows.copy()
    rows.eliminate_zeros()
    return rows
