from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import tells

from dpgnn.core import locks
from dpgnn.study import driver, progress
from dpgnn.study.verify import Finding, Group


def test_a_study_is_found_by_name_or_file(repository: Path, tmp_path: Path) -> None:
    assert driver.study_file("quick", root=repository) == Path("config.yaml")
    found = driver.study_file("baselines", root=repository)
    assert found == Path("workflow/studies/baselines.yaml")
    assert driver.study_file("config.yaml", root=repository) == Path("config.yaml")
    for name in (repository / "config.yaml", "./config.yaml", "docs/../config.yaml"):
        assert driver.study_file(str(name), root=repository) == Path("config.yaml")
    outside = tmp_path / "study.yaml"
    outside.touch()
    assert driver.study_file(str(outside), root=repository) == outside
    with pytest.raises(ValueError, match=r"study must be a YAML file or one of quick, .*baselines"):
        driver.study_file("nope", root=repository)


def run_of(snakemake: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """`run_snakemake` with a program of our own in Snakemake's place."""
    (root / "python").write_text(f"#!/bin/sh\n{snakemake}\n")
    (root / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(root / "python"))
    return driver.run_snakemake(
        Path("config.yaml"), tier="S", device="cpu", targets=[], extra=["-n"], root=root
    )


def test_the_command_line_of_snakemake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_of('echo "$@" > called; exit 3', tmp_path, monkeypatch) == 3
    assert (tmp_path / "called").read_text() == (
        "-m snakemake -n --config study=config.yaml tier=S device=cpu --\n"
    )


@pytest.mark.parametrize(("home", "own"), [("/dev/null", True), ("home", False)])
def test_caches_are_below_work_where_the_home_folder_cannot_hold_them(
    home: str, own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / home))  # an absolute path stays as it is
    for name in ("XDG_CACHE_HOME", "MPLCONFIGDIR"):
        monkeypatch.delenv(name, raising=False)
    assert run_of('echo "$XDG_CACHE_HOME $MPLCONFIGDIR" > caches', tmp_path, monkeypatch) == 0
    folder = tmp_path / "work" / "cache"
    said = f"{folder} {folder}/matplotlib" if own else ""
    assert (tmp_path / "caches").read_text().strip() == said
    assert folder.exists() is own


@pytest.mark.parametrize(
    "words", [["--workflow-profile", "profiles/slrum"], ["--workflow-profile=x"]]
)
def test_a_profile_that_is_not_there_is_refused(words: list[str], repository: Path) -> None:
    with pytest.raises(
        ValueError, match=r"folder with config.yaml.*there are profiles/.*profiles/slurm"
    ):
        driver.check_profile(words, repository)
    driver.check_profile(["-n", "--workflow-profile", "profiles/slurm"], repository)
    driver.check_profile(["--workflow-profile", "none", "--cores", "1"], repository)


@pytest.mark.parametrize(
    ("words", "elsewhere"),
    [
        ([], False),
        (["--cores", "1", "--workflow-profile", "none"], False),
        (["--workflow-profile", "profiles/gpu"], False),
        (["--workflow-profile=profiles/slurm"], True),
        (["--profile", "of_the_user"], True),
        (["--executor", "slurm"], True),
        (["-e", "local", "--workflow-profile", "profiles/slurm"], False),
    ],
)
def test_a_profile_or_a_flag_says_whether_other_machines_run_the_jobs(
    words: list[str], elsewhere: bool, repository: Path
) -> None:
    assert driver.runs_elsewhere(words, repository) is elsewhere


def test_ctrl_c_is_left_to_snakemake_and_sigterm_is_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a terminal's Ctrl-C reaches both; killing Snakemake then would leave its jobs in the queue
    waits = "trap 'exit 7' TERM; kill -INT $PPID; sleep 0.5; kill -TERM $PPID; sleep 5 & wait"
    assert run_of(waits, tmp_path, monkeypatch) == driver.STOPPED


def test_sigterm_stops_the_jobs_and_is_told_as_ctrl_c_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # Snakemake waits for its job, which ends by itself only after 20 seconds
    waits = f"kill -TERM {os.getpid()}; sleep 20 & wait"
    job = f"trap : INT; sh -c 'trap \"touch stopped; exit 1\" INT; {waits}'; exit 5"
    assert run_of(job, tmp_path, monkeypatch) == driver.STOPPED
    assert (tmp_path / "stopped").exists()
    assert capfd.readouterr().err == "Stopped by you; the same command goes on\n"


def test_stopped_before_snakemake_starts_it_does_not_start(tmp_path: Path) -> None:
    child = driver._Child()
    child.interrupted = True
    command = ["touch", str(tmp_path / "started")]
    for plain in (True, False):
        screen = driver._Screen(child, None, 0.0)
        assert screen.run(command, tmp_path, 0, plain=plain) == driver.STOPPED
    assert not (tmp_path / "started").exists()


def test_a_dry_run_says_that_damaged_files_are_made_again_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "graph.json"
    group = Group(listed=tmp_path / "checksums.sha256", files=(path,))
    found = [Finding(path=path, state="changed", group=group)]
    for findings, said in ((found, f"changed      graph.json\n{driver.FIRST}\n"), ([], "")):
        monkeypatch.setattr(driver, "damaged", lambda *_, findings=findings, **__: findings)
        driver._mend(None, ["-n"], tmp_path, lambda *_: 1)  # type: ignore[arg-type]
        assert capfd.readouterr().err == said


def test_the_lock_of_a_killed_run_is_removed_and_causes_are_shown_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".snakemake" / "locks").mkdir(parents=True)
    (tmp_path / ".snakemake" / "locks" / "0.input.lock").touch()
    (tmp_path / "logs" / "train").mkdir(parents=True)
    code = 'echo "$@" >> called; test "$3" = --unlock && exit 0; echo "error: y" > logs/train/a.log; exit 1'
    assert run_of(code, tmp_path, monkeypatch) == 1
    assert "--unlock" in (tmp_path / "called").read_text().splitlines()[0]
    *_, cause, remedy = capfd.readouterr().err.splitlines()
    tells(cause, "failed", "logs/train/a.log", "error: y")
    assert remedy.startswith("after the cause is gone")


def claims(root: Path) -> subprocess.CompletedProcess[str]:
    """A process that claims the folder as Snakemake does."""
    code = "from pathlib import Path; from dpgnn.study.driver import claim; claim(Path())"
    return subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False
    )


def test_a_snakemake_started_by_hand_is_refused_while_a_run_is_going_on(tmp_path: Path) -> None:
    assert claims(tmp_path).returncode == 0
    lock = progress.workflow_lock(tmp_path)
    with locks.exclusive(lock):
        assert claims(tmp_path).returncode == 0  # we are its parent, as `dpgnn run` is Snakemake's
        lock.write_text(lock.read_text().replace(str(os.getpid()), str(os.getppid())))
        refused = claims(tmp_path)
    assert refused.returncode != 0
    tells(refused.stderr, f"(process {os.getpid()} on")


def test_what_a_killed_write_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    kept = ("graphs/a/.snakemake_timestamp", "graphs/a/nodes.parquet", "splits/.gitignore")
    left = ("graphs/a/.nodes.parquet.ab_1cd2e", "graphs/a/.new.k2j3h4g5/nodes.parquet")
    for name in (*kept, *left):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert len(driver.remove_unfinished(tmp_path)) == 2
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert files == set(kept)
