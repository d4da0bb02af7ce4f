"""What large studies cost beside their training: a dry run of 5,000 runs, a report of 10,000 cells, and the
memory that an own graph of 50 million edges takes until its first run.

Records of the report are one real record under other keys, options and scores, so that nothing is trained.
"""

from __future__ import annotations

import json
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
from dpgnn.study.memory import to_prepare, to_read
from dpgnn.study.study import load_study

ROOT = Path(__file__).resolve().parents[1]
DRY_RUNS, DRY_GOAL = 5000, 15.0
OWN_NODES, OWN_EDGES, OWN_FEATURES, OWN_GOAL_MB = 2_000_000, 50_000_000, 16, 4000.0
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


def link_repository(folder: Path) -> None:
    """What a workflow needs beside its study."""
    for name in ("Snakefile", "workflow", "profiles", "dpgnn", "envs", "data", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)


def dry_run(folder: Path) -> dict[str, float]:
    """`snakemake --dry-run` of 5,000 runs, 50 a process, from nothing."""
    stated = PLACE | {
        "epsilons": [str(number) for number in range(1, 11)], "repeats": 100, "runs_per_job": 50,
        "entries": {f"dp_mlp-{i}": PRIVATE | {"options": {"width": 8 + i}} for i in range(5)},
    }  # fmt: skip
    link_repository(folder)
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


def write_own_graph(folder: Path) -> None:
    """Two Parquet tables with random edges and features."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    columns = {f"f{i}": rng.standard_normal(OWN_NODES, np.float32) for i in range(OWN_FEATURES)}
    labels = rng.integers(0, 10, OWN_NODES)
    pq.write_table(pa.table({**columns, "label": labels}), folder / "nodes.parquet")
    ends = {end: rng.integers(0, OWN_NODES, OWN_EDGES) for end in ("source", "target")}
    pq.write_table(pa.table(ends), folder / "edges.parquet")
    options = ("num_classes: 10", "drop_duplicates: true", "drop_self_loops: true")
    (folder / "graph.yaml").write_text("\n".join(options) + "\n")


def own_graph(folder: Path) -> dict[str, dict[str, float]]:
    """From two Parquet tables to the first run: each stage, with the memory that its rule asks for."""
    own = folder / "data" / "own" / "mine"
    own.mkdir(parents=True)
    write_own_graph(own)
    recipe = {"kind": "random", "train_fraction": 0.1, "val_fraction": 0.1}
    options = {"hidden": [8], "training": {"num_epochs": 1}}
    stated = PLACE | {
        "datasets": {"mine": {"settings": ["random"]}}, "settings": {"random": recipe}, "epsilons": ["8"],
        "entries": {"mlp": {"method": "mlp", "mode": "nonprivate", "options": options}},
    }  # fmt: skip
    (folder / "load.yaml").write_text(yaml.safe_dump(stated))
    graph = "results/graphs/mine"
    commands = {
        "prepare": ("data", "prepare", "mine", "--out", graph),
        "split": ("split", "--graph", graph, "--dataset", "mine", "--setting", "random", "--repeat", "0",
                  "--root-seed", "1", "--setting-json", json.dumps(recipe),
                  "--out", "results/splits/mine.random.0.parquet"),
        "train": ("train", "--study", "load.yaml", "--run", "mine.random/mlp/eps=inf/0"),
    }  # fmt: skip
    asked = {"prepare": to_prepare, "split": to_read, "train": to_read}
    found = {}
    for stage, words in commands.items():
        seconds, memory = costs("dpgnn", *words, cwd=folder)
        limit = float(asked[stage]("mine", folder / "data" / "own"))
        found[stage] = {"seconds": seconds, "memory_mb": 1.024**2 * memory, "asked_mb": limit}
    return found


def measure() -> dict[str, Any]:
    """All."""
    found: dict[str, Any] = {}
    for name, part in (("dry run", dry_run), ("report", report), ("own graph", own_graph)):
        with tempfile.TemporaryDirectory() as folder:
            found[name] = part(Path(folder))
    return found


def as_lines(found: dict[str, Any]) -> list[str]:
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
    lines += [
        "",
        f"An own graph of {OWN_NODES:,} nodes, {OWN_FEATURES} features and {OWN_EDGES:,} undirected edges, "
        f"in two Parquet tables (goal of the first row: {OWN_GOAL_MB:,.0f} MB):", "",
        "| `dpgnn` stage | seconds | peak MB | its rule asks for MB |", "| --- | --- | --- | --- |",
    ]  # fmt: skip
    for stage, row in found["own graph"].items():
        met = "met" if row["memory_mb"] <= row["asked_mb"] else "missed"
        lines += [
            f"| {stage} | {row['seconds']:.1f} | {row['memory_mb']:,.0f} | {row['asked_mb']:,.0f}: {met} |"
        ]
    return lines


if __name__ == "__main__":
    print("\n".join(as_lines(measure())))
