"""Only what is finished, up to date and whole is shared."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import TOY, run_tool, write_study

from dpgnn.core.checksums import OF_FOLDER, write_checksums
from dpgnn.core.storage import sha256_json
from dpgnn.run.specification import config_of
from dpgnn.study import sharing
from dpgnn.study.study import load_study
from dpgnn.study.wanted import Wanted, code_of

CONFIG = Path("config.yaml")
RUN = "chains-s.public/mlp/eps=inf/0"


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A folder with git and DVC and a finished study, which is checked and no more."""
    for name in (".git", ".dvc"):
        (tmp_path / name).mkdir()
    write_study(tmp_path, TOY)
    study = load_study(tmp_path / CONFIG)
    home = tmp_path / "results" / "studies" / study.name
    for key in study.keys:
        folder = home / "runs" / key.folder
        folder.mkdir(parents=True)
        made = {
            "config_sha256": sha256_json(config_of(Wanted(study).inputs(key))),
            "code_sha256": code_of(study, key.entry),
        }
        (folder / "record.json").write_text(json.dumps(made))
        for name in ("resources.json", "history.parquet", "model.safetensors"):
            (folder / name).touch()
        write_checksums(folder / OF_FOLDER, list(folder.iterdir()))
    for name in ("report.html", "metrics.json"):
        (home / name).write_text("{}")
    write_checksums(home / OF_FOLDER, [home / "report.html", home / "metrics.json"])
    sharing._check_ready(study, CONFIG, tmp_path)
    return tmp_path


def test_the_remotes_address_is_committed_and_a_secret_is_refused(finished: Path) -> None:
    (finished / ".git").rmdir()
    for command in (
        ["init", "-q"],
        ["config", "user.email", "toy@example.org"],
        ["config", "user.name", "toy"],
    ):
        run_tool(finished, "git", *command)
    config = finished / ".dvc" / "config"
    config.write_text("['remote \"store\"']\n    url = /store\n    ask_password = true\n")
    assert sharing._commit(finished, CONFIG, "toy")
    assert ".dvc/config\n" in run_tool(finished, "git", "ls-files").stdout
    assert not sharing._commit(finished, CONFIG, "toy")
    config.write_text(config.read_text() + "    password = hunter2\n")
    study = load_study(finished / CONFIG)
    with pytest.raises(ValueError, match=r"\.dvc/config must hold no secret.*'password'.*--local"):
        sharing.share(study, CONFIG, root=finished)


def _of_other_width(root: Path) -> None:
    study = copy.deepcopy(TOY)
    study["entries"]["dp_mlp"]["options"]["width"] += 1
    write_study(root, study)


def _with_another_split(root: Path) -> None:
    """The runs were made from another split than lies there."""
    path = root / "results/studies/quick/runs" / RUN / "record.json"
    stated = {"graph_sha256": "a" * 64, "split_sha256": "b" * 64, "prepared_sha256": None}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"inputs": stated}))
    write_checksums(
        path.with_name(OF_FOLDER), [p for p in path.parent.iterdir() if p.name != OF_FOLDER]
    )
    split = root / "results/splits/chains-s.public.0.parquet"
    split.parent.mkdir(parents=True)
    split.write_text("another")
    write_checksums(split.with_suffix(".sha256"), [split])


def _of_other_code(root: Path) -> None:
    path = root / "results/studies/quick/runs" / RUN / "record.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"code_sha256": "0" * 64}))


def _written_to(name: str) -> Callable[[Path], Any]:
    return lambda root: (root / name).open("a").write(" ")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_with_another_split, rf"run {RUN} of other data than lie here"),
        (_of_other_width, r"run chains-s\.public/dp_mlp/eps=1/0 of another configuration or code"),
        (_of_other_code, rf"run {RUN} of another configuration or code"),
        (_written_to(f"results/studies/quick/runs/{RUN}/model.safetensors"), rf"run {RUN} damaged"),
        (_written_to("results/studies/quick/report.html"), r"quick/report\.html changed"),
        (
            lambda root: write_study(root, TOY | {"audits": True}),
            r"audits/chains-s\.public\.dp_mlp",
        ),
        (lambda root: (root / "results/studies/quick/report.html").unlink(), r"report\.html"),
    ],
    ids=["split", "option", "code", "file of a run", "page", "audit", "no page"],
)
def test_a_stale_or_damaged_study_is_refused(
    finished: Path, change: Callable[[Path], Any], says: str
) -> None:
    change(finished)
    study = load_study(finished / CONFIG)
    with pytest.raises(ValueError, match=rf"{says}.*`dpgnn run quick --tier S`"):
        sharing.share(study, CONFIG, root=finished)
    assert not (finished / "workflow").exists()


@pytest.mark.parametrize(
    "left", ["runs/chains-s.public/gcn/eps=inf/0/record.json", "audits/chains-s.public.gcn.eps=1.json",
             "attacks/chains-s.public.gcn.eps=1.0.gmia.json"],
)  # fmt: skip
def test_what_the_study_no_longer_names_does_not_leave(finished: Path, left: str) -> None:
    """An entry may have been taken out because its model must not be published."""
    path = finished / "results/studies/quick" / left
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    study = load_study(finished / CONFIG)
    with pytest.raises(ValueError, match=r"results of its own runs alone.*chains-s\.public.gcn"):
        sharing.share(study, CONFIG, root=finished)
    # an audit that was made by hand of a run of the study is its own
    path.unlink()
    if path.parent.name != "0":
        (path.parent / path.name.replace("gcn", "dp_mlp")).write_text("{}")
        sharing._check_ready(study, CONFIG, finished)
