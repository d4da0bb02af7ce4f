"""Noisy aggregation: the loops against plain ones, sensitivities against brute force, nothing on disk."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dpgnn.accountants import gdp
from dpgnn.data.graph import Graph
from dpgnn.data.splits import Split
from dpgnn.methods.base import SamplerSpec
from dpgnn.methods.gap import plan as gap
from dpgnn.methods.shared.aggregate import (
    ContractiveLayer,
    column_scaled_rows,
    contractive_iteration,
    end_of_hop,
    noisy_sums,
    operator_without_self_loops,
    project_rows,
    released_code_iteration,
    symmetric_operator,
    unit_rows,
)
from dpgnn.methods.shared.aggregate_bounds import (
    own_list_edges,
    prepare,
    reading_matrix,
    sampled_edges,
)
from dpgnn.methods.shared.undirected import symmetric_adjacency, undirected_pairs

LAYER = ContractiveLayer(contraction=0.8, alpha1=0.7, beta=0.5)


def graph(num_nodes: int = 9, density: float = 0.4, seed: int = 0) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((num_nodes, num_nodes)) < density, 1)
    return symmetric_adjacency(np.argwhere(upper).T.astype(np.int64), num_nodes)


def seeded_draw(seed: int = 0):  # type: ignore[no-untyped-def]
    return lambda hop, shape: np.random.default_rng([seed, hop]).standard_normal(shape)


def test_contractive_iteration_is_algorithm_1_written_out() -> None:
    adjacency, rng = graph(), np.random.default_rng(1)
    x0, draw = unit_rows(rng.normal(size=(9, 3))), seeded_draw()
    found = contractive_iteration(
        LAYER, symmetric_operator(adjacency), x0, num_hops=3, noise_stddev=0.3, draw=draw
    )
    dense = adjacency.toarray() + np.eye(9)
    scale = 1 / np.sqrt(dense.sum(axis=1))
    operator = scale[:, None] * dense * scale
    x = x0
    for hop in (1, 2, 3):
        h = 0.8 * (0.7 * operator @ x + 0.3 * np.full((9, 9), 1 / 9) @ x) + 0.5 * x0
        h = h + 0.3 * draw(hop, h.shape)
        x = h / np.maximum(1, np.linalg.norm(h, axis=1))[:, None]
    np.testing.assert_allclose(found, x, atol=1e-12)
    assert (np.linalg.norm(found, axis=1) <= 1 + 1e-12).all()


def test_released_code_iteration_adds_a_noise_free_layer_after_each_hop() -> None:
    adjacency, raw = graph(), np.random.default_rng(2).normal(size=(9, 3))
    operator, draw = operator_without_self_loops(adjacency), seeded_draw()
    found = released_code_iteration(
        LAYER, operator, raw, num_hops=2, noise_stddev=0.3, draw=draw, noise_free_layer=True
    )
    a, x = operator.toarray(), unit_rows(raw)
    for hop in (1, 2):
        h = 0.8 * (0.7 * a @ x + 0.3 * x.mean(axis=0)) + 0.5 * raw + 0.3 * draw(hop, x.shape)
        h = project_rows(h) if hop == 1 else h
        x = 0.8 * (0.7 * a @ h + 0.3 * h.mean(axis=1, keepdims=True)) + 0.5 * raw
    np.testing.assert_allclose(found, x, atol=1e-12)


def test_layers_on_many_rows_are_their_formulas_to_the_last_bit_and_change_no_input() -> None:
    rng = np.random.default_rng(5)
    num_nodes = 2500  # more than the rows that are added at once, and no multiple of them
    operator = sp.csr_array(sp.random_array((num_nodes, num_nodes), density=0.002, rng=rng))
    x, residual = rng.normal(size=(2, num_nodes, 3))
    before = x.copy(), residual.copy()
    c, a1, beta = LAYER.contraction, LAYER.alpha1, LAYER.beta
    for layer, axis in ((LAYER, 0), (LAYER.feature_mean, 1)):
        mixed = a1 * (operator @ x) + (1 - a1) * x.mean(axis=axis, keepdims=True)
        assert np.array_equal(layer(operator, x, residual), c * mixed + beta * residual)
    assert np.array_equal(x, before[0])
    assert np.array_equal(residual, before[1])


def test_an_interrupted_iteration_starts_again_at_the_first_hop() -> None:
    """There is no state to go on from: the function is handed no store and hops are drawn from 1 again."""
    seen: list[int] = []

    def stop_at_three(hop: int, shape: tuple[int, int]) -> np.ndarray:
        seen.append(hop)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return np.zeros(shape)

    arguments = (LAYER, symmetric_operator(graph()), unit_rows(np.ones((9, 2))))
    with pytest.raises(KeyboardInterrupt):
        contractive_iteration(*arguments, num_hops=4, noise_stddev=1.0, draw=stop_at_three)
    contractive_iteration(*arguments, num_hops=4, noise_stddev=1.0, draw=stop_at_three)
    assert seen == [1, 2, 3, 1, 2, 3, 4]


@pytest.mark.parametrize("padding", [1, 4])
def test_operators_have_norm_at_most_one(padding: int) -> None:
    for seed in range(20):
        adjacency = graph(8, 0.1 + 0.04 * seed, seed)
        norm = np.linalg.norm(symmetric_operator(adjacency, padding=padding).toarray(), 2)
        assert norm <= 1 + 1e-12
        assert np.linalg.norm(operator_without_self_loops(adjacency).toarray(), 2) <= 1 + 1e-12


def test_padding_moves_weight_to_the_self_loop_only_below_the_bound() -> None:
    adjacency = graph(8, 0.5, 3)
    operator = symmetric_operator(adjacency, padding=4).toarray()
    degree = np.diff(adjacency.indptr)
    expected = np.maximum(1, 4 - degree) / np.maximum(4, degree + 1)
    np.testing.assert_allclose(np.diag(operator), expected, atol=1e-12)


def test_rows_longer_than_one_are_refused() -> None:
    with pytest.raises(ValueError, match="rows of x0 must lie in the unit ball"):
        noisy_sums(graph(), 2 * np.ones((9, 2)), num_hops=1, noise_stddev=0, draw=seeded_draw())


def test_column_scaled_rows_stay_in_the_unit_ball_but_lose_signal() -> None:
    rows = column_scaled_rows(np.random.default_rng(4).normal(size=(200, 64)))
    norms = np.linalg.norm(rows, axis=1)
    assert (norms <= 1).all()
    assert 0.1 < norms.mean() < 0.2


# --- sensitivities of sums


def test_edge_sensitivity_of_sums_is_attained_by_an_undirected_edge() -> None:
    x = unit_rows(np.ones((9, 2)))
    worst = 0.0
    for seed in range(10):
        adjacency = graph(9, 0.4, seed).toarray()
        for u, v in np.argwhere(np.triu(adjacency)):
            smaller = adjacency.copy()
            smaller[u, v] = smaller[v, u] = 0
            worst = max(worst, float(np.linalg.norm((adjacency - smaller) @ x)))
            one_way = adjacency.copy()
            one_way[u, v] = 0
            assert np.linalg.norm((adjacency - one_way) @ x) == pytest.approx(1.0)
    assert worst == pytest.approx(gap.edge_sensitivity(directed=False))
    assert worst > gap.edge_sensitivity(directed=True) * 1.4  # the published count is too small


def test_node_sensitivity_of_sums_is_attained_with_and_without_the_own_row() -> None:
    worst = {"others": 0.0, "all": 0.0}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        adjacency = graph(8, 0.5, seed).toarray()
        bound = int(adjacency.sum(axis=0).max())
        x = unit_rows(np.ones((8, 2)))
        for u in range(8):
            smaller, x_smaller = adjacency.copy(), x.copy()
            smaller[u, :] = smaller[:, u] = 0
            x_smaller[u] = 0
            change = adjacency @ x - smaller @ x_smaller
            others = float(np.linalg.norm(np.delete(change, u, axis=0)))
            assert others <= gap.node_sensitivity(bound, "null-one") + 1e-12
            whole = float(np.linalg.norm(change))
            assert whole <= gap.own_row_sensitivity(bound) + 1e-12
            worst["others"] = max(worst["others"], others / gap.node_sensitivity(bound, "null-one"))
            worst["all"] = max(worst["all"], whole / gap.own_row_sensitivity(bound))
            replaced = x.copy()
            replaced[u] = unit_rows(rng.normal(size=(1, 2)))[0]
            other_edges = smaller.copy()
            chosen = rng.permutation(np.delete(np.arange(8), u))[:bound]
            other_edges[u, chosen] = other_edges[chosen, u] = 1
            change = np.delete(adjacency @ x - other_edges @ replaced, u, axis=0)
            assert np.linalg.norm(change) <= gap.node_sensitivity(bound, "replace-one") + 1e-12
    assert worst["others"] == pytest.approx(1.0)
    assert worst["all"] == pytest.approx(1.0)
    assert gap.own_row_sensitivity(20) > 4 * gap.node_sensitivity(20, "null-one")


def test_own_lists_let_a_record_decide_at_most_k_rows_for_every_key() -> None:
    pairs = np.argwhere(np.triu(graph(12, 0.6, 5).toarray())).T.astype(np.int64)
    both = np.concatenate([pairs, pairs[::-1]], axis=1)

    def matrix(edges: np.ndarray, key: int) -> np.ndarray:
        kept = own_list_edges(edges, 12, 3, rng=np.random.default_rng(key))
        result = np.zeros((12, 12))
        result[kept[1], kept[0]] = 1
        return result

    for key in range(5):
        whole = matrix(both, key)
        assert whole.sum(axis=0).max() == 3
        for u in range(12):
            removed = matrix(both[:, both[0] != u], key)  # u's own list is emptied
            change = whole - removed
            assert np.delete(change, u, axis=1).any() is np.False_
            assert np.abs(change[:, u]).sum() <= 3


def test_half_edges_of_a_directed_graph_stay_with_the_record_that_lists_them() -> None:
    """u lists everybody and nobody lists u: its record decides K rows, and no slot of another list."""
    rng, size, bound = np.random.default_rng(3), 40, 3
    source, target = np.nonzero(rng.random((size, size)) < 0.3)
    keep = (source != target) & (source != 0) & (target != 0)
    others = np.stack([source[keep], target[keep]])
    hub = np.stack([np.zeros(size - 1, dtype=np.int64), np.arange(1, size)])
    spec = SamplerSpec(name="own_list_edges", params={"max_degree": bound})
    made = []
    for arcs in (np.concatenate([others, hub], axis=1), others):
        world = Graph(
            name="g", x=np.eye(size, dtype=np.float32), edge_index=arcs.astype(np.int64),
            y=np.zeros(size, dtype=np.int64), num_classes=2, directed=True,
        )  # fmt: skip
        train, val, test = np.split(np.arange(size), [38, 39])
        split = Split(train_idx=train, val_idx=val, test_idx=test, inductive=False)
        prepared = prepare(world, split, spec, np.random.default_rng(7))
        assert prepared.facts == {}
        made.append(reading_matrix(prepared, size).toarray())
    change = made[0] - made[1]
    assert change[:, 1:].any() is np.False_
    assert np.linalg.norm(change) == pytest.approx(gap.node_sensitivity(bound, "null-one"))


def test_sampled_edges_bound_out_degrees_but_one_node_changes_other_lists() -> None:
    pairs = undirected_pairs(np.argwhere(graph(30, 0.7, 6).toarray()).T, 30)
    both = np.concatenate([pairs, pairs[::-1]], axis=1)
    kept = sampled_edges(both, 30, 4, rng=np.random.default_rng(0))
    assert np.bincount(kept[0], minlength=30).max() == 4
    smaller = both[:, (both != 0).all(axis=0)]
    without = sampled_edges(smaller, 30, 4, rng=np.random.default_rng(0))
    old = {tuple(edge) for edge in kept.T if 0 not in edge}
    new = {tuple(edge) for edge in without.T}
    assert len(old ^ new) > 20
    last = sampled_edges(both, 30, 4, rng=np.random.default_rng(0), drop_last_node=True)
    assert 29 not in last[0]


# --- the noise is worth what the accountant says


@pytest.mark.parametrize(("num_hops", "contraction"), [(1, 0.5), (4, 0.5), (4, 0.9)])
def test_the_shift_of_the_last_state_is_within_mu_and_near_it(
    num_hops: int, contraction: float
) -> None:
    """Two nodes with or without their edge, states far from the sphere: the best linear test has mean shift
    at most mu. Without the edge each node reads itself, with it both read the mean."""
    layer = ContractiveLayer(contraction=contraction, alpha1=1.0, beta=0.0)
    x0 = np.array([[0.9], [-0.9]])
    with_edge = symmetric_operator(graph(2, 1.1))
    without = symmetric_operator(graph(2, 0.0))
    noise, runs = 0.02, 2000
    difference = np.array([[1.0], [-1.0]]) / math.sqrt(2)
    statistics = []
    for operator in (with_edge, without):
        values = []
        for run in range(runs):
            rng = np.random.default_rng([run, operator.nnz])
            last = contractive_iteration(
                layer, operator, x0, num_hops=num_hops, noise_stddev=noise,
                draw=lambda hop, shape, rng=rng: rng.standard_normal(shape),
            )  # fmt: skip
            values.append(float((last * difference).sum()))
        statistics.append(np.array(values))
    spread = math.sqrt(sum(s.var() for s in statistics) / 2)
    shift = abs(statistics[1].mean() - statistics[0].mean()) / spread
    # phi - phi' at rows +-1 has norm c sqrt 2, the sensitivity without assumptions
    mu = contraction * math.sqrt(2) / noise * math.sqrt(gdp.effective_hops(num_hops, contraction))
    assert shift <= mu * (1 + 4 / math.sqrt(runs))
    if num_hops == 1:
        assert shift > 0.8 * mu


@pytest.mark.parametrize("own_rows", [False, True])
def test_every_state_that_enters_a_hop_lies_in_the_ball_and_is_zero_where_emptied(
    own_rows: bool,
) -> None:
    states: list[np.ndarray] = []

    class Watched(ContractiveLayer):
        def __call__(self, operator: sp.csr_array, x: np.ndarray, residual: np.ndarray):  # type: ignore[no-untyped-def]
            states.append(x.copy())
            return super().__call__(operator, x, residual)

    x0 = unit_rows(np.random.default_rng(2).normal(size=(9, 3)))
    x0[4] = 0.0
    emptied = ~x0.any(axis=1)
    last = contractive_iteration(
        Watched(contraction=0.8, alpha1=0.7, beta=0.5), symmetric_operator(graph()), x0,
        num_hops=4, noise_stddev=5.0, draw=seeded_draw(), emptied=emptied, own_rows=own_rows,
    )  # fmt: skip
    assert len(states) == 4
    for state in [*states, last]:
        assert np.linalg.norm(state, axis=1).max() <= 1 + 1e-12
    if not own_rows:
        assert all(not state[4].any() for state in [*states, last])


def test_with_own_rows_what_gets_noise_lies_in_the_ball_and_is_zero_where_emptied() -> None:
    x = 3.0 * np.random.default_rng(4).normal(size=(9, 3))
    emptied = np.arange(9) == 4
    noisy: list[np.ndarray] = []

    def watched(rows: np.ndarray) -> np.ndarray:
        noisy.append(rows.copy())
        return rows + 5.0

    end_of_hop(x.copy(), watched, emptied=emptied, own_rows=True)
    assert np.linalg.norm(noisy[0], axis=1).max() <= 1 + 1e-12
    assert not noisy[0][4].any()


def test_every_state_of_gap_that_enters_a_hop_has_unit_rows() -> None:
    x0 = unit_rows(np.random.default_rng(3).normal(size=(9, 3)))
    entered: list[np.ndarray] = []

    class Watched(sp.csr_array):
        def __matmul__(self, x: np.ndarray) -> Any:
            entered.append(x.copy())
            return graph() @ x

    watched = Watched(graph())
    states = noisy_sums(watched, x0, num_hops=3, noise_stddev=5.0, draw=seeded_draw())
    assert len(entered) == 3
    for state in [*entered, *states]:
        assert np.linalg.norm(state, axis=1) == pytest.approx(1.0)
