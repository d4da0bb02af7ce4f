"""Trees in files are those in memory, root by root, and a process holds none of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpgnn.core.storage import DamagedFileError
from dpgnn.models.stored_trees import StoredTrees, open_trees, write_trees
from dpgnn.models.trees import Trees, trees_of
from dpgnn.samplers.own_list import OwnList
from dpgnn.samplers.subgraphs import Subgraphs

SIZE, HOPS = 90, 2
NAMES = ("node", "row_ptr", "level_rows", "entry_ptr", "entry_row", "entry_weight", "y")


def a_sample() -> tuple[Subgraphs, np.ndarray]:
    """Two-hop subgraphs of every other node, and labels; some roots read nobody."""
    arcs = np.argwhere(np.random.default_rng(0).random((SIZE, SIZE)) < 0.03).T
    sampler = OwnList(max_degree=4, num_hops=HOPS)
    found = sampler.sample(
        arcs, num_nodes=SIZE, train_idx=np.arange(0, SIZE, 2), rng=np.random.default_rng(1)
    )
    return found, np.arange(SIZE) % 3


def stored(folder: Path, conv: Any, piece: int) -> tuple[Trees, StoredTrees]:
    """All trees in memory, and in files that were written piece by piece."""
    sample, y = a_sample()
    parts = [
        sample.select(np.arange(first, min(first + piece, len(sample))))
        for first in range(0, len(sample), piece)
    ]
    blocks = [(part.roots, trees_of(part, y, num_hops=HOPS, conv=conv)) for part in parts]
    write_trees(folder, "this", blocks, HOPS)
    found = open_trees(folder, "this", y)
    assert found is not None
    return trees_of(sample, y, num_hops=HOPS, conv=conv), found


@pytest.mark.parametrize("conv", ["gcn", "sage"])
@pytest.mark.parametrize("piece", [1, 7, 45])
def test_what_is_read_of_some_roots_is_theirs(tmp_path: Path, conv: str, piece: int) -> None:
    whole, found = stored(tmp_path / "trees", conv, piece)
    assert found.num_roots == whole.num_roots == 45
    everyone, places = found.of(np.arange(45))
    for name in NAMES:
        first, second = getattr(whole, name), getattr(everyone, name)
        np.testing.assert_array_equal(first, second)
        assert first.dtype == second.dtype, name
    assert places.tolist() == list(range(45))
    some = np.array([44, 3, 3, 17, 0])
    trees, places = found.of(some)
    for root, place in zip(some, places):
        own, kept = (slice(*t.row_ptr[i : i + 2]) for t, i in ((whole, root), (trees, place)))
        np.testing.assert_array_equal(whole.node[own], trees.node[kept])
        for row, other in zip(range(own.start, own.stop), range(kept.start, kept.stop)):
            first = slice(*whole.entry_ptr[row : row + 2])
            second = slice(*trees.entry_ptr[other : other + 2])
            np.testing.assert_array_equal(whole.entry_row[first], trees.entry_row[second])
            np.testing.assert_array_equal(whole.entry_weight[first], trees.entry_weight[second])
    assert found.of(np.zeros(0, np.int64))[0].num_roots == 0


def test_trees_of_something_else_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "trees"
    assert open_trees(folder, "this", np.zeros(SIZE, np.int64)) is None
    stored(folder, "gcn", 20)
    with pytest.raises(DamagedFileError, match="must hold trees of this sample, got others"):
        open_trees(folder, "that", np.zeros(SIZE, np.int64))
    node = folder / "node.npy"
    whole = node.read_bytes()
    for other in (whole[:-8], whole[:-1] + bytes([whole[-1] ^ 1])):
        node.write_bytes(other)
        with pytest.raises(DamagedFileError, match=r"node\.npy must be as it was made, got other"):
            open_trees(folder, "this", np.zeros(SIZE, np.int64))
