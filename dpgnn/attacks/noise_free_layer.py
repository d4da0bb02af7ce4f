"""The attack that fits CARIBOU as released: is this node's only edge there?

The released code ends with a layer on the private edges that no noise follows, and its operator has no
self-loops. Without its only edge a node's row of the operator is zero, so its row of the release less the
public residual is constant over the columns, for every noise. With the edge it is not. The game runs the real
iteration in both worlds with the planned noise; other variants of CARIBOU play it too, as controls.
"""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.attacks import statistics
from dpgnn.attacks.queries import Target
from dpgnn.core.checks import at_least, require
from dpgnn.methods.shared.aggregate import unit_rows
from dpgnn.methods.shared.undirected import adjacency_of, degrees

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph

# runs of each world where no number is asked for; fewer where a state has more float64 values than that
NUM_RUNS, LARGE_STATE, FEW_RUNS = 200, 1_000_000, 40


def applies(target: Target) -> str:
    """Why the attack does not fit; "" when it does."""
    if target.entry.method != "caribou" or target.entry.privacy_unit != "edge":
        return "it is about CARIBOU at edge level"
    return ""


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


def statistic(target: Target, released: np.ndarray, residual: np.ndarray, node: int) -> float:
    """Norm of what is left of the node's released row without the residual and its mean over columns."""
    rest = released[node] - target.entry.options.beta * residual[node]
    return float(np.linalg.norm(rest - rest.mean()))


def attack(
    target: Target, *, num_runs: int | None, level: float, rng: np.random.Generator
) -> dict[str, Any]:
    """Play the game and test the claim; runs are independent, so the test's level is exact.

    Args:
        target: of an edge-level CARIBOU entry; its plan's noise is used in both worlds.
        num_runs: of each world; None takes 200, or 40 where a state is large (the result then says so).
        level: probability of accusing a true claim.
        rng: of the edge and of all noise.
    """
    from dpgnn.methods.caribou import fit as caribou_fit

    if num_runs is not None:
        at_least("num_runs", num_runs, 8)
    started = time.monotonic()
    base: dict[str, Any] = {"attack": "noise-free-layer"}
    reason = applies(target)
    if reason:
        return base | {"status": "not-applicable", "reason": reason}
    graph, claim = target.graph, target.plan.claims[0]
    try:
        node, other = only_edge(graph, rng=rng)
    except ValueError as error:
        return base | {"status": "not-available", "reason": str(error)}
    raw = graph.dense_x().astype(np.float64)
    x0 = unit_rows(raw)
    residual = raw if target.is_released_code else x0
    capped = num_runs is None and raw.size > LARGE_STATE
    num_runs = num_runs or (FEW_RUNS if capped else NUM_RUNS)
    worlds = (graph, without_edge(graph, node, other))
    matrices = [adjacency_of(world) for world in worlds]
    scores = np.zeros((2, num_runs))
    for place, (world, matrix) in enumerate(zip(worlds, matrices)):
        for run in range(num_runs):
            channels = caribou_fit.edge_channels(
                target.entry, world, x0, matrix, target.noise_stddev,
                lambda hop, shape: rng.standard_normal(shape),
            )  # fmt: skip
            scores[place, run] = statistic(target, channels[-1], residual, node)
    joined, member = scores.ravel(), np.arange(2 * num_runs) < num_runs
    line = statistics.line_test(
        joined, member, epsilon=claim.epsilon, delta=claim.delta, level=level, rng=rng
    )
    return base | {
        "status": "ok",
        "num_trials": 2 * num_runs,
        "capped_from": 2 * NUM_RUNS if capped else None,
        "largest_without_edge": float(scores[1].max()),
        "smallest_with_edge": float(scores[0].min()),
        **statistics.summary(joined, member),
        "line": dataclasses.asdict(line),
        "detects": line.detects,
        "claimed_epsilon": claim.epsilon,
        "delta": claim.delta,
        "exceeds_claim": line.crossed or line.epsilon_lower_bound > claim.epsilon,
        "seconds": time.monotonic() - started,
    }
