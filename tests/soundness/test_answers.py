"""Who may see answers: the fitted model of every method and unit is asked on two neighbouring graphs.

The released state is the same on both sides, so an answer that moves reads the changed record.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract import GRAPH, PRIVATE, entry_of, inputs_of
from safetensors.torch import load_file

from dpgnn import methods
from dpgnn.data.graph import Graph
from dpgnn.methods.base import Entry, Fitted
from dpgnn.run.execute import run_one
from dpgnn.run.record import OWN_ROWS

NODES = np.arange(GRAPH.num_nodes)
CHANGED_NODES = (0, 7, 31)


def neighbour(graph: Graph, entry: Entry, node: int) -> Graph:
    """The graph with another record of `node`, of all that the unit protects; at edge level one edge less."""
    source, target = graph.edge_index
    if entry.privacy_unit == "edge":
        other = int(target[source == node][0])
        gone = np.isin(source, (node, other)) & np.isin(target, (node, other))
        return replace(graph, edge_index=graph.edge_index[:, ~gone])
    x = graph.x.copy()
    x[node] = -5 * x[node][::-1] + 1
    y = graph.y.copy()
    y[node] = 1 - y[node]
    changed = replace(graph, x=x, y=y)
    if entry.privacy_unit == "node-features":
        return changed
    gone = source == node
    directed = entry.privacy_unit == "node-record"
    if not directed:
        gone |= target == node
    return replace(changed, edge_index=graph.edge_index[:, ~gone], directed=directed)


def released(entry: Entry, folder: Path) -> Fitted:
    """What a release of the entry leaves on disk, read back."""
    record = run_one(inputs_of(entry, randomness="release"), folder, work=None)
    assert record.status == "ok", record.reason
    kept = folder / OWN_ROWS
    assert not kept.exists() or kept.stat().st_mode & 0o077 == 0
    return Fitted(
        state=load_file(folder / "model.safetensors"),
        kept=load_file(kept) if kept.exists() else {},
    )


@pytest.mark.parametrize(("name", "mode", "support"), PRIVATE)
def test_answers_move_only_where_the_statement_allows_it(
    name: str, mode: Any, support: Any, tmp_path: Path
) -> None:
    entry = entry_of(name, mode, support)
    method, fitted = methods.get(name), released(entry, tmp_path)
    before = method.predict(entry, fitted, method.sees(GRAPH), NODES)
    moved = np.zeros((len(CHANGED_NODES), GRAPH.num_nodes), dtype=bool)
    for row, node in enumerate(CHANGED_NODES):
        world = method.sees(neighbour(GRAPH, entry, node))
        after = method.predict(entry, fitted, world, NODES)
        assert after.answers == before.answers
        moved[row] = (after.logits != before.logits).any(dim=1).numpy()
    own = moved[np.arange(len(CHANGED_NODES)), CHANGED_NODES]
    moved[np.arange(len(CHANGED_NODES)), CHANGED_NODES] = False
    if before.answers == "everyone":
        assert entry.privacy_unit == "edge"
        assert not moved.any()
        assert not own.any()
    elif before.answers == "own-record":
        assert not moved.any()
        # rows that are kept are looked up; everything else reads the record of the asked node
        assert own.all() or fitted.kept
    else:
        assert moved.any()


LOOKED_UP = [
    case
    for case in PRIVATE
    if case.values[0] in ("gap", "dpdgc", "caribou", "lapgraph", "edgerand", "lpgnet", "progap")
]


@pytest.mark.parametrize(("name", "mode", "support"), LOOKED_UP)
def test_a_model_that_answers_by_look_up_refuses_another_graph(
    name: str, mode: Any, support: Any, tmp_path: Path
) -> None:
    entry = entry_of(name, mode, support)
    method, fitted = methods.get(name), released(entry, tmp_path)
    smaller = replace(GRAPH, x=GRAPH.x[:-1], y=GRAPH.y[:-1], edge_index=GRAPH.edge_index[:, :0])
    with pytest.raises(ValueError, match="number of nodes must be 60, got 59"):
        method.predict(entry, fitted, smaller, NODES[:3])
    other = replace(GRAPH, x=GRAPH.x[::-1].copy())
    if entry.privacy_unit == "edge":
        with pytest.raises(ValueError, match="hash of the features must be"):
            method.predict(entry, fitted, other, NODES[:3])
    else:
        # features are private: a released model holds no hash of them
        assert "answers_for" not in fitted.state | fitted.kept
