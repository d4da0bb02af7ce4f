"""A synthetic graph that is written in pieces, its split, and a study of one DP-GNN run on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml

PIECE = 1 << 20
NUM_FEATURES, NUM_CLASSES, DEGREE = 16, 4, 10
NAME, SETTING, ENTRY = "scale", "all", "gnn"
RUN = f"{NAME}.{SETTING}/{ENTRY}/eps=8/0"


def pieces(num_arcs: int, num_nodes: int, num_features: int = NUM_FEATURES) -> Any:
    """A directed graph: heavy-tailed sources (rank^-0.6), uniform targets; features tell the class a little.

    Each piece has a generator of its own, so pieces are the same whoever makes them, and when.
    """
    from dpgnn.data.files.pieces import Pieces
    from dpgnn.data.files.streaming import Header

    def nodes() -> Iterator[Any]:
        for first in range(0, num_nodes, 1 << 16):
            size = min(1 << 16, num_nodes - first)
            rng = np.random.default_rng([1, first])
            x = rng.standard_normal((size, num_features), dtype=np.float32)
            y = rng.integers(0, NUM_CLASSES, size)
            x[np.arange(size), y] += 1
            yield x, y, {}

    def edges() -> Iterator[Any]:
        for first in range(0, num_arcs, PIECE):
            size = min(PIECE, num_arcs - first)
            rng = np.random.default_rng([2, first])
            rank = (rng.random(size) ** 2.5 * num_nodes).astype(np.int64)
            yield (rank * 2_654_435_761) % num_nodes, rng.integers(0, num_nodes, size)

    header = Header(
        name=NAME, num_nodes=num_nodes, num_features=num_features, num_classes=NUM_CLASSES,
        expected_edges=num_arcs, directed=True,
    )  # fmt: skip
    return Pieces(header=header, nodes=nodes, edges=edges)


def write_split(path: Path, num_nodes: int) -> None:
    """One percent of the nodes each for training, validation and test."""
    from dpgnn.data import splits

    order = np.random.default_rng(3).permutation(num_nodes)
    few = max(num_nodes // 100, 10)
    train, val, test = (np.sort(order[i * few : (i + 1) * few]) for i in range(3))
    split = splits.Split(train_idx=train, val_idx=val, test_idx=test, inductive=False)
    splits.write_split(path, split, num_nodes=num_nodes)


def write_study(folder: Path, num_steps: int, batch_size: int) -> None:
    """config.yaml: one private run of DP-GNN with own lists, and a folder that makes the name known."""
    options = {
        "num_hops": 1, "max_degree": 7, "symmetrize": False,
        "training": {"num_steps": num_steps, "expected_batch_size": batch_size},
    }  # fmt: skip
    entry = {
        "method": "dp_gnn", "mode": "sound", "privacy_unit": "node-record",
        "relation": "add-remove", "options": options,
    }  # fmt: skip
    study = {
        "name": NAME, "title": "A large synthetic graph", "root_seed": 0, "repeats": 1,
        "epsilons": ["8"], "delta": "auto", "num_threads": 1, "randomness": "study",
        "datasets": {NAME: {"settings": [SETTING]}}, "settings": {SETTING: {"kind": "random"}},
        "entries": {ENTRY: entry},
    }  # fmt: skip
    (folder / "data" / "own" / NAME).mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(study))
