"""What a process costs beside its runs, and what that makes of the quick study.

Seconds are of processor time, user and system, of the process and its children, so that other processes
disturb them little. A process that makes its runs once, and one that makes them twice in new folders, differ
by what the runs themselves cost; the rest of the first is the process: Python, imports, compiled code that is
loaded, the study, the graph.

python -m benchmarks.overhead            some minutes; writes benchmarks/overhead.json, docs/overhead.md
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import load
from dpgnn.core import storage
from dpgnn.study.chunks import run_groups
from dpgnn.study.study import RunKey, Study, load_study

ROOT = Path(__file__).resolve().parents[1]
GOAL_SECONDS, GOAL_SHARE = 2.0, 0.30
SIZES = (36, 72)  # runs a process that are tried
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
The runs of the quick study are so short that importing torch alone outweighs most of them; `runs_per_job`
lets as many share one process (72 in config.yaml), those on different small graphs too. What the second
making of the same runs finds ready, such as a noise that was calibrated, counts as the process's.

Beside other work a number is good to a few tenths of a second; a run's is the difference of two of them."""
# the same command in one folder after the other, in one process
IN_TURN = """\
import os, sys
from dpgnn.__main__ import main
for folder in sys.argv[1].split(os.pathsep):
    os.chdir(folder)
    if code := main(sys.argv[2:]):
        sys.exit(code)
"""


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


def make_inputs(folder: Path, rounds: int) -> dict[str, float]:
    """Make graphs, splits and samples of the quick study; seconds of two kinds of process on the smallest."""
    load.link_repository(folder)
    (folder / "config.yaml").symlink_to(ROOT / "config.yaml")
    load.costs(
        "snakemake", "--quiet", "all", "--cores", "1", "--", "splits", "prepared", cwd=folder
    )
    graph = folder / "results" / "graphs" / SMALLEST
    commands = {
        "graph": ("data", "prepare", SMALLEST, "--out", "again"),
        "split": ("split", "--graph", str(graph), "--dataset", SMALLEST, "--setting", "public",
                  "--repeat", "0", "--root-seed", "1", "--kind", "public", "--out", "again.parquet"),
    }  # fmt: skip
    return {
        kind: min(processor_seconds("-m", "dpgnn", *words, cwd=folder) for _ in range(rounds))
        for kind, words in commands.items()
    }


def train_seconds(keys: list[RunKey], folder: Path, *, times: int) -> float:
    """Processor time of one process that makes these runs so many times, each time in a new folder."""
    runs = [word for key in keys for word in ("--run", key.folder)]
    with tempfile.TemporaryDirectory(dir=folder) as fresh:
        places = [Path(fresh) / str(number) for number in range(times)]
        for place in places:
            (place / "results").mkdir(parents=True)
            for kind in ("graphs", "splits", "prepared"):
                (place / "results" / kind).symlink_to(folder / "results" / kind)
        study = ("train", "--study", str(ROOT / "config.yaml"))
        return processor_seconds("-c", IN_TURN, os.pathsep.join(map(str, places)), *study, *runs)


def cost_of(keys: list[RunKey], folder: Path, rounds: int) -> Cost:
    """From processes that make `keys` once and twice, in turn."""
    pairs = [[train_seconds(keys, folder, times=times) for times in (1, 2)] for _ in range(rounds)]
    once, twice = (min(seconds) for seconds in zip(*pairs, strict=True))
    return Cost(process=2 * once - twice, run=(twice - once) / len(keys))


def shares(study: Study, folder: Path, rounds: int) -> dict[str, dict[str, float]]:
    """What the training processes of the quick study cost beside their runs, by runs a process."""
    found = {}
    for size in SIZES:
        config = replace(study.config, runs_per_job=size)
        groups = list(run_groups(replace(study, config=config)).values())
        costs = [cost_of(keys, folder, rounds) for keys in groups]
        processes = sum(cost.process for cost in costs)
        runs = sum(cost.run * len(keys) for cost, keys in zip(costs, groups, strict=True))
        found[f"runs_per_job {size}"] = {
            "processes": len(groups),
            "process_seconds": processes,
            "run_seconds": runs,
            "share": processes / (processes + runs),
        }
    return found


def measure_processes(rounds: int) -> dict[str, object]:
    """What single processes cost."""
    starts = {
        name: min(processor_seconds(*arguments) for _ in range(rounds))
        for name, arguments in STARTS.items()
    }
    loaded = [loaded_seconds() for _ in range(rounds)]
    study = load_study(ROOT / "config.yaml")
    with tempfile.TemporaryDirectory() as name:
        inputs = make_inputs(Path(name), rounds)
        costs = {}
        for entry in study.entries:
            keys = [key for key in study.keys if key.entry == entry and key.dataset == SMALLEST]
            if keys:
                costs[entry] = cost_of(keys, Path(name), rounds)
    return {
        "starts": starts,
        "other stages": inputs,
        "processes": {entry: vars(cost) for entry, cost in costs.items()},
        "loaded": dict(zip(LOADED, map(min, zip(*loaded, strict=True)), strict=True)),
    }


def measure_quick(rounds: int) -> dict[str, object]:
    """What the processes of the quick study cost beside their runs."""
    with tempfile.TemporaryDirectory() as name:
        make_inputs(Path(name), 1)
        return {"quick": shares(load_study(ROOT / "config.yaml"), Path(name), rounds)}


def measure_large(rounds: int) -> dict[str, object]:
    """Large studies and an own graph, once each."""
    return {"large": load.measure()}


PARTS = {"processes": measure_processes, "quick": measure_quick, "large": measure_large}


def as_markdown(found: Mapping[str, object]) -> str:
    """The numbers as a page."""
    read = json.loads(json.dumps(found))
    lines = [
        "# What a process costs",
        "",
        "Processor seconds by `python -m benchmarks.overhead`, the smallest of each kind since load only "
        f"adds; {read['cpu']}. The machine's load while each part ran: "
        + ", ".join(f"{part} {value:.0f}" for part, value in read["load"].items())
        + ".",
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
    lines += ["", "| quick study | processes | their seconds | runs' seconds | share | goal 30 % |"]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    for name, row in read["quick"].items():
        met = "met" if row["share"] <= GOAL_SHARE else "missed"
        lines += [
            f"| {name} | {row['processes']} | {row['process_seconds']:.0f} | {row['run_seconds']:.0f} | "
            f"{100 * row['share']:.0f} % | {met} |"
        ]
    lines += ["", NOTE]
    lines += ["", *load.as_lines(read["large"])]
    return "\n".join(lines) + "\n"


def _cpu() -> str:
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = [line.split(":")[1].strip() for line in text.splitlines() if "model name" in line]
    return f"{os.cpu_count()} x {names[0] if names else 'unknown processor'}"


def main(arguments: list[str] | None = None) -> int:
    """Measure and write; always 0, since a goal missed on a slow machine is no error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each kind")
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks" / "overhead.json")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "overhead.md")
    parser.add_argument(
        "--part", action="append", choices=[*PARTS], help="measure this part alone; the others stay"
    )
    options = parser.parse_args(arguments)
    found = storage.read_json(options.json) if options.part else {"load": {}}
    for part in options.part or PARTS:
        found |= PARTS[part](options.rounds)
        found["load"][part] = os.getloadavg()[0]
    found["cpu"] = _cpu()
    storage.write_json(options.json, found)
    storage.write_text(options.page, as_markdown(found))
    print(as_markdown(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
