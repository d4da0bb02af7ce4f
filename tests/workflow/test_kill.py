"""Killed at any moment, a run goes on where it was and ends with the same bytes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers import planned, records, run_tool


def kill_after(folder: Path, seconds: float) -> int:
    """Start `dpgnn run quick`, kill its whole group with SIGKILL after some seconds, give its exit code."""
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "dpgnn", "run", "quick", "--", "--cores", "2"],
        cwd=folder, env=environment, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait()


@pytest.mark.slow
def test_ten_kills_of_the_whole_group_change_no_byte(fresh_toy: Path) -> None:
    before = records(fresh_toy)
    for name in ("results", "work", ".snakemake"):
        shutil.rmtree(fresh_toy / name, ignore_errors=True)
    moments = random.Random(0)
    kills = 0
    for _ in range(10):
        code = kill_after(fresh_toy, moments.uniform(2.0, 12.0))
        kills += code != 0
        time.sleep(0.2)
        for path in (fresh_toy / "results").rglob("*.json"):
            if not path.name.startswith("."):
                assert path.read_text().rstrip().endswith(("}", "]")), f"{path} is half written"
    assert kills > 0
    run_tool(fresh_toy, sys.executable, "-m", "dpgnn", "run", "quick", "--", "--cores", "2")
    assert records(fresh_toy) == before
    assert planned(fresh_toy) == {}
