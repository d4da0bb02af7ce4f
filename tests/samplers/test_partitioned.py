"""Samplers over partitions give the bytes of one machine, for any number of partitions."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("dask", reason="Dask is not installed: make setup EXTRAS=cluster")

from dpgnn.core.locks import BusyError
from dpgnn.core.storage import DamagedFileError
from dpgnn.data.files.graph_files import save_graph
from dpgnn.data.graph import Graph
from dpgnn.samplers.adjacency import induced_adjacency
from dpgnn.samplers.appr import approximate_pagerank
from dpgnn.samplers.own_list import OwnList
from dpgnn.samplers.partitioned import parts as data_set
from dpgnn.samplers.partitioned import sample
from dpgnn.samplers.partitioned.arcs import read_partitions, write_partitions
from dpgnn.samplers.partitioned.scheduler import connected
from dpgnn.samplers.stable import Stable
from dpgnn.samplers.walks import Walks

NUM_NODES, WIDTH = 300, 70
TRAIN = np.arange(0, NUM_NODES, 2)
LIST_SAMPLERS = [
    OwnList(max_degree=3, num_hops=2),
    OwnList(max_degree=4, num_hops=1, max_list_size=2),
    OwnList(max_degree=0, num_hops=1),
    Stable(max_in_degree=3, max_out_degree=2, num_hops=2),
]
CUTS = [(1, "sync"), (2, "threads"), (7, "threads")]


def a_graph(*, directed: bool = False, seed: int = 0) -> Graph:
    """A graph with a hub, in no order of its arcs."""
    rng = np.random.default_rng(seed)
    source = rng.integers(0, NUM_NODES, 2400)
    target = np.where(rng.random(2400) < 0.1, 7, rng.integers(0, NUM_NODES, 2400))
    pairs = np.unique(np.stack([source, target])[:, source != target], axis=1)
    if not directed:
        pairs = np.unique(np.concatenate([pairs, pairs[::-1]], axis=1), axis=1)
    pairs = pairs[:, rng.permutation(pairs.shape[1])]
    return Graph(
        name="hub", x=rng.normal(size=(NUM_NODES, 2)).astype(np.float32), edge_index=pairs,
        y=np.zeros(NUM_NODES, np.int64), num_classes=2, directed=directed,
    )  # fmt: skip


def place_of(folder: Path, graph: Graph, cuts: int, scheduler: Any, **more: Any) -> sample.Place:
    """Partitions of a graph, made anew."""
    save_graph(graph, folder / "graph")
    partitions = write_partitions(
        folder / "graph", folder / f"cut{cuts}", cuts, scheduler=scheduler
    )
    return sample.Place(
        partitions=partitions, out=folder / "sample", scheduler=scheduler, width=WIDTH, **more
    )


def bytes_of(folder: Path) -> dict[str, bytes]:
    """All files of a data set but the manifest, which names the partitions' graph."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(params=CUTS, ids=str)
def cut(request: Any, tmp_path: Path) -> Any:
    """Number of partitions and an open scheduler."""
    number, where = request.param
    with connected(where, tmp_path, num_workers=2) as scheduler:
        yield number, scheduler


@pytest.mark.parametrize("sampler", LIST_SAMPLERS, ids=str)
def test_trees_are_those_of_one_machine(sampler: Any, cut: Any, tmp_path: Path) -> None:
    graph, (number, scheduler) = a_graph(), cut
    present = np.random.default_rng(1).random(NUM_NODES) < 0.9
    known = {"num_nodes": NUM_NODES, "train_idx": TRAIN, "present": present}
    drawn = sampler.sample(graph.edge_index, rng=np.random.default_rng(3), **known)
    wanted = drawn.to_table()
    place = place_of(tmp_path, graph, number, scheduler)
    manifest = sample.sample_trees(place, sampler, TRAIN, np.random.default_rng(3), present=present)
    assert data_set.whole(place.out).equals(wanted)
    assert data_set.whole(place.out).schema.equals(wanted.schema)
    rows = np.bincount(TRAIN[present[TRAIN]] // WIDTH)
    assert [part["rows"] for part in manifest["parts"]] == rows.tolist()
    assert manifest["num_arcs"] == graph.num_edges
    left = {path.name for path in tmp_path.iterdir()} - {"graph", f"cut{number}", "sample"}
    assert not left


@pytest.mark.parametrize("directed", [False, True])
def test_walks_are_those_of_one_machine(directed: bool, cut: Any, tmp_path: Path) -> None:
    graph, (number, scheduler), sampler = a_graph(directed=directed), cut, Walks(length=2)
    wanted = sampler.draw(training_graph(graph, TRAIN), rng=np.random.default_rng(3)).to_table()
    place = place_of(tmp_path, graph, number, scheduler)
    rng = np.random.default_rng(3)
    sample.sample_partition(place, sampler, TRAIN, rng, mirrored=directed)
    assert data_set.whole(place.out).equals(wanted)


@pytest.mark.parametrize("solver", ["ista", "coordinate", "push"])
def test_rows_are_those_of_one_machine(solver: str, cut: Any, tmp_path: Path) -> None:
    graph, (number, scheduler) = a_graph(directed=solver == "push"), cut
    nodes = np.random.default_rng(5).permutation(NUM_NODES)[:200]
    local = np.full(NUM_NODES, -1)
    local[nodes] = np.arange(200)
    edges = local[graph.edge_index]
    edges = edges[:, (edges >= 0).all(axis=0)]
    if graph.directed:
        edges = np.unique(np.concatenate([edges, edges[::-1]], axis=1), axis=1)
    inside = induced_adjacency(edges, num_nodes=200, node_idx=np.arange(200))
    options = {"rho": 1e-3, "solver": solver}
    wanted = approximate_pagerank(inside, np.arange(90), **options).to_table()
    place = place_of(tmp_path, graph, number, scheduler)
    sample.sample_appr(place, nodes, 90, options, mirrored=graph.directed)
    assert data_set.whole(place.out).equals(wanted)


def training_graph(graph: Graph, train_idx: np.ndarray) -> Any:
    """As DRW makes it."""
    edges = graph.edge_index
    if graph.directed:
        edges = np.unique(np.concatenate([edges, edges[::-1]], axis=1), axis=1)
    return induced_adjacency(edges, num_nodes=graph.num_nodes, node_idx=train_idx)


def test_files_do_not_depend_on_the_number_of_partitions(tmp_path: Path) -> None:
    """The manifest too: a reader cannot tell how many partitions there were."""
    found = []
    for number, where in CUTS:
        with connected(where, tmp_path, num_workers=2) as scheduler:
            place = place_of(tmp_path, a_graph(), number, scheduler)
            sample.sample_trees(place, LIST_SAMPLERS[0], TRAIN, np.random.default_rng(3))
            found.append(bytes_of(place.out))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 5 + 2


@pytest.mark.parametrize("inductive", [False, True])
def test_the_setting_of_a_split_is_that_of_one_machine(inductive: bool, tmp_path: Path) -> None:
    from dpgnn.data.splits import Split, edges_in_setting

    graph = a_graph()
    parts = np.array_split(np.random.default_rng(2).permutation(NUM_NODES), 4)
    split = Split(
        train_idx=np.sort(parts[0]), val_idx=parts[1], test_idx=parts[2], dropped_idx=parts[3][:40],
        inductive=inductive,
    )  # fmt: skip
    setting = sample.Setting(codes=split.part_of(NUM_NODES), inductive=inductive)
    edges = edges_in_setting(graph, split)
    wanted = LIST_SAMPLERS[0].sample(
        edges, num_nodes=NUM_NODES, train_idx=split.train_idx, rng=np.random.default_rng(3)
    )
    with connected("sync", tmp_path) as scheduler:
        place = place_of(tmp_path, graph, 3, scheduler, setting=setting)
        rng = np.random.default_rng(3)
        manifest = sample.sample_trees(place, LIST_SAMPLERS[0], split.train_idx, rng)
    assert data_set.whole(place.out).equals(wanted.to_table())
    assert manifest["num_arcs"] == edges.shape[1] < graph.num_edges


def draw(place: sample.Place, seed: int = 3) -> dict[str, Any]:
    """One sample of trees."""
    return sample.sample_trees(place, LIST_SAMPLERS[0], TRAIN, np.random.default_rng(seed))


def test_a_partition_that_is_missing_cut_or_of_another_graph_is_named(tmp_path: Path) -> None:
    with connected("sync", tmp_path) as scheduler:
        place = place_of(tmp_path, a_graph(), 3, scheduler)
        folder = place.partitions.folder
        with pytest.raises(DamagedFileError, match=r"cut3 must hold partitions of the graph 0123"):
            read_partitions(folder, "0123" * 16)
        second = folder / "part-00001.parquet"
        content = bytearray(second.read_bytes())
        content[len(content) // 2] ^= 1
        second.write_bytes(content)
        with pytest.raises(DamagedFileError, match=r"00001.parquet must be as it was made"):
            draw(place)
        assert not place.out.exists()
        second.write_bytes(content[:-1])
        with pytest.raises(DamagedFileError, match=r"00001.parquet must have \d+ bytes"):
            read_partitions(folder)
        second.unlink()
        with pytest.raises(DamagedFileError, match=r"00001.parquet does not exist; make the part"):
            read_partitions(folder)
        with pytest.raises(DamagedFileError, match=r"00001.parquet does not exist"):
            draw(place)


def test_partitions_replace_only_partitions_of_the_same_graph(tmp_path: Path) -> None:
    with connected("sync", tmp_path) as scheduler:
        place = place_of(tmp_path, a_graph(), 3, scheduler)
        folder, first = place.partitions.folder, tmp_path / "graph"
        save_graph(a_graph(seed=1), tmp_path / "other")
        before = bytes_of(folder)
        with pytest.raises(
            ValueError, match=r"cut3 must hold partitions of the graph .*those of hub"
        ):
            write_partitions(tmp_path / "other", folder, 2, scheduler=scheduler)
        assert bytes_of(folder) == before
        write_partitions(first, folder, 2, scheduler=scheduler)
        assert sorted(path.name for path in folder.glob("part-*")) == [
            "part-00000.parquet", "part-00001.parquet",
        ]  # fmt: skip
        with pytest.raises(
            ValueError, match=r"graph must be new, empty or of partitions, got .a folder with"
        ):
            write_partitions(first, first, 2, scheduler=scheduler)


def test_a_part_of_the_data_set_that_was_changed_is_named(tmp_path: Path) -> None:
    with connected("sync", tmp_path) as scheduler:
        place = place_of(tmp_path, a_graph(), 2, scheduler)
        draw(place)
    (place.out / "part-00002.parquet").write_bytes(b"something else")
    with pytest.raises(DamagedFileError, match=r"00002.parquet must be as it was made"):
        data_set.whole(place.out)


def test_a_sample_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: Any) -> None:
    """An error in the third tree: what is finished stays, is not made again, and the bytes are the same."""
    from dpgnn.samplers.partitioned import lists

    grown: list[int] = []
    original = lists.write_part

    def full(path: Path, table: Any) -> Any:
        if path.name == "part-00002.parquet" and -1 not in grown:
            grown.append(-1)
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        grown.append(table.num_rows)
        return original(path, table)

    with connected("sync", tmp_path) as scheduler:
        place = place_of(tmp_path, a_graph(), 2, scheduler)
        draw(place)
        wanted = bytes_of(place.out)
        draw(place, seed=4)
        assert bytes_of(place.out) != wanted
        monkeypatch.setattr(lists, "write_part", full)
        with pytest.raises(OSError, match="must be writable, got No space left on device; free"):
            draw(place)
        draw(place)
    assert bytes_of(place.out) == wanted
    assert len(grown) == 5 + 1
    assert not list(tmp_path.glob(".sample*"))


def test_a_second_driver_of_a_sample_is_refused(tmp_path: Path) -> None:
    """The lock is the kernel's: a second process meets it too, here another open file does."""
    with connected("sync", tmp_path) as scheduler:
        place = place_of(tmp_path, a_graph(), 2, scheduler)
        with sample.unfinished(place, "another"), pytest.raises(BusyError, match="being made"):
            draw(place)


def test_a_disk_that_is_full_is_named(tmp_path: Path) -> None:
    """A limit on file sizes stands for it; the file system's own error takes the same way."""
    import resource

    with connected("sync", tmp_path) as scheduler:
        place = place_of(tmp_path, a_graph(), 2, scheduler)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1500, limits[1]))
        try:
            with pytest.raises(OSError, match="must be writable, got File too large; raise"):
                draw(place)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        draw(place)
    assert data_set.whole(place.out).num_rows == len(TRAIN)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("cluster", r"--dask must be sync, threads or the address of a Dask scheduler"),
        ("tcp://127.0.0.1:1", r"--dask must be the address of a scheduler that answers, got"),
    ],
)
def test_a_scheduler_that_is_not_there_is_named(where: str, message: str, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed")
    with pytest.raises(ValueError, match=message), connected(where, tmp_path):
        pass


@pytest.mark.parametrize(("name", "where"), [("dask", "threads"), ("distributed", "tcp://a:1")])
def test_without_the_extra_one_line_says_the_command(name: str, where: str, tmp_path: Path) -> None:
    """In a process where the package cannot be imported, as in a default installation."""
    code = f"""
import sys
class Away:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Away())
from dpgnn.__main__ import main
sys.exit(main(["data", "partition", "g", "--partitions", "2", "--out", "p", "--dask", {where!r}]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    line = f"--dask must find the package {name}, got 'none'; run `make setup EXTRAS=cluster`"
    assert (done.returncode, done.stderr) == (1, f"dpgnn data: error: {line}\n")
