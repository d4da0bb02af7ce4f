"""Diffusion rows against dense linear algebra and the optimality conditions."""

import numpy as np
import pytest

from dpgnn.samplers.adjacency import induced_adjacency
from dpgnn.samplers.appr import SOLVERS, approximate_pagerank


def dense_graph(seed, num_nodes=60, density=0.08):
    adjacency = np.triu(np.random.default_rng(seed).random((num_nodes, num_nodes)) < density, 1)
    adjacency = (adjacency | adjacency.T).astype(float)
    arcs = np.argwhere(adjacency > 0).T
    graph = induced_adjacency(arcs, num_nodes=num_nodes, node_idx=np.arange(num_nodes))
    return adjacency, graph


def slope(adjacency, p, root, alpha):
    """g = D^1/2 grad, see the module."""
    degree = adjacency.sum(axis=1)
    return (1 + alpha) / 2 * p - (1 - alpha) / 2 * adjacency @ (p / degree) - alpha * root


def exact_rows(adjacency, roots, alpha):
    degree = adjacency.sum(axis=1)
    system = (1 + alpha) / 2 * np.eye(len(degree)) - (1 - alpha) / 2 * adjacency / degree
    return np.linalg.solve(system, alpha * np.eye(len(degree))[:, roots]).T


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("alpha", [0.1, 0.25, 0.6])
def test_rows_go_to_the_exact_solution_as_rho_goes_to_zero(solver, alpha):
    adjacency, graph = dense_graph(0)
    with_loops = adjacency + np.eye(60)
    roots = np.array([3, 7, 59, 0])
    rows = approximate_pagerank(graph, roots, alpha=alpha, rho=1e-9, solver=solver)
    assert np.abs(rows.matrix().toarray() - exact_rows(with_loops, roots, alpha)).max() < 1e-6
    assert rows.matrix().sum(axis=1) == pytest.approx(np.ones(4), abs=1e-4)


@pytest.mark.parametrize("solver", ["ista", "coordinate"])
def test_rows_meet_the_optimality_conditions_and_the_stop_rule(solver):
    alpha, rho, gamma = 0.25, 2e-3, 1e-6
    for seed in range(5):
        adjacency, graph = dense_graph(seed)
        with_loops = adjacency + np.eye(60)
        degree = with_loops.sum(axis=1)
        rows = approximate_pagerank(
            graph, np.arange(60), alpha=alpha, rho=rho, gamma=gamma, solver=solver
        )
        dense = rows.matrix().toarray()
        assert (dense == 0).any()
        for root in range(60):
            p = dense[root]
            g = slope(with_loops, p, np.eye(60)[root], alpha) / degree
            assert np.abs(g).max() <= (1 + gamma) * rho * alpha * (1 + 1e-12)
            support = p > 0
            # the optimum on the same support, by dense linear algebra
            inside = np.ix_(support, support)
            system = (1 + alpha) / 2 * np.eye(support.sum())
            system -= (1 - alpha) / 2 * with_loops[inside] / degree[support]
            right = alpha * np.eye(60)[root][support] - rho * alpha * degree[support]
            best = np.linalg.solve(system, right)
            assert np.abs(p[support] - best).max() < 1e-6
            assert (p[support] <= best + 1e-12).all()


def test_push_leaves_less_than_the_threshold_at_every_node_and_stays_below_the_exact_row():
    alpha, rho = 0.25, 1e-3
    adjacency, graph = dense_graph(2)
    with_loops = adjacency + np.eye(60)
    rows = approximate_pagerank(graph, np.arange(60), alpha=alpha, rho=rho, solver="push")
    dense, exact = rows.matrix().toarray(), exact_rows(with_loops, np.arange(60), alpha)
    for root in range(60):
        residual = -slope(with_loops, dense[root], np.eye(60)[root], alpha) / alpha
        assert (residual >= -1e-12).all()
        assert (residual <= rho * with_loops.sum(axis=1) + 1e-12).all()
    assert (dense <= exact + 1e-12).all()
    assert dense.sum(axis=1).max() <= 1


def test_coordinate_and_ista_find_the_same_rows():
    _, graph = dense_graph(4)
    first, second = (
        approximate_pagerank(graph, np.arange(60), rho=1e-3, gamma=1e-8, solver=solver)
        for solver in ("ista", "coordinate")
    )
    assert np.abs(first.matrix() - second.matrix()).max() < 1e-9


@pytest.mark.parametrize("solver", SOLVERS)
def test_any_number_of_workers_gives_the_same_bytes_and_self_loops_can_be_left_out(solver):
    adjacency, graph = dense_graph(5, density=0.3)
    roots = np.random.default_rng(0).permutation(60)[:41]
    one, many = (
        approximate_pagerank(graph, roots, solver=solver, rho=1e-3, num_workers=workers)
        for workers in (1, 3)
    )
    assert np.array_equal(one.values, many.values)
    assert np.array_equal(one.columns, many.columns)
    assert np.array_equal(one.pointer, many.pointer)
    rows = approximate_pagerank(graph, roots, solver=solver, rho=1e-9, self_loops=False)
    assert np.abs(rows.matrix().toarray() - exact_rows(adjacency, roots, 0.25)).max() < 1e-6


def test_bad_input_and_an_unreached_tolerance_are_errors():
    _, graph = dense_graph(6)
    with pytest.raises(ValueError, match="unknown solver"):
        approximate_pagerank(graph, np.array([0]), solver="power")
    with pytest.raises(ValueError, match="roots must be nodes of the graph"):
        approximate_pagerank(graph, np.array([60]))
    for solver in SOLVERS:
        with pytest.raises(ValueError, match="max_iterations must be enough"):
            approximate_pagerank(graph, np.arange(60), rho=1e-6, max_iterations=1, solver=solver)
    lonely = induced_adjacency(np.zeros((2, 0), np.int64), num_nodes=2, node_idx=np.arange(2))
    with pytest.raises(ValueError, match="have an edge"):
        approximate_pagerank(lonely, np.array([1]), self_loops=False)
    rows = approximate_pagerank(lonely, np.array([1]), rho=1e-6, gamma=1e-9)
    assert rows.columns.tolist() == [1]
    assert rows.values == pytest.approx([1.0], abs=1e-5)
