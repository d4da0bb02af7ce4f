"""Where methods release something that is no clipped sum, and how far neighbours move it there.

Each point names a function of the package, the planned mechanisms it executes, and a measure: from what
the function was given in G and in G', how far the noise-free value moves, against what the mechanism's event
says. Adaptive releases are measured at one common state, tried where it does most harm.

A method that releases through another function needs a line in `POINTS`; until then its contract test fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpgnn.accountants.events import RandomizedResponse, parts
from dpgnn.accountants.plan import Mechanism

Arguments = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Where:
    """What a measure must know of the pair.

    Attributes:
        own: rows that do not count: the changed node's own where its rows stay in the run.
        relation: how the neighbours differ.
        absent: the changed node has no record, or an emptied one, in G'.
    """

    own: np.ndarray
    relation: str
    absent: bool


@dataclass(frozen=True, kw_only=True)
class Move:
    """How far a value moved, in the units of the event, and how far it may."""

    moved: float
    allowed: float


# (calls in G, calls in G', mechanism, where) -> how far it moved
Measure = Callable[[Sequence[Arguments], Sequence[Arguments], Mechanism, Where], Move]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One function that releases.

    Attributes:
        module, function: where it is.
        measures: mechanism -> measure.
    """

    module: str
    function: str
    measures: Mapping[str, Measure]


def _event(mechanism: Mechanism) -> Any:
    (event, _), *_ = parts(mechanism.event)
    return event


def _allowed(mechanism: Mechanism) -> float:
    """What the plan states, where an event of a published plan already has the true value."""
    return min(float(_event(mechanism).sensitivity), mechanism.sensitivity)


def _states(x0: np.ndarray, where: Where) -> list[tuple[np.ndarray, np.ndarray]]:
    """States of both worlds before a hop: common but for the changed node's own row."""
    size, width = x0.shape
    rng = np.random.default_rng(0)
    found = []
    for fill in (np.eye(1, width)[0] if width else np.zeros(0), rng.standard_normal((size, width))):
        first = np.broadcast_to(fill, (size, width)).astype(np.float64)
        first = first / np.maximum(np.linalg.norm(first, axis=1, keepdims=True), 1e-300)
        second = first.copy()
        if len(where.own):
            second[where.own] *= 0.0 if where.absent else -1.0
        found.append((first, second))
    return found


def _distance(first: np.ndarray, second: np.ndarray, where: Where) -> float:
    if first.shape != second.shape:
        return math.inf
    difference = np.asarray(first - second, dtype=np.float64)
    return float(np.linalg.norm(np.delete(difference, where.own, axis=0)))


def _sums(
    first: Sequence[Arguments], second: Sequence[Arguments], mechanism: Mechanism, where: Where
) -> Move:
    """One hop A X of `noisy_sums`."""
    (a,), (b,) = first, second
    states = [(a["x0"], b["x0"]), *_states(a["x0"], where)]
    moved = max(_distance(a["adjacency"] @ x, b["adjacency"] @ y, where) for x, y in states)
    return Move(moved=moved, allowed=_allowed(mechanism))


def _hop(
    first: Sequence[Arguments], second: Sequence[Arguments], mechanism: Mechanism, where: Where
) -> Move:
    """One hop of an iteration, before its noise."""
    from dpgnn.methods.shared.aggregate import project_rows, unit_rows

    (a,), (b,) = (
        [{"x0": call["raw"], **call} if "raw" in call else call for call in calls]
        for calls in (first, second)
    )
    counted = where
    if a.get("own_rows"):
        counted = Where(own=np.zeros(0, np.int64), relation=where.relation, absent=where.absent)

    def layer(side: Arguments, x: np.ndarray) -> np.ndarray:
        value = np.asarray(side["layer"](side["operator"], x, side["x0"]))
        if side.get("own_rows"):
            value = project_rows(value)
            value[side["emptied"]] = 0.0
        return value

    states = [(unit_rows(a["x0"]), unit_rows(b["x0"])), *_states(a["x0"], where)]
    moved = max(_distance(layer(a, x), layer(b, y), counted) for x, y in states)
    return Move(moved=moved, allowed=_allowed(mechanism))


def _embedded(
    first: Sequence[Arguments], second: Sequence[Arguments], mechanism: Mechanism, where: Where
) -> Move:
    """DPDGC's sums of scaled embeddings, for the released weights and for equal ones."""
    import torch

    from dpgnn.methods.dpdgc.fit import _sums as embedded

    (a,), (b,) = first, second
    moved = 0.0
    for weights in (a["weights"], torch.ones_like(a["weights"])):
        sums = [embedded(side["config"], side["adjacency"], weights) for side in (a, b)]
        moved = max(moved, _distance(sums[0], sums[1], where))
    return Move(moved=moved, allowed=_allowed(mechanism))


def _cells(arguments: Arguments) -> set[tuple[int, int]]:
    return set(zip(*np.asarray(arguments["pairs"]).tolist()))


def _loss(one_if_one: float, one_if_zero: float) -> float:
    """Largest log ratio of an answer's probabilities."""
    with np.errstate(divide="ignore"):
        ratios = np.log([one_if_one, 1 - one_if_one]) - np.log([one_if_zero, 1 - one_if_zero])
    return float(np.abs(ratios).max())


def _total_loss(mechanism: Mechanism) -> float:
    return sum(
        count * _loss(event.one_if_one, event.one_if_zero)
        for event, count in parts(mechanism.event)
        if isinstance(event, RandomizedResponse)
    )


def _answers(
    first: Sequence[Arguments], second: Sequence[Arguments], mechanism: Mechanism, where: Where
) -> Move:
    """Answered pairs that differ, each at the log ratio it is answered with."""
    (a,), (b,) = first, second
    loss = _loss(a["one_if_one"], a["one_if_zero"])
    changed = len(_cells(a) ^ _cells(b))
    return Move(moved=changed * loss, allowed=_total_loss(mechanism))


def _directed_answers(
    first: Sequence[Arguments], second: Sequence[Arguments], mechanism: Mechanism, where: Where
) -> Move:
    """Directed cells that differ, each answered by itself."""
    (a,), (b,) = first, second
    changed = int(abs(a["adjacency"] - b["adjacency"]).sum())
    return Move(moved=changed * _loss(a["truth"], 1 - a["truth"]), allowed=_total_loss(mechanism))


def _density(
    first: Sequence[Arguments], second: Sequence[Arguments], mechanism: Mechanism, where: Where
) -> Move:
    """The densities, with equal noise in both worlds."""
    if len(first) != len(second):
        return Move(moved=math.inf, allowed=_allowed(mechanism))
    moved = sum(abs(a["density"] - b["density"]) for a, b in zip(first, second))
    return Move(moved=float(moved), allowed=_allowed(mechanism))


def _count(
    first: Sequence[Arguments], second: Sequence[Arguments], mechanism: Mechanism, where: Where
) -> Move:
    """The number of edges, in units of the noise that is added."""
    (a,), (b,) = first, second
    event = _event(mechanism)
    moved = abs(a["pairs"].shape[1] - b["pairs"].shape[1]) * a["epsilon_count"]
    return Move(moved=moved, allowed=event.sensitivity / event.scale)


def _laplace_cells(
    first: Sequence[Arguments], second: Sequence[Arguments], mechanism: Mechanism, where: Where
) -> Move:
    """Cells that differ, in units of the noise that is added."""
    (a,), (b,) = first, second
    event = _event(mechanism)
    moved = len(_cells(a) ^ _cells(b)) * a["epsilon_cells"]
    return Move(moved=moved, allowed=event.sensitivity / event.scale)


def _rows(norm: Callable[[np.ndarray, Any, Any], float], allowed: str) -> Measure:
    """Page-rank rows, clipped as the mechanism does; the worst row counts."""

    def measure(
        first: Sequence[Arguments], second: Sequence[Arguments], mechanism: Mechanism, where: Where
    ) -> Move:
        (a,), (b,) = first, second
        event, config = _event(mechanism), a["config"]
        limit = float(getattr(event, allowed))
        if a["exact"].shape != b["exact"].shape:
            return Move(moved=math.inf, allowed=limit)
        sides = [_clipped(side["exact"].toarray(), config) for side in (a, b)]
        rows = sides[0] - sides[1]
        moved = max((norm(row, config, event) for row in rows), default=0.0)
        return Move(moved=moved, allowed=limit)

    return measure


def _clipped(rows: np.ndarray, config: Any) -> np.ndarray:
    if config.rows == "gm":
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(
            rows * np.minimum(1.0, config.max_vector_norm / np.maximum(norms, 1e-300))
        )
    return np.minimum(rows, config.max_entry)


def _largest_entries(row: np.ndarray, config: Any, event: Any) -> float:
    k = min(config.top_k, len(row))
    return float(np.sort(np.abs(row))[-k:].sum())


def _quantile_counts(
    first: Sequence[Arguments], second: Sequence[Arguments], mechanism: Mechanism, where: Where
) -> Move:
    """How many gradient norms are no larger than each candidate."""
    from dpgnn.methods.dp_gnn.fit import CANDIDATES

    counts = []
    for calls in (first, second):
        (values,) = [c["values"] for c in calls if c["mechanism"].name == mechanism.name]
        counts.append(np.searchsorted(np.sort(values), CANDIDATES, side="right"))
    moved = float(np.abs(counts[0] - counts[1]).max())
    return Move(moved=moved, allowed=_event(mechanism).score_sensitivity)


POINTS: tuple[Point, ...] = (
    Point(
        module="dpgnn.methods.shared.aggregate",
        function="noisy_sums",
        measures={"aggregate": _sums},
    ),
    Point(
        module="dpgnn.methods.shared.aggregate",
        function="contractive_iteration",
        measures={"aggregate": _hop},
    ),
    Point(
        module="dpgnn.methods.shared.aggregate",
        function="released_code_iteration",
        measures={"aggregate": _hop},
    ),
    Point(module="dpgnn.methods.dpdgc.fit", function="_sums", measures={"aggregate": _embedded}),
    Point(
        module="dpgnn.methods.shared.noisy_graph",
        function="randomized_response",
        measures={"edges": _answers},
    ),
    Point(
        module="dpgnn.methods.shared.noisy_graph",
        function="block_response",
        measures={"edges": _directed_answers},
    ),
    Point(
        module="dpgnn.methods.shared.noisy_graph",
        function="keep_density",
        measures={"density": _density},
    ),
    Point(
        module="dpgnn.methods.shared.noisy_graph",
        function="laplace_top_cells",
        measures={"count": _count, "cells": _laplace_cells},
    ),
    Point(
        module="dpgnn.methods.dpar.rows",
        function="vectors",
        measures={
            "select": _rows(
                lambda row, *_: float(np.abs(row).max(initial=0.0)), "score_sensitivity"
            ),
            "weigh": _rows(_largest_entries, "sensitivity"),
            "perturb": _rows(lambda row, *_: float(np.linalg.norm(row)), "sensitivity"),
        },
    ),
    Point(
        module="dpgnn.methods.dp_gnn.fit",
        function="private_quantile",
        measures={"threshold/": _quantile_counts},
    ),
)


def measures_of(mechanism: str) -> dict[tuple[str, str], Measure]:
    """(module, function) -> measure, of the points that may execute a mechanism."""
    return {
        (point.module, point.function): measure
        for point in POINTS
        for name, measure in point.measures.items()
        if mechanism == name or (name.endswith("/") and mechanism.startswith(name))
    }
