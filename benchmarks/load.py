"""What large studies cost beside their training: a dry run of 5,000 runs, a report of 10,000 cells.

Records of the report are one real record under other keys, options and scores, so that nothing is trained.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from dpgnn.core import storage
from dpgnn.records import schema
from dpgnn.study.study import load_study

ROOT = Path(__file__).resolve().parents[1]
DRY_RUNS, DRY_GOAL = 5000, 15.0
CELLS, REPORT_GOAL, REPORT_GOAL_MB = 10_000, 60.0, 2048.0
PLACE = {
    "name": "load", "title": "A large study", "root_seed": 1, "repeats": 1,
    "datasets": {"chains-s": {"settings": ["public"]}}, "settings": {"public": {"kind": "public"}},
}  # fmt: skip
PRIVATE = {"method": "dp_mlp", "mode": "sound", "privacy_unit": "node", "relation": "add-remove"}
SHORT = {"num_steps": 5, "expected_batch_size": "full"}


def costs(*words: str, cwd: Path) -> tuple[float, float]:
    """Processor seconds of a command and its children, and the peak of memory of the largest, in MB.

    The command runs in a process of its own, so that the peak is not that of an earlier one.
    """
    code = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True, capture_output=True)\n"
        "spent = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(spent.ru_utime + spent.ru_stime, spent.ru_maxrss / 1024)\n"
    )
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, sys.executable, "-m", *words]
    ran = subprocess.run(command, cwd=cwd, env=environment, check=True, capture_output=True)
    seconds, memory = ran.stdout.split()
    return float(seconds), float(memory)


def dry_run(folder: Path) -> dict[str, float]:
    """`snakemake --dry-run` of 5,000 runs, 50 a process, from nothing."""
    stated = PLACE | {
        "epsilons": [str(number) for number in range(1, 11)], "repeats": 100, "runs_per_job": 50,
        "entries": {f"dp_mlp-{i}": PRIVATE | {"options": {"width": 8 + i}} for i in range(5)},
    }  # fmt: skip
    for name in ("Snakefile", "workflow", "profiles", "dpgnn", "envs", "data", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(stated))
    assert len(load_study(path).keys) == DRY_RUNS
    words = ("snakemake", "--dry-run", "--quiet", "all", "--cores", "1")
    seconds, memory = costs(*words, cwd=folder)
    return {"runs": DRY_RUNS, "seconds": seconds, "memory_mb": memory}


def write_records(folder: Path, study_file: Path) -> int:
    """Make one run of a study, and records of all others from it; how many there are."""
    study = load_study(study_file)
    first = study.keys[0]
    graph, split = "results/graphs/chains-s", "results/splits/chains-s.public.0.parquet"
    for words in (
        f"dpgnn data prepare chains-s --out {graph}",
        f"dpgnn split --graph {graph} --dataset chains-s --setting public --repeat 0 --root-seed 1 "
        f"--kind public --out {split}",
        f"dpgnn train --study {study_file.name} --run {first.folder}",
    ):
        costs(*words.split(), cwd=folder)
    runs = folder / "results" / "studies" / study.name / "runs"
    record = schema.read_record(runs / first.folder / "record.json")
    rng = np.random.default_rng(0)
    for key in study.keys[1:]:
        entry = study.entries[key.entry]
        test = {**record.metrics["test"], "accuracy": float(rng.random())}
        claims = [dict(claim) | {"epsilon": float(key.epsilon)} for claim in record.claims]
        other: Any = replace(
            record,
            key={**record.key, "entry": key.entry, "epsilon": key.epsilon, "repeat": key.repeat},
            entry={**asdict(entry), "title": entry.name},
            claims=tuple(claims),
            budget={
                **record.budget, "target_epsilon": float(key.epsilon), "spent_epsilon": float(key.epsilon),
            },
            metrics={**record.metrics, "test": test},
        )  # fmt: skip
        storage.write_json(runs / key.folder / "record.json", other)
    return len(study.keys)


def report(folder: Path) -> dict[str, float]:
    """`dpgnn report` of 10,000 cells: an entry with 1,000 options at ten budgets."""
    options = {"width": 8, "training": SHORT}
    rates = [round(0.001 * (i + 1), 3) for i in range(CELLS // 10)]
    swept = {"extends": "dp_mlp", "sweep": {"options.training.optimizer.lr": rates}}
    stated = PLACE | {
        "epsilons": [str(number) for number in range(1, 11)],
        "entries": {"dp_mlp": PRIVATE | {"options": options}, "dp_mlp-lr": swept},
    }
    path = folder / "load.yaml"
    path.write_text(yaml.safe_dump(stated))
    cells = write_records(folder, path)
    words = ("dpgnn", "report", "--study", path.name, "--out", "results/studies/load")
    seconds, memory = costs(*words, cwd=folder)
    size = (folder / "results/studies/load/report.html").stat().st_size / 1e6
    return {"cells": cells, "seconds": seconds, "memory_mb": memory, "page_mb": size}


def measure() -> dict[str, dict[str, float]]:
    """Both."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        return {"dry run": dry_run(Path(one)), "report": report(Path(two))}


def as_lines(found: dict[str, dict[str, float]]) -> list[str]:
    """A table of them."""
    dry, page = found["dry run"], found["report"]
    rows = (
        (f"dry run of {dry['runs']:,.0f} runs, 50 a process", dry, f"{DRY_GOAL:g} s",
         dry["seconds"] <= DRY_GOAL),
        (f"report of {page['cells']:,.0f} cells ({page['page_mb']:.1f} MB)", page,
         f"{REPORT_GOAL:g} s, {REPORT_GOAL_MB:,.0f} MB",
         page["seconds"] <= REPORT_GOAL and page["memory_mb"] <= REPORT_GOAL_MB),
    )  # fmt: skip
    lines = ["| large studies | seconds | peak MB | goal |", "| --- | --- | --- | --- |"]
    for name, row, goal, is_met in rows:
        met = "met" if is_met else "missed"
        lines += [f"| {name} | {row['seconds']:.1f} | {row['memory_mb']:.0f} | {goal}: {met} |"]
    return lines


if __name__ == "__main__":
    print("\n".join(as_lines(measure())))
