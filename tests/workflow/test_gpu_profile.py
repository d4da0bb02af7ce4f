"""Runs share one GPU by slots: what Snakemake would ask for, without a GPU."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from helpers import TOY, dry_run, run_tool, write_study

GPU = ("--workflow-profile", "profiles/gpu", "--config", "device=cuda")


def asked(folder: Path, *arguments: str) -> list[int]:
    """The slots that each training job of a dry run asks for."""
    text = dry_run(folder, "--forceall", *arguments)
    jobs = re.findall(r"^rule train\w*:.*?^    resources: ([^\n]*)", text, re.MULTILINE | re.DOTALL)
    return [int(slots) for job in jobs for slots in re.findall(r"\bgpu=(\d+)", job)]


def test_four_runs_share_a_gpu_and_a_run_may_take_more_slots(fresh_toy: Path) -> None:
    profile = yaml.safe_load((fresh_toy / "profiles" / "gpu" / "config.yaml").read_text())
    assert profile["resources"] == {"gpu": 4}
    assert asked(fresh_toy, *GPU) == [1, 1, 1]
    assert asked(fresh_toy, *GPU, "--set-resources", "train:gpu=2") == [2, 2, 2]
    # without the GPU a run asks for none
    assert set(asked(fresh_toy)) <= {0}


def test_dpgnn_run_on_a_gpu_takes_four_slots_and_trains_there(fresh_toy: Path) -> None:
    words = ("dpgnn", "run", "config.yaml", "--device", "cuda", "--", "-n", "--forceall")
    text = run_tool(fresh_toy, *words, "--workflow-profile", "profiles/gpu").stdout
    jobs = re.findall(r"^rule train\w*:.*?(?=^rule |\Z)", text, re.MULTILINE | re.DOTALL)
    trained = [job for job in jobs if " train " in job]
    assert len(trained) == 3
    assert all("gpu=1" in job and "--device cuda" in job for job in trained)


def test_several_runs_in_one_process_and_several_processes_for_one_run_ask_for_their_cores(
    fresh_toy: Path,
) -> None:
    write_study(fresh_toy, TOY | {"runs_per_job": 2, "num_processes": 2, "num_threads": 2})
    assert asked(fresh_toy, *GPU) == [1, 1]
    text = dry_run(fresh_toy, "--forceall", "--cores", "8")
    assert text.count("    threads: 4") == 2
