"""Many runs in one process: a failure loses one run; a run that is being made is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import ROOT, TOY, tells, write_study

from dpgnn.__main__ import main
from dpgnn.cli import train
from dpgnn.cli.run import released_budgets
from dpgnn.core import locks
from dpgnn.core.checksums import OF_FOLDER
from dpgnn.study import progress
from dpgnn.study.study import load_study
from dpgnn.study.workflow import Workflow

RUNS = [f"chains-s.public/dp_mlp/eps={epsilon}/0" for epsilon in (1, 8)]


def run(folder: Path, runs: list[str]) -> int:
    write_study(folder, TOY)
    flags = [word for name in runs for word in ("--run", name)]
    work, results = str(folder / "work"), str(folder / "results")
    study = str(folder / "config.yaml")
    return main(["train", "--study", study, *flags, "--work", work, "--results", results])


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Folders of the runs that were made, with a stand-in for training that fails at epsilon 1."""
    found = []

    def made(study: Any, key: Any, *more: Any, **named: Any) -> SimpleNamespace:
        if key.epsilon == "1":
            raise ValueError("x must be finite")
        found.append(key.folder)
        return SimpleNamespace(metrics={}, status="ok", reason="")

    monkeypatch.setattr(train, "train", made)
    return found


def test_a_failure_loses_one_run_only_and_is_named(
    tmp_path: Path, made: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, RUNS) == 1
    assert made == RUNS[1:]
    first, second, last = capsys.readouterr().err.splitlines()
    assert first == f"{RUNS[0]}: error: x must be finite"
    assert second == f"{RUNS[1]}: ok"
    assert last.startswith("dpgnn train: error: 1 of 2 runs failed")


def test_a_run_that_is_being_made_is_refused(
    tmp_path: Path, made: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with locks.exclusive(progress.run_lock(tmp_path / "work", "quick", RUNS[1])):
        assert run(tmp_path, RUNS[1:]) == 1
    tells(capsys.readouterr().err, RUNS[1], "(process ")
    assert run(tmp_path, RUNS[1:]) == 0
    assert made == RUNS[1:]


def test_a_device_that_is_not_here_is_refused_before_anything_is_read(
    tmp_path: Path, made: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    write_study(tmp_path, TOY)
    words = ["train", "--study", str(tmp_path / "config.yaml"), "--run", RUNS[1]]
    words += ["--work", str(tmp_path / "work")]
    assert main([*words, "--device", "cuda"]) == 1
    error = capsys.readouterr().err.strip()
    tells(error, "--device must", "'cuda'", "--device cpu")
    assert not made
    with pytest.raises(SystemExit):
        main([*words, "--device", "gpu"])
    assert "choose from" in capsys.readouterr().err


def test_a_split_that_another_study_recipe_or_graph_left_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = TOY | {
        "datasets": {"chains-s": {"settings": ["half"]}},
        "settings": {"half": {"kind": "random", "train_fraction": 0.5, "val_fraction": 0.25}},
    }
    write_study(tmp_path, study)
    results, run = tmp_path / "results", "chains-s.half/dp_mlp/eps=8/0"
    graph, split = results / "graphs" / "chains-s", results / "splits" / "chains-s.half.0.parquet"
    words = ["--graph", str(graph), "--dataset", "chains-s", "--setting", "half", "--repeat", "0"]

    def split_with(seed: int, train_fraction: float = 0.5) -> None:
        recipe = {**study["settings"]["half"], "train_fraction": train_fraction}
        flags = ["--root-seed", str(seed), "--setting-json", json.dumps(recipe)]
        assert main(["split", *words, *flags, "--out", str(split)]) == 0

    def trained() -> str:
        paths = ["--work", str(tmp_path / "work"), "--results", str(results)]
        code = main(["train", "--study", str(tmp_path / "config.yaml"), "--run", run, *paths])
        error = capsys.readouterr().err.strip()
        return "" if code == 0 else error

    assert main(["data", "prepare", "chains-s", "--out", str(graph), "--root-seed", "0"]) == 0
    split_with(TOY["root_seed"])
    assert trained() == ""
    split_with(TOY["root_seed"] + 1)
    wrong = f"root_seed of {split} must be 1, as in study quick, got 2"
    assert wrong in trained()
    split_with(TOY["root_seed"], 0.6)
    assert f"config of {split} must be" in trained()
    split_with(TOY["root_seed"])
    meta = json.loads((graph / "graph.json").read_text())
    (graph / OF_FOLDER).unlink()
    (graph / "graph.json").write_text(json.dumps(meta | {"content_sha256": "0" * 64}))
    error = trained()
    tells(error, f"{split} must", "chains-s", "`dpgnn run STUDY --target splits`")
    assert meta["content_sha256"] not in error


def test_a_release_is_kept_and_not_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path, TOY | {"randomness": "release"})
    graph, name = "results/graphs/chains-s", "chains-s.public"
    words = ["--graph", graph, "--dataset", "chains-s", "--setting", "public", "--repeat", "0"]
    assert main(["data", "prepare", "chains-s", "--out", graph, "--root-seed", "0"]) == 0
    recipe = ["--root-seed", "0", "--setting-json", json.dumps({"kind": "public"})]
    assert main(["split", *words, *recipe, "--out", f"results/splits/{name}.0.parquet"]) == 0
    run, flags = f"{name}/dp_mlp/eps=8/0", ["--study", "config.yaml"]
    out = Path("results/studies/quick/runs") / run
    models = []
    for _ in range(2):
        assert main(["train", *flags, "--run", run]) == 0
        models.append((out / "model.safetensors").read_bytes())
        # as Snakemake does before a job
        for path in out.iterdir():
            path.unlink()
    assert models[0] == models[1]
    entries = TOY["entries"]
    wider = entries["dp_mlp"] | {"options": entries["dp_mlp"]["options"] | {"width": 5}}
    write_study(tmp_path, TOY | {"randomness": "release", "entries": entries | {"dp_mlp": wider}})
    assert main(["train", *flags, "--run", run]) == 1
    tells(capsys.readouterr().err, f"releases/quick/{run}'")
    assert (Path("releases/quick") / run / "model.safetensors").read_bytes() == models[0]


def test_what_releases_have_together_is_said(tmp_path: Path) -> None:
    write_study(tmp_path, TOY | {"randomness": "release", "repeats": 2, "epsilons": ["1", "8"]})
    study = load_study(tmp_path / "config.yaml")
    private = [key for key in study.keys if key.epsilon != "inf"]
    total = sum(float(key.epsilon) for key in private)
    first, *joint = released_budgets(study, study.keys)
    assert first == f"release: {len(private)} private runs on chains-s are planned"
    assert joint == [f"  node, add-remove: at most epsilon {total:g} by {len(private)} runs"]
    write_study(tmp_path, TOY)
    assert released_budgets(load_study(tmp_path / "config.yaml"), study.keys) == []


def test_epsilons_of_units_that_imply_nothing_of_each_other_are_not_added(tmp_path: Path) -> None:
    node = TOY["entries"]["dp_mlp"]
    node = node | {"relation": "replace-one"}
    edge = {"method": "lapgraph", "mode": "sound", "privacy_unit": "edge", "relation": "add-remove"}
    record = node | {"privacy_unit": "node-record"}
    published = node | {"mode": "published"}
    alone = "at most epsilon 8 by 1 run; nothing is proved together with the other 1"
    for entries, wanted in (
        ({"a": node, "b": edge}, [
            f"  node, replace-one: {alone}", "  edge, add-remove: at most epsilon 16 by 2 runs"]),
        ({"a": record, "b": edge}, [
            f"  node-record, replace-one: {alone}", f"  edge, add-remove: {alone}"]),
        ({"a": published, "b": published | {"options": node["options"] | {"width": 3}}}, [
            "  nothing is proved: all claims are as published"]),
    ):  # fmt: skip
        stated = {"randomness": "release", "epsilons": ["8"], "entries": entries, "baseline": ""}
        write_study(tmp_path, TOY | stated)
        study = load_study(tmp_path / "config.yaml")
        first, *joint = released_budgets(study, study.keys)
        assert first == "release: 2 private runs on chains-s are planned"
        assert joint == wanted


def make_inputs(workflow: Workflow) -> None:
    """Make the graphs, splits and samples of a study by the commands of its rules."""
    seed = ("--root-seed", str(workflow.study.config.root_seed))
    for dataset in workflow.datasets:
        folder = workflow.paths.graph(dataset)
        assert main(["data", "prepare", dataset, "--out", str(folder), *seed]) == 0
        place = ("--graph", str(folder), "--dataset", dataset, "--setting", "public", *seed)
        split = str(workflow.paths.split(dataset, "public", 0))
        recipe = ("--setting-json", workflow.setting_json("public"))
        assert main(["split", *place, "--repeat", "0", *recipe, "--out", split]) == 0
        for label in workflow.labels:
            sampler = (
                "--method", workflow.sampler_method(label), "--sampler", workflow.sampler_name(label),
                "--params-json", workflow.sampler_json(label),
                "--out", str(workflow.paths.prepared(dataset, "public", 0, label)),
            )  # fmt: skip
            assert main(["prepare", *place, "--split", split, "--repeat", "0", *sampler]) == 0


def test_no_byte_of_a_run_depends_on_what_its_process_made_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs on two graphs, by several methods: all in one process, in the other order, and one alone."""
    private = {"mode": "sound", "relation": "add-remove"}
    steps, few = {"num_steps": 3, "expected_batch_size": 4}, {"num_epochs": 3}
    study = TOY | {
        "datasets": {name: {"settings": ["public"]} for name in ("chains-s", "chains-50")},
        "epsilons": ["8"],
        "entries": {
            **TOY["entries"],
            "gcn": {"method": "gcn", "mode": "nonprivate", "options": {"training": few}},
            "gap": private | {
                "method": "gap", "privacy_unit": "edge",
                "options": {"num_hops": 1, "head": {"encoder_training": few, "training": few}},
            },
            "dp_gcn": private | {
                "method": "dp_gnn", "privacy_unit": "node-record",
                "options": {"conv": "gcn", "width": 8, "max_degree": 1, "training": steps},
            },
        },
    }  # fmt: skip
    write_study(tmp_path, study)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

    def dpgnn(folder: Path, *words: str) -> None:
        command = [sys.executable, "-m", "dpgnn", *words]
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)

    monkeypatch.chdir(tmp_path)
    make_inputs(Workflow(study_file="config.yaml"))
    runs = [key.folder for key in load_study(tmp_path / "config.yaml").keys]
    assert len(runs) == 10

    def made(name: str, wanted: list[str]) -> dict[str, bytes]:
        folder = tmp_path / name
        (folder / "results").mkdir(parents=True)
        for kind in ("graphs", "splits", "prepared"):
            (folder / "results" / kind).symlink_to(tmp_path / "results" / kind)
        flags = [word for run in wanted for word in ("--run", run)]
        dpgnn(folder, "train", "--study", str(tmp_path / "config.yaml"), *flags)
        root = folder / "results" / "studies" / "quick" / "runs"
        names = ("record.json", "history.parquet", "model.safetensors")
        return {
            f"{run}/{file}": (root / run / file).read_bytes() for run in wanted for file in names
        }

    together = made("together", runs)
    assert made("backwards", runs[::-1]) == together
    (alone,) = (run for run in runs if run.startswith("chains-50.public/dp_gcn/"))
    assert made("alone", [alone]).items() <= together.items()
