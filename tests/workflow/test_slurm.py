"""The SLURM profile: what it would submit, everywhere; a real submission where SLURM is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from helpers import planned, records, run_tool

HERE = Path(__file__).resolve().parent
# a test cluster has no accounting and its jobs last seconds
TEST_OPTIONS = (
    "--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "1",
    "--default-resources", "slurm_partition=main", "mem_mb=500", "runtime=10",
)  # fmt: skip


def forget_runs(folder: Path) -> None:
    """Remove runs and reports; a final page that stands would hide that what it was made from is gone."""
    shutil.rmtree(folder / "results" / "studies")
    (folder / "results" / "report.html").unlink()


def test_a_dry_run_of_the_profile_plans_the_same_jobs(fresh_toy: Path) -> None:
    forget_runs(fresh_toy)
    local = planned(fresh_toy)
    assert local == {"train": 3, "report": 1, "joined_report": 1}
    assert planned(fresh_toy, "--workflow-profile", "profiles/slurm") == local


def test_every_rule_asks_for_what_sbatch_needs(repository: Path) -> None:
    profile = yaml.safe_load((repository / "profiles" / "slurm" / "config.yaml").read_text())
    assert profile["executor"] == "slurm"
    assert {"mem_mb", "runtime"} <= set(profile["default-resources"])
    for path in (repository / "workflow" / "rules").glob("*.smk"):
        text = path.read_text()
        for rule in text.split("\nrule ")[1:]:
            if "shell:" in rule:
                for word in ("log:", "benchmark:", "threads:", "mem_mb", "runtime"):
                    assert word in rule, f"{path.name}: rule {rule.split(':')[0]} lacks {word}"


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
def test_jobs_sent_through_sbatch_give_the_records_of_a_local_run(fresh_toy: Path) -> None:
    before = records(fresh_toy)
    forget_runs(fresh_toy)
    arguments = ("--workflow-profile", "profiles/slurm", "--latency-wait", "15", *TEST_OPTIONS)
    text = run_tool(fresh_toy, "snakemake", *arguments).stderr
    assert "SLURM jobid" in text
    assert records(fresh_toy) == before
    assert planned(fresh_toy) == {}


@pytest.mark.slow
@pytest.mark.slurm
@pytest.mark.usefixtures("cluster")
def test_a_failed_job_is_shown_with_its_log(fresh_toy: Path) -> None:
    forget_runs(fresh_toy)
    split = fresh_toy / "results" / "splits" / "chains-s.public.0.parquet"
    split.write_bytes(split.read_bytes()[:200])
    result = run_tool(
        fresh_toy, "snakemake", "--workflow-profile", "profiles/slurm", *TEST_OPTIONS, "--",
        "results/studies/quick/runs/chains-s.public/mlp/eps=inf/0/record.json", check=False,
    )  # fmt: skip
    text = result.stdout + result.stderr
    assert result.returncode != 0
    assert "must be an undamaged Parquet file" in text
    assert not list((fresh_toy / "results" / "studies").glob("**/record.json"))
