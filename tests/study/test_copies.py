"""Before Snakemake removes the results of a process of several runs, the finished ones are kept."""

from __future__ import annotations

import copy
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers import TOY, write_study

from dpgnn.__main__ import main
from dpgnn.cli.run import forget_copies
from dpgnn.core.checksums import OF_FOLDER, write_checksums
from dpgnn.study.copies import keep_finished
from dpgnn.study.driver import claim
from dpgnn.study.study import Study, load_study

STUDY: dict[str, Any] = TOY | {"runs_per_job": 9}
NONPRIVATE = "chains-s.public/mlp/eps=inf/0"
RUNS = Path("results/studies/quick/runs")


def train(study: Study) -> dict[str, str]:
    """Make all runs in one process, as their job does, after Snakemake removed them; their resources."""
    shutil.rmtree(RUNS, ignore_errors=True)
    flags = [word for key in study.keys for word in ("--run", key.folder)]
    assert main(["train", "--study", "config.yaml", *flags]) == 0
    return {key.folder: (RUNS / key.folder / "resources.json").read_text() for key in study.keys}


@pytest.fixture
def pulled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A folder with finished runs and no work folder, as `dvc pull` leaves it; the runs' resources."""
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path, STUDY)
    graph, split = "results/graphs/chains-s", "results/splits/chains-s.public.0.parquet"
    words = ["--graph", graph, "--dataset", "chains-s", "--setting", "public", "--repeat", "0"]
    recipe = ["--root-seed", "0", "--setting-json", json.dumps({"kind": "public"})]
    assert main(["data", "prepare", "chains-s", "--out", graph, "--root-seed", "0"]) == 0
    assert main(["split", *words, *recipe, "--out", split]) == 0
    made = train(load_study(Path("config.yaml")))
    shutil.rmtree("work")
    return made


def test_one_option_repeats_the_runs_of_its_entry_alone(pulled: dict[str, str]) -> None:
    model = RUNS / NONPRIVATE / "model.safetensors"
    os.utime(model, (1e9, 1e9))
    study = copy.deepcopy(STUDY)
    study["entries"]["dp_mlp"]["options"]["width"] += 1
    write_study(Path(), study)
    changed = load_study(Path("config.yaml"))
    claim(Path(), changed)
    assert model.stat().st_mtime == 1e9
    made = train(changed)
    assert {folder for folder in made if made[folder] == pulled[folder]} == {NONPRIVATE}
    assert not keep_finished(changed, Path())


def test_a_damaged_run_a_forced_one_and_one_on_another_graph_are_repeated(
    pulled: dict[str, str],
) -> None:
    study = load_study(Path("config.yaml"))
    plain, first, second = sorted(study.keys, key=lambda key: (key.entry != "mlp", key.folder))
    with (RUNS / first.folder / "model.safetensors").open("ab") as file:
        file.write(b" ")
    forget_copies(study, [second], Path())
    assert keep_finished(study, Path()) == [plain]
    made = train(study)
    assert {folder for folder in made if made[folder] == pulled[folder]} == {plain.folder}
    # a record of another graph gives no copy of this one's run
    shutil.rmtree("work")
    folder = RUNS / plain.folder
    record = json.loads((folder / "record.json").read_text())
    record["inputs"] = dict.fromkeys(record["inputs"], "0" * 64)
    (folder / "record.json").write_text(json.dumps(record))
    files = [path for path in folder.iterdir() if path.name != OF_FOLDER]
    write_checksums(folder / OF_FOLDER, files)
    assert plain in keep_finished(study, Path())
    assert train(study)[plain.folder] != made[plain.folder]
