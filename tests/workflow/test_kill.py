"""Killed at any moment, or in the middle of a write, a study goes on and ends with the same bytes."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import whole
from helpers import ROOT, copy_repository, planned, tells

from dpgnn.core.locks import is_held
from dpgnn.study.progress import workflow_lock

# in the order of the stages; each death is met on the way that the one before left open
DEATHS: dict[str, dict[str, Any]] = {
    "download": {"at": "download", "file": "cora_ml.npz", "bytes": 1000},
    "Parquet write": {"at": "write", "file": "nodes.parquet", "bytes": 300},
    "between the renames of a graph": {"at": "rename", "file": "graph.json"},
    "checkpoint write": {"at": "write", "file": "train.safetensors", "count": 8},
    "record rename, of one job": {"at": "rename", "file": "record.json", "whom": "process"},
    "record rename": {"at": "rename", "file": "record.json"},
    "after the record": {"at": "renamed", "file": "record.json"},
    "report write": {"at": "write", "file": "report.html", "bytes": 5000},
}


@pytest.fixture(scope="module")
def server() -> Iterator[whole.Server]:
    """The internet of all tests here: its address stands in what the study makes."""
    with whole.internet() as server:
        yield server


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, server: whole.Server) -> Path:
    """A copy of the repository with the whole study; one for all, as someone may edit while tests run."""
    folder = copy_repository(tmp_path_factory.mktemp("prepared"))
    whole.make_whole(folder)
    server.connect(folder)
    return folder


@pytest.fixture(scope="module")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory, prepared: Path
) -> tuple[dict[str, str], float]:
    """What the study makes when nobody disturbs it, and the seconds that takes."""
    folder = tmp_path_factory.mktemp("undisturbed") / "whole"
    shutil.copytree(prepared, folder)
    clock = time.monotonic()
    whole.finish(folder)
    seconds = time.monotonic() - clock
    assert whole.steps_taken(folder) == list(range(1, whole.NUM_STEPS + 1))
    assert whole.leftovers(folder) == []
    return whole.outcome(folder), seconds


@pytest.fixture
def folder(tmp_path: Path, prepared: Path, server: whole.Server) -> Path:
    """A copy of the repository with the whole study, not yet run."""
    server.ranges.clear()
    return Path(shutil.copytree(prepared, tmp_path / "whole"))


def nobody_at_work(folder: Path) -> bool:
    """No process has `folder` as its working folder; those that were killed get a moment to vanish."""
    for _ in range(50):
        found = [path for path in Path("/proc").glob("[0-9]*/cwd") if _target(path) == str(folder)]
        if not found:
            return True
        time.sleep(0.1)
    return False


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


@pytest.mark.slow
def test_ten_kills_of_the_whole_group_change_no_byte(
    folder: Path, undisturbed: tuple[dict[str, str], float]
) -> None:
    expected, seconds = undisturbed
    moments, kills, unlocked = random.Random(0), 0, 0
    while kills < 10:
        process = whole.start(folder)
        try:
            text, _ = process.communicate(timeout=moments.uniform(0.05, 0.25) * seconds)
            assert process.returncode == 0, text[-6000:]
            shutil.rmtree(folder / "results")  # it came to its end: once more
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text, _ = process.communicate()
            kills += 1
        unlocked += "removing the lock that a killed run left" in text
        assert nobody_at_work(folder)
        whole.check_whole_files(folder)
    whole.finish(folder)
    assert unlocked > 0
    assert whole.outcome(folder) == expected
    assert whole.leftovers(folder) == []
    assert planned(folder) == {}


@pytest.mark.slow
def test_a_death_inside_every_kind_of_write_changes_no_byte(
    folder: Path, undisturbed: tuple[dict[str, str], float], server: whole.Server
) -> None:
    for name, fault in DEATHS.items():
        (folder / "fault.json").write_text(json.dumps(fault))
        process = whole.start(folder)
        text, _ = process.communicate()
        assert process.returncode != 0, f"{name}: {text[-6000:]}"
        assert (folder / "fault.done").exists(), f"{name}: {text[-6000:]}"
        (folder / "fault.done").unlink()
        assert nobody_at_work(folder), name
        whole.check_whole_files(folder)
    whole.finish(folder)
    assert server.ranges == ["bytes=0-", "bytes=1000-"]
    assert whole.outcome(folder) == undisturbed[0]
    assert whole.leftovers(folder) == []
    assert planned(folder) == {}
    # no step is lost but the one whose checkpoint was being written
    steps = whole.steps_taken(folder)
    assert set(steps) == set(range(1, whole.NUM_STEPS + 1))
    assert len(steps) <= whole.NUM_STEPS + len(DEATHS)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_keep_the_step_in_hand(
    number: int, folder: Path, undisturbed: tuple[dict[str, str], float]
) -> None:
    # no checkpoint but the one that the signal asks for
    pace = {"step_seconds": 0.5, "checkpoint_seconds": 1000.0}
    (folder / "pace.json").write_text(json.dumps(pace))
    process = whole.start(folder)
    steps = folder / "steps.txt"
    while not steps.exists() or len(whole.steps_taken(folder)) < 3:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    os.killpg(process.pid, number)  # as a terminal does: to the driver, Snakemake and the job
    text, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert nobody_at_work(folder)
    whole.check_whole_files(folder)
    assert len(list((folder / "work").rglob("train.safetensors"))) == 1, text[-6000:]
    assert not list((folder / "results").rglob("record.json"))
    assert len(whole.steps_taken(folder)) < whole.NUM_STEPS
    (folder / "pace.json").write_text(json.dumps(pace | {"step_seconds": 0.0}))
    whole.finish(folder)
    assert whole.steps_taken(folder) == list(range(1, whole.NUM_STEPS + 1))
    assert whole.outcome(folder) == undisturbed[0]
    assert whole.leftovers(folder) == []


@pytest.mark.slow
def test_a_snakemake_started_by_hand_is_unlocked_only_after_its_death(folder: Path) -> None:
    (folder / "pace.json").write_text(json.dumps({"step_seconds": 60, "checkpoint_seconds": 0}))
    by_hand = whole.start_module(folder, "snakemake", "--cores", "1", "--", "runs")
    lock = workflow_lock(folder)
    while not is_held(lock):
        assert by_hand.poll() is None, by_hand.communicate()[0]
        time.sleep(0.1)
    refused = whole.start(folder)
    text, _ = refused.communicate()
    assert refused.returncode == 1
    tells(text, f"(process {by_hand.pid} on")
    assert by_hand.poll() is None
    assert list((folder / ".snakemake" / "locks").iterdir())
    os.killpg(by_hand.pid, signal.SIGKILL)
    by_hand.communicate()
    text = whole.finish(folder, "--target", "splits")
    assert "removing the lock that a killed run left" in text


@pytest.mark.parametrize(
    ("fault", "after"),
    [
        ({"at": "write", "file": "x.json", "bytes": 5}, "old"),
        ({"at": "rename", "file": "x.json"}, "old"),
        ({"at": "renamed", "file": "x.json"}, "new"),
    ],
)
def test_a_reader_sees_the_old_file_or_the_new_one(
    tmp_path: Path, fault: dict[str, Any], after: str
) -> None:
    code = "from pathlib import Path; from dpgnn.core import storage; storage.write_json('x.json', 'new')"
    (tmp_path / "x.json").write_text('"old"\n')
    (tmp_path / "fault.json").write_text(json.dumps(fault | {"whom": "process"}))
    environment = os.environ | {"PYTHONPATH": f"{whole.FAULTS}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", code]
    killed = subprocess.run(command, cwd=tmp_path, env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert json.loads((tmp_path / "x.json").read_text()) == after
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    assert json.loads((tmp_path / "x.json").read_text()) == "new"
