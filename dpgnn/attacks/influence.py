"""Influence of the features of node u on the answer for node v, for many u at once.

Three ways, of which the first applicable one is used: by differences (exact, float64; for models whose method
states their layers), by copies (disjoint copies of the graph in one pass, for models without global
interaction), one by one (for means over all nodes, and for fresh noise).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp

from dpgnn.attacks.queries import Noise, ask, queries_of, with_features
from dpgnn.attacks.stacks import Stack
from dpgnn.core.checks import at_least, one_of, positive

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.methods.queries import FittedRun

# scale: u's row times 1 + step, as published; mix: another node's row is added, so that a model which
# normalises rows sees a change
Direction = Literal["scale", "mix"]
DIRECTIONS: tuple[Direction, ...] = ("scale", "mix")
Path = Literal["differences", "copies", "one by one"]
STEP = 1e-4
# rows of all copies in one pass
COPIED_ROWS = 120_000
# float64 values of all differences in one pass
DIFFERENCE_VALUES = 12_000_000
Report = Callable[[int], None]


def path_of(target: FittedRun, noise: Noise) -> Path:
    """The way in which a model's influences are computed."""
    stated = queries_of(target)
    if noise == "fresh" and stated.noise(target.entry) != "none":
        return "one by one"
    if stated.layers is not None and not stated.why_not_layers(target.entry):
        return "differences"
    return "copies" if stated.disjoint else "one by one"


def influence(
    target: FittedRun,
    perturbed: np.ndarray,
    read: np.ndarray,
    *,
    direction: Direction = "scale",
    noise: Noise = "frozen",
    step: float = STEP,
    rng: np.random.Generator,
    wanted: np.ndarray | None = None,
    path: Path | None = None,
    report: Report = lambda done: None,
) -> np.ndarray:
    """Norms of (f(X + step d_u e_u) - f(X)) / step at the nodes in `read`.

    Args:
        target: the model; its answers are logits.
        perturbed: int64, shape (num_queries,): the nodes u, one query each.
        read: int64, shape (num_read,): the nodes v whose rows are read.
        direction: d_u is u's own row ("scale") or that of another node drawn by `rng` ("mix").
        noise: noise of the answers; with "fresh", every query and the unperturbed one have their own.
        step: Delta.
        rng: of "mix" and of the names of fresh draws.
        wanted: bool, shape (num_queries, num_read): needed answers; None is all. Differences do not compute
            the others.
        path: forces a way; None takes the fastest exact one.
        report: called with the number of finished queries.

    Returns:
        float64, shape (num_queries, num_read), >= 0; NaN where not needed.

    Source: Wu et al. (2022), LinkTeller, arXiv:2108.06504; step 1e-4.
    """
    one_of("direction", direction, DIRECTIONS)
    positive("step", step)
    at_least("perturbed", len(perturbed), 1)
    directions = _directions(target.graph, perturbed, direction, rng)
    chosen = path or path_of(target, noise)
    if chosen == "differences":
        found = _by_differences(target, perturbed, read, wanted, directions, step, report)
    else:
        at_once = max(1, min(len(perturbed), COPIED_ROWS // target.graph.num_nodes))
        num_copies = at_once if chosen == "copies" else 1
        found = _by_passes(
            target, perturbed, read, directions, step, noise, rng, num_copies, report
        )
    return found if wanted is None else np.where(wanted, found, np.nan)


def _directions(
    graph: Graph, nodes: np.ndarray, direction: Direction, rng: np.random.Generator
) -> Any:
    """Rows d_u, CSR or dense like x."""
    if direction == "scale":
        return graph.x[nodes]
    others = rng.integers(0, graph.num_nodes - 1, size=len(nodes))
    return graph.x[others + (others >= nodes)]


def _by_differences(
    target: FittedRun,
    perturbed: np.ndarray,
    read: np.ndarray,
    wanted: np.ndarray | None,
    directions: Any,
    step: float,
    report: Report,
) -> np.ndarray:
    graph = target.graph
    layers = queries_of(target).layers
    assert layers is not None
    stack = Stack(layers(target), graph.num_nodes)
    found = []
    size = max(1, min(256, DIFFERENCE_VALUES // (stack.rows_of_a_query * stack.width)))
    for first in range(0, len(perturbed), size):
        nodes = perturbed[first : first + size]
        before = _dense(graph.x[nodes])
        after = before + step * _dense(directions[first : first + size])
        keep = np.zeros((len(nodes), graph.num_nodes), dtype=bool)
        keep[:, read] = True if wanted is None else wanted[first : first + size]
        changed = stack.ask(nodes, before, after, keep)
        found.append(changed.norms(len(nodes), read) / step)
        report(first + len(nodes))
    return np.concatenate(found)


def _by_passes(
    target: FittedRun,
    perturbed: np.ndarray,
    read: np.ndarray,
    directions: Any,
    step: float,
    noise: Noise,
    rng: np.random.Generator,
    num_copies: int,
    report: Report,
) -> np.ndarray:
    """Full passes over disjoint copies of the graph, one query each; an answer reads its own copy only."""
    graph, number = target.graph, int(rng.integers(2**62))
    base = ask(target, graph, noise=noise, number=number)[read]
    joined, found = copies_of(graph, num_copies), []
    for first in range(0, len(perturbed), num_copies):
        nodes = perturbed[first : first + num_copies]
        if len(nodes) < num_copies:
            joined = copies_of(graph, len(nodes))
        rows = np.arange(len(nodes)) * graph.num_nodes + nodes
        moved = _moved(graph, nodes, directions[first : first + num_copies], step)
        # with fresh noise a pass is one query and has draws of its own
        answers = ask(
            target, with_features(joined, rows, moved), noise=noise, number=number + 1 + first
        )
        answers = answers.reshape(len(nodes), graph.num_nodes, -1)[:, read]
        found.append(np.linalg.norm(answers - base, axis=2) / step)
        report(first + len(nodes))
    return np.concatenate(found)


def copies_of(graph: Graph, count: int) -> Graph:
    """`count` disjoint copies of a graph, one after another."""
    if count == 1:
        return graph
    starts = np.arange(count) * graph.num_nodes
    edges = (graph.edge_index[:, None, :] + starts[:, None]).reshape(2, -1)
    if sp.issparse(graph.x):
        x = sp.csr_array(sp.vstack([graph.x] * count))
    else:
        x = np.tile(graph.x, (count, 1))
    y = np.concatenate([graph.y] * count)
    return dataclasses.replace(graph, x=x, y=y, edge_index=edges, splits={})


def _moved(graph: Graph, nodes: np.ndarray, directions: Any, step: float) -> Any:
    moved = graph.x[nodes] + np.float32(step) * directions
    return sp.csr_array(moved) if sp.issparse(graph.x) else moved


def _dense(rows: Any) -> np.ndarray:
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)
