"""Runs of votes: the fall-back is DP-MLP's run; an answer reads the asked node's record and the board."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import torch
from contract import DELTA, EPSILON, GRAPH, SPLIT, entry_of, run
from helpers import planned_run
from safetensors.numpy import load_file

from dpgnn import methods
from dpgnn.accountants.plan import Budget, Ledger
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import Store
from dpgnn.methods.base import Context, Fitted, Support, facts_of

RECORD = Support(privacy_unit="node-record", relation="add-remove")


def test_a_run_without_a_board_is_dp_mlp_byte_for_byte(tmp_path: Path) -> None:
    votes, mlp = entry_of("votes", "sound", RECORD), entry_of("dp_mlp", "sound", RECORD)
    poor = dataclasses.replace(votes.options, mean_degree=0.1, mlp=mlp.options)
    first = run(tmp_path / "votes", dataclasses.replace(votes, options=poor))
    second = run(tmp_path / "mlp", mlp)
    weights, others = (load_file(tmp_path / x / "model.safetensors") for x in ("votes", "mlp"))
    assert weights.keys() == others.keys()
    assert all(weights[name].tobytes() == others[name].tobytes() for name in weights)
    for key in ("claims", "metrics", "prediction"):
        assert json.dumps(first[key]) == json.dumps(second[key])
    assert first["details"]["board"] is False


def test_answers_say_that_they_are_for_the_asked_node(tmp_path: Path) -> None:
    record = run(tmp_path, entry_of("votes", "sound", RECORD))
    assert record["prediction"]["answers"] == "own-record"
    assert record["prediction"]["note"].startswith("own-record:")
    assert record["details"]["board"] is True
    state = load_file(tmp_path / "model.safetensors")
    assert state["board"].shape == (GRAPH.num_nodes, GRAPH.num_classes)
    assert np.flatnonzero(state["voters"]).tolist() == SPLIT.train_idx.tolist()


def test_an_answer_reads_no_other_record() -> None:
    entry, method = entry_of("votes", "sound", RECORD), methods.get("votes")
    plan = method.plan(entry, facts_of(GRAPH, SPLIT, None), Budget(epsilon=EPSILON, delta=DELTA))
    context = Context(ledger=Ledger(plan), streams=Streams(root_seed=0, axes={}), store=Store(None))
    fitted = method.fit(planned_run(entry, GRAPH, SPLIT, None, plan, context))
    everyone = np.arange(GRAPH.num_nodes)
    before = method.predict(entry, fitted, GRAPH, everyone).logits.numpy()
    source = GRAPH.edge_index[0]
    for node in everyone[::7]:
        x, y = np.array(GRAPH.x), GRAPH.y.copy()
        x[node], y[node] = 0.0, 1 - y[node]
        other = dataclasses.replace(
            GRAPH, x=x, y=y, edge_index=GRAPH.edge_index[:, source != node], directed=True
        )
        after = method.predict(entry, fitted, other, everyone).logits.numpy()
        moved = np.flatnonzero(np.abs(before - after).max(axis=1) > 1e-6)
        assert moved.tolist() == [node]


def test_one_node_is_answered_from_its_record_and_the_model_file(tmp_path: Path) -> None:
    """All other records are blank: features, labels and lists; the boards are float32."""
    entry, method = entry_of("votes", "sound", RECORD), methods.get("votes")
    run(tmp_path, entry)
    state = load_file(tmp_path / "model.safetensors")
    assert state["board"].dtype == state["second"].dtype == np.float32
    fitted = Fitted(state={name: torch.from_numpy(value) for name, value in state.items()})
    for node in (int(SPLIT.train_idx[0]), int(SPLIT.test_idx[0])):
        x, y = np.zeros_like(GRAPH.x), np.zeros_like(GRAPH.y)
        x[node], y[node] = GRAPH.x[node], GRAPH.y[node]
        own = GRAPH.edge_index[:, GRAPH.edge_index[0] == node]
        alone = dataclasses.replace(GRAPH, x=x, y=y, edge_index=own, directed=True)
        asked = np.array([node])
        answers = [method.predict(entry, fitted, g, asked).logits for g in (GRAPH, alone)]
        assert torch.equal(*answers)
