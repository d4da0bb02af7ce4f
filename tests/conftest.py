"""Shared fixtures: small graphs written in the open, the mirror folder, a copy of the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpgnn.graph import Graph
from dpgnn.splits import Split

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def repository() -> Path:
    """The repository's root folder."""
    return ROOT


@pytest.fixture(scope="session")
def mirror() -> Path:
    """A mirror folder with raw files; skips when there is none."""
    named = os.environ.get("DPGNN_MIRROR", "").split(os.pathsep)[0]
    for folder in (Path(named) if named else None, ROOT.parent / "shared" / "data"):
        if folder is not None and (folder / "MANIFEST.json").exists():
            return folder
    pytest.skip("no mirror folder: set DPGNN_MIRROR to a folder of raw files")


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


@pytest.fixture
def small_graph() -> Graph:
    """60 nodes in two communities."""
    return two_community_graph()


@pytest.fixture
def small_split(small_graph: Graph) -> Split:
    """30 training, 15 validation and 15 test nodes."""
    order = np.random.default_rng(1).permutation(small_graph.num_nodes)
    parts = [np.sort(part) for part in np.split(order, [30, 45])]
    return Split(train_idx=parts[0], val_idx=parts[1], test_idx=parts[2], inductive=False)


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
    return target


def run_tool(folder: Path, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a tool of this environment (`snakemake`, `dvc`, `dpgnn`) in `folder`, on that copy's code."""
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    result = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment, check=False
    )
    if check and result.returncode != 0:
        raise AssertionError(
            f"{' '.join(command)}\n{result.stdout[-6000:]}\n{result.stderr[-6000:]}"
        )
    return result
