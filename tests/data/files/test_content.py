"""The hash of a graph's values: of layout and order of edges it knows nothing, of values everything."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from dpgnn.data.files import content
from dpgnn.data.files.content import ContentHash, content_hash, hashed_head, is_sorted, part_codes
from dpgnn.data.graph import Graph

SPLIT = {"train": np.array([0, 2]), "val": np.array([], dtype=np.int64), "test": np.array([1])}


def graph() -> Graph:
    x = np.array([[1, 0], [0, 2], [0, 0], [3, 4]], dtype=np.float32)
    edges = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    y = np.array([0, 1, 1, -1])
    return Graph(name="a", x=x, edge_index=edges, y=y, num_classes=2, splits={"public": SPLIT})


def test_layout_name_and_order_of_edges_do_not_count() -> None:
    first = graph()
    same = [
        replace(first, name="b"),
        replace(first, x=sp.csr_array(first.x)),
        replace(first, edge_index=first.edge_index[:, ::-1].copy()),
        replace(first, x=np.where(first.x == 0, np.float32(-0.0), first.x)),
    ]
    assert {content_hash(other) for other in same} == {content_hash(first)}


def test_every_value_counts() -> None:
    first = graph()
    x, y = first.x.copy(), first.y.copy()
    x[2, 1], y[3] = 1e-30, 0
    others = [
        replace(first, x=x),
        replace(first, y=y),
        replace(first, num_classes=3),
        replace(first, splits={}),
        replace(first, splits={"public": SPLIT | {"val": np.array([3])}}),
        replace(first, edge_index=first.edge_index[:, :2].copy()),
    ]
    assert len({content_hash(other) for other in [first, *others]}) == 7


def test_pieces_give_the_hash_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = content_hash(graph())
    monkeypatch.setattr(content, "ROWS_AT_ONCE", 1)
    assert content_hash(graph()) == whole
    found = ContentHash()
    for k in range(4):
        rows = slice(k, k + 1)
        found.add_rows(
            graph().x[rows], graph().y[rows], {"public": part_codes(graph(), "public")[rows]}
        )
        found.add_edges(*graph().edge_index[:, rows])
    assert found.hexdigest(hashed_head(graph())) == whole


def test_codes_of_parts_and_order_of_edges() -> None:
    assert part_codes(graph(), "public").tolist() == [0, 2, 0, -1]
    assert is_sorted(np.array([0, 0, 1]), np.array([1, 1, 0]))
    assert not is_sorted(np.array([0, 0]), np.array([2, 1]))
