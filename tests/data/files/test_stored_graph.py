"""Features and labels of a graph as files beside it: copied once, gone on with after a kill, checked."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dpgnn.core import locks
from dpgnn.core.locks import BusyError
from dpgnn.core.storage import DamagedFileError
from dpgnn.data.files import stored_graph
from dpgnn.data.files.graph_files import save_graph
from dpgnn.data.files.stored_graph import StoredGraph, open_graph, store_features
from dpgnn.data.graph import Graph


def a_graph(
    num_nodes: int = 200_000, *, sparse: bool = False, seed: int = 0, task: Any = "multiclass"
) -> Graph:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((num_nodes, 3)).astype(np.float32)
    y = rng.integers(-1, 4, num_nodes)
    if task == "multilabel":
        y = rng.integers(0, 2, (num_nodes, 4)).astype(np.uint8)
    return Graph(
        name="many", x=sp.csr_array(x * (x > 1.5)) if sparse else x,
        edge_index=np.array([[0, 1], [1, 0]]), y=y, num_classes=4, task=task,
    )  # fmt: skip


def opened(folder: Path) -> StoredGraph:
    return open_graph(folder / "graph", folder / "place", lambda mirrored: pytest.fail("no lists"))


@pytest.mark.parametrize("task", ["multiclass", "multilabel"])
def test_a_stored_graph_has_the_rows_and_labels_of_the_graph(tmp_path: Path, task: Any) -> None:
    graph = a_graph(1000, task=task)
    save_graph(graph, tmp_path / "graph")
    found = opened(tmp_path)
    assert found.x[:].tobytes() == graph.x.tobytes()
    assert (found.y == graph.y).all()
    assert found.num_nodes == 1000
    assert (found.num_features, found.num_edges, found.edge_index.shape) == (3, 2, (2, 0))


def test_a_copy_that_was_cut_short_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = a_graph()  # four row groups
    save_graph(graph, tmp_path / "graph")
    monkeypatch.setattr(stored_graph, "NOTE_EVERY", 1)
    note, notes = stored_graph._note, []

    def killed(*words: Any) -> None:
        note(*words)
        notes.append(words[-1]["groups"])
        if len(notes) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(stored_graph, "_note", killed)
    with pytest.raises(KeyboardInterrupt):
        opened(tmp_path)
    assert not (tmp_path / "place" / "features.json").exists()
    with open(tmp_path / "place" / "x.npy", "ab") as file:
        file.write(b"half a row group")
    found = opened(tmp_path)
    assert notes == [1, 2, 3, 4]  # the first two were not copied again
    assert found.x[:].tobytes() == graph.x.tobytes()
    assert (found.y == graph.y).all()
    assert sorted(path.name for path in (tmp_path / "place").iterdir()) == [
        "features.json",
        "x.npy",
        "y.npy",
    ]


def test_a_copy_of_another_graph_or_a_changed_one_is_named(tmp_path: Path) -> None:
    save_graph(a_graph(50), tmp_path / "graph")
    opened(tmp_path)
    path = tmp_path / "place" / "x.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(DamagedFileError, match=r"x\.npy must have sha256"):
        opened(tmp_path)
    path.write_bytes(content[:-1])
    with pytest.raises(DamagedFileError, match=r"x\.npy must have .* bytes"):
        opened(tmp_path)
    path.unlink()
    with pytest.raises(DamagedFileError, match="got None"):
        opened(tmp_path)
    save_graph(a_graph(50, seed=1), tmp_path / "graph")
    with pytest.raises(DamagedFileError, match="features of the graph many, got those of another"):
        opened(tmp_path)


def test_half_a_copy_of_another_graph_is_not_gone_on_with(tmp_path: Path) -> None:
    save_graph(a_graph(50), tmp_path / "graph")
    place = tmp_path / "place"
    place.mkdir()
    (place / "progress.json").write_text(json.dumps({"graph_sha256": "other", "groups": 1}))
    assert opened(tmp_path).num_nodes == 50


def test_sparse_features_are_refused(tmp_path: Path) -> None:
    save_graph(a_graph(50, sparse=True), tmp_path / "graph")
    with pytest.raises(
        ValueError, match="features of many must be dense to stay on disk, got 'csr'"
    ):
        opened(tmp_path)


def test_two_copies_at_once_are_refused(tmp_path: Path) -> None:
    save_graph(a_graph(50), tmp_path / "graph")
    with (
        locks.exclusive(tmp_path / ".place.lock"),
        pytest.raises(BusyError, match="place is being written"),
    ):
        store_features(tmp_path / "graph", tmp_path / "place")


def test_a_full_disk_is_one_line_and_gone_on_from(tmp_path: Path, monkeypatch: Any) -> None:
    graph = a_graph(50)
    save_graph(graph, tmp_path / "graph")

    def full(*words: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(stored_graph, "write_header", full)
        with pytest.raises(OSError, match="place must be writable, got No space left"):
            opened(tmp_path)
    assert opened(tmp_path).x[:].tobytes() == graph.x.tobytes()
