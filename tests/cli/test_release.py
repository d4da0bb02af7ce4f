"""From a run to a bundle, by commands alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from helpers import tells
from models_in_memory import data_of, small

import dpgnn
from dpgnn.__main__ import main
from dpgnn.cli.ledger import lines, open_ledger
from dpgnn.records.schema import read_record
from dpgnn.release.from_run import own_ids


def test_verify_says_what_it_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(small().save(tmp_path / "bundle"))]) == 0
    told = capsys.readouterr()
    assert "ok           plan" in told.out
    assert "nothing wrong, 3 not checked" in told.err
    assert main(["verify", str(tmp_path)]) == 1
    assert "wrong        files" in capsys.readouterr().out
    assert main(["verify", "nowhere"]) == 1
    tells(capsys.readouterr().err, "folder", "nowhere")


def make(dataset: str, kind: str, run: str) -> None:
    """The graph, its split of this kind, and a run of study.yaml."""
    graph, split = f"results/graphs/{dataset}", f"results/splits/{dataset}.{kind}.0.parquet"
    for line in (
        f"data prepare {dataset} --out {graph}",
        f"split --graph {graph} --dataset {dataset} --setting {kind} --repeat 0 --root-seed 7 --kind {kind}"
        f" --out {split}",
        f"train --study study.yaml --run {run}",
    ):
        assert main(line.split()) == 0, line


def test_a_run_of_a_study_becomes_a_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = "chains-s.public/dp_mlp/eps=4/0"
    stated = {
        "name": "small", "root_seed": 7, "epsilons": ["4"], "repeats": 1, "randomness": "release",
        "datasets": {"chains-s": {"settings": ["public"]}},
        "settings": {"public": {"kind": "public"}},
        "entries": {"dp_mlp": {
            "method": "dp_mlp", "mode": "sound", "privacy_unit": "node", "relation": "replace-one",
            "options": {"width": 8, "training": {"num_steps": 6, "expected_batch_size": "full"}},
        }},
    }  # fmt: skip
    Path("study.yaml").write_text(yaml.safe_dump(stated))
    command = ["release", "study.yaml", "--run", run, "--out", "bundle"]
    assert main(command) == 1
    assert f"runs/{run} must be done" in capsys.readouterr().err
    make("chains-s", "public", run)
    assert main([*command, "--classes", "a,b,c"]) == 1
    tells(capsys.readouterr().err, "--classes must", 2, 3)
    assert main([*command, "--classes", "no,yes"]) == 0
    tells(capsys.readouterr().out, "differential privacy", "one node")
    assert main(["verify", "bundle"]) == 0
    assert dpgnn.load("bundle").claim.is_release
    capsys.readouterr()
    assert main(["attack", "--study", "study.yaml"]) == 1
    tells(capsys.readouterr().err, "randomness of study small must be study", "'release'")
    assert not Path("results/studies/small/attacks").exists()
    assert main([*command[:-1], "other", "--run", "chains-s.public/dp_mlp/eps=3/0"]) == 1
    told = "must be planned by study small, tier S, got 'chains-s.public/dp_mlp/eps=3/0'; it plans"
    assert f"{told} {run}" in capsys.readouterr().err
    # the only run of a study need not be named; one of several must be
    assert main(["release", "study.yaml", "--out", "only"]) == 0
    assert dpgnn.load("only").claim == dpgnn.load("bundle").claim
    assert "other options" not in capsys.readouterr().err
    wider = {"dp_mlp": stated["entries"]["dp_mlp"] | {"options": {"width": 9}}}
    Path("study.yaml").write_text(yaml.safe_dump(stated | {"entries": wider}))
    assert main(["release", "study.yaml", "--out", "wider"]) == 0
    tells(capsys.readouterr().err, "warning", run, "other options than the study states now")
    Path("study.yaml").write_text(yaml.safe_dump(stated | {"repeats": 9}))
    assert main(["release", "study.yaml", "--out", "other"]) == 1
    tells(said := capsys.readouterr().err, "chains-s.public/dp_mlp/eps=4/")
    assert "and 6 more" in said


@pytest.mark.parametrize(
    ("kind", "relation", "caveats"),
    [("random", "add-remove", ["preprocessing"]), ("coins", "add-remove", []), ("random", "replace-one", [])],
)  # fmt: skip
def test_a_release_says_that_its_split_moves_other_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, relation: str, caveats: list[str]
) -> None:
    """A node more would draw other training nodes, so the claim is not of the whole way."""
    monkeypatch.chdir(tmp_path)
    run = f"chains-m.{kind}/dp_mlp/eps=4/0"
    stated = {
        "name": "small", "root_seed": 7, "epsilons": ["4"], "repeats": 1, "randomness": "release",
        "datasets": {"chains-m": {
            "settings": [kind], "public_population": {"nodes": 60, "training": 36},
        }},
        "settings": {kind: {"kind": kind}},
        "entries": {"dp_mlp": {
            "method": "dp_mlp", "mode": "sound", "privacy_unit": "node", "relation": relation,
            "options": {"width": 4, "training": {"num_steps": 4, "expected_batch_size": "full"}},
        }},
    }  # fmt: skip
    if relation == "replace-one":
        del stated["datasets"]["chains-m"]["public_population"]
    Path("study.yaml").write_text(yaml.safe_dump(stated))
    make("chains-m", kind, run)
    found = read_record(Path("results/studies/small/runs") / run / "record.json")
    assert [c for c in found.claims[0]["caveats"] if c == "preprocessing"] == caveats


def test_names_that_graph_yaml_declares_come_with_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = Path("data/own/mine")
    own.mkdir(parents=True)
    rows = [
        f"user{i},{i % 7},{i % 3},{'ab'[i % 2]},{'train' if i < 8 else 'test'}" for i in range(12)
    ]
    (own / "nodes.csv").write_text("\n".join(["id,age,posts,label,split", *rows]) + "\n")
    (own / "edges.csv").write_text("source,target\nuser0,user1\n")
    (own / "graph.yaml").write_text("classes: [b, a]\nfeatures: [age, posts]\n")
    split = "--dataset mine --setting public --repeat 0 --root-seed 0 --kind public --inductive"
    run = "mine.public/dp_mlp/eps=4/0"
    for line in (
        "data study mine --release --out mine.yaml",
        "data prepare mine",
        f"split --graph results/graphs/mine {split} --out results/splits/mine.public.0.parquet",
        f"train --study mine.yaml --run {run}",
        f"release mine.yaml --run {run} --out bundle",
        f"release mine.yaml --run {run} --out other --classes no,yes",
        f"predict bundle {own}/nodes.csv --out answers.csv",
    ):
        assert main(line.split()) == 0, line
    names = dpgnn.load("bundle").names
    assert (names.classes, names.features) == (("b", "a"), ("age", "posts"))
    assert dpgnn.load("other").names.classes == ("no", "yes")
    answers = pl.read_csv("answers.csv")
    assert answers["id"].to_list() == [f"user{i}" for i in range(12)]
    assert set(answers["class"]) <= {"a", "b"}


def test_studies_and_calls_share_one_ledger_and_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    own = Path("data/own/mine")
    own.mkdir(parents=True)
    rows = [f"user{i},{i % 7},{i % 2},{'train' if i < 30 else 'test'}" for i in range(40)]
    (own / "nodes.csv").write_text("\n".join(["id,age,label,split", *rows]) + "\n")
    (own / "edges.csv").write_text("source,target\nuser0,user1\n")
    (own / "graph.yaml").write_text("num_classes: 2\n")
    split = "--dataset mine --setting public --repeat 0 --root-seed 0 --kind public --inductive"
    ledger = "ledger mine --delta 1e-2 --unit node --relation add-remove"
    train = "train --study mine.yaml --run mine.public/dp_mlp/eps=4/0"
    for line in (
        "data study mine --release --out mine.yaml",
        "data prepare mine",
        f"split --graph results/graphs/mine {split} --out results/splits/mine.public.0.parquet",
        f"{ledger} --budget 4",
    ):
        assert main(line.split()) == 0, line
    graph = dpgnn.read_graph("results/graphs/mine")
    data = data_of(graph, np.arange(30))
    named: Any = {
        "method": "DP-MLP", "unit": "node", "relation": "add-remove", "num_classes": 2, "name": "mine",
        "delta": 2e-3, "releases": "releases", "training": {"num_steps": 5, "expected_batch_size": "full"},
    }  # fmt: skip
    dpgnn.fit(data, epsilon=2, **named)
    # after the call the study's run is too much
    assert main(train.split()) == 1
    tells(capsys.readouterr().err, "must keep", "epsilon 4", "delta 0.01")
    assert not Path("releases/mine-release").exists()
    assert main(f"{ledger} --budget 1".split()) == 0
    tells(
        capsys.readouterr().out, "of 1 at delta 0.01", "exceeded by", "further release is refused"
    )
    assert main(f"{ledger} --budget 4.1".split()) == 0
    assert "exceeded" not in capsys.readouterr().out
    assert main(train.split()) == 0
    # and after the study another call
    with pytest.raises(
        ValueError, match=r"keep epsilon 4\.1 at delta 0\.01, got .* after 2 earlier"
    ):
        dpgnn.fit(data, epsilon=4, **named)
    capsys.readouterr()
    assert main(["ledger", "mine"]) == 0
    said = capsys.readouterr().out
    assert "mine: 2 releases" in said
    # a graph without files is found by its name
    shutil.rmtree("results/graphs")
    assert main(["ledger", "mine"]) == 0
    assert capsys.readouterr().out == said
    known = open_ledger("mine")
    assert main(["ledger", "other"]) == 1
    tells(capsys.readouterr().err, "releases", "'other'")
    other = small(seed=None, name="mine", releases="releases")
    assert other.claim.is_release
    assert "not counted: 1 release of other graphs called mine" in "\n".join(lines(known, "mine"))
    assert main(["ledger", "mine"]) == 1
    tells(capsys.readouterr().err, "mine must be one", 2)


def test_ids_are_public_where_graph_yaml_says_so_and_a_graph_without_any_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, head, yaml_text in (("mine", "id,", "public_ids: true\n"), ("other", "", "")):
        own = Path("data/own") / name
        own.mkdir(parents=True)
        rows = [
            (f"user{i}," if head else "") + f"{i % 7},{i % 2},{'train' if i < 8 else 'test'}"
            for i in range(12)
        ]
        (own / "nodes.csv").write_text("\n".join([f"{head}age,label,split", *rows]) + "\n")
        ends = "user0,user1" if head else "0,1"
        (own / "edges.csv").write_text(f"source,target\n{ends}\n")
        (own / "graph.yaml").write_text(f"num_classes: 2\n{yaml_text}")
        split = (
            f"--dataset {name} --setting public --repeat 0 --root-seed 0 --kind public --inductive"
        )
        for line in (
            f"data study {name} --release --out {name}.yaml",
            f"data prepare {name}",
            f"split --graph results/graphs/{name} {split} --out results/splits/{name}.public.0.parquet",
            f"train --study {name}.yaml --run {name}.public/dp_mlp/eps=4/0",
        ):
            assert main(line.split()) == 0, line
    assert main(["release", "mine.yaml", "--out", "bundle"]) == 0
    assert dpgnn.load("bundle").names.ids == tuple(f"user{i}" for i in range(12))
    assert main(["verify", "bundle"]) == 0
    # it answers about any node, by whatever id
    Path("new.csv").write_text("id,age\nzoe,3\n")
    assert main(["predict", "bundle", "new.csv", "--out", "new_answers.csv"]) == 0
    assert pl.read_csv("new_answers.csv")["id"].to_list() == ["zoe"]
    capsys.readouterr()
    assert main(["release", "other.yaml", "--public-ids", "--out", "second"]) == 1
    tells(capsys.readouterr().err, "--public-ids must", "ids")
    assert not Path("second").exists()


def test_ids_of_a_table_that_changed_since_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = Path("data/own/mine")
    own.mkdir(parents=True)
    rows = "".join(f"user{i},{i},{i % 2}\n" for i in range(6))
    (own / "nodes.csv").write_text(f"id,age,label\n{rows}")
    (own / "edges.csv").write_text("source,target\nuser0,user1\n")
    assert main(["data", "prepare", "mine"]) == 0
    assert own_ids(Path("results/graphs/mine")) == tuple(f"user{i}" for i in range(6))
    (own / "nodes.csv").write_text("id,age,label\nuser9,1,0\n")
    with pytest.raises(ValueError, match="be the table that the graph was made from"):
        own_ids(Path("results/graphs/mine"))
    assert own_ids(Path("results/graphs/other")) == ()
