"""DRW's subgraphs, networks and runs: the first hop done once, resampling, restarts, both modes."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers import two_community_graph

from dpgnn import methods
from dpgnn.core import config as strict
from dpgnn.core import seeds
from dpgnn.data.graph import Graph, arcs_of
from dpgnn.data.splits import Split
from dpgnn.methods.base import Entry, Prepared
from dpgnn.methods.drw.data import (
    first_hop,
    first_hop_of_graph,
    network_behind_first_hop,
    training_edges,
)
from dpgnn.models.forward import evaluate, full_graph_logits
from dpgnn.models.network import Network, NetworkConfig
from dpgnn.models.trees import trees_of
from dpgnn.run.execute import run_one
from dpgnn.run.specification import RunInputs
from dpgnn.samplers.adjacency import induced_adjacency
from dpgnn.samplers.walks import Walks, record_chains
from dpgnn.training.chunks import chunk_layout
from dpgnn.training.clipping import global_clipping
from dpgnn.training.gradients import Execution, RootGradients

METHOD = methods.get("drw")
GRAPH = two_community_graph()
ORDER = np.random.default_rng(1).permutation(GRAPH.num_nodes)
PARTS = [np.sort(part) for part in np.split(ORDER, [30, 45])]
SPLIT = Split(train_idx=PARTS[0], val_idx=PARTS[1], test_idx=PARTS[2], inductive=False)
FEATURES = ("node-features", "replace-one")


def entry_of(mode: Any, pair: tuple[Any, Any] = FEATURES, **options: Any) -> Entry:
    """An entry of the method, checked."""
    unit, relation = (None, None) if mode == "nonprivate" else pair
    given = {"width": 4, "batch_size": 6} | options
    entry = Entry(name="e", method="drw", mode=mode, privacy_unit=unit, relation=relation,
                  options=strict.read(METHOD.config, given))  # fmt: skip
    METHOD.check_entry(entry, "entries.e")
    return entry


def prepared_of(entry: Entry, graph: Graph = GRAPH) -> Prepared | None:
    """The prepared sample the entry needs."""
    spec = METHOD.sampler(entry)
    if spec is None:
        return None
    assert METHOD.prepare is not None
    return METHOD.prepare(graph, SPLIT, spec, seeds.child(0, "sampler", sampler=spec.label))


def run(
    folder: Path, entry: Entry, graph: Graph = GRAPH, work: Path | None = None, **changes: Any
) -> Any:
    """One run on the toy graph; gives the record."""
    private = entry.mode != "nonprivate"
    key = {"study": "s", "dataset": "two", "setting": "r", "entry": entry.name,
           "epsilon": "8" if private else "inf", "repeat": 0}  # fmt: skip
    inputs = RunInputs(
        key=key, entry=entry, epsilon=8.0 if private else math.inf, delta=1e-3, graph=graph,
        split=SPLIT, prepared=prepared_of(entry, graph), hashes={}, **changes,
    )  # fmt: skip
    run_one(inputs, folder, work=work or folder / "work")
    return json.loads((folder / "record.json").read_text())


def walks_of(length: int, num_walks: int = 1, inside: Any = "induced") -> Any:
    """Subgraphs of one partition of the training graph."""
    graph = induced_adjacency(
        arcs_of(GRAPH, symmetrize=True), num_nodes=GRAPH.num_nodes, node_idx=SPLIT.train_idx
    )
    partition = Walks(length=length, num_walks=num_walks).draw(graph, rng=np.random.default_rng(3))
    return partition.subgraphs(graph, inside=inside)


@pytest.mark.parametrize("conv", ["symmetric", "gcn"])
@pytest.mark.parametrize(("num_layers", "num_walks"), [(1, 1), (1, 2), (2, 1), (2, 2)])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_first_hop_done_once_changes_no_logit_and_no_clipped_sum(
    conv: Any, num_layers: int, num_walks: int, sparse: bool
) -> None:
    trees = trees_of(walks_of(num_layers, num_walks), GRAPH.y, num_hops=num_layers, conv=conv)
    x: Any = sp.csr_array(GRAPH.x) if sparse else GRAPH.x
    short = first_hop(trees, x)
    assert sp.issparse(short.x) == sparse
    assert short.trees.num_roots == trees.num_roots
    whole = Network(NetworkConfig(
        num_features=6, num_outputs=2, width=4, encoder_layers=0, num_hops=num_layers,
        decoder_layers=0, conv=conv, activation="relu",
    ))  # fmt: skip
    behind = network_behind_first_hop(
        num_layers=num_layers, width=4, num_features=6, num_outputs=2, task="multiclass", gcn=True,
        conv=conv,
    )  # fmt: skip
    assert list(whole.shapes.values()) == list(behind.shapes.values())
    flat = whole.initial(rng=np.random.default_rng(0), dtype=torch.float64)
    roots = np.arange(trees.num_roots)
    logits = []
    for network, rows, part in (
        (whole, GRAPH.x, trees),
        (behind, short.x.toarray() if sparse else short.x, short.trees),
    ):
        layout = chunk_layout(part, roots)
        inputs = torch.from_numpy(np.asarray(rows, dtype=np.float64))[layout.node]
        logits.append(evaluate(network, network.views(flat), layout, inputs))
    torch.testing.assert_close(logits[0], logits[1], rtol=1e-6, atol=1e-6)
    execution = Execution(dtype="float64")
    sums = [
        RootGradients(network, rows, part, clipping=global_clipping(0.1), execution=execution)(
            flat, roots
        ).clone()
        for network, rows, part in ((whole, GRAPH.x, trees), (behind, short.x, short.trees))
    ]
    torch.testing.assert_close(sums[0], sums[1], rtol=1e-5, atol=1e-6)


def test_the_first_hop_of_a_graph_is_the_normalised_adjacency() -> None:
    adjacency = GRAPH.adjacency().toarray() + np.eye(GRAPH.num_nodes)
    degree = adjacency.sum(axis=1)
    expected = adjacency / np.sqrt(degree[:, None] * degree[None, :])
    found = first_hop_of_graph(arcs_of(GRAPH, symmetrize=True), GRAPH.x, "symmetric")
    np.testing.assert_allclose(found, expected @ GRAPH.x, rtol=1e-5, atol=1e-5)


def test_inside_a_walk_the_weights_use_degrees_of_the_walk_alone() -> None:
    subgraphs = walks_of(1)
    trees = trees_of(subgraphs, GRAPH.y, num_hops=1, conv="symmetric")
    short = first_hop(trees, GRAPH.x)
    for i in range(len(subgraphs)):
        nodes = subgraphs.nodes[subgraphs.node_ptr[i] : subgraphs.node_ptr[i + 1]]
        # a pair or a node alone: every weight is one over the size
        np.testing.assert_allclose(short.x[i], GRAPH.x[nodes].mean(axis=0), rtol=1e-5, atol=1e-6)


def test_full_graph_inference_is_a_two_layer_gcn() -> None:
    network = network_behind_first_hop(
        num_layers=2, width=5, num_features=6, num_outputs=2, task="multiclass", gcn=True,
        conv="symmetric",
    )  # fmt: skip
    parameters = network.views(network.initial(rng=np.random.default_rng(0)))
    adjacency = GRAPH.adjacency().toarray() + np.eye(GRAPH.num_nodes)
    operator = adjacency / np.sqrt(np.outer(adjacency.sum(1), adjacency.sum(1)))
    w0, b0, w1, b1 = (value.numpy() for value in parameters.values())
    expected = operator @ np.maximum(operator @ GRAPH.x @ w0 + b0, 0) @ w1 + b1
    rows = first_hop_of_graph(arcs_of(GRAPH, symmetrize=True), GRAPH.x, "symmetric")
    found = full_graph_logits(network, parameters, rows, arcs_of(GRAPH, symmetrize=True))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_prepared_walks_cover_the_training_nodes_once_and_state_their_number() -> None:
    prepared = prepared_of(entry_of("sound", num_layers=2))
    assert prepared is not None
    nodes = np.sort(prepared.table.column("node").to_numpy())
    assert np.array_equal(nodes, SPLIT.train_idx)
    count = prepared.table.column("subgraph").to_numpy().max() + 1
    assert prepared.facts == {"num_subgraphs": count}


def test_samples_of_the_node_record_variant_state_no_fact_of_the_structure() -> None:
    entry = entry_of("sound", ("node-record", "add-remove"), batches="poisson")
    prepared = prepared_of(entry)
    assert prepared is not None
    assert prepared.kind == "subgraphs"
    assert prepared.facts == {}
    chains = record_chains(1).promise
    assert chains.max_occurrences == 2
    assert training_edges(GRAPH, SPLIT).shape[1] < GRAPH.num_edges


VARIANTS: list[tuple[str, Any, tuple[str, str], dict[str, Any]]] = [
    ("drw", "published", FEATURES, {}),
    ("two layers", "published", FEATURES, {"num_layers": 2}),
    ("restarts", "sound", FEATURES, {"num_restarts": 2, "batch_size": 5}),
    ("drawn afresh", "sound", FEATURES, {"resample_every": 1, "num_layers": 2}),
    ("poisson afresh", "sound", FEATURES, {"resample_every": 3, "batches": "poisson"}),
    ("steps alone", "sound", FEATURES, {"edges": "walk", "normalization": "mean"}),
    ("chains", "sound", ("node-record", "add-remove"), {"num_layers": 2}),
    ("MLP", "sound", FEATURES, {"sampler": "nodes", "num_layers": 2}),
    ("percentile", "published", FEATURES, {"clip_reading": "times-percentile"}),
    ("quantile", "published", FEATURES, {"clip_reading": "quantile", "clipping_norm": 0.5}),
    ("walks without privacy", "nonprivate", FEATURES, {"num_steps": 20, "resample_every": 5}),
    ("MLP without privacy", "nonprivate", FEATURES, {"num_steps": 20, "sampler": "nodes"}),
]


@pytest.mark.parametrize(
    ("mode", "pair", "options"), [v[1:] for v in VARIANTS], ids=[v[0] for v in VARIANTS]
)
def test_every_variant_runs_and_records(
    tmp_path: Path, mode: Any, pair: tuple[str, str], options: dict[str, Any]
) -> None:
    record = run(tmp_path, entry_of(mode, pair, **options))
    assert record["status"] == "ok", record["reason"]
    assert record["metrics"]["test"]["num_nodes"] == len(SPLIT.test_idx)
    if mode != "nonprivate":
        assert float(record["claims"][0]["epsilon"]) <= 8


def test_the_record_of_walks_drawn_afresh_has_the_number_of_every_drawing(tmp_path: Path) -> None:
    entry = entry_of("sound", resample_every=2, num_layers=2, num_steps=9, noise_multiplier=None)
    counts = run(tmp_path, entry)["details"]["num_subgraphs"]
    assert len(counts) == 5
    assert min(counts) >= 10  # M_min of 30 nodes
    assert len(set(counts)) > 1


def test_a_record_without_walks_does_not_hold_the_number_of_roots(tmp_path: Path) -> None:
    """Where a population is declared the number of training nodes tells whether a record is there."""
    entry = entry_of("sound", ("node-record", "add-remove"), num_steps=2, noise_multiplier=None)
    assert run(tmp_path, entry)["details"].keys().isdisjoint({"num_subgraphs"})


def test_a_run_that_is_stopped_goes_on_with_the_same_walks(tmp_path: Path) -> None:
    from dpgnn.methods.drw import walks as _drw_walks

    entry = entry_of("sound", resample_every=2, num_layers=2, num_steps=12, noise_multiplier=None)
    expected = run(tmp_path / "whole", entry)
    original = _drw_walks.RunWalks.before_step

    class Killed(Exception):
        pass

    def die_at_step_eight(self: Any, step: int) -> None:
        if step == 8:
            raise Killed
        original(self, step)

    work = tmp_path / "work"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_drw_walks.RunWalks, "before_step", die_at_step_eight)
        patch.setattr("dpgnn.training.loop.time.monotonic", _Clock())
        with pytest.raises(Killed):
            run(tmp_path / "stopped", entry, work=work)
    assert any(work.rglob("*")), "no checkpoint was left"
    assert run(tmp_path / "again", entry, work=work) == expected
    first, again = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "again")
    )
    assert first == again


@pytest.mark.parametrize("mode", ["nonprivate", "sound", "published"])
def test_a_study_shows_the_loss_of_every_step_and_a_release_does_not(
    mode: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "dpgnn.methods.base.Progress.update", lambda self, step, **shown: lines.append(shown)
    )
    entry = entry_of(mode, resample_every=2, num_steps=6, noise_multiplier=None)
    run(tmp_path / "study", entry)
    assert len(lines) == 6
    assert all(float(shown["loss"]) > 0 for shown in lines)
    if mode == "sound":
        lines.clear()
        run(tmp_path / "release", entry, randomness="release")
        assert len(lines) == 6
        assert not any("loss" in shown for shown in lines)


class _Clock:
    """A clock on which every look is ten seconds later, so that every step is checkpointed."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 10.0
        return self.now


def test_replacing_one_row_of_features_changes_one_clipped_gradient() -> None:
    """The sensitivity 2C that the plan scales noise by, over every node and random replacements."""
    entry = entry_of("sound", num_layers=2)
    network = network_behind_first_hop(
        num_layers=2, width=4, num_features=6, num_outputs=2, task="multiclass", gcn=True,
        conv="symmetric",
    )  # fmt: skip
    flat = network.initial(rng=np.random.default_rng(0), dtype=torch.float64)
    subgraphs, norm, largest = walks_of(2), 0.05, 0.0
    rng = np.random.default_rng(5)

    def total(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        inputs = first_hop(trees_of(subgraphs, y, num_hops=2, conv="symmetric"), x)
        gradients = RootGradients(
            network, inputs.x, inputs.trees, clipping=global_clipping(norm),
            execution=Execution(dtype="float64"),
        )  # fmt: skip
        return gradients(flat, np.arange(inputs.trees.num_roots)).numpy().copy()

    before = total(GRAPH.x, GRAPH.y)
    for node in SPLIT.train_idx:
        x, y = GRAPH.x.copy(), GRAPH.y.copy()
        x[node] = rng.normal(0, 10, 6)
        y[node] = 1 - y[node]
        largest = max(largest, float(np.linalg.norm(total(x, y) - before)))
    assert entry.options.clipping_norm > 0
    assert 1.2 * norm < largest <= 2 * norm


def test_a_directed_graph_is_walked_in_both_directions() -> None:
    one_way = GRAPH.edge_index[:, GRAPH.edge_index[0] < GRAPH.edge_index[1]]
    directed = dataclasses.replace(GRAPH, edge_index=one_way.copy(), directed=True)
    assert np.array_equal(
        np.unique(arcs_of(directed, symmetrize=True), axis=1),
        np.unique(arcs_of(GRAPH, symmetrize=True), axis=1),
    )
