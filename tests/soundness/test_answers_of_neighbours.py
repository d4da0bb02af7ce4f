"""Answers by brute force: every node but the changed one is asked on all neighbours of a small graph.

What was released, and what nodes keep, stays the same, so an answer that moves reads the changed record.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract import PRIVATE, entry_of, inputs_of
from exhaustive.method_neighbours import small_world
from exhaustive.worlds import World, neighbours
from safetensors.torch import load_file

from dpgnn import methods
from dpgnn.core import seeds
from dpgnn.data.graph import Graph, is_symmetric
from dpgnn.data.splits import Split
from dpgnn.methods.base import Entry, Fitted, Prepared
from dpgnn.run.execute import run_one
from dpgnn.run.record import OWN_ROWS

WORLD = small_world()
SIZE, FEATURES, CLASSES = WORLD.num_nodes, 4, 2
SPLIT = Split(
    train_idx=WORLD.train_idx, val_idx=np.array([SIZE - 2]), test_idx=np.array([SIZE - 1]),
    inductive=False,
)  # fmt: skip
# the largest degree of the world; a replaced node may have any list up to it
DEGREE = int(np.bincount(WORLD.arcs[0], minlength=SIZE).max())


def graph_of(world: World, relation: str | None) -> Graph:
    """The world as a graph; a record that is not there, or emptied, is one of zeros."""
    rows = [np.random.default_rng([node, int(world.values[node])]) for node in range(SIZE)]
    x = np.stack([rng.standard_normal(FEATURES) for rng in rows]).astype(np.float32)
    y = (np.arange(SIZE) + world.values) % CLASSES
    emptied = ~world.present
    if relation == "null-one":
        emptied = emptied | (world.values != 0)
    x[emptied], y[emptied] = 0.0, 0
    return Graph(
        name="small", x=x, edge_index=world.arcs, y=y, num_classes=CLASSES,
        directed=not is_symmetric(world.arcs, SIZE),
    )  # fmt: skip


BASE = graph_of(WORLD, None)


def prepared_of(entry: Entry) -> Prepared | None:
    """The entry's sample of the small graph."""
    method = methods.get(entry.method)
    spec = method.sampler(entry)
    if spec is None:
        return None
    assert method.prepare is not None
    return method.prepare(BASE, SPLIT, spec, seeds.child(0, "sampler", sampler=spec.label))


def released(entry: Entry, folder: Path) -> Fitted:
    """What a release of the entry on the small graph leaves on disk, read back."""
    inputs = inputs_of(
        entry, randomness="release", graph=BASE, split=SPLIT, prepared=prepared_of(entry)
    )
    record = run_one(inputs, folder, work=None)
    assert record.status == "ok", record.reason
    kept = folder / OWN_ROWS
    return Fitted(
        state=load_file(folder / "model.safetensors"),
        kept=load_file(kept) if kept.exists() else {},
    )


@pytest.mark.parametrize(("name", "mode", "support"), PRIVATE)
def test_no_neighbour_moves_an_answer_that_is_said_to_be_private_from_it(
    name: str, mode: Any, support: Any, tmp_path: Path
) -> None:
    entry = entry_of(name, mode, support)
    method, fitted, nodes = methods.get(name), released(entry, tmp_path), np.arange(SIZE)
    before = method.predict(entry, fitted, method.sees(BASE), nodes)
    moved: Counter[str] = Counter()
    pairs = neighbours(
        WORLD, support.privacy_unit, support.relation, owner=method.list_owner or "source",
        rng=np.random.default_rng(0), degree_bound=DEGREE, max_neighbours=None,
    )  # fmt: skip
    for offender, first, second in pairs:
        other = second if first is WORLD else first
        after = method.predict(entry, fitted, method.sees(graph_of(other, support.relation)), nodes)
        rows = (after.logits != before.logits).any(dim=1).numpy()
        own = np.isin(nodes, offender) & (support.privacy_unit != "edge")
        moved["pairs"] += 1
        moved["own"] += bool(rows[own].any())
        moved["others"] += bool(rows[~own].any())
    assert moved["pairs"] >= SIZE
    if before.answers == "none":
        assert moved["others"]
    else:
        assert not moved["others"]
    if before.answers == "everyone":
        assert support.privacy_unit == "edge"
