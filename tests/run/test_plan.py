from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract import DELTA, PRIVATE, entry_of, inputs_of
from safetensors.torch import load_file

from dpgnn import methods
from dpgnn.accountants.claims import Claim
from dpgnn.accountants.events import PoissonRoots, compose
from dpgnn.accountants.plan import Mechanism, Plan
from dpgnn.accountants.population import CHANGES, DECLARED, PublicPopulation, changes_nodes
from dpgnn.core.rounded_noise import add_rounded
from dpgnn.core.seeds import child
from dpgnn.core.storage import canonical_json
from dpgnn.data.datasets import provenance
from dpgnn.data.graph import Graph
from dpgnn.data.splits import Split
from dpgnn.methods import releases
from dpgnn.methods.base import Entry, Support, facts_of
from dpgnn.methods.dpdgc import fit as dpdgc_fit
from dpgnn.methods.progap import aggregate as progap_aggregate
from dpgnn.methods.shared import aggregate
from dpgnn.methods.votes import board, edge_rounds
from dpgnn.records.cells import claims_of
from dpgnn.records.schema import plan_of
from dpgnn.run.execute import run_one
from dpgnn.run.plan import add_caveats, propose, with_caveats
from dpgnn.run.specification import RunInputs, checked_delta, config_of, specify
from dpgnn.training import dp_sgd, noise
from dpgnn.training.rounding import rounding_share

CLAIM = Claim(
    privacy_unit="node",
    relation="add-remove",
    epsilon=1.0,
    delta=1e-5,
    accountant="pld",
    status="proved",
)


def test_caveats_of_the_data_join_every_claim() -> None:
    plan = Plan(claims=(CLAIM, CLAIM))
    marked = add_caveats(plan, ("preprocessing", "preprocessing"))
    assert [claim.caveats for claim in marked.claims] == [("preprocessing",)] * 2
    assert add_caveats(plan, ()) == plan


def test_a_graph_made_from_features_marks_methods_that_read_edges() -> None:
    assert provenance("digits")["edge_caveats"] == ["preprocessing"]
    assert provenance("digits")["caveats"] == []
    assert provenance("facebook-Rutgers89")["caveats"] == ["preprocessing"]


# 30 training nodes and a delta of 1e-3, as in contract.py, whose plans of the process are found again
NODES, TRAINING = 80, 30
POPULATION = PublicPopulation(nodes=100, training=30)
NODE_ADD_REMOVE = [
    case
    for case in PRIVATE
    if case.values[1] == "sound"
    and changes_nodes(case.values[2].privacy_unit, case.values[2].relation)
]


def a_graph(num_nodes: int) -> Graph:
    """A ring of which every node has two neighbours on each side; the last node of 80 may be left out."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((NODES, 5)).astype(np.float32)
    arcs = [(i, (i + step) % NODES) for i in range(NODES) for step in (-2, -1, 1, 2)]
    kept = sorted((a, b) for a, b in arcs if max(a, b) < num_nodes)
    return Graph(
        name="ring", x=x[:num_nodes], edge_index=np.array(kept, np.int64).T.copy(),
        y=np.arange(num_nodes) % 2, num_classes=2,
    )  # fmt: skip


def inputs_on(entry: Entry, num_removed: int, **changes: Any) -> RunInputs:
    """A run on the ring of 80 nodes, 30 of them for training, or on that without its last nodes."""
    graph = a_graph(NODES - num_removed)
    split = Split(
        train_idx=np.arange(NODES - TRAINING, graph.num_nodes), val_idx=np.arange(10),
        test_idx=np.arange(10, NODES - TRAINING), inductive=False,
    )  # fmt: skip
    method, prepared = methods.get(entry.method), None
    spec = method.sampler(entry)
    if spec is not None:
        assert method.prepare is not None
        prepared = method.prepare(graph, split, spec, child(0, "sampler", sampler=spec.label))
    stated = {"graph": graph, "split": split, "prepared": prepared, "delta": "auto"} | changes
    return dataclasses.replace(inputs_of(entry), **stated)


def planned(inputs: RunInputs) -> Plan:
    """The plan as the run makes it."""
    run = specify(inputs)
    facts = facts_of(run.inputs.graph, inputs.split, inputs.prepared, inputs.population)
    return with_caveats(propose(run, facts), run, facts)


def as_bytes(plan: Plan) -> str:
    """Noise, steps, rates, divisors, claims and facts."""
    return str(canonical_json([plan_of(plan), plan.claims, dict(plan.facts)]))


@pytest.mark.parametrize(("name", "mode", "support"), NODE_ADD_REMOVE)
def test_a_declared_population_gives_both_neighbours_one_plan(
    name: str, mode: Any, support: Support
) -> None:
    entry = entry_of(name, mode, support)
    with_node, without = (
        planned(inputs_on(entry, removed, population=POPULATION)) for removed in (0, 1)
    )
    assert as_bytes(with_node) == as_bytes(without)
    for claim in with_node.claims:
        assert claim.delta in (0.0, 1 / (10 * POPULATION.nodes))
        assert {DECLARED, "number of features", "number of classes"} <= set(claim.assumed_public)
        assert "number of training nodes" not in claim.assumed_public
        assert (CHANGES in claim.caveats) == methods.get(name).shows_nodes(entry)
    # without it the two plans differ, and the claim says so
    counted = [planned(inputs_on(entry, removed, delta=DELTA)) for removed in (0, 1)]
    assert as_bytes(counted[0]) != as_bytes(counted[1])
    assert CHANGES in counted[0].claims[0].caveats


@pytest.mark.parametrize(("name", "mode", "support"), NODE_ADD_REMOVE)
def test_shapes_of_what_is_released_are_those_of_the_neighbour(
    name: str, mode: Any, support: Support, tmp_path: Path
) -> None:
    entry, found = entry_of(name, mode, support), []
    for removed in (0, 1):
        out = tmp_path / str(removed)
        record = run_one(inputs_on(entry, removed, population=POPULATION), out, work=None)
        assert record.status == "ok", record.reason
        assert record.facts["public_population"] is True
        assert record.facts["num_train"] == POPULATION.training
        state = load_file(out / "model.safetensors")
        found.append({key: tuple(value.shape) for key, value in state.items()})
        assert (CHANGES in claims_of(record)[0].caveats) == methods.get(name).shows_nodes(entry)
    assert (found[0] != found[1]) == methods.get(name).shows_nodes(entry)


# a counted choice draws by secret coins how many runs it makes and of which options
@pytest.mark.parametrize(
    ("name", "mode", "support"), [c for c in NODE_ADD_REMOVE if c.values[0] != "selected"]
)
def test_noise_and_grids_of_a_release_are_those_of_the_neighbour(
    name: str, mode: Any, support: Support, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []

    def rounded(value: np.ndarray, scale: Any, **named: Any) -> np.ndarray:
        drawn.append((np.asarray(scale).tolist(), named.get("grid")))
        return add_rounded(value, scale, **named)

    def cut(rows: np.ndarray, num_terms: int, norm: float = 1.0) -> np.ndarray:
        drawn.append(num_terms)
        return releases.summable(rows, num_terms, norm)

    for module in (noise, releases):
        monkeypatch.setattr(module, "add_rounded", rounded)
    for module in (aggregate, progap_aggregate, board, edge_rounds, dpdgc_fit):
        monkeypatch.setattr(module, "summable", cut)
    # every size has its own share here; the true ones are powers of two, which differ at a few sizes
    monkeypatch.setattr(dp_sgd, "rounding_share", lambda size: 1.0 / size)
    monkeypatch.setattr(releases, "rounding_of", lambda shape: 2.0 ** -(shape[0] % 40))
    entry, found = entry_of(name, mode, support), []
    for removed in (0, 1):
        inputs = inputs_on(entry, removed, population=POPULATION, randomness="release")
        run_one(inputs, tmp_path / str(removed), work=None)
        found.append(drawn.copy())
        drawn.clear()
    assert found[0] == found[1]
    assert found[0]


def test_the_noise_of_a_release_is_the_same_on_both_sides_of_a_jump_of_the_share() -> None:
    event = PoissonRoots(
        relation="add-remove", noise_stddev=3.0, clipping_norm=1.0, sampling_probability=1.0,
        d_plus=1, d_minus=0,
    )  # fmt: skip
    mechanism = Mechanism(
        name="train", event=compose(event, 1), noise_stddev=3.0, sensitivity=1.0, clipping_norm=1.0,
        divisor=66000.0,
    )  # fmt: skip
    sizes = [
        dp_sgd.from_mechanism(mechanism, num_roots=num_roots).batches.largest_batch
        for num_roots in (65195, 65196)
    ]
    assert sizes[0] == sizes[1] >= 2 * 66000
    assert rounding_share(65196) == 2 * rounding_share(65195)


@pytest.mark.parametrize(("name", "mode", "support"), PRIVATE)
def test_every_finite_claim_names_the_sizes_it_takes_as_public(
    name: str, mode: Any, support: Support
) -> None:
    for claim in planned(inputs_of(entry_of(name, mode, support))).claims:
        sizes = {"number of nodes", "number of features", "number of classes"}
        assert sizes <= set(claim.assumed_public) or claim.epsilon == float("inf")


def test_the_number_of_steps_of_some_epochs_tells_30_from_29_training_nodes() -> None:
    support = Support(privacy_unit="node-record", relation="add-remove")
    entry = entry_of("gap", "sound", support)
    stage = dataclasses.replace(entry.options.node.encoder, batch_size=20, num_epochs=10)
    node = dataclasses.replace(entry.options.node, encoder=stage, max_degree=2)
    entry = dataclasses.replace(entry, options=dataclasses.replace(entry.options, node=node))
    larger = PublicPopulation(nodes=100, training=40)
    steps = {
        population: [
            planned(inputs_on(entry, removed, population=population)).mechanisms[0].num_steps
            for removed in (0, 1)
        ]
        for population in (None, POPULATION, larger)
    }
    assert steps == {None: [15, 14], POPULATION: [15, 15], larger: [20, 20]}


def test_a_batch_larger_than_the_declared_training_nodes_is_refused() -> None:
    entry = entry_of("dp_mlp", "sound", Support(privacy_unit="node", relation="add-remove"))
    small = PublicPopulation(nodes=9, training=9)
    with pytest.raises(ValueError, match="number of training nodes, 9, got 10"):
        planned(inputs_on(entry, 0, population=small))


def test_a_population_is_part_of_the_configuration_of_a_run_that_reads_it() -> None:
    entry = entry_of("dp_mlp", "sound", Support(privacy_unit="node", relation="add-remove"))
    assert "public_population" not in config_of(inputs_on(entry, 0))
    stated = config_of(inputs_on(entry, 0, population=POPULATION))
    assert stated["public_population"] == {"nodes": 100, "training": 30}


@pytest.mark.parametrize("support", ["node add-remove", "node null-one"])
def test_a_delta_of_one_over_the_nodes_is_refused_but_where_a_paper_is_repeated(
    support: str,
) -> None:
    unit, relation = support.split()
    entry = entry_of("dp_mlp", "sound", Support(privacy_unit=unit, relation=relation))
    with pytest.raises(
        ValueError, match=r"delta must be < 0\.0125, one over the 80 nodes, got 0\.9"
    ):
        planned(inputs_on(entry, 0, delta=0.9))
    with pytest.raises(ValueError, match=r"one over the 80 nodes, got 0\.9"):
        checked_delta(inputs_on(entry, 0, delta=0.9))
    paper = planned(inputs_on(entry, 0, delta=0.9, repeats_paper=True))
    assert "delta-too-large" in paper.claims[0].caveats
    planned(inputs_on(entry, 0, delta=0.012))
