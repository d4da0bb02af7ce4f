"""`--memory`: what does not fit stays on disk, to the same bytes; what cannot be kept is refused first."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import TOY, tells, write_study

from dpgnn.__main__ import main
from dpgnn.core.storage import read_json
from dpgnn.data.files.graph_files import read_graph, read_meta
from dpgnn.data.splits import edges_in_setting, read_split
from dpgnn.study import bounds
from dpgnn.study.bounds import in_memory, parse_memory, stored_graph

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
        axes = ["--dataset", "digits", "--setting", setting, "--repeat", "0", "--root-seed", "1"]
        words = ["--graph", str(graph), *axes, "--setting-json", json.dumps(recipe)]
        assert main(["split", *words, "--out", str(split)]) == 0
        for name in ("gcn", "two"):
            prepare(here, axes, name, setting)
    return here


def prepare(here: Path, axes: list[str], name: str, setting: str) -> None:
    from dpgnn import methods
    from dpgnn.study.study import load_study

    entry = load_study(here / "config.yaml").entries[name].for_dataset("digits")
    spec = methods.get("dp_gnn").sampler(entry)
    assert spec is not None
    results = here / "results"
    words = ["--graph", results / "graphs" / "digits", "--split",
             results / "splits" / f"digits.{setting}.0.parquet", "--method", "dp_gnn",
             "--sampler", spec.name, "--params-json", json.dumps(dict(spec.params)),
             "--out", results / "prepared" / f"digits.{setting}.0" / f"{spec.label}.parquet"]  # fmt: skip
    assert main(["prepare", *axes, *map(str, words)]) == 0


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
    monkeypatch.setattr(bounds, "stored_graph", lambda *words: pytest.fail("it fits"))
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
