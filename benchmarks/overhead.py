"""What a process costs beside its runs, and what that makes of the quick study.

Seconds are of processor time, user and system, of the process and its children, so that other processes
disturb them little. A further run in the same process costs what the run itself costs; what the first costs
more is the process: Python, imports, the study, the graph.

python -m benchmarks.overhead            a few minutes; writes benchmarks/overhead.json, docs/overhead.md
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks import load
from dpgnn.core import storage
from dpgnn.study.study import RunKey, Study, load_study

ROOT = Path(__file__).resolve().parents[1]
GOAL_SECONDS, GOAL_SHARE = 2.0, 0.10
STARTS = {
    "python": ("-c", "pass"),
    "dpgnn --version": ("-m", "dpgnn", "--version"),
    "import torch": ("-c", "import torch"),
}
# what a private run's process loads beside a plain one's: special functions, root finding, compiled loops
LOADED = ("scipy.special", "scipy.optimize", "numba", "numba's first compiled function")
LOAD = """\
import gc; gc.disable()  # as `dpgnn train` does
import numpy, torch, dpgnn.study.study
from time import process_time
marks = [process_time()]
import scipy.special; marks.append(process_time())
import scipy.optimize; marks.append(process_time())
import numba; marks.append(process_time())
from dpgnn.accountants._kernels import discounted_sums
discounted_sums(numpy.zeros(1), 0.5); marks.append(process_time())
print(*numpy.diff(marks))
"""
SMALLEST = "chains-s"
NOTE = """\
Runs' seconds are measured, those of processes are summed from the costs above. The runs of the quick study
are so short that importing torch alone outweighs most of them; `runs_per_job` lets as many share one process
(12 in config.yaml). A process makes runs on one data set, as they are rerun together too. The table above
was measured when a process made runs of one entry only.

Beside other work a number is good to a few tenths of a second; a run's is the difference of two of them."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Processor seconds of training processes.

    Attributes:
        process: beside the runs, of one process.
        run: of one run of the smallest data set.
    """

    process: float
    run: float


def processor_seconds(*arguments: str, cwd: Path = ROOT) -> float:
    """Processor time of a Python process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # byte code is kept, as it is by default
    subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, check=True, capture_output=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def loaded_seconds() -> list[float]:
    """Processor time of what `LOADED` names, each after those before it in one process."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", LOAD], cwd=ROOT, env=environment, check=True, capture_output=True
    )
    return [float(word) for word in ran.stdout.split()]


def make_inputs(study: Study, folder: Path) -> dict[str, float]:
    """Graphs and splits; seconds of each kind of process. Only the smallest data set has several repeats."""
    seconds: dict[str, list[float]] = {"graph": [], "split": []}
    for name, dataset in study.config.datasets.items():
        graph = folder / "results" / "graphs" / name
        command = ("-m", "dpgnn", "data", "prepare", name, "--out", str(graph))
        seconds["graph"].append(processor_seconds(*command))
        repeats = study.config.repeats if name == SMALLEST else 1
        for setting, repeat in itertools.product(dataset.settings, range(repeats)):
            recipe = storage.canonical_json(study.config.settings[setting])
            seconds["split"].append(
                processor_seconds(
                    "-m", "dpgnn", "split", "--graph", str(graph), "--dataset", name, "--setting",
                    setting, "--repeat", str(repeat), "--root-seed", str(study.config.root_seed),
                    "--setting-json", recipe, "--out",
                    str(folder / "results" / "splits" / f"{name}.{setting}.{repeat}.parquet"),
                )
            )  # fmt: skip
    return {kind: min(values) for kind, values in seconds.items()}


def train_seconds(keys: list[RunKey], folder: Path) -> float:
    """Processor time of one process that makes these runs."""
    runs = [word for key in keys for word in ("--run", key.folder)]
    with tempfile.TemporaryDirectory(dir=folder) as fresh:
        for kind in ("graphs", "splits"):
            target = Path(fresh) / "results" / kind
            target.parent.mkdir(exist_ok=True)
            target.symlink_to(folder / "results" / kind)
        study = str(ROOT / "config.yaml")
        return processor_seconds("-m", "dpgnn", "train", "--study", study, *runs, cwd=Path(fresh))


def cost_of(keys: list[RunKey], folder: Path, rounds: int) -> Cost:
    """From processes with one run and with all of `keys`, in turn."""
    one = [train_seconds(keys[:1], folder) for _ in range(rounds)]
    all_of_them = [train_seconds(keys, folder) for _ in range(rounds)]
    run = (min(all_of_them) - min(one)) / (len(keys) - 1)
    return Cost(process=min(one) - run, run=run)


def measure(rounds: int) -> dict[str, object]:
    """All numbers."""
    starts = {
        name: min(processor_seconds(*arguments) for _ in range(rounds))
        for name, arguments in STARTS.items()
    }
    loaded = [loaded_seconds() for _ in range(rounds)]
    study = load_study(ROOT / "config.yaml")
    first = [key for key in study.keys if key.repeat == 0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inputs = make_inputs(study, folder)
        costs = {}
        for entry in study.entries:
            keys = [key for key in study.keys if key.entry == entry and key.dataset == SMALLEST]
            costs[entry] = cost_of(keys, folder, rounds)
        work = min(train_seconds(first, folder) for _ in range(rounds)) - max(
            cost.process for cost in costs.values()
        )
    runs_seconds = work * study.config.repeats
    groups = Counter((key.dataset, key.setting, key.entry) for key in study.keys)
    processes = {
        "runs_per_job 1": [costs[key.entry].process for key in study.keys],
        f"runs_per_job {max(groups.values())}": [costs[entry].process for *_, entry in groups],
        "all in one process (not offered)": [max(cost.process for cost in costs.values())],
    }
    return {
        "starts": starts,
        "other stages": inputs,
        "processes": {entry: vars(cost) for entry, cost in costs.items()},
        "loaded": dict(zip(LOADED, map(min, zip(*loaded, strict=True)), strict=True)),
        "quick": {
            name: {
                "processes": len(each),
                "process_seconds": sum(each),
                "run_seconds": runs_seconds,
                "share": sum(each) / (sum(each) + runs_seconds),
            }
            for name, each in processes.items()
        },
        "large": load.measure(),
        "cpu": _cpu(),
        "load": os.getloadavg()[0],
    }


def as_markdown(found: Mapping[str, object]) -> str:
    """The numbers as a page."""
    read = json.loads(json.dumps(found))
    lines = [
        "# What a process costs",
        "",
        "Processor seconds by `python -m benchmarks.overhead`, the smallest of each kind since load only "
        f"adds; {read['cpu']}, load {read['load']:.0f} while it ran.",
        "",
        "| process | seconds |",
        "| --- | --- |",
    ]
    lines += [f"| {name} | {value:.2f} |" for name, value in read["starts"].items()]
    lines += [
        f"| `dpgnn`, {name} stage | {value:.2f} |" for name, value in read["other stages"].items()
    ]
    for entry, cost in read["processes"].items():
        met = "met" if cost["process"] < GOAL_SECONDS else "missed"
        words = f"`dpgnn train` of {entry}, beside its runs (goal: under {GOAL_SECONDS:g}: {met})"
        lines += [f"| {words} | {cost['process']:.2f} |"]
        lines += [f"| one run of {entry} on {SMALLEST} | {cost['run']:.2f} |"]
    parts = ", ".join(f"{name} {value:.2f}" for name, value in read["loaded"].items())
    lines += ["", f"A private run's process loads beside a plain one's: {parts}."]
    lines += ["", "| quick study | processes | their seconds | runs' seconds | share | goal 10 % |"]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    for name, row in read["quick"].items():
        met = "met" if row["share"] < GOAL_SHARE else "missed"
        lines += [
            f"| {name} | {row['processes']} | {row['process_seconds']:.0f} | {row['run_seconds']:.0f} | "
            f"{100 * row['share']:.0f} % | {met} |"
        ]
    lines += ["", NOTE]
    if "large" in read:
        lines += ["", *load.as_lines(read["large"])]
    return "\n".join(lines) + "\n"


def _cpu() -> str:
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = [line.split(":")[1].strip() for line in text.splitlines() if "model name" in line]
    return f"{os.cpu_count()} x {names[0] if names else 'unknown processor'}"


def main(arguments: list[str] | None = None) -> int:
    """Measure and write; always 0, since a goal missed on a slow machine is no error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6, help="processes of each kind")
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks" / "overhead.json")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "overhead.md")
    options = parser.parse_args(arguments)
    found = measure(options.rounds)
    storage.write_json(options.json, found)
    storage.write_text(options.page, as_markdown(found))
    print(as_markdown(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
