"""Bad inputs: each gives one clear error that names the thing, the rule, the value and the remedy.

Every case runs the command a user would run, in an empty folder, and then looks that nothing half
written is left and that nothing a hostile file holds was executed.
"""

# ruff: noqa: E501  a case of the table is easier to read as one line

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from dpgnn.__main__ import main
from dpgnn.datasets.sources import source_of

OUT = Path("results/graphs/mine")
OWN = Path("data/own/mine")
PREPARE = ["data", "prepare", "mine", "--out", str(OUT)]
MIRROR = Path("mirror")

NODES = """\
id,height,weight,label
a,1.0,2.0,0
b,1.5,2.5,1
c,2.0,3.0,1
d,2.5,3.5,0
"""
EDGES = "source,target\na,b\nb,c\nc,d\n"

STUDY = {
    "name": "toy",
    "repeats": 1,
    "epsilons": ["1"],
    "datasets": {"chains-s": {"settings": ["half"]}},
    "settings": {"half": {"kind": "random", "train_fraction": 0.5, "val_fraction": 0.2}},
    "entries": {
        "mlp": {"method": "mlp", "mode": "nonprivate"},
        "dp_mlp": {
            "method": "dp_mlp",
            "mode": "sound",
            "privacy_unit": "node",
            "relation": "add-remove",
            "options": {"width": 4, "training": {"num_steps": 5, "expected_batch_size": 8}},
        },
        "drw": {
            "method": "drw",
            "mode": "sound",
            "privacy_unit": "node-features",
            "relation": "replace-one",
            "options": {"batch_size": 8},
        },
    },
}


class Hostile:
    """Unpickled by a trusting reader, it makes a folder."""

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, ("executed",))


@dataclass(frozen=True)
class Case:
    """Files to make, the command to run, what the message must say, and where nothing may be left.

    A study goes on when one of its runs cannot be made, so such a run ends well (`status` 0) and its record
    says `failed` with the message.
    """

    make: Callable[[], None]
    command: list[str]
    says: tuple[str, ...]
    clean: Path = OUT
    status: int = 1
    marker: str = ": error: "


def own(nodes: str = NODES, edges: str | None = EDGES, **options: object) -> Callable[[], None]:
    """An own graph of two CSV files and graph.yaml."""

    def make() -> None:
        OWN.mkdir(parents=True)
        (OWN / "nodes.csv").write_bytes(nodes.encode("latin1"))
        if edges is not None:
            (OWN / "edges.csv").write_text(edges)
        if options:
            (OWN / "graph.yaml").write_text(yaml.safe_dump(options))

    return make


def bad_own(*says: str, **change: object) -> Case:
    return Case(own(**change), PREPARE, says)  # type: ignore[arg-type]


def own_npz(**change: object) -> Callable[[], None]:
    def make() -> None:
        OWN.mkdir(parents=True)
        arrays = {
            "x": np.ones((4, 2)),
            "y": np.array([0, 1, 1, 0]),
            "edge_index": np.array([[0, 1], [1, 2]]),
        } | change
        np.savez(OWN / "graph.npz", **{k: v for k, v in arrays.items() if v is not None})

    return make


def file_after(
    make: Callable[[], None], path: Path, change: Callable[[bytes], bytes]
) -> Callable[[], None]:
    def changed() -> None:
        make()
        path.write_bytes(change(path.read_bytes()))

    return changed


def zip_bomb() -> None:
    OWN.mkdir(parents=True)
    with zipfile.ZipFile(OWN / "graph.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(80 << 20))


def hostile_pt() -> None:
    import torch

    OWN.mkdir(parents=True)
    torch.save({"x": Hostile()}, OWN / "graph.pt")


def pt_without_labels() -> None:
    import torch
    from torch_geometric.data import Data

    OWN.mkdir(parents=True)
    torch.save(Data(x=torch.ones(3, 2), edge_index=torch.zeros(2, 0).long()), OWN / "graph.pt")


def own_parquet(
    damage: Callable[[bytes], bytes] | None = None, **columns: object
) -> Callable[[], None]:
    def make() -> None:
        OWN.mkdir(parents=True)
        table = {"height": [1.0, 2.0, 3.0, 4.0], "label": [0, 1, 1, 0]} | columns
        pl.DataFrame(table).write_parquet(OWN / "nodes.parquet")
        pl.DataFrame({"source": [0, 1], "target": [1, 2]}).write_parquet(OWN / "edges.parquet")
        if damage:
            path = OWN / "nodes.parquet"
            path.write_bytes(damage(path.read_bytes()))

    return make


def graph(name: str = "chains-s") -> None:
    """A good graph folder at OUT."""
    assert main(["data", "prepare", name, "--out", str(OUT)]) == 0


def damaged(file: str, change: Callable[[bytes], bytes]) -> Callable[[], None]:
    return file_after(graph, OUT / file, change)


def half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


SPLIT_OUT = Path("results/splits/mine.s.0.parquet")


def split(*more: str) -> list[str]:
    axes = ["--dataset", "mine", "--setting", "s", "--repeat", "0", "--root-seed", "0"]
    return ["split", "--graph", str(OUT), *axes, "--out", str(SPLIT_OUT), *more]


def mirror_file(dataset: str, file: str, content: bytes) -> Callable[[], None]:
    """A raw file in the mirror folder."""

    def make() -> None:
        (raw,) = [raw for raw in source_of(dataset).files if raw.file == file]
        path = MIRROR / raw.mirror_path
        path.parent.mkdir(parents=True)
        path.write_bytes(content)

    return make


def cora_ml(content: bytes) -> Callable[[], None]:
    return mirror_file("cora_ml", "cora_ml.npz", content)


def raw(name: str) -> list[str]:
    return ["data", "prepare", name, "--out", str(OUT)]


def study(**change: object) -> Callable[[], None]:
    """A study file; `change` maps a path of keys joined by __ to a value."""

    def make() -> None:
        text = json.loads(json.dumps(STUDY))
        for path, value in change.items():
            *parents, last = path.split("__")
            place = text
            for key in parents:
                place = place[key]
            place[last] = value
        Path("study.yaml").write_text(yaml.safe_dump(text))

    return make


ESTIMATE = ["run", "study.yaml", "--estimate"]


def bad_study(*says: str, **change: object) -> Case:
    return Case(study(**change), ESTIMATE, says, Path("results"))


def batch_too_large() -> None:
    """A good graph, split and prepared sample, and a batch of 25 out of 24 training nodes."""
    from dpgnn import methods
    from dpgnn.study import load_study

    study(entries__drw__options__batch_size=25)()
    folder, part = Path("results/graphs/chains-s"), Path("results/splits/chains-s.half.0.parquet")
    axes = ["--dataset", "chains-s", "--setting", "half", "--repeat", "0", "--root-seed", "0"]
    spec = methods.get("drw").sampler(
        load_study(Path("study.yaml")).entries["drw"].for_dataset("chains-s")
    )
    assert spec is not None
    sampler = ["--method", "drw", "--sampler", spec.name, "--params-json", json.dumps(spec.params)]
    sample = Path("results/prepared/chains-s.half.0") / f"{spec.label}.parquet"
    recipe = ["--train-fraction", "0.5", "--val-fraction", "0.2"]
    assert main(["data", "prepare", "chains-s", "--out", str(folder)]) == 0
    assert main(["split", "--graph", str(folder), *axes, *recipe, "--out", str(part)]) == 0
    inputs = ["--graph", str(folder), "--split", str(part)]
    assert main(["prepare", *inputs, *axes, *sampler, "--out", str(sample)]) == 0


def unwritable() -> None:
    Path("results").write_text("a file where a folder is wanted")


def full_disk() -> None:
    """A disk of 64 kB; needs the right to mount."""
    OUT.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(OUT)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this user may not mount a small tmpfs")


CASES = {
    # a user's own graph
    "missing label column": bad_own(
        "nodes.csv: column label must be there", "height", "rename", nodes=NODES.replace("label", "class")
    ),
    "missing source column": bad_own(
        "edges.csv: column source must be there", "from", edges=EDGES.replace("source", "from")
    ),
    "a word among numbers": bad_own(
        "column height of node b must be a number, got 'tall'", nodes=NODES.replace("1.5", "tall")
    ),
    "an empty cell": bad_own(
        "column height of node b must be a number, got 'an empty cell'", nodes=NODES.replace("1.5", "")
    ),
    "NaN": bad_own(
        "feature of node b, column height must be finite, got nan; replace or drop it",
        nodes=NODES.replace("1.5", "nan"),
    ),
    "inf": bad_own(
        "feature of node c, column weight must be finite, got inf; replace or drop it",
        nodes=NODES.replace("3.0", "inf"),
    ),
    "negative label": bad_own("label of node b must be >= 0", "'-7'", nodes=NODES.replace("2.5,1", "2.5,-7")),
    "label beyond the stated classes": bad_own(
        "label of node b must be a class in 0..1", "got 5", nodes=NODES.replace("2.5,1", "2.5,5"), num_classes=2
    ),
    "one class": bad_own(
        "labels must name two classes or more, got '1 class'", nodes=NODES.replace(",1\n", ",0\n")
    ),
    "edge to an unknown node": bad_own(
        "target of edge 4 must be an id of a node, got 'z'; add the node or drop the edge",
        edges=EDGES + "a,z\n",
    ),
    "duplicate edge": bad_own(
        "edge 1 must stand once, got 'a -> b again, 1 duplicates in all'; drop", edges=EDGES + "a,b\n"
    ),
    "self-loop": bad_own("edge 4 must be no self-loop, got 'c -> c", "drop", edges=EDGES + "c,c\n"),
    "unsorted ids": bad_own(
        "id must ascend, got '2 after a larger one'; sort the table by id",
        nodes="id,h,label\n1,0,0\n3,0,1\n2,0,1\n", edges="source,target\n1,2\n",
    ),
    "an id twice": bad_own("id must name each node once, got 'a twice'", nodes=NODES.replace("\nd,", "\na,")),
    "empty graph": bad_own("nodes.csv must have a row for each node, got 'no rows'", nodes="id,h,label\n"),
    "empty file": bad_own("nodes.csv must begin with a line of column names", nodes=""),
    "no features": bad_own("features must be one column or more, got 'none'", nodes="id,label\na,0\nb,1\nc,1\nd,0\n"),
    "non-UTF-8 CSV": bad_own(
        "nodes.csv, line 3 must be UTF-8, got 'byte 0xe9'; save the table as UTF-8",
        nodes=NODES.replace("b,1.5", "b\xe9,1.5"),
    ),
    "a column name twice": bad_own("columns must have different names, got 'weight twice'", nodes=NODES.replace("height", "weight")),
    "edge weights": bad_own("column w must not be there", "drop it", edges="source,target,w\na,b,1\n"),
    "unknown part of a split": bad_own(
        "split of node a must be train, val, test or empty, got 'trian'",
        nodes="id,h,label,split\na,1,0,trian\nb,1,1,test\n", edges="source,target\na,b\n",
    ),
    "a split without test nodes": bad_own(
        "split must have test nodes, got 'none'; drop the column split",
        nodes="id,h,label,split\na,1,0,train\nb,1,1,train\n", edges="source,target\na,b\n",
    ),
    "edges missing": bad_own("edges.csv must stand beside the nodes, got 'no such file'", edges=None),
    "misspelt key of graph.yaml": bad_own("graph.yaml.num_clases is not a known key; did you mean num_classes", num_clases=2),
    "wrong type in graph.yaml": bad_own("graph.yaml.directed must be true or false, got 'yes please'", directed="yes please"),
    "no graph in the folder": Case(
        lambda: OWN.mkdir(parents=True), PREPARE, ("data/own/mine must hold one of nodes.csv", "got 'none'; see docs/data.md")
    ),
    "many things at once": bad_own(
        "got 3 problems", "column height of node b", "self-loop", "edges.csv: column w",
        nodes=NODES.replace("1.5", "tall"), edges="source,target,w\nc,c,1\n",
    ),
    # arrays
    "npz without labels": Case(own_npz(y=None), PREPARE, ("graph.npz: array y must be there, got 'edge_index, x'",)),
    "npz of another length": Case(own_npz(y=np.zeros(9, int)), PREPARE, ("y must have shape (4,), got (9,)",)),
    "npz with an edge outside": Case(
        own_npz(edge_index=np.array([[0], [7]])), PREPARE, ("must join nodes 0..3, got '0 -> 7'; add the node or drop it",)
    ),
    "npz truncated": Case(
        file_after(own_npz(), OWN / "graph.npz", half), PREPARE, ("graph.npz must be a whole .npz file", "fetch it again")
    ),
    "npz that would run code": Case(
        own_npz(y=np.array([Hostile()] * 4, dtype=object)), PREPARE, ("graph.npz: array y must be there",)
    ),
    "zip bomb": Case(zip_bomb, PREPARE, ("size after unpacking must be <=", "do not unpack it")),
    "PyG file that would run code": Case(hostile_pt, PREPARE, ("graph.pt must hold tensors only", "nothing was executed")),
    "PyG file without labels": Case(pt_without_labels, PREPARE, ("array y must be there, got 'edge_index, x'",)),
    "Parquet of words": Case(
        own_parquet(height=["a", "b", "c", "d"]), PREPARE, ("column height of node 0 must be a number, got 'a, and 3 more cells'",)
    ),
    "own Parquet truncated": Case(own_parquet(half), PREPARE, ("nodes.parquet must be an undamaged Parquet file",)),
    # our own files, changed
    "truncated Parquet": Case(
        damaged("nodes.parquet", half), split(), ("nodes.parquet must have", "bytes, got", "delete the folder and rerun"), SPLIT_OUT
    ),
    "bit-flipped Parquet": Case(
        damaged("edges.parquet", flip), split(), ("edges.parquet must have sha256", "it was changed; delete"), SPLIT_OUT
    ),
    "graph.json cut": Case(damaged("graph.json", half), split(), ("graph.json must be JSON", "delete it and rerun"), SPLIT_OUT),
    "graph.json gone": Case(
        lambda: OUT.mkdir(parents=True), split(), ("graph.json does not exist; run the stage that makes it",), SPLIT_OUT
    ),
    "no public split": Case(
        lambda: graph("digits"), split("--kind", "public"), ("must be a kind it has, got 'public'; use random",), SPLIT_OUT
    ),
    "more per class than there are": Case(
        graph, split("--kind", "per_class", "--num-per-class", "25"), ("must be <= 24, the size of class 0, got 25; lower",), SPLIT_OUT
    ),
    "fractions that leave nothing": Case(
        graph, split("--train-fraction", ".9", "--val-fraction", ".1"), ("must be < 1, got 1.0; leave nodes to test on",), SPLIT_OUT
    ),
    # raw files
    "hostile raw pickle": Case(
        mirror_file("pubmed", "ind.pubmed.x", pickle.dumps(Hostile())), raw("pubmed"),
        ("ind.pubmed.x must name only", "got posix.mkdir; nothing of it was executed; fetch the file again"),
    ),
    "wrong checksum": Case(
        cora_ml(bytes(1620832)), raw("cora_ml"), ("cora_ml.npz must have sha256 ffbe4e64", "delete it and fetch it again")
    ),
    "raw file cut": Case(cora_ml(b"PK"), raw("cora_ml"), ("must have 1620832 bytes, got 2; delete it",)),
    "interrupted download": Case(lambda: None, raw("dblp"), ("could not be fetched", "bytes are kept and the next run resumes")),
    "a file to be placed by hand": Case(lambda: None, raw("ppi"), ("adj_full.npz of ppi must be placed by hand in one of",)),
    "unknown data set": Case(lambda: None, raw("coro"), ("data set must be one of", "got 'coro'; or a folder of your own graph")),
    "unknown preset": Case(lambda: None, raw("synthetic-cora"), ("unknown data set in sources.csv 'synthetic-cora'; known:",)),
    # places
    "unwritable folder": Case(
        unwritable, raw("chains-s"), ("must be writable, got", "choose a folder: a part of this path is a file")
    ),
    "full disk": Case(
        full_disk, raw("digits"), ("parquet must be writable, got No space left on device; free some space",)
    ),
    # studies
    "misspelt key": bad_study("repeets is not a known key; did you mean repeats", repeets=3),
    "wrong type": bad_study("repeats must be an integer, got 'three'", repeats="three"),
    "epsilon 0": bad_study("epsilons", "0", epsilons=["0"]),
    "epsilon in words": bad_study("epsilons", "eight", epsilons=["eight"]),
    "delta 1": bad_study("delta", "1", delta=1.0),
    "unknown method": bad_study("entries.mlp", "unknown method 'mlpp'; known:", entries__mlp__method="mlpp"),
    "unknown entry": bad_study("mpl", "mlp", tiers={"S": {"entries": ["mpl"]}}),
    "unknown data set setting": bad_study(
        "unknown setting of datasets.chains-s 'whole'; known: half", **{"datasets__chains-s__settings": ["whole"]}
    ),
    "unknown option": bad_study("entries.mlp.options.widht is not a known key", entries__mlp__options={"widht": 3}),
    "unknown privacy unit": bad_study("entries.dp_mlp", "nodes", entries__dp_mlp__privacy_unit="nodes"),
    "entry that extends itself": bad_study("entries.mlp", "extends", entries__mlp={"extends": "mlp"}),
    "impossible fraction": bad_study("settings.half: train_fraction must be in (0, 1), got 2", settings__half__train_fraction=2),
    "study that is no YAML": Case(
        lambda: Path("study.yaml").write_text("name: [") and None, ESTIMATE, ("study file study.yaml must be YAML",), Path("results")
    ),
    "no study file": Case(lambda: None, ESTIMATE, ("study.yaml",), Path("results")),
    "batch larger than the training set": Case(
        batch_too_large,
        ["train", "--study", "study.yaml", "--run", "chains-s.half/drw/eps=1/0"],
        ("batch_size must be <= the number of subgraphs", "got 25; lower batch_size"),
        status=0,
        marker=": failed plan: ",
    ),
}  # fmt: skip


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPGNN_MIRROR", str(MIRROR))
    monkeypatch.delenv("DPGNN_TRACEBACK", raising=False)
    yield tmp_path
    if os.path.ismount(OUT):
        subprocess.run(["umount", str(OUT)], check=True)


def no_network(url, *args, **kwargs):
    raise OSError("the connection ended after 0 of 1 bytes")


def test_there_are_at_least_forty_cases():
    assert len(CASES) >= 40


@pytest.mark.parametrize("name", CASES)
def test_a_bad_input_gives_one_clear_error_and_leaves_nothing(
    name, empty_folder, monkeypatch, capsys
):
    case = CASES[name]
    monkeypatch.setattr("dpgnn.datasets.download._fetch_rest", no_network)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    case.make()
    before = fingerprints(case.clean)
    capsys.readouterr()
    assert main(case.command) == case.status
    message = capsys.readouterr().err
    errors = [line for line in message.splitlines() if case.marker in line]
    assert len(errors) == 1, message
    for part in case.says:
        assert part in message
    assert "Traceback" not in message
    assert fingerprints(case.clean) == before
    assert not Path("executed").exists()


def fingerprints(place: Path) -> dict[str, str]:
    """sha256 of every file at or below a path."""
    files = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
