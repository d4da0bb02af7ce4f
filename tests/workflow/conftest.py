"""A toy study in a copy of the repository, run for real."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pytest
from helpers import TOY, copy_repository, run_tool, write_study


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy study, run to its report; what a test changes in it, it changes back.

    It is run once, also where several processes share the tests; each has a copy.
    """
    own = tmp_path_factory.getbasetemp()
    made = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "toy-study"
    with open(made.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            # only a study that came to its end has the name
            folder = copy_repository(made.with_suffix(".part"))
            write_study(folder, TOY)
            run_tool(folder, "snakemake", "--cores", "2")
            folder.rename(made)
    return Path(shutil.copytree(made, tmp_path_factory.mktemp("toy") / "study", symlinks=True))


@pytest.fixture
def fresh_toy(toy: Path, tmp_path: Path) -> Path:
    """A copy of the finished toy study that a test may change."""
    return Path(shutil.copytree(toy, tmp_path / "toy", symlinks=True))
