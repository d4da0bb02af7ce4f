"""From raw pieces to predictions with a bound on memory; killed in every stage, to the same bytes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT

from dpgnn.core.storage import read_json

pytestmark = pytest.mark.slow
STAGES = ("graph", "read", "partition", "sample", "store", "train", "predict")


def command(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.scale", "--folder", str(folder), *words]


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def peak_of(words: list[str], cwd: Path) -> int:
    """Peak resident bytes of a command that must succeed."""
    process = subprocess.Popen(words, cwd=cwd, env=environment())
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0
    return used.ru_maxrss * 1024


def test_every_stage_stays_within_its_memory(tmp_path: Path) -> None:
    """Two million nodes, twenty million arcs: 2.8 GB where all is in memory, a bound of 2 GB."""
    out = tmp_path / "out.json"
    words = ["--arcs", "20000000", "--memory", "2GB", "--steps", "20", "--out", str(out)]
    subprocess.run(command(tmp_path / "run", *words), cwd=ROOT, env=environment(), check=True)
    peaks = {row["stage"]: row["peak_bytes"] for row in read_json(out)["stages"]}
    print(peaks)
    assert tuple(peaks) == STAGES
    assert max(peaks.values()) <= 2 * 10**9
    run = tmp_path / "run"
    (table,) = (run / "results" / "prepared" / "scale.all.0").glob("*.parquet")
    stated = read_json(table.with_suffix(".json"))["sampler"]
    again = peak_of(
        [
            sys.executable, "-m", "dpgnn", "prepare", "--graph", "results/graphs/scale", "--split",
            "results/splits/scale.all.0.parquet", "--dataset", "scale", "--setting", "all",
            "--repeat", "0", "--root-seed", "0", "--method", "dp_gnn", "--sampler", stated["name"],
            "--params-json", json.dumps(stated["params"]), "--memory", "2GB", "--out", "again.parquet",
        ],
        run,
    )  # fmt: skip
    assert again <= 2 * 10**9
    assert (run / "again.parquet").read_bytes() == table.read_bytes()


def kill_in(folder: Path, stage: str, seconds: float, words: list[str]) -> str | None:
    """Kill the whole group so long after a stage, or a later one if it is done, began.

    Returns:
        the stage that was killed; None where the run ended before.
    """
    process = subprocess.Popen(
        command(folder, *words), cwd=ROOT, env=environment(), start_new_session=True, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    begun = threading.Event()
    seen: list[str] = []

    def listen(lines: Any) -> None:
        for line in lines:
            name = line.strip().removeprefix("stage ")
            if name in STAGES:
                seen.append(name)
                if STAGES.index(name) >= STAGES.index(stage):
                    begun.set()

    thread = threading.Thread(target=listen, args=(process.stderr,))
    thread.start()
    while not begun.wait(0.1) and process.poll() is None:
        pass
    time.sleep(seconds)
    killed = process.poll() is None
    if killed:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    thread.join()
    return seen[-1] if killed else None


def content(folder: Path) -> dict[str, bytes]:
    """What the run left, but for times and copies."""
    found = {}
    for below in ("results", "predictions", "work/partitions", "work/stored"):
        for path in sorted((folder / below).rglob("*")):
            times = path.name == "resources.json" or path.name == "checksums.sha256"
            if path.is_file() and not times and not path.name.startswith("."):
                found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def test_a_run_that_is_killed_in_every_stage_ends_with_the_same_bytes(tmp_path: Path) -> None:
    words = ["--arcs", "3000000", "--memory", "1.6GB", "--steps", "40"]
    whole = command(tmp_path / "whole", *words)
    subprocess.run(whole, cwd=ROOT, env=environment(), check=True)
    took = {
        stage: read_json(tmp_path / "whole" / "stages" / f"{stage}.json")["seconds"]
        for stage in STAGES
    }
    killed = []
    for stage in STAGES:
        for share in (0.5, 0.8):
            killed.append(kill_in(tmp_path / "killed", stage, share * took[stage], words))
    print(killed)
    assert len(set(killed) - {None}) >= 5
    subprocess.run(command(tmp_path / "killed", *words), cwd=ROOT, env=environment(), check=True)
    first, second = content(tmp_path / "whole"), content(tmp_path / "killed")
    assert sorted(first) == sorted(second)
    assert [name for name in first if first[name] != second[name]] == []
