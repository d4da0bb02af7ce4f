"""An attack for CARIBOU as released: does this node's only edge exist?

The released code ends with a layer on the private edges that no noise follows, and its operator has no
self-loops. Without its only edge, a node's row of the operator is zero, so its released row minus the public
residual is constant over the columns, for any noise. With the edge it is not. The game runs the real
iteration in both worlds with the planned noise; other variants of CARIBOU serve as controls.
"""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn import methods
from dpgnn.attacks import statistics
from dpgnn.core.checks import at_least, require
from dpgnn.methods.shared.undirected import adjacency_of, degrees

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import Entry
    from dpgnn.methods.queries import FittedRun

# default runs of each world; fewer if a state has more float64 values than this
NUM_RUNS, LARGE_STATE, FEW_RUNS = 200, 1_000_000, 40


def why_not(entry: Entry) -> str:
    """Why the attack does not apply to the entry; "" if it does."""
    leaks = methods.get(entry.method).leaks
    if leaks.last_row is None:
        return "it is about iterations over private edges"
    return leaks.why_not_last_row(entry)


def only_edge(graph: Graph, *, rng: np.random.Generator) -> tuple[int, int]:
    """A node with exactly one neighbour, and that neighbour.

    Raises:
        ValueError: there is none.
    """
    adjacency = adjacency_of(graph)
    leaves = np.flatnonzero(degrees(adjacency) == 1)
    require(len(leaves) > 0, f"{graph.name}: nodes with one edge", "be at least 1", 0)
    node = int(rng.choice(leaves))
    return node, int(adjacency.indices[adjacency.indptr[node]])


def without_edge(graph: Graph, node: int, other: int) -> Graph:
    """The neighbouring graph."""
    source, end = graph.edge_index
    gone = ((source == node) & (end == other)) | ((source == other) & (end == node))
    return dataclasses.replace(graph, edge_index=graph.edge_index[:, ~gone].copy())


def statistic(rest: np.ndarray) -> float:
    """Norm of a node's released row minus the residual and minus its mean over columns."""
    return float(np.linalg.norm(rest - rest.mean()))


def attack(
    target: FittedRun, *, num_runs: int | None, level: float, rng: np.random.Generator
) -> dict[str, Any]:
    """Play the game and test the claim; runs are independent, so the test's level is exact.

    Args:
        target: of an edge-level CARIBOU entry; its plan's noise is used in both worlds.
        num_runs: of each world; None takes 200, or 40 if a state is large (the result then says so).
        level: probability of rejecting a true claim.
        rng: of the edge and of all noise.
    """
    if num_runs is not None:
        at_least("num_runs", num_runs, 8)
    started = time.monotonic()
    base: dict[str, Any] = {"attack": "noise-free-layer"}
    # other variants of the iteration are controls
    if target.leaks.last_row is None:
        return base | {"status": "not-applicable", "reason": why_not(target.entry)}
    graph = target.graph
    try:
        node, other = only_edge(graph, rng=rng)
    except ValueError as error:
        return base | {"status": "not-available", "reason": str(error)}
    capped = num_runs is None and graph.num_nodes * graph.num_features > LARGE_STATE
    num_runs = num_runs or (FEW_RUNS if capped else NUM_RUNS)
    scores = np.zeros((2, num_runs))
    for place, world in enumerate((graph, without_edge(graph, node, other))):
        row = target.leaks.last_row(target, world, node)
        for run in range(num_runs):
            scores[place, run] = statistic(row(lambda hop, shape: rng.standard_normal(shape)))
    return base | {
        "status": "ok",
        "capped_from": 2 * NUM_RUNS if capped else None,
        "largest_without_edge": float(scores[1].max()),
        "smallest_with_edge": float(scores[0].min()),
        **statistics.game_result(scores, target.plan.claims[0], level=level, rng=rng),
        "claim_covers_answers": True,
        "seconds": time.monotonic() - started,
    }
