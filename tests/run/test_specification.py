from __future__ import annotations

import dataclasses

import pytest
from contract import GRAPH, entry_of, inputs_of

from dpgnn.accountants.population import PublicPopulation
from dpgnn.data.graph import Graph
from dpgnn.methods.base import Performance, Support
from dpgnn.run.specification import resolve_delta, specify

ENTRY = entry_of("dp_mlp", "sound", Support(privacy_unit="node", relation="add-remove"))


def test_delta_auto_depends_on_public_sizes_only(small_graph: Graph) -> None:
    assert resolve_delta("auto", "node", small_graph) == 1 / (10 * small_graph.num_nodes)
    digits = len(str(small_graph.num_edges))
    assert resolve_delta("auto", "edge", small_graph) == 10.0 ** -(digits + 1)
    fewer = dataclasses.replace(small_graph, edge_index=small_graph.edge_index[:, :0])
    assert resolve_delta("auto", "node", fewer) == resolve_delta("auto", "node", small_graph)
    assert resolve_delta(1e-3, "edge", small_graph) == 1e-3
    declared = PublicPopulation(nodes=1000, training=600)
    assert resolve_delta("auto", "node", small_graph, declared) == 1e-4


def test_delta_counts_the_edges_that_a_method_does_not_see() -> None:
    entry = dataclasses.replace(ENTRY, privacy_unit="edge")
    run = specify(inputs_of(entry, delta="auto"))
    assert run.inputs.graph.num_edges == 0
    assert run.delta == 10.0 ** -(len(str(GRAPH.num_edges)) + 1)


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({}, False),
        ({"epsilon": 2.0}, True),
        ({"root_seed": 1}, True),
        ({"hashes": {"graph_sha256": "other"}}, True),
        ({"performance": Performance(num_processes=2)}, True),
        ({"performance": Performance(chunk_size=7)}, False),
    ],
)
def test_a_fingerprint_differs_where_the_run_does(changes: dict, differs: bool) -> None:
    first, second = specify(inputs_of(ENTRY)), specify(inputs_of(ENTRY, **changes))
    assert (first.fingerprint != second.fingerprint) == differs
    assert first.code_sha256 == second.code_sha256
