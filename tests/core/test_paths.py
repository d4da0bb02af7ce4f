from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpgnn.core.paths import Paths, in_project, parse_run, regular

RUN = "facebook-Yale4.per.class/dp_mlp~width=8/eps=0.5/12"


def test_a_runs_name_and_its_axes_go_into_one_another() -> None:
    axes = parse_run(RUN)
    assert axes == {
        "dataset": "facebook-Yale4", "setting": "per.class", "entry": "dp_mlp~width=8",
        "epsilon": "0.5", "repeat": 12,
    }  # fmt: skip
    assert Paths().run("quick", RUN) == Path("results/studies/quick/runs") / RUN


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a.b/c/eps=1",
        "a/c/eps=1/0",
        "a.b/c/1/0",
        "a.b/c/eps=1/x",
        "a.b/c/eps=1/-1",
        "a.b/c/eps=1/²",
    ],
)
def test_another_form_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="--run must have the form DATASET"):
        parse_run(name, name="--run")


def test_a_file_inside_the_project_has_one_path(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "workflow").mkdir(parents=True)
    for path in ("workflow/a.yaml", "./workflow/../workflow/a.yaml", root / "workflow" / "a.yaml"):
        assert in_project(path, root) == Path("workflow/a.yaml")
    assert in_project(tmp_path / "a.yaml", root) == tmp_path / "a.yaml"


def test_only_files_are_regular(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    assert regular(tmp_path / "file") == tmp_path / "file"
    assert regular(tmp_path / "missing") == tmp_path / "missing"
    for path, kind in ((tmp_path, "folder"), (tmp_path / "pipe", "named pipe")):
        with pytest.raises(ValueError, match=f"be a regular file, got 'a {kind}'"):
            regular(path)
