"""DVC versions and moves what stands between stages; after a pull neither tool reruns anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import TOY, planned, run_tool, write_study


@pytest.fixture
def shared_toy(fresh_toy: Path) -> Path:
    """The finished toy study in a git repository of its own, adopted by DVC and pushed to a local remote."""
    for command in (
        ("git", "init", "-q", "."),
        ("git", "config", "user.email", "toy@example.org"),
        ("git", "config", "user.name", "toy"),
        ("dvc", "commit", "-f", "-q"),
        ("dvc", "remote", "add", "-q", "-d", "local", str(fresh_toy.parent / "remote")),
        ("dvc", "push", "-q"),
        ("git", "add", "-A"),
        ("git", "commit", "-q", "-m", "toy"),
    ):
        run_tool(fresh_toy, *command)
    return fresh_toy


def test_a_pull_in_a_fresh_clone_reruns_nothing_and_one_option_reruns_one_entry(
    shared_toy: Path,
) -> None:
    clone = shared_toy.parent / "clone"
    run_tool(shared_toy.parent, "git", "clone", "-q", str(shared_toy), str(clone))
    run_tool(clone, "dvc", "pull", "-q")
    assert "up to date" in run_tool(clone, "dvc", "status").stdout
    assert planned(clone) == {}

    study = TOY | {"entries": TOY["entries"] | {"dp_mlp": _other(TOY["entries"]["dp_mlp"])}}
    write_study(clone, study)
    assert planned(clone) == {"train": 2, "report": 1, "joined_report": 1}
    text = run_tool(clone, "dvc", "repro").stdout
    assert "Stage 'graphs' didn't change, skipping" in text
    assert planned(clone) == {}
    assert "up to date" in run_tool(clone, "dvc", "status").stdout


def test_raw_files_are_no_out_of_any_stage(repository: Path) -> None:
    import yaml

    stages = yaml.safe_load((repository / "dvc.yaml").read_text())["stages"]
    outs = [name for stage in stages.values() for out in stage["outs"] for name in out]
    assert not any(name.startswith("data/raw") for name in outs)
    assert all(
        out[name].get("persist")
        for stage in stages.values()
        for out in stage["outs"]
        for name in out
    )


def _other(entry: dict) -> dict:
    options = entry["options"] | {"width": entry["options"]["width"] + 1}
    return entry | {"options": options}
