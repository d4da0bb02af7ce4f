"""The SLURM profile: what it would submit, everywhere; real submissions where SLURM is installed."""

from __future__ import annotations

import copy
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import whole
import yaml
from helpers import ROOT, TOY, copy_repository, planned, records, run_tool, tells, write_study

HERE = Path(__file__).resolve().parent
PROFILE = ("--workflow-profile", "profiles/slurm")
# a test cluster has no accounting and its jobs last seconds
TEST_OPTIONS = (
    *PROFILE, "--latency-wait", "15",
    "--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "1",
    "--default-resources", "slurm_partition=main", "mem_mb=500", "runtime=10",
)  # fmt: skip
SUBMITTED = "has been submitted with SLURM jobid"
SUBMITTED_ARRAY = "Submitted array job with Snakemake IDs"
# stands in for SLURM's programs: notes what is submitted, and says that every job failed
STAND_IN = """#!/bin/bash
folder=$(dirname "$0"); noted=$folder/submitted
case $(basename "$0") in
  sbatch) printf '%q ' "$@" >> "$noted"; echo >> "$noted"; wc -l < "$noted" ;;
  squeue) seq -f '%g|FAILED' "$(wc -l < "$noted")" ;;
  scontrol) printf 'MinJobAge = 600 sec\\nMaxArraySize = 1001\\n' ;;
esac
"""
RUN = "results/studies/quick/runs/chains-s.public/dp_mlp/eps=8/0/record.json"
LONG_STEPS = 50


def forget_runs(folder: Path) -> None:
    """Remove runs and reports; a final page that stands would hide that what it was made from is gone."""
    shutil.rmtree(folder / "results" / "studies")
    (folder / "results" / "report.html").unlink(missing_ok=True)


def with_many_runs(**keys: Any) -> dict[str, Any]:
    """The toy study with eight budgets: nine runs."""
    return TOY | {"epsilons": [str(epsilon) for epsilon in range(1, 9)], **keys}


@pytest.fixture
def submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[dict[str, str]]]:
    """Runs Snakemake with the SLURM profile and stand-ins for SLURM; what each sbatch was given."""
    tools = tmp_path / "stand-ins"
    tools.mkdir()
    for name in ("sbatch", "squeue", "scontrol", "sacct", "sinfo", "scancel"):
        (tools / name).write_text(STAND_IN)
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")

    def run(folder: Path, *arguments: str) -> list[dict[str, str]]:
        options = (*TEST_OPTIONS, "--retries", "0", *arguments)
        result = run_tool(folder, "snakemake", *options, check=False)
        assert result.returncode != 0
        return [_flags(shlex.split(line)) for line in (tools / "submitted").open()]

    return run


def _flags(words: list[str]) -> dict[str, str]:
    """sbatch's long and short options with their values."""
    found, last = {}, ""
    for word in words:
        if word.startswith("-"):
            last, _, value = word.partition("=")
            found[last] = value
        else:
            found[last] = word
    return found


def test_a_dry_run_of_the_profile_plans_the_same_jobs(fresh_toy: Path) -> None:
    forget_runs(fresh_toy)
    local = planned(fresh_toy)
    assert local == {"train": 3, "report": 1, "joined_report": 1}
    assert planned(fresh_toy, *PROFILE) == local


def test_every_rule_asks_for_what_sbatch_needs(repository: Path) -> None:
    profile = yaml.safe_load((repository / "profiles" / "slurm" / "config.yaml").read_text())
    assert profile["executor"] == "slurm"
    assert profile["retries"] > 0
    assert {"mem_mb", "runtime"} <= set(profile["default-resources"])
    for path in (repository / "workflow" / "rules").glob("*.smk"):
        text = path.read_text()
        for rule in text.split("\nrule ")[1:]:
            # a rule's own retries would run again inside each of the profile's
            assert "retries:" not in rule
            if "shell:" in rule:
                for word in ("log:", "benchmark:", "threads:", "mem_mb", "runtime"):
                    assert word in rule, f"{path.name}: rule {rule.split(':')[0]} lacks {word}"


def test_a_run_is_submitted_with_its_limits_and_its_command(
    fresh_toy: Path, submitted: Callable[..., list[dict[str, str]]]
) -> None:
    forget_runs(fresh_toy)
    (flags,) = submitted(fresh_toy, "--", RUN)
    assert flags["-p"] == "main"
    assert flags["-t"] == "240"
    assert flags["--mem"] == "4000"
    assert flags["--cpus-per-task"] == "1"
    assert "--gpus" not in flags
    assert "train" in flags["--comment"]
    assert "dataset=chains-s,setting=public,entry=dp_mlp,epsilon=8,repeat=0" in flags["--wrap"]
    assert "logs/slurm/" in flags["--output"]


def test_four_runs_a_job_need_a_third_of_the_jobs(
    fresh_toy: Path, submitted: Callable[..., list[dict[str, str]]]
) -> None:
    forget_runs(fresh_toy)
    write_study(fresh_toy, with_many_runs(runs_per_job=4))
    assert len(submitted(fresh_toy, "--", "runs")) == 3


def test_an_array_is_one_submission_and_on_a_gpu_each_run_asks_for_one(
    fresh_toy: Path, submitted: Callable[..., list[dict[str, str]]]
) -> None:
    forget_runs(fresh_toy)
    write_study(fresh_toy, with_many_runs())
    array = ("--slurm-array-jobs", "train", "--config", "device=cuda")
    (flags,) = submitted(fresh_toy, *array, "--", "runs")
    assert flags["--array"] == "1-9"
    assert flags["--gpus"] == "1"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A real one-machine SLURM; skips with the reason where it cannot be started."""
    for tool in ("sbatch", "slurmctld", "slurmd", "munged"):
        if shutil.which(tool) is None and not Path("/usr/sbin", tool).exists():
            pytest.skip(f"{tool} is not installed (apt install slurm-wlm munge)")
    if os.geteuid() != 0:
        pytest.skip("starting SLURM's daemons needs root")
    folder = tmp_path_factory.mktemp("slurm")
    up = subprocess.run([HERE / "slurm_up.sh", folder], capture_output=True, text=True, check=False)
    if up.returncode != 0:
        subprocess.run([HERE / "slurm_down.sh", folder], check=False)
        pytest.skip(f"SLURM did not start here: {up.stderr.strip()[-300:]}")
    yield
    subprocess.run([HERE / "slurm_down.sh", folder], check=False)


@pytest.mark.slow
@pytest.mark.slurm
@pytest.mark.usefixtures("cluster")
def test_the_documented_commands_give_a_local_runs_records_on_nodes_without_internet(
    tmp_path: Path,
) -> None:
    text = (ROOT / "docs" / "cluster.md").read_text()
    commands = re.findall(r"^\.venv/bin/dpgnn run STUDY (.*)$", text, re.MULTILINE)[:2]
    on_login_node, on_nodes = (shlex.split(command) for command in commands)
    assert on_login_node[:2] == ["--target", "graphs"]
    folder = copy_repository(tmp_path / "whole")
    study = whole.WHOLE | {"epsilons": ["1", "2", "4", "8"], "runs_per_job": 3}
    write_study(folder, study)
    with whole.internet() as server:
        server.connect(folder)
        whole.finish(folder, *on_login_node)
        assert len(server.ranges) == 1
    shutil.rmtree(folder / "data" / "raw")
    printed = whole.finish(folder, *on_nodes, *TEST_OPTIONS[2:])
    # split, prepared sample, two processes for four runs, report; the joined page is made at once
    assert printed.count(SUBMITTED) == 5
    by_slurm = whole.outcome(folder)
    assert whole.leftovers(folder) == []
    forget_runs(folder)
    for name in ("splits", "prepared"):
        shutil.rmtree(folder / "results" / name)
    whole.finish(folder)
    assert whole.outcome(folder) == by_slurm
    assert planned(folder) == {}


@pytest.mark.slow
@pytest.mark.slurm
@pytest.mark.usefixtures("cluster")
def test_the_quick_study_gives_a_local_runs_records(tmp_path: Path) -> None:
    local, by_slurm = copy_repository(tmp_path / "local"), copy_repository(tmp_path / "slurm")
    whole.finish(local)
    whole.finish(by_slurm, "--target", "graphs")
    printed = whole.finish(by_slurm, "--", *TEST_OPTIONS)
    # nine splits, three samples, one process for all runs, an audit, three attacks on two runs, report
    assert printed.count(SUBMITTED) == 21
    assert len(records(by_slurm)) == 72
    assert whole.outcome(by_slurm) == whole.outcome(local)
    assert whole.leftovers(by_slurm) == []


@pytest.mark.slow
@pytest.mark.slurm
@pytest.mark.usefixtures("cluster")
def test_runs_sent_as_one_array_give_a_local_runs_records(fresh_toy: Path) -> None:
    write_study(fresh_toy, with_many_runs())
    forget_runs(fresh_toy)
    whole.finish(fresh_toy)
    local = whole.outcome(fresh_toy)
    forget_runs(fresh_toy)
    printed = whole.finish(fresh_toy, "--", *TEST_OPTIONS, "--slurm-array-jobs", "train")
    assert printed.count(SUBMITTED_ARRAY) == 1
    assert printed.count(SUBMITTED) == 1  # report
    assert len(records(fresh_toy)) == 9
    assert whole.outcome(fresh_toy) == local
    assert whole.leftovers(fresh_toy) == []


@pytest.mark.slow
@pytest.mark.slurm
@pytest.mark.usefixtures("cluster")
def test_a_failed_job_is_shown_with_its_log_and_its_cause_last(fresh_toy: Path) -> None:
    forget_runs(fresh_toy)
    split = fresh_toy / "results" / "splits" / "chains-s.public.0.parquet"
    split.write_bytes(split.read_bytes()[:200])
    process = whole.start(fresh_toy, "--target", RUN, "--", *TEST_OPTIONS, "--retries", "0")
    printed, _ = process.communicate()
    assert process.returncode != 0
    assert printed.count("must be an undamaged Parquet file") >= 2  # its log, then the cause
    cause, remedy = printed.splitlines()[-2:]
    assert cause.startswith(
        "failed: logs/train/quick/chains-s.public/dp_mlp/eps=8/0.log: dpgnn train:"
    )
    assert "must be an undamaged Parquet file" in cause
    tells(remedy, "same command")
    assert not list((fresh_toy / "results" / "studies").glob("**/record.json"))


@pytest.fixture
def long_run(fresh_toy: Path) -> tuple[Path, dict[str, str]]:
    """A study whose run takes two seconds a step when paced, and the record it has undisturbed."""
    study = copy.deepcopy(TOY) | {"epsilons": ["8"]}
    study["entries"]["dp_mlp"]["options"]["training"]["num_steps"] = LONG_STEPS
    forget_runs(fresh_toy)
    write_study(fresh_toy, study)
    run_tool(fresh_toy, "snakemake", "--cores", "1", "--", RUN)
    expected = records(fresh_toy)
    forget_runs(fresh_toy)
    pace = {"step_seconds": 2.0, "checkpoint_seconds": 5.0}
    (fresh_toy / "pace.json").write_text(json.dumps(pace))
    return fresh_toy, expected


@pytest.mark.slow
@pytest.mark.slurm
@pytest.mark.usefixtures("cluster")
def test_a_job_at_its_time_limit_is_sent_again_and_goes_on(
    long_run: tuple[Path, dict[str, str]],
) -> None:
    folder, expected = long_run
    minutes = ("--set-resources", "train:runtime=attempt")
    printed = whole.finish(folder, "--target", RUN, "--", *TEST_OPTIONS, *minutes)
    assert "SLURM status is: 'TIMEOUT'" in printed
    assert printed.count(SUBMITTED) >= 2
    assert records(folder) == expected
    # SIGTERM comes first: the step in hand is finished and kept
    assert whole.steps_taken(folder) == list(range(1, LONG_STEPS + 1))


@pytest.mark.slow
@pytest.mark.slurm
@pytest.mark.usefixtures("cluster")
def test_cancelled_jobs_leave_nothing_half_written_and_a_rerun_completes(
    long_run: tuple[Path, dict[str, str]],
) -> None:
    folder, expected = long_run
    process = whole.start(folder, "--target", RUN, "--", *TEST_OPTIONS)
    wait_for(lambda: len(steps(folder)) > 3)
    (job,) = queue()
    subprocess.run(["scancel", job], check=True)
    # a cancelled job counts as failed, and is sent again while the driver runs
    wait_for(lambda: queue() not in ([], [job]))
    cancelled_at = len(steps(folder))
    wait_for(lambda: len(steps(folder)) > cancelled_at)
    os.killpg(process.pid, signal.SIGINT)
    printed, _ = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "SLURM status is: 'CANCELLED'" in printed
    wait_for(lambda: not queue())
    whole.check_whole_files(folder)
    assert not records(folder)
    (folder / "pace.json").write_text(json.dumps({"step_seconds": 0, "checkpoint_seconds": 5.0}))
    whole.finish(folder, "--target", RUN, "--", "--cores", "1")
    assert records(folder) == expected
    assert steps(folder) == list(range(1, LONG_STEPS + 1))


def steps(folder: Path) -> list[int]:
    return list(whole.steps_taken(folder)) if (folder / "steps.txt").exists() else []


def queue() -> list[str]:
    """Jobs that wait or run."""
    states = "pending,running,completing,configuring"
    command = ["squeue", "--noheader", "--format", "%i", "--states", states]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def wait_for(reached: Callable[[], bool], seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.5)
