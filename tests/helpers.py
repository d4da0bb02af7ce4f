"""What tests share: small graphs, a copy of the repository, running its tools."""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from dpgnn.accountants.plan import Plan
from dpgnn.data.graph import Graph
from dpgnn.data.splits import Split
from dpgnn.methods.base import Context, Entry, PlannedRun, Prepared

ROOT = Path(__file__).resolve().parents[1]


def planned_run(
    entry: Entry,
    graph: Graph,
    split: Split,
    prepared: Prepared | None,
    plan: Plan,
    context: Context,
) -> PlannedRun:
    """What a method's `fit` gets."""
    return PlannedRun(
        entry=entry, graph=graph, split=split, prepared=prepared, plan=plan, context=context
    )


def two_community_graph(num_nodes: int = 60, seed: int = 0) -> Graph:
    """Two communities; features tell the community, and most edges stay inside one."""
    rng = np.random.default_rng(seed)
    y = np.arange(num_nodes) % 2
    x = rng.normal(0, 0.5, (num_nodes, 6)).astype(np.float32)
    x[:, 0] += 2.0 * y - 1.0
    source = rng.integers(0, num_nodes, 4 * num_nodes)
    target = (source + 2 * rng.integers(1, num_nodes // 2, 4 * num_nodes)) % num_nodes
    pairs = np.stack([np.minimum(source, target), np.maximum(source, target)])
    pairs = np.unique(pairs[:, source != target], axis=1)
    edges = np.concatenate([pairs, pairs[::-1]], axis=1).astype(np.int64)
    return Graph(name="two", x=x, edge_index=edges, y=y.astype(np.int64), num_classes=2)


def numbers(text: str) -> list[float]:
    """The numbers of a text in their order; those inside a word do not count."""
    found = re.findall(r"(?<![\w.])[-+\u2212]?\d+(?:,\d{3})*(?:\.\d+)?", text)
    return [float(number.replace("\u2212", "-").replace(",", "")) for number in found]


def tells(text: str, *values: object) -> None:
    """Assert that the values stand in the text in this order; the words around them are free."""
    at = 0
    for value in map(str, values):
        found = text.find(value, at)
        assert found >= 0, f"{value!r} must stand behind {text[:at][-60:]!r} in {text!r}"
        at = found + len(value)


def copy_repository(target: Path) -> Path:
    """A copy of the files git would track, so that a test may run and change a whole workflow."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in listed:
        if (ROOT / name).is_file() and not name.startswith(("docs/reference/", "tests/")):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    bring_compiled(ROOT, target)
    return target


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that `make` fills once a session, also where several processes share the tests."""
    own = factory.getbasetemp()
    made = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / name
    with open(made.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            part = made.with_suffix(".part")
            make(part)
            part.rename(made)  # only what came to its end has the name
    return made


def bring_compiled(source: Path, target: Path) -> None:
    """Copy what Python and numba compiled of a package; both go by size and time of the source file."""
    for path in (source / "dpgnn").rglob("*.py"):
        copied = target / path.relative_to(source)
        if copied.exists() and copied.read_bytes() == path.read_bytes():
            shutil.copystat(path, copied)
    for compiled in (source / "dpgnn").rglob("__pycache__"):
        copied = target / compiled.relative_to(source)
        if copied.parent.is_dir():
            shutil.copytree(compiled, copied, dirs_exist_ok=True)


def run_tool(folder: Path, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a tool of this environment (`snakemake`, `dvc`, `dpgnn`) in `folder`, on that copy's code."""
    result = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=_environment(folder), check=False
    )
    if check and result.returncode != 0:
        raise AssertionError(
            f"{' '.join(command)}\n{result.stdout[-6000:]}\n{result.stderr[-6000:]}"
        )
    return result


def _environment(folder: Path) -> dict[str, str]:
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # byte code is kept, as it is by default
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    return environment


@cache
def _dry_runs() -> subprocess.Popen[str]:
    """The process of dry_runs.py; it ends when its input is closed."""
    server = subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "dry_runs.py")], cwd=ROOT, env=_environment(ROOT),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    atexit.register(server.communicate)
    return server


def dry_run(folder: Path, *arguments: str) -> str:
    """What `snakemake -n ARGUMENTS` prints in `folder`, on that copy's code."""
    server = _dry_runs()
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory() as into:
        out, err = Path(into, "out"), Path(into, "err")
        request = {
            "folder": str(folder), "arguments": ["-n", *arguments],
            "environment": _environment(folder), "out": str(out), "err": str(err),
        }  # fmt: skip
        print(json.dumps(request), file=server.stdin, flush=True)
        code = server.stdout.readline().strip()
        text = out.read_text(encoding="utf-8")
        if code != "0":
            raise AssertionError(f"snakemake -n: {code}\n{text[-6000:]}\n{err.read_text()[-6000:]}")
    return text


TOY: dict[str, Any] = {
    "name": "quick",
    "title": "Toy study",
    "root_seed": 1,
    "repeats": 1,
    "epsilons": ["1", "8"],
    "delta": "auto",
    "num_threads": 1,
    "randomness": "study",
    "baseline": "mlp",
    "datasets": {"chains-s": {"settings": ["public"]}},
    "settings": {"public": {"kind": "public"}},
    "entries": {
        "mlp": {"method": "mlp", "mode": "nonprivate", "options": {"training": {"num_epochs": 5}}},
        "dp_mlp": {
            "method": "dp_mlp",
            "mode": "sound",
            "privacy_unit": "node",
            "relation": "add-remove",
            "options": {"width": 4, "training": {"num_steps": 5, "expected_batch_size": 4}},
        },
    },
}


def write_study(folder: Path, study: dict[str, Any]) -> None:
    """Make `study` the folder's config.yaml."""
    (folder / "config.yaml").write_text(yaml.safe_dump(study, sort_keys=False))


def planned(folder: Path, *arguments: str) -> dict[str, int]:
    """Rule -> number of jobs that Snakemake would run."""
    return jobs_of(dry_run(folder, *arguments))


def jobs_of(text: str) -> dict[str, int]:
    """Rule -> number of jobs, of what a dry run printed."""
    jobs = {}
    if "Job stats" in text:
        table = text.split("Job stats:")[1].split("\n\n")[0]
        for name, count in re.findall(r"^(\w+)\s+(\d+)$", table, re.MULTILINE):
            jobs[name] = int(count)
    jobs.pop("total", None)
    jobs.pop("all", None)
    return jobs


def records(folder: Path) -> dict[str, str]:
    """Path -> sha256 of every record."""
    runs = folder / "results" / "studies" / "quick" / "runs"
    return {
        str(path.relative_to(runs)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(runs.glob("**/record.json"))
    }
