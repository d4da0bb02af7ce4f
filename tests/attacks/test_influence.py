"""Influences in one pass against one query at a time, for every method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attack_models import SHORT, STAGES, fitted

from dpgnn.attacks.influence import copies_of, influence, path_of
from dpgnn.attacks.queries import ask, why_not_other_features

EDGE = {"unit": "edge", "relation": "add-remove"}
BOUNDED = {"unit": "node-bounded", "relation": "add-remove"}
CONTRACT: dict[str, Any] = {"num_hops": 3, "contraction": 0.8, "beta": 0.5, "head": SHORT}
SAMPLED = {"bounding": "sampled", "drop_last_node": True}
WIDTH = {"hidden": SHORT["hidden"]}
RECORD = {"unit": "node-record", "relation": "add-remove"}
PROGRESSIVE: dict[str, Any] = {"num_hops": 2, "hidden": 8, "training": {"num_epochs": 10}}
PROGRESSIVE_STAGES: dict[str, Any] = {
    "max_degree": 30,
    "stage": {"batch_size": 10, "num_epochs": 3},
}
POISSON: dict[str, Any] = {"batch_size": 10, "num_epochs": 2, "width": 4}
GCN: dict[str, Any] = {"hidden": [8], "training": {"num_epochs": 20}}
NODE = {"unit": "node", "relation": "add-remove"}
TAPE: dict[str, Any] = {"width": 8, "training": {"num_steps": 20, "expected_batch_size": 10}}
WALKS: dict[str, Any] = {"width": 4, "batch_size": 4, "noise_multiplier": None, "num_steps": 5}

CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "gcn": ("gcn", {"options": GCN}, "differences"),
    "deep gcn": ("gcn", {"options": GCN | {"hidden": [8, 6]}}, "differences"),
    "gcn on unit rows": ("gcn", {"options": GCN | {"row_norm": "l2"}}, "differences"),
    "caribou": ("caribou", {"mode": "sound", **EDGE, "options": CONTRACT}, "differences"),
    "caribou without encoder": (
        "caribou",
        {"mode": "sound", **EDGE, "options": CONTRACT | {"head": SHORT | {"encoder_layers": 0}}},
        "differences",
    ),
    "caribou padded": (
        "caribou", {"mode": "sound", **EDGE, "options": CONTRACT | {"padding": 6}}, "differences",
    ),
    "caribou without privacy": ("caribou", {"options": CONTRACT}, "differences"),
    "caribou with a mean": (
        "caribou", {"mode": "sound", **EDGE, "options": CONTRACT | {"alpha1": 0.9}}, "one by one",
    ),
    "caribou as released": (
        "caribou",
        {"mode": "published", **EDGE, "options": CONTRACT | {"variant": "as-released"}},
        "differences",
    ),
    "silent as released": (
        "caribou",
        {"mode": "published", **EDGE,
         "options": CONTRACT | {"variant": "as-released", "noise_free_layer": False}},
        "differences",
    ),
    "caribou at node level as released": (
        "caribou",
        {"mode": "published", "unit": "node-bounded", "relation": "replace-one",
         "options": CONTRACT | {"variant": "as-released", "node": STAGES | SAMPLED}},
        "differences",
    ),
    "caribou at node level": (
        "caribou", {"mode": "sound", **BOUNDED, "options": CONTRACT | {"head": WIDTH, "node": STAGES}},
        "differences",
    ),
    "gap": ("gap", {"mode": "sound", **EDGE, "options": {"num_hops": 2, "head": SHORT}}, "differences"),
    "gap at node level": (
        "gap", {"mode": "sound", **BOUNDED, "options": {"num_hops": 2, "head": WIDTH, "node": STAGES}},
        "differences",
    ),
    "gap of the code": (
        "gap",
        {"mode": "published", **EDGE, "options": {"normalization": "columns-l1", "head": SHORT}},
        "one by one",
    ),
    "progap": ("progap", {"mode": "sound", **EDGE, "options": PROGRESSIVE}, "differences"),
    "progap layer by layer": (
        "progap", {"mode": "sound", **EDGE, "options": PROGRESSIVE | {"layerwise": True}}, "differences",
    ),
    "progap at node level": (
        "progap",
        {"mode": "sound", **BOUNDED, "options": {"num_hops": 2, "hidden": 8, "node": PROGRESSIVE_STAGES}},
        "differences",
    ),
    "lpgnet": (
        "lpgnet",
        {"mode": "sound", **EDGE, "options": {"num_hops": 2, "hidden": 8, "training": {"num_epochs": 20}}},
        "one by one",
    ),
    "heterpoisson": (
        "heterpoisson", {"mode": "sound", **RECORD, "options": POISSON}, "differences",
    ),
    "heterpoisson on narrow features": (
        "heterpoisson", {"mode": "sound", **RECORD, "options": POISSON | {"width": 64}}, "differences",
    ),
    "heterpoisson as published": (
        "heterpoisson", {"mode": "published", **NODE, "options": POISSON}, "one by one",
    ),
    "dpdgc": (
        "dpdgc", {"mode": "sound", **EDGE, "options": {"head": SHORT, "node": STAGES}}, "differences",
    ),
    "edgerand": ("edgerand", {"mode": "sound", **EDGE, "options": {"gcn": GCN}}, "differences"),
    "lapgraph": ("lapgraph", {"mode": "sound", **EDGE, "options": {"gcn": GCN}}, "differences"),
    "pertgraph": ("pertgraph", {"mode": "sound", **EDGE, "options": {"head": SHORT}}, "differences"),
    "pertgraph as published": (
        "pertgraph", {"mode": "published", **EDGE, "options": {"head": SHORT}}, "differences",
    ),
    "dp_gnn": ("dp_gnn", {"options": TAPE}, "differences"),
    "dp_gnn of two hops": (
        "dp_gnn", {"options": TAPE | {"num_hops": 2, "conv": "sage", "skip": True}}, "differences",
    ),
    "dp_gnn of sums": (
        "dp_gnn", {"options": TAPE | {"conv": "gin", "decoder_layers": 2, "row_norm": "l2"}}, "differences",
    ),
    "dp_gnn with attention": (
        "dp_gnn", {"options": TAPE | {"conv": "gat", "decoder_layers": 1}}, "copies",
    ),
    "dp_gnn averaged beforehand": ("dp_gnn", {"options": TAPE | {"aggregate_once": True}}, "copies"),
    "dp_mlp": ("dp_mlp", {"mode": "sound", **NODE, "options": TAPE}, "differences"),
    "dp_linear": (
        "dp_linear", {"mode": "sound", **NODE, "options": {"training": {"num_steps": 20}}}, "differences",
    ),
    "dpar": ("dpar", {"options": {"width": 4, "batch_size": 8, "num_steps": 5}}, "differences"),
    "dpar without propagation": (
        "dpar", {"options": {"width": 4, "batch_size": 8, "num_steps": 5, "power_iterations": 0}},
        "differences",
    ),
    "drw": ("drw", {"options": WALKS}, "differences"),
    "drw of two layers": ("drw", {"options": WALKS | {"num_layers": 2}}, "differences"),
    "drw as sound": (
        "drw",
        {"mode": "sound", "unit": "node-record", "relation": "add-remove",
         "options": WALKS | {"noise_multiplier": 4, "clipping_norm": 0.01, "sampler": "own-list",
                             "batches": "poisson"}},
        "differences",
    ),
    "mlp": ("mlp", {"options": GCN}, "differences"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("direction", ["scale", "mix"])
def test_one_pass_gives_what_one_query_at_a_time_gives(name: str, direction: Any) -> None:
    method, arguments, way = CASES[name]
    target = cached(name, method, arguments)
    assert why_not_other_features(target) == ""
    perturbed, read = np.array([3, 17, 17, 41, 0]), np.arange(5, 60)
    # a step far above float32 rounding; both ways take the same one
    found, loop = (
        influence(
            target, perturbed, read, direction=direction, step=0.05, rng=np.random.default_rng(4),
            path=path,
        )
        for path in (None, "one by one")
    )  # fmt: skip
    assert path_of(target, "frozen") == way
    assert found.shape == (5, 55)
    assert np.allclose(found, loop, rtol=2e-3, atol=2e-3 * max(loop.max(), 1e-3) + 2e-4)
    wanted = np.random.default_rng(5).random(found.shape) < 0.05
    some = influence(
        target, perturbed, read, direction=direction, step=0.05, rng=np.random.default_rng(4),
        wanted=wanted,
    )  # fmt: skip
    assert np.array_equal(np.isnan(some), ~wanted)
    assert np.allclose(some[wanted], found[wanted], rtol=1e-9, atol=1e-9)


def test_frozen_answers_are_those_of_the_run() -> None:
    for name in CASES:
        target = cached(name, *CASES[name][:2])
        known = {**target.state, **target.kept}
        if "logits" in known:
            kept = known["logits"].numpy()
            assert np.allclose(ask(target, target.graph), kept, atol=1e-4), name


def test_fresh_answers_differ_from_query_to_query_and_frozen_ones_do_not() -> None:
    for name in ("caribou", "gap", "edgerand", "pertgraph", "dpdgc"):
        target = cached(name, *CASES[name][:2])
        first, second = (ask(target, target.graph, noise="fresh", number=n) for n in (1, 2))
        assert not np.allclose(first, second), name
        assert np.array_equal(first, ask(target, target.graph, noise="fresh", number=1)), name
        assert np.array_equal(ask(target, target.graph), ask(target, target.graph)), name


def test_copies_do_not_touch() -> None:
    graph = cached("gcn", *CASES["gcn"][:2]).graph
    three = copies_of(graph, 3)
    assert three.num_nodes == 3 * graph.num_nodes
    assert three.num_edges == 3 * graph.num_edges
    source, end = three.edge_index // graph.num_nodes
    assert np.array_equal(source, end)


_CACHE: dict[str, Any] = {}


def cached(name: str, method: str, arguments: dict[str, Any]) -> Any:
    """A model fitted once for all tests of this file."""
    if name not in _CACHE:
        _CACHE[name] = fitted(method, **arguments)
    return _CACHE[name]
