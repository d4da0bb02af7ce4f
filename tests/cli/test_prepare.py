"""`dpgnn prepare --dask` writes the files that `dpgnn prepare` writes, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("dask", reason="Dask is not installed: make setup EXTRAS=cluster")

from dpgnn.__main__ import main
from dpgnn.core.checksums import check
from dpgnn.data.files.graph_files import save_graph
from dpgnn.data.graph import Graph
from dpgnn.data.splits import Split, write_split

NUM_NODES = 120
LISTS = {"num_hops": 2, "degree_bound": None, "symmetrize": True}
APPR = {"subsample_rate": 0.7, "num_vectors": 20, "alpha": 0.25, "rho": 1e-3, "gamma": 1e-4}
SAMPLERS = {
    "own_list": ("dp_gnn", LISTS | {"max_degree": 3, "max_list_size": 4}),
    "stable": ("dp_gnn", LISTS | {"max_in_degree": 3, "max_out_degree": 2}),
    "record-chains": ("drw", {"length": 2}),
    "walks": ("drw", {"length": 2, "num_walks": 2}),
    "appr": ("dpar", APPR | {"solver": "coordinate"}),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(directed: bool, split: Split) -> None:
    """A graph with loops or directions, and a split, as files."""
    rng = np.random.default_rng(4)
    pairs = rng.integers(0, NUM_NODES, (2, 500))
    if not directed:
        pairs = np.concatenate([pairs, pairs[::-1]], axis=1)
    graph = Graph(
        name="g", x=rng.normal(size=(NUM_NODES, 2)).astype(np.float32),
        edge_index=np.unique(pairs, axis=1), y=np.zeros(NUM_NODES, np.int64), num_classes=2,
        directed=directed, allow_self_loops=True,
    )  # fmt: skip
    save_graph(graph, Path("graph"))
    write_split(Path("split.parquet"), split, num_nodes=NUM_NODES)


def a_split(*, inductive: bool, max_degree: int = 0) -> Split:
    """Three parts."""
    parts = np.array_split(np.random.default_rng(1).permutation(NUM_NODES), 3)
    return Split(
        train_idx=np.sort(parts[0]), val_idx=parts[1], test_idx=parts[2], inductive=inductive,
        max_degree=max_degree,
    )  # fmt: skip


def prepare(name: str, out: str, *more: str) -> int:
    """One command."""
    method, params = SAMPLERS.get(name, ("dp_gnn", LISTS | {"max_degree": 3}))
    axes = ["--dataset", "g", "--setting", "s", "--repeat", "1", "--root-seed", "2"]
    inputs = ["--graph", "graph", "--split", "split.parquet", "--method", method, *axes]
    sampler = ["--sampler", name, "--params-json", json.dumps(params)]
    return main(["prepare", *inputs, *sampler, "--out", out, *more])


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_the_files_are_those_of_one_machine(name: str, directed: bool, here: Path) -> None:
    make(directed, a_split(inductive=directed))
    assert prepare(name, "one/sample.parquet") == 0
    cut = ["--partitions", "3", "--out", "cut", "--dask", "sync"]
    assert main(["data", "partition", "graph", *cut]) == 0
    given = ["--dask", "threads", "--threads", "2", "--partitions", "cut"]
    assert prepare(name, "two/sample.parquet", *given) == 0
    assert prepare(name, "three/sample.parquet", "--dask", "sync", "--parts", "data") == 0
    first, second, third = (
        {path.name: path.read_bytes() for path in (here / one).iterdir()}
        for one in ("one", "two", "three")
    )
    assert len(first) == 4
    assert first == second == third
    described = json.loads((here / "data" / "dataset.json").read_text())
    assert all(check(here / "data" / part["name"]) for part in described["parts"])
    assert len(list((here / "work" / "partitions").iterdir())) == 1


@pytest.mark.parametrize(
    ("name", "split", "more", "message"),
    [
        ("published", {}, ("--dask", "sync"), "sampler with --dask must have a form over partitions"),
        ("own_list", {"max_degree": 4}, ("--dask", "sync"), "max_degree with --dask must be 0, got 4"),
        ("own_list", {}, ("--partitions", "cut"), "--partitions must come with --dask"),
        ("own_list", {}, ("--dask", "sync", "--partitions", "cut"), "partitions.json does not exist"),
        ("own_list", {}, ("--dask", "sync", "--parts", "graph"), "--parts must be a new folder"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line(
    name: str, split: Any, more: Any, message: str, here: Path, capsys: Any
) -> None:
    make(False, a_split(inductive=False, **split))
    capsys.readouterr()
    assert prepare(name, "out/sample.parquet", *more) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (here / "out" / "sample.parquet").exists()


def test_partitions_of_another_graph_are_refused(here: Path, capsys: Any) -> None:
    make(False, a_split(inductive=False))
    cut = ["--partitions", "2", "--out", "cut", "--dask", "sync"]
    assert main(["data", "partition", "graph", *cut]) == 0
    make(True, a_split(inductive=False))
    assert prepare("own_list", "out/sample.parquet", "--dask", "sync", "--partitions", "cut") == 1
    assert "cut must hold partitions of the graph" in capsys.readouterr().err
