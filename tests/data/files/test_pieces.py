"""A graph in pieces is the same collected in memory and written to disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from dpgnn.data.files.content import content_hash
from dpgnn.data.files.graph_files import read_graph
from dpgnn.data.files.pieces import Pieces, collect, write
from dpgnn.data.files.streaming import Header

X = np.array([[1, 0], [0, 2], [3, 0]], dtype=np.float32)
Y = np.array([0, 1, -1])
CODES = np.array([0, 2, -1], dtype=np.int8)


def pieces(sparse: bool = False) -> Pieces:
    def nodes() -> Iterator[tuple[object, np.ndarray, dict[str, np.ndarray]]]:
        for rows in (slice(0, 2), slice(2, 3)):
            yield sp.csr_array(X[rows]) if sparse else X[rows], Y[rows], {"public": CODES[rows]}

    def edges() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield np.array([1, 0]), np.array([0, 0])
        yield np.array([1, 0]), np.array([2, 1])

    header = Header(
        name="p", num_nodes=3, num_features=2, num_classes=2, expected_edges=8,
        x_layout="csr" if sparse else "dense", splits=("public",),
    )  # fmt: skip
    return Pieces(header=header, nodes=nodes, edges=edges)


def test_pieces_become_one_graph_without_loops_and_duplicates() -> None:
    for sparse in (False, True):
        graph = collect(pieces(sparse))
        np.testing.assert_array_equal(graph.dense_x(), X)
        np.testing.assert_array_equal(graph.edge_index, [[0, 1, 1, 2], [1, 0, 2, 1]])
        np.testing.assert_array_equal(graph.y, Y)
        parts = {part: idx.tolist() for part, idx in graph.splits["public"].items()}
        assert parts == {"train": [0], "val": [], "test": [1]}


def test_the_written_graph_is_the_collected_one(tmp_path: Path) -> None:
    for sparse in (False, True):
        folder = tmp_path / str(sparse)
        meta = write(pieces(sparse), folder, provenance={"origin": "here"}, scratch=tmp_path / "w")
        assert meta["content_sha256"] == content_hash(collect(pieces(sparse)))
        assert meta["provenance"] == {"origin": "here"}
        assert content_hash(read_graph(folder, full_check=True)) == meta["content_sha256"]
