"""Shared fixtures: small graphs written in the open, the mirror folder, a copy of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT, copy_repository, run_tool, two_community_graph

from dpgnn.data.graph import Graph
from dpgnn.data.splits import Split

__all__ = ["copy_repository", "run_tool", "two_community_graph"]


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
