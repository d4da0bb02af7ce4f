"""Lists of all nodes from partitions: made once, gone on with, each fault named; Dask is not needed."""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpgnn.core.locks import BusyError
from dpgnn.core.storage import DamagedFileError
from dpgnn.data.files.graph_files import save_graph
from dpgnn.data.graph import Graph, clean_edges
from dpgnn.data.stored import StoredLists
from dpgnn.samplers.partitioned import adjacency, sample
from dpgnn.samplers.partitioned.arcs import write_partitions
from dpgnn.samplers.partitioned.neighbours import kept_lists, lists_for
from dpgnn.samplers.partitioned.scheduler import InTurn

NUM_NODES = 300


def a_graph(seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    edges = clean_edges(*rng.integers(0, NUM_NODES, (2, 2000)), NUM_NODES, undirected=False)
    x, y = np.zeros((NUM_NODES, 1), np.float32), np.zeros(NUM_NODES, np.int64)
    return Graph(name="hub", x=x, edge_index=edges, y=y, num_classes=2, directed=True)


def place_of(folder: Path, graph: Graph, cuts: int = 3) -> sample.Place:
    save_graph(graph, folder / "graph")
    partitions = write_partitions(folder / "graph", folder / "cut", cuts, scheduler=InTurn())
    return sample.Place(partitions=partitions, out=folder / "lists", scheduler=InTurn(), width=70)


def content(lists: StoredLists) -> tuple[list[int], list[int]]:
    pointer, source = lists.of(np.arange(NUM_NODES))
    return pointer.tolist(), source.tolist()


def wanted(graph: Graph, *, mirrored: bool) -> tuple[list[int], list[int]]:
    source, target = graph.edge_index
    if mirrored:
        source, target = clean_edges(source, target, NUM_NODES)
    order = np.argsort(target, kind="stable")
    counts = np.bincount(target, minlength=NUM_NODES)
    return [0, *np.cumsum(counts).tolist()], source[order].tolist()


@pytest.mark.parametrize("cuts", [1, 2, 7])
@pytest.mark.parametrize("mirrored", [False, True])
def test_lists_are_those_of_one_machine(tmp_path: Path, cuts: int, mirrored: bool) -> None:
    graph = a_graph()
    found = lists_for(place_of(tmp_path, graph, cuts), mirrored=mirrored)
    assert content(found) == wanted(graph, mirrored=mirrored)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut", "graph", "lists"]


@pytest.mark.parametrize("number", range(12))
def test_lists_go_on_after_a_kill(tmp_path: Path, monkeypatch: Any, number: int) -> None:
    """The n-th file that is written is the last one."""
    graph, written, save = a_graph(), [0], adjacency.save

    def killed(path: Path, values: Any) -> None:
        written[0] += 1
        if written[0] == number:
            raise KeyboardInterrupt
        save(path, values)

    place = place_of(tmp_path, graph)
    monkeypatch.setattr(adjacency, "save", killed)
    try:
        found = lists_for(place, mirrored=False)
    except KeyboardInterrupt:
        assert kept_lists(place.out, content_of(place), None, mirrored=False) is None
        found = lists_for(place, mirrored=False)
    assert content(found) == wanted(graph, mirrored=False)


def content_of(place: sample.Place) -> str:
    return str(place.partitions.graph["content_sha256"])


def test_lists_are_made_once(tmp_path: Path) -> None:
    place = place_of(tmp_path, a_graph())
    lists_for(place, mirrored=False)
    before = (place.out / "source.npy").stat().st_mtime_ns
    time.sleep(0.01)
    lists_for(place, mirrored=False)
    assert (place.out / "source.npy").stat().st_mtime_ns == before


def test_a_partition_that_is_missing_or_another_is_named(tmp_path: Path) -> None:
    place = place_of(tmp_path, a_graph())
    second = place.partitions.folder / "part-00001.parquet"
    content = second.read_bytes()
    other = place_of(tmp_path / "other", a_graph(1)).partitions.folder / second.name
    second.write_bytes(other.read_bytes())
    with pytest.raises(DamagedFileError, match=r"00001.parquet must be as it was made"):
        lists_for(place, mirrored=False)
    second.unlink()
    with pytest.raises(DamagedFileError, match=r"00001.parquet does not exist"):
        lists_for(place, mirrored=False)
    second.write_bytes(content)
    assert lists_for(place, mirrored=False).num_arcs == a_graph().num_edges


def test_lists_of_another_graph_are_named(tmp_path: Path) -> None:
    place = place_of(tmp_path, a_graph())
    lists_for(place, mirrored=False)
    with pytest.raises(DamagedFileError, match="must hold lists of this graph and setting"):
        kept_lists(place.out, "0123", None, mirrored=False)
    with pytest.raises(DamagedFileError, match="must hold lists of this graph and setting"):
        lists_for(place, mirrored=True)
    stated = json.loads((place.out / "lists.json").read_text())
    (place.out / "lists.json").write_text(json.dumps(stated | {"sizes": [1, 2]}))
    with pytest.raises(DamagedFileError, match=r"must hold \[1, 2\] numbers"):
        lists_for(place, mirrored=False)


def test_a_second_driver_is_refused(tmp_path: Path) -> None:
    place = place_of(tmp_path, a_graph())
    with (
        sample.unfinished(place, "another"),
        pytest.raises(BusyError, match="lists is being made"),
    ):
        lists_for(place, mirrored=False)


def test_a_full_disk_is_named_and_gone_on_from(tmp_path: Path) -> None:
    """A limit on file sizes stands for it; the file system's own error takes the same way."""
    place = place_of(tmp_path, a_graph())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, limits[1]))
    try:
        with pytest.raises(OSError, match="must be writable, got File too large; raise"):
            lists_for(place, mirrored=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert content(lists_for(place, mirrored=False)) == wanted(a_graph(), mirrored=False)
