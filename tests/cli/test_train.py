"""Many runs in one process: a failure loses one run; a run that is being made is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import TOY, write_study

from dpgnn import locks, progress
from dpgnn.__main__ import main
from dpgnn.cli import train

RUNS = [f"chains-s.public/dp_mlp/eps={epsilon}/0" for epsilon in (1, 8)]


def run(folder: Path, runs: list[str]) -> int:
    write_study(folder, TOY)
    flags = [word for name in runs for word in ("--run", name)]
    work, results = str(folder / "work"), str(folder / "results")
    study = str(folder / "config.yaml")
    return main(["train", "--study", study, *flags, "--work", work, "--results", results])


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Folders of the runs that were made, with a stand-in for training that fails at epsilon 1."""
    found = []

    def made(study: Any, key: Any, *more: Any, **named: Any) -> SimpleNamespace:
        if key.epsilon == "1":
            raise ValueError("x must be finite")
        found.append(key.folder)
        return SimpleNamespace(metrics={}, status="ok", reason="")

    monkeypatch.setattr(train, "train", made)
    return found


def test_a_failure_loses_one_run_only_and_is_named(
    tmp_path: Path, made: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, RUNS) == 1
    assert made == RUNS[1:]
    first, second, last = capsys.readouterr().err.splitlines()
    assert first == f"{RUNS[0]}: error: x must be finite"
    assert second == f"{RUNS[1]}: ok"
    assert last.startswith("dpgnn train: error: 1 of 2 runs failed")


def test_a_run_that_is_being_made_is_refused(
    tmp_path: Path, made: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with locks.exclusive(progress.run_lock(tmp_path / "work", "quick", RUNS[1])):
        assert run(tmp_path, RUNS[1:]) == 1
    assert f"{RUNS[1]} is being made already (process " in capsys.readouterr().err
    assert run(tmp_path, RUNS[1:]) == 0
    assert made == RUNS[1:]


def test_a_device_that_is_not_here_is_refused_before_anything_is_read(
    tmp_path: Path, made: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    write_study(tmp_path, TOY)
    words = ["train", "--study", str(tmp_path / "config.yaml"), "--run", RUNS[1]]
    words += ["--work", str(tmp_path / "work")]
    assert main([*words, "--device", "cuda"]) == 1
    error = capsys.readouterr().err.strip()
    assert "--device must be one that torch sees, got 'cuda'; say --device cpu, or" in error
    assert not made
    with pytest.raises(SystemExit):
        main([*words, "--device", "gpu"])
    assert "choose from" in capsys.readouterr().err
