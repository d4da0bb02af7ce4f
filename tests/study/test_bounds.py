"""`--memory`: what does not fit stays on disk, to the same bytes; what cannot be kept is refused first."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import ROOT, TOY, tells, write_study

from dpgnn.__main__ import main
from dpgnn.core import locks
from dpgnn.core.storage import read_json
from dpgnn.data.files.graph_files import read_graph, read_meta
from dpgnn.data.splits import edges_in_setting, read_split
from dpgnn.study.bounds import (
    Bound,
    in_memory,
    over_partitions,
    parse_memory,
    sorting_bytes,
)
from dpgnn.study.on_disk import stored_graph

TRAINING = {"num_steps": 12, "expected_batch_size": 40}
GNN = {"method": "dp_gnn", "mode": "sound", "privacy_unit": "node-record", "relation": "add-remove"}
ENTRIES = {
    "mlp": TOY["entries"]["mlp"],
    "dp_mlp": {
        **TOY["entries"]["dp_mlp"], "options": {"width": 4, "row_norm": "l2", "training": TRAINING},
    },
    **{
        name: {**GNN, "options": {"width": 8, "max_degree": 3, "training": TRAINING, **options}}
        for name, options in {
            "gcn": {"num_hops": 1}, "gat": {"conv": "gat", "num_hops": 1},
            "two": {"num_hops": 2, "row_norm": "l1", "encoder_layers": 1}, "flat": {"num_hops": 0},
        }.items()
    },
    "once": {**GNN, "options": {"max_degree": 3, "aggregate_once": True, "training": TRAINING}},
}  # fmt: skip
STUDY = TOY | {
    "datasets": {"digits": {"settings": ["random", "cut"]}},
    "settings": {
        "random": {"kind": "random"}, "cut": {"kind": "random", "inductive": True},
    },
    "entries": ENTRIES, "epsilons": ["8"],
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph, its splits and samples."""
    here = tmp_path_factory.mktemp("bounds")
    write_study(here, STUDY)
    graph = here / "results" / "graphs" / "digits"
    assert main(["data", "prepare", "digits", "--out", str(graph), "--root-seed", "1"]) == 0
    for setting, recipe in STUDY["settings"].items():
        split = here / "results" / "splits" / f"digits.{setting}.0.parquet"
        words = ["--graph", str(graph), "--setting", setting, "--setting-json", json.dumps(recipe)]
        assert main(["split", *AXES, *words, "--out", str(split)]) == 0
        for name in ("gcn", "two"):
            prepare(here, name, setting)
    return here


AXES = ["--dataset", "digits", "--repeat", "0", "--root-seed", "1"]


def spec_of(here: Path, name: str) -> Any:
    from dpgnn import methods
    from dpgnn.study.study import load_study

    entry = load_study(here / "config.yaml").entries[name].for_dataset("digits")
    spec = methods.get("dp_gnn").sampler(entry)
    assert spec is not None
    return spec


def prepare(here: Path, name: str, setting: str, *more: str, out: Path | None = None) -> Path:
    """The sample of an entry; its file."""
    spec, results = spec_of(here, name), here / "results"
    out = out or results / "prepared" / f"digits.{setting}.0" / f"{spec.label}.parquet"
    split = results / "splits" / f"digits.{setting}.0.parquet"
    words = ["--graph", results / "graphs" / "digits", "--split", split, "--setting", setting,
             "--method", "dp_gnn", "--sampler", spec.name, "--out", out,
             "--params-json", json.dumps(dict(spec.params))]  # fmt: skip
    assert main(["prepare", *AXES, *map(str, words), *more]) == 0
    return out


def train(here: Path, run: str, *more: str) -> tuple[int, Path]:
    words = ["train", "--study", str(here / "config.yaml"), "--run", run, *more]
    code = main([*words, "--results", str(here / "results"), "--work", str(here / "work")])
    return code, here / "results" / "studies" / "quick" / "runs" / run


def tight(here: Path) -> str:
    """A byte less than the whole graph takes."""
    return str(in_memory(read_meta(here / "results" / "graphs" / "digits")) - 1)


@pytest.mark.parametrize("setting", ["random", "cut"])
@pytest.mark.parametrize("entry", ["dp_mlp", "gcn", "gat", "two", "flat"])
def test_a_run_on_disk_is_that_in_memory(folder: Path, entry: str, setting: str) -> None:
    run = f"digits.{setting}/{entry}/eps=8/0"
    names = ("model.safetensors", "history.parquet", "record.json")
    code, made = train(folder, run)
    assert code == 0
    wanted = {name: (made / name).read_bytes() for name in names}
    shutil.rmtree(made)
    code, made = train(folder, run, "--memory", tight(folder))
    assert code == 0
    assert (folder / "work" / "stored").exists()
    assert {name: (made / name).read_bytes() for name in names} == wanted


def test_a_graph_that_fits_is_read_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpgnn.study.inputs.stored_graph", lambda *w: pytest.fail("it fits"))
    assert train(folder, "digits.random/dp_mlp/eps=8/0", "--memory", "4GB")[0] == 0


@pytest.mark.parametrize(
    ("run", "memory", "said"),
    [
        ("mlp/eps=inf/0", "", "mlp on digits: mlp reads all features and edges at once"),
        ("once/eps=8/0", "", "once on digits: features are averaged or projected all at once"),
        ("gcn/eps=8/0", "1GB", "gcn on digits, its features on disk"),
        ("dp_mlp/eps=8/0", "much", "be a size such as 4GB"),
        ("dp_mlp/eps=8/0", "0GB", "be > 0"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_the_graph_is_read(
    folder: Path, run: str, memory: str, said: str, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpgnn.study.inputs.graph_in", lambda *words: pytest.fail("read"))
    code, _ = train(folder, f"digits.random/{run}", "--memory", memory or tight(folder))
    assert code == 1
    error = capsys.readouterr().err.strip()
    tells(error.splitlines()[-1], "--memory must", said)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4GB", 4 * 10**9),
        ("512 MB", 512 * 10**6),
        ("1.5GiB", 3 << 29),
        ("100", 100),
        ("8g", 8 * 10**9),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize("setting", ["random", "cut"])
@pytest.mark.parametrize("mirrored", [False, True])
def test_lists_are_those_of_the_graph(
    folder: Path, tmp_path: Path, setting: str, mirrored: bool
) -> None:
    path = folder / "results" / "graphs" / "digits"
    split = read_split(folder / "results" / "splits" / f"digits.{setting}.0.parquet")
    found = stored_graph(path, read_meta(path), split, tmp_path).lists(mirrored)
    graph = read_graph(path)
    source, target = edges_in_setting(graph, split)
    nodes = np.arange(graph.num_nodes)
    pointer, sources = found.of(nodes)
    assert found.num_arcs == len(source)
    assert np.diff(pointer).tolist() == np.bincount(target, minlength=len(nodes)).tolist()
    order = np.argsort(target, kind="stable")
    assert sources.tolist() == source[order].tolist()


def test_lists_of_another_split_are_not_mixed_up(folder: Path, tmp_path: Path) -> None:
    from dpgnn.core.storage import DamagedFileError

    path = folder / "results" / "graphs" / "digits"
    meta = read_meta(path)
    split = read_split(folder / "results" / "splits" / "digits.random.0.parquet")
    stored_graph(path, meta, split, tmp_path).lists(False)
    manifest = next(tmp_path.rglob("lists.json"))
    stated = read_json(manifest)
    manifest.write_text(json.dumps(stated | {"of": "another"}))
    with pytest.raises(DamagedFileError, match="must hold lists of this graph and setting"):
        stored_graph(path, meta, split, tmp_path).lists(False)
    manifest.write_text(json.dumps(stated | {"sizes": [1, 2]}))
    with pytest.raises(DamagedFileError, match=r"must hold .* numbers"):
        stored_graph(path, meta, split, tmp_path).lists(False)


@pytest.mark.parametrize("setting", ["random", "cut"])
def test_a_sample_over_partitions_is_that_of_the_whole_graph(
    folder: Path, tmp_path: Path, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dask", None)  # it needs none
    monkeypatch.chdir(tmp_path)
    wanted = prepare(folder, "two", setting, "--memory", "4GB", out=tmp_path / "whole.parquet")
    assert not (tmp_path / "work").exists()
    found = prepare(
        folder, "two", setting, "--memory", tight(folder), out=tmp_path / "apart.parquet"
    )
    assert list((tmp_path / "work" / "partitions").glob("*/partitions.json"))
    assert found.read_bytes() == wanted.read_bytes()


def test_a_sample_that_cannot_keep_the_bound_is_refused(folder: Path) -> None:
    meta = read_meta(folder / "results" / "graphs" / "digits")
    split = read_split(folder / "results" / "splits" / "digits.random.0.parquet")
    bound = Bound(memory=int(tight(folder)))
    with pytest.raises(
        ValueError, match="the sample published of digits: it has no form over part"
    ):
        over_partitions(meta, split, bound, "published")
    cut = dataclasses.replace(split, max_degree=3)
    with pytest.raises(ValueError, match="cutting edges to max_degree needs all of them at once"):
        over_partitions(meta, cut, bound, "own_list")
    with pytest.raises(ValueError, match=r"be >= 0\.90 GB for the sample own_list .* partitions"):
        over_partitions(meta, split, Bound(memory=10**8), "own_list")


def test_making_a_graph_keeps_the_bound_or_is_refused(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["data", "prepare", "digits", "--out", str(tmp_path / "graph"), "--memory"]
    assert main([*words, "300MB"]) == 1
    tells(capsys.readouterr().err, "--memory must be >= 1.50 GB to read digits at once")
    with pytest.raises(ValueError, match=r"be >= 0\.50 GB to make a graph"):
        sorting_bytes(Bound(memory=10**8))
    assert sorting_bytes(Bound(memory=10**9)) == 750 * 10**6
    assert main([*words, "4GB"]) == 0
    monkeypatch.setattr("dpgnn.study.memory.read_at_once", lambda name: 5 * 10**9)
    assert main([*words, "4GB"]) == 1
    tells(capsys.readouterr().err, "--memory must be >= 5.00 GB to read digits at once")


def test_runs_that_begin_together_make_one_copy(folder: Path, tmp_path: Path) -> None:
    """Two processes; the second waits for the first."""
    run, waiting = "digits.random/gcn/eps=8/0", []
    place = (
        tmp_path
        / "work"
        / "stored"
        / read_meta(folder / "results" / "graphs" / "digits")["content_sha256"][:16]
    )
    place.mkdir(parents=True)
    words = [sys.executable, "-m", "dpgnn", "train", "--study", str(folder / "config.yaml"), "--run", run,
             "--results", str(folder / "results"), "--memory", tight(folder)]  # fmt: skip
    with locks.waiting(place / "making.lock"):
        process = subprocess.Popen(
            [*words, "--work", str(tmp_path / "work")], stderr=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            waiting.append(line)
            if "waits for the process that makes it" in line:
                break
        assert process.poll() is None, waiting
        assert not (place / "features").exists()
    _, said = process.communicate(timeout=200)
    assert process.returncode == 0, said
    assert (place / "features" / "features.json").exists()
