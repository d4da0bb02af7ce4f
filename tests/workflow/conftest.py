"""A toy study in a copy of the repository, run for real."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from helpers import TOY, copy_repository, once, run_tool, write_study


def _run_toy(folder: Path) -> None:
    write_study(copy_repository(folder), TOY)
    run_tool(folder, "snakemake", "--cores", "2")


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy study, run to its report; what a test changes in it, it changes back."""
    made = once(tmp_path_factory, "toy-study", _run_toy)
    return Path(shutil.copytree(made, tmp_path_factory.mktemp("toy") / "study", symlinks=True))


@pytest.fixture
def fresh_toy(toy: Path, tmp_path: Path) -> Path:
    """A copy of the finished toy study that a test may change."""
    return Path(shutil.copytree(toy, tmp_path / "toy", symlinks=True))
