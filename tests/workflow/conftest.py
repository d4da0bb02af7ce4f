"""A toy study in a copy of the repository, run for real."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from helpers import TOY, copy_repository, run_tool, write_study


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy study, run to its report; not to be changed."""
    folder = copy_repository(tmp_path_factory.mktemp("toy"))
    write_study(folder, TOY)
    run_tool(folder, "snakemake", "--cores", "2")
    return folder


@pytest.fixture
def fresh_toy(toy: Path, tmp_path: Path) -> Path:
    """A copy of the finished toy study that a test may change."""
    return Path(shutil.copytree(toy, tmp_path / "toy", symlinks=True))
