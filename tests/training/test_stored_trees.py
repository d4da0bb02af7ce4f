"""A process that shares a run reads the trees of its own roots alone, and holds none of the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpgnn.models.stored_trees import open_trees, write_trees
from dpgnn.models.trees import Trees
from dpgnn.training.clipping import global_clipping
from dpgnn.training.gradients import Execution
from dpgnn.training.shared import root_gradients

ARRAYS = ("node", "row_ptr", "level_rows", "entry_ptr", "entry_row", "entry_weight", "y")
COPIES = 8_000


def many(trees: Trees, copies: int) -> Trees:
    """The same trees again and again."""

    def ends(pointer: np.ndarray) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(np.tile(np.diff(pointer), copies))])

    tiled = {
        name: np.tile(getattr(trees, name), copies)
        for name in ("node", "entry_row", "entry_weight", "y")
    }
    return replace(
        trees, **tiled, row_ptr=ends(trees.row_ptr), entry_ptr=ends(trees.entry_ptr),
        level_rows=np.tile(trees.level_rows, (copies, 1)),
    )  # fmt: skip


def status(process: int, field: str) -> int:
    """Bytes of a field of a process's status."""
    text = Path(f"/proc/{process}/status").read_text()
    return 1024 * int(text.split(f"{field}:")[1].split()[0])


def read_by(process: int) -> int:
    """Bytes that a process has read from files so far."""
    return int(Path(f"/proc/{process}/io").read_text().split("rchar: ")[1].split()[0])


def test_a_process_holds_and_reads_its_share_of_the_trees(
    make_problem: Callable[..., Any], tmp_path: Path
) -> None:
    problem = make_problem(3, num_roots=41, num_hops=2)
    trees = many(problem.trees, COPIES)
    size = sum(getattr(trees, name).nbytes for name in ARRAYS)
    write_trees(tmp_path / "trees", "these", [(np.zeros(trees.num_roots, np.int64), trees)], 2)
    found = open_trees(tmp_path / "trees", "these", trees.y[:1])
    assert found is not None
    stored = replace(found, y=trees.y)
    batch = np.random.default_rng(0).choice(trees.num_roots, 20_000, replace=False)
    share = stored.of(batch)[0]
    wanted = sum(getattr(share, name).nbytes for name in ARRAYS[:1] + ARRAYS[3:6])
    sums, held, read = [], [], []
    for given in (trees, stored):
        with root_gradients(
            problem.network, problem.x, given, clipping=global_clipping(0.3),
            execution=Execution(), num_processes=2,
        ) as gradients:  # fmt: skip
            (worker,) = gradients._workers  # type: ignore[attr-defined]
            gradients(problem.parameters.float(), batch)
            before = read_by(worker.pid)
            sums.append(gradients(problem.parameters.float(), batch).clone())
            read.append(read_by(worker.pid) - before)
            held.append(status(worker.pid, "VmRSS"))
    assert torch.equal(*sums)
    kept = sum(getattr(stored, name).nbytes for name in ARRAYS)
    assert kept < size / 4  # of 20 to 28 bytes a root
    assert held[0] - held[1] > 0.7 * (size - kept), (held, size, kept)
    assert 0.4 * wanted < read[1] < 0.6 * wanted, (read, wanted)
