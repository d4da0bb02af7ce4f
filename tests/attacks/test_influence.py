"""Influences in one pass against one query at a time, for every method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from attack_models import SHORT, STAGES, fitted
from hypothesis import given
from hypothesis import strategies as st

from dpgnn.attacks.differences import at_nodes, wanted_rows
from dpgnn.attacks.influence import copies_of, influence, path_of
from dpgnn.attacks.queries import ask, why_not_other_features

EDGE = {"unit": "edge", "relation": "add-remove"}
BOUNDED = {"unit": "node-bounded", "relation": "add-remove"}
CONTRACT: dict[str, Any] = {"num_hops": 3, "contraction": 0.8, "beta": 0.5, "head": SHORT}
WIDTH = {"hidden": SHORT["hidden"]}
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
        if "logits" in target.state:
            kept = target.state["logits"].numpy()
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


def test_differences_follow_a_product_and_a_row_wise_layer() -> None:
    rng = np.random.default_rng(0)
    operator = sp.random_array((12, 12), density=0.3, rng=rng, format="csc")
    base = rng.standard_normal((12, 3))
    nodes, moved = np.array([2, 7, 2]), rng.standard_normal((3, 3))

    def layer(node: Any, rows: np.ndarray) -> np.ndarray:
        return np.maximum(rows + 0.1 * np.asarray(node)[:, None], 0)

    spread = at_nodes(nodes, moved, 12).spread(operator)
    found = spread.through(operator @ base, layer).norms(3, np.arange(12))
    for query, node in enumerate(nodes):
        changed = base.copy()
        changed[node] += moved[query]
        everyone = np.arange(12)
        truth = layer(everyone, operator @ changed) - layer(everyone, operator @ base)
        assert np.allclose(found[query], np.linalg.norm(truth, axis=1))


@given(seed=st.integers(0, 10_000), density=st.sampled_from([0.0, 0.05, 0.3, 0.9]))
def test_differences_of_many_queries_are_products_with_the_whole_operator(
    seed: int, density: float
) -> None:
    rng, size = np.random.default_rng(seed), 9
    operator = sp.random_array((size, size), density=density, rng=rng, format="csc")
    nodes, rows = rng.integers(0, size, 4), rng.standard_normal((4, 2))
    keep = rng.random((4, size)) < 0.6
    start = at_nodes(nodes, rows, size)
    near = start.spread(operator)
    joined = near.plus(start.scaled(0.5))
    found = joined.spread(operator, keep=keep)
    dense = np.zeros((4, size, 2))
    dense[np.arange(4), nodes] = rows
    truth = operator.toarray() @ dense
    for result, expected in (
        (near, truth),
        (joined, truth + 0.5 * dense),
        (found, operator.toarray() @ (truth + 0.5 * dense) * keep[:, :, None]),
    ):
        assert (np.diff(result.key) > 0).all()
        filled = np.zeros((4, size, 2))
        filled[result.query, result.node] = result.value
        assert np.allclose(filled, expected)
    assert keep[found.query, found.node].all()


@given(seed=st.integers(0, 10_000), num_spreads=st.integers(1, 4))
def test_rows_that_are_not_wanted_change_nothing_that_is(seed: int, num_spreads: int) -> None:
    rng, size = np.random.default_rng(seed), 9
    operator = sp.random_array((size, size), density=0.15, rng=rng, format="csr")
    keep = rng.random((3, size)) < 0.2
    masks = wanted_rows(operator, keep, num_spreads)
    assert len(masks) == num_spreads
    assert masks[-1] is keep
    rows = rng.standard_normal((3, size, 2))
    everything, wanted = rows, rows
    for mask in masks:
        # own rows beside the neighbours', as SAGE and restarts have them
        everything = operator.toarray() @ everything + everything
        wanted = (operator.toarray() @ wanted + wanted) * mask[:, :, None]
    assert np.allclose(wanted, everything * keep[:, :, None])
    if num_spreads == 2:
        reads = (operator.toarray() != 0) | np.eye(size, dtype=bool)
        assert np.array_equal(masks[0], (keep.astype(int) @ reads.astype(int)) > 0)


_CACHE: dict[str, Any] = {}


def cached(name: str, method: str, arguments: dict[str, Any]) -> Any:
    """A model fitted once for all tests of this file."""
    if name not in _CACHE:
        _CACHE[name] = fitted(method, **arguments)
    return _CACHE[name]
