"""Neighbour test: a sampler's promise against real pairs of neighbouring graphs, byte for byte.

For a unit and relation it walks over neighbours G, G' (all of them on a small graph), samples both with
the same key, counts the roots whose example differs on either side, and compares the counts with the
promised (d_plus, d_minus) and the shift of the clipped sum with C (d_plus + d_minus).
Passing does not prove a promise; failing refutes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from exhaustive.changed import changed_roots
from exhaustive.worlds import World, neighbours

from dpgnn.core.checks import at_least, positive
from dpgnn.samplers.promise import Change, Promise
from dpgnn.samplers.subgraphs import Subgraphs

# (subgraphs, values of nodes) -> float64, shape (num_roots, num_parameters), before clipping
Gradient = Callable[[Subgraphs, np.ndarray], np.ndarray]


class Sampler(Protocol):
    """A configured sampler: its promise, and a sample for a key drawn from `rng`."""

    @property
    def promise(self) -> Promise:
        """Bounds on occurrences and changed roots."""

    def sample(
        self,
        arcs: np.ndarray,
        *,
        num_nodes: int,
        train_idx: np.ndarray,
        rng: np.random.Generator,
        present: np.ndarray | None = None,
    ) -> Subgraphs:
        """Subgraphs of the present training nodes, roots ascending."""


@dataclass(frozen=True, kw_only=True)
class NeighbourReport:
    """The worst case over neighbours for a sampler. As sensitive as the graph.

    Attributes:
        sampler, params: which sampler.
        privacy_unit, relation: which neighbours.
        num_neighbours: pairs compared.
        declared: the promise; None if the sampler promises nothing for the unit and relation (then only
            counts are reported).
        d_plus, d_minus: largest numbers of changed roots on each side (possibly from different pairs).
        d_others: largest number of changed roots other than the offender's own.
        worst: the offending node, or the two ends of the edge, of the pair with most changed roots.
        sensitivity: C (d_plus + d_minus) of the promise; None without one.
        shift, shift_at: largest L2 shift of the clipped sum over all roots, and its offender.
        leaks: number of pairs in which roots with equal examples had different gradients, so that gradients
            depend on other roots; any makes the test fail.
    """

    sampler: str
    params: dict[str, Any]
    privacy_unit: str
    relation: str
    num_neighbours: int
    declared: Change | None
    d_plus: int
    d_minus: int
    d_others: int
    worst: tuple[int, ...]
    sensitivity: float | None
    shift: float
    shift_at: tuple[int, ...]
    leaks: int

    @property
    def passed(self) -> bool:
        """Whether the promise held for every pair; False if nothing is promised."""
        if self.declared is None or self.sensitivity is None or self.leaks:
            return False
        counts = self.d_plus <= self.declared.d_plus and self.d_minus <= self.declared.d_minus
        # summation in float64 of a few thousand rows of norm C
        return counts and self.shift <= self.sensitivity * (1 + 1e-9)

    def __str__(self) -> str:
        bound = (
            f"promised ({self.declared.d_plus}, {self.declared.d_minus})"
            if self.declared
            else "nothing promised"
        )
        return (
            f"{self.sampler} {self.params}, {self.privacy_unit} / {self.relation}: {bound}, "
            f"attained ({self.d_plus}, {self.d_minus}) at {self.worst} over "
            f"{self.num_neighbours} neighbours, shift {self.shift:.4g}: "
            f"{'passed' if self.passed else 'FAILED'}"
        )


def examine(
    sampler: Sampler,
    world: World,
    privacy_unit: str,
    relation: str,
    *,
    rng: np.random.Generator,
    max_neighbours: int | None = None,
    degree_bound: int | None = None,
    gradient: Gradient | None = None,
    clipping_norm: float = 1.0,
    offenders: np.ndarray | None = None,
) -> NeighbourReport:
    """Compare a sampler's examples over neighbouring graphs with its promise.

    Args:
        sampler: to examine; both graphs of a pair are sampled with the same random numbers.
        world: the graph and who has a record.
        privacy_unit, relation: which neighbours (DESIGN's table of units).
        rng: of the sampler's key, and of the neighbours if not all are taken.
        max_neighbours: None takes all; otherwise about this many, drawn at random.
        degree_bound: D for node-bounded; None takes the sampler's own `degree_bound`.
        gradient: per-root gradients before clipping; None takes the worst case, +C along one direction for
            changed roots of G and -C for those of G'.
        clipping_norm: C.
        offenders: only these nodes (units of nodes); None means every node.

    Returns:
        the worst case seen, with the offending node.
    """
    positive("clipping_norm", clipping_norm)
    if max_neighbours is not None:
        at_least("max_neighbours", max_neighbours, 1)
    promise = sampler.promise
    if degree_bound is None:
        degree_bound = promise.params.get("degree_bound")
    seed = int(rng.integers(2**63))
    pairs = neighbours(
        world, privacy_unit, relation, owner=promise.owner, rng=rng, max_neighbours=max_neighbours,
        degree_bound=degree_bound, offenders=offenders,
    )  # fmt: skip
    tally, base = _Tally(), _sampled(sampler, world, seed)
    for offender, first, second in pairs:
        # most pairs share the base graph, which is sampled once
        samples = [
            base if side is world else _sampled(sampler, side, seed) for side in (first, second)
        ]
        changed = changed_roots(samples[0], samples[1], first.values, second.values)
        tally.add(offender, samples, changed)
        values = (first.values, second.values)
        tally.add_shift(offender, samples, changed, values, gradient, clipping_norm)
    return _report(promise, privacy_unit, relation, tally, clipping_norm)


def _report(
    promise: Promise, privacy_unit: str, relation: str, tally: _Tally, clipping_norm: float
) -> NeighbourReport:
    declared = promise.changes.get((privacy_unit, relation))
    sensitivity = None
    if declared is not None:
        sensitivity = clipping_norm * (declared.d_plus + declared.d_minus)
    return NeighbourReport(
        sampler=promise.name, params=dict(promise.params), privacy_unit=privacy_unit,
        relation=relation, num_neighbours=tally.count, declared=declared, d_plus=tally.d_plus,
        d_minus=tally.d_minus, d_others=tally.d_others, worst=tally.worst, sensitivity=sensitivity,
        shift=tally.shift, shift_at=tally.shift_at, leaks=tally.leaks,
    )  # fmt: skip


def examine_promises(
    sampler: Sampler,
    world: World,
    *,
    rng: np.random.Generator,
    max_neighbours: int | None = None,
) -> tuple[NeighbourReport, ...]:
    """`examine` for every pair of unit and relation that the sampler promises something for."""
    return tuple(
        examine(sampler, world, unit, relation, rng=rng, max_neighbours=max_neighbours)
        for unit, relation in sorted(sampler.promise.changes)
    )


def _sampled(sampler: Sampler, world: World, seed: int) -> Subgraphs:
    return sampler.sample(
        world.arcs,
        num_nodes=world.num_nodes,
        train_idx=world.train_idx,
        rng=np.random.default_rng(seed),
        present=world.present,
    )


class _Tally:
    """Largest counts and shifts over the pairs seen."""

    def __init__(self) -> None:
        self.count = self.d_plus = self.d_minus = self.d_others = self.leaks = 0
        self.shift = 0.0
        self.worst: tuple[int, ...] = ()
        self.shift_at: tuple[int, ...] = ()
        self._most = -1

    def add(
        self,
        offender: tuple[int, ...],
        samples: list[Subgraphs],
        changed: tuple[np.ndarray, np.ndarray],
    ) -> None:
        plus, minus = (int(side.sum()) for side in changed)
        self.count += 1
        self.d_plus, self.d_minus = max(self.d_plus, plus), max(self.d_minus, minus)
        own = max(int(np.isin(s.roots[c], offender).sum()) for s, c in zip(samples, changed))
        self.d_others = max(self.d_others, max(plus, minus) - own)
        if plus + minus > self._most:
            self._most, self.worst = plus + minus, offender

    def add_shift(
        self,
        offender: tuple[int, ...],
        samples: list[Subgraphs],
        changed: tuple[np.ndarray, np.ndarray],
        values: tuple[np.ndarray, np.ndarray],
        gradient: Gradient | None,
        clipping_norm: float,
    ) -> None:
        if gradient is None:
            sums = [clipping_norm * changed[0].sum(), -clipping_norm * changed[1].sum()]
            shift = float(abs(sums[0] - sums[1]))
        else:
            rows = [_clipped(gradient(s, v), clipping_norm) for s, v in zip(samples, values)]
            # equal examples must have equal gradients, whatever the other roots are
            same = [row[~side] for row, side in zip(rows, changed)]
            self.leaks += int(not np.array_equal(same[0], same[1]))
            shift = float(np.linalg.norm(rows[0].sum(axis=0) - rows[1].sum(axis=0)))
        if shift > self.shift or not self.shift_at:
            self.shift, self.shift_at = max(shift, self.shift), offender


def _clipped(rows: np.ndarray, clipping_norm: float) -> np.ndarray:
    rows = np.asarray(rows, dtype=np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1.0, clipping_norm / np.maximum(norms, 1e-300))
