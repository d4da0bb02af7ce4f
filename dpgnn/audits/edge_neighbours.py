"""Neighbour test for degree bounds: how many sampled edges differ, against what the rule promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dpgnn.audits.worlds import World, neighbours
from dpgnn.samplers.degree import EdgeChange, EdgePromise


class EdgeSampler(Protocol):
    """A configured degree bound: what it promises, and the arcs it keeps for a key drawn from `rng`."""

    @property
    def promise(self) -> EdgePromise:
        """Bounds on lost and gained edges."""

    def sample(
        self,
        arcs: np.ndarray,
        *,
        num_nodes: int,
        rng: np.random.Generator,
        present: np.ndarray | None = None,
    ) -> np.ndarray:
        """Kept arcs, int64, shape (2, num_kept)."""


@dataclass(frozen=True, kw_only=True)
class EdgeReport:
    """The worst that neighbours did to a degree bound. Sensitive when the graph is.

    Attributes:
        sampler, params: which rule.
        privacy_unit, relation: which neighbours.
        num_neighbours: pairs compared.
        declared: the promise; None when there is none for the pair.
        lost, gained: largest numbers seen, in arcs or undirected edges as the promise counts.
        worst: offender of the pair with most changes.
    """

    sampler: str
    params: dict[str, Any]
    privacy_unit: str
    relation: str
    num_neighbours: int
    declared: EdgeChange | None
    lost: int
    gained: int
    worst: tuple[int, ...]

    @property
    def passed(self) -> bool:
        """Whether the promise held for every pair; False where nothing is promised."""
        if self.declared is None:
            return False
        return self.lost <= self.declared.lost and self.gained <= self.declared.gained


def examine_edges(
    sampler: EdgeSampler,
    world: World,
    privacy_unit: str,
    relation: str,
    *,
    rng: np.random.Generator,
    max_neighbours: int | None = None,
) -> EdgeReport:
    """Compare the kept edges over neighbouring graphs with the promise; arguments as `examine`."""
    promise, seed = sampler.promise, int(rng.integers(2**63))
    size = world.num_nodes
    scale = 2 if promise.undirected else 1
    count = lost = gained = 0
    most = -1
    worst: tuple[int, ...] = ()
    for offender, first, second in neighbours(
        world,
        privacy_unit,
        relation,
        owner=promise.owner,
        rng=rng,
        max_neighbours=max_neighbours,
        degree_bound=promise.params.get("degree_bound"),
    ):
        keys = [_keys(sampler, side, size, seed) for side in (first, second)]
        gone = len(np.setdiff1d(keys[0], keys[1], assume_unique=True)) // scale
        new = len(np.setdiff1d(keys[1], keys[0], assume_unique=True)) // scale
        count, lost, gained = count + 1, max(lost, gone), max(gained, new)
        if gone + new > most:
            most, worst = gone + new, offender
    return EdgeReport(
        sampler=promise.name,
        params=dict(promise.params),
        privacy_unit=privacy_unit,
        relation=relation,
        num_neighbours=count,
        declared=promise.changes.get((privacy_unit, relation)),
        lost=lost,
        gained=gained,
        worst=worst,
    )


def _keys(sampler: EdgeSampler, side: World, size: int, seed: int) -> np.ndarray:
    arcs = sampler.sample(
        side.arcs, num_nodes=size, rng=np.random.default_rng(seed), present=side.present
    )
    return arcs[0] * size + arcs[1]
