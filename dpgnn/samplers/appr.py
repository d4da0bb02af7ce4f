"""Approximate personalised PageRank rows by proximal gradient (ISTA) or by push; no privacy inside.

With D the degrees (self-loops counted when asked for) and the lazy walk of teleport alpha, the row of a
root s solves  min_x 1/2 x'Qx - alpha s'D^-1/2 x + rho alpha ||D^1/2 x||_1,  p = D^1/2 x,
Q = D^-1/2 (D - (1 - alpha)/2 (D + A)) D^-1/2. Write g = D^1/2 grad = (1 + alpha)/2 p - (1 - alpha)/2
A D^-1 p - alpha s. Optimal: g_i = -rho alpha d_i where p_i > 0, and -rho alpha d_i <= g_i <= 0 elsewhere.
Solvers stop at ||D^-1/2 grad||_inf <= (1 + gamma) rho alpha. From p = 0 all of them keep p below the
optimum (ista, coordinate) or below the exact row (push), p >= 0 and ||p||_1 <= 1.

 - ista: unit proximal gradient steps on p, as Fountoulakis et al. (2019) state.
 - coordinate: pushes only what exceeds rho d_i at a node: the same optimum, many times faster.
 - push: pushes everything that stands at a node (Andersen, Chung, Lang 2006): residual <= rho d, which
   is the same stop rule, but entries go beyond the optimum of the l1 problem.

alpha = 0.25 here is a teleport of 2 alpha/(1 + alpha) = 0.4 of the simple walk.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from dpgnn.core.checks import (
    at_least,
    fail,
    non_negative,
    one_of,
    open_probability,
    positive,
    require,
)
from dpgnn.samplers import _appr_kernels
from dpgnn.samplers.adjacency import Adjacency
from dpgnn.samplers.lists import in_threads
from dpgnn.samplers.rows import Rows

Solver = Literal["ista", "coordinate", "push"]
SOLVERS = ("ista", "coordinate", "push")


def approximate_pagerank(
    graph: Adjacency,
    roots: np.ndarray,
    *,
    alpha: float = 0.25,
    rho: float = 1e-4,
    gamma: float = 1e-4,
    solver: Solver = "ista",
    self_loops: bool = True,
    max_iterations: int = 1_000_000,
    num_workers: int = 1,
) -> Rows:
    """The personalised PageRank row of every root, without privacy.

    Guarantee: none; the rows are as sensitive as the edges. Each row is >= 0 and sums to at most 1.

    Args:
        graph: undirected neighbour lists.
        roots: ids of members of the graph, in the order of the rows.
        alpha: teleport of the lazy walk, in (0, 1).
        rho: weight of the l1 term, > 0; the degrees of a row's nodes sum to at most 1 / rho.
        gamma: relative tolerance of the stop rule (ista, coordinate).
        solver: see the module's text.
        self_loops: add one self-loop to every node (DPAR's code does).
        max_iterations: largest number of steps (ista) or pushes for one row.
        num_workers: threads; rows are independent, so the bytes are the same for any number.

    Returns:
        one row per root, columns ascending, float64 weights.

    Raises:
        ValueError: a root has no edge and self_loops is False, or the tolerance was not reached.

    Source: Fountoulakis et al. (2019), "Variational perspective on local graph clustering";
        Zhang et al. (2024), DPAR, section 3.1; Andersen, Chung, Lang (2006).
    """
    open_probability("alpha", alpha)
    positive("rho", rho)
    non_negative("gamma", gamma)
    at_least("max_iterations", max_iterations, 1)
    one_of("solver", solver, SOLVERS)
    roots, loop = _checked_roots(graph, roots, self_loops), int(self_loops)
    counts = np.zeros(len(roots), np.int64)
    found: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def solve(part: slice) -> None:
        common = (graph.pointer, graph.neighbours, loop, roots[part], alpha, rho, gamma)
        ways = (solver == "coordinate", max_iterations, counts[part])
        kernel = _appr_kernels.ista_rows if solver == "ista" else _appr_kernels.push_rows
        found[part.start] = kernel(*common, *(ways[1:] if solver == "ista" else ways))

    in_threads(solve, len(roots), num_workers)
    if len(counts) and counts.min() < 0:
        rule = f"be enough for the row of node {roots[np.argmin(counts)]}"
        fail("max_iterations", rule, max_iterations, "raise max_iterations or gamma")
    parts = [found[first] for first in sorted(found)] or [(np.empty(0, np.int32), np.empty(0))]
    return Rows(
        roots=roots,
        pointer=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        columns=np.concatenate([columns for columns, _ in parts]),
        values=np.concatenate([values for _, values in parts]),
        num_nodes=graph.num_nodes,
    )


def _checked_roots(graph: Adjacency, roots: np.ndarray, self_loops: bool) -> np.ndarray:
    """The roots as int64, checked to be members of the graph with an edge."""
    roots = np.ascontiguousarray(roots, dtype=np.int64)
    inside = bool(np.isin(roots, graph.members).all())
    require(inside, "roots", "be nodes of the graph", "another id")
    degree = np.diff(graph.pointer)[roots] + int(self_loops)
    if len(degree) and degree.min() == 0:
        fail("roots", "have an edge", f"node {roots[np.argmin(degree)]} without", "set self_loops")
    return roots
