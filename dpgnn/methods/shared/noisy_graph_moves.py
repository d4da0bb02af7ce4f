"""Measures of the releases of `noisy_graph`: their change between neighbouring graphs.

Each compares the function's arguments in G and G': differing cells, weighted by the log ratio of their
answers or in units of their noise.
"""

from __future__ import annotations

import math

import numpy as np

from dpgnn.accountants.events import RandomizedResponse, parts
from dpgnn.accountants.plan import Mechanism
from dpgnn.methods.releases import Arguments, Calls, Move, allowed_by, event_of


def answered_pairs(seen: Calls) -> Move:
    """Undirected pairs that differ, weighted by the log ratio of their answers."""
    a, b = seen.only
    loss = _loss(a["one_if_one"], a["one_if_zero"])
    return Move(moved=len(_cells(a) ^ _cells(b)) * loss, allowed=_total_loss(seen.mechanism))


def answered_cells(seen: Calls) -> Move:
    """Directed cells that differ, each answered separately."""
    a, b = seen.only
    changed = int(abs(a["adjacency"] - b["adjacency"]).sum())
    return Move(
        moved=changed * _loss(a["truth"], 1 - a["truth"]), allowed=_total_loss(seen.mechanism)
    )


def densities(seen: Calls) -> Move:
    """The densities, with equal noise in both worlds."""
    if len(seen.first) != len(seen.second):
        return Move(moved=math.inf, allowed=allowed_by(seen.mechanism))
    moved = sum(abs(a["density"] - b["density"]) for a, b in zip(seen.first, seen.second))
    return Move(moved=float(moved), allowed=allowed_by(seen.mechanism))


def edge_counts(seen: Calls) -> Move:
    """The number of edges, in units of its noise."""
    a, b = seen.only
    moved = abs(a["pairs"].shape[1] - b["pairs"].shape[1]) * a["epsilon_count"]
    return Move(moved=moved, allowed=_in_scales(seen.mechanism))


def laplace_cells(seen: Calls) -> Move:
    """Pairs that differ, in units of their noise."""
    a, b = seen.only
    moved = len(_cells(a) ^ _cells(b)) * a["epsilon_cells"]
    return Move(moved=moved, allowed=_in_scales(seen.mechanism))


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


def _in_scales(mechanism: Mechanism) -> float:
    event = event_of(mechanism)
    return float(event.sensitivity / event.scale)
