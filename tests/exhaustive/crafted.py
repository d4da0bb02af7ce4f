"""Pairs of neighbours on which the own-list sampler (nearly) attains its promised number of changed roots.

The sampler's key is public and the bounds hold for every key, so an adversary may choose the graph after
seeing it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from exhaustive.changed import changed_roots
from exhaustive.worlds import World, make_world

from dpgnn.core.checks import fail, require
from dpgnn.samplers.hashing import draw_key, pair_hashes
from dpgnn.samplers.own_list import OwnList

CANARY = 0


@dataclass(frozen=True, kw_only=True)
class Attained:
    """Changed roots of a crafted pair against the promise.

    Attributes:
        d_plus, d_minus: roots that differ, on the side of G and of G'.
        declared: (d_plus, d_minus) of the promise.
    """

    d_plus: int
    d_minus: int
    declared: tuple[int, int]

    @property
    def share(self) -> float:
        """Part of the declared sensitivity C (d_plus + d_minus) that gradients +C and -C attain."""
        return (self.d_plus + self.d_minus) / sum(self.declared)


def attained(sampler: OwnList, unit: str, relation: str, *, seed: int) -> Attained:
    """Changed roots on the crafted pair for the key of a seed.

    Args:
        sampler: depth 1 or 2; with a degree bound for node-bounded.
        unit: node-record or node-bounded.
        relation: add-remove, null-one or replace-one.
        seed: `np.random.default_rng(seed)` gives the sampler's key.
    """
    require(sampler.num_hops in (1, 2), "num_hops", "be 1 or 2", sampler.num_hops)
    if unit == "node-record":
        first, second = _records(sampler, relation)
    elif unit == "node-bounded":
        first, second = _with_mentions(sampler, relation, draw_key(np.random.default_rng(seed)))
    else:
        fail("unit of a crafted pair", "be node-record or node-bounded", unit)
    samples = [
        sampler.sample(
            side.arcs, num_nodes=side.num_nodes, train_idx=side.train_idx,
            rng=np.random.default_rng(seed), present=side.present,
        )
        for side in (first, second)
    ]  # fmt: skip
    changed = changed_roots(samples[0], samples[1], first.values, second.values)
    change = sampler.promise.change(unit, relation)
    return Attained(
        d_plus=int(changed[0].sum()),
        d_minus=int(changed[1].sum()),
        declared=(change.d_plus, change.d_minus),
    )


def _records(sampler: OwnList, relation: str) -> tuple[World, World]:
    """The canary pushes along a K-ary tree; replaced, along another one."""
    trees = _Arcs()
    own = trees.tree(sampler.max_degree, sampler.num_hops)
    other = trees.tree(sampler.max_degree, sampler.num_hops)
    below = np.array(trees.arcs, dtype=np.int64).reshape(-1, 2).T
    g = np.concatenate([below, _star(own)], axis=1)
    world = make_world(g, trees.size)
    if relation == "add-remove":
        return world, world.changed(CANARY, arcs=make_world(below, trees.size).arcs, present=False)
    left = below if relation == "null-one" else np.concatenate([below, _star(other)], axis=1)
    return world, world.changed(CANARY, arcs=make_world(left, trees.size).arcs, value=1)


def _with_mentions(sampler: OwnList, relation: str, key: np.ndarray) -> tuple[World, World]:
    """D nodes list the canary first and one id too many; without the canary each admits that id."""
    bound, slots = sampler.degree_bound, sampler.max_degree
    if bound is None:
        fail("degree_bound", "be declared", None)
    sets = 2 if relation == "replace-one" else 1
    size = 1 + sets * bound * (1 + slots * (1 + slots)) + 40 * slots
    ids = np.arange(1, size)
    # the nodes that rank the canary highest
    ranked = ids[np.argsort(pair_hashes(key, ids, np.zeros(len(ids), np.int64)))]
    mentions, free = ranked[: sets * bound], list(ranked[sets * bound :])
    arcs: list[tuple[int, int]] = []
    for node in mentions.tolist():
        canary_rank = pair_hashes(key, np.array([node]), np.array([CANARY]))[0]
        ranks = pair_hashes(key, np.full(len(free), node), np.array(free))
        lower = np.flatnonzero(ranks > canary_rank)[:slots].tolist()
        others = [free[place] for place in lower]
        free = [v for v in free if v not in set(others)]
        arcs += [(node, v) for v in others]
        if sampler.num_hops == 2:
            order = pair_hashes(key, np.full(len(others), node), np.array(others))
            admitted = others[int(np.argmax(order))]
            arcs += [(admitted, v) for v in free[:slots]]
            free = free[slots:]
    rest = np.array(arcs, dtype=np.int64).T
    rest = np.concatenate([rest, rest[::-1]], axis=1)
    stars = [np.concatenate([s, s[::-1]], axis=1) for s in map(_star, np.split(mentions, sets))]
    world = make_world(np.concatenate([rest, stars[0]], axis=1), size)
    if relation == "replace-one":
        other = make_world(np.concatenate([rest, stars[1]], axis=1), size)
        return world, world.changed(CANARY, arcs=other.arcs, value=1)
    alone = make_world(rest, size).arcs
    if relation == "null-one":
        return world, world.changed(CANARY, arcs=alone, value=1)
    return world, world.changed(CANARY, arcs=alone, present=False)


def _star(leaves: np.ndarray) -> np.ndarray:
    return np.stack([np.full(len(leaves), CANARY), np.asarray(leaves, dtype=np.int64)])


class _Arcs:
    """Directed trees of fresh ids."""

    def __init__(self) -> None:
        self.size = 1
        self.arcs: list[tuple[int, int]] = []

    def tree(self, width: int, depth: int) -> np.ndarray:
        """Children of a root at once, and arcs below them."""
        children = np.arange(self.size, self.size + width)
        self.size += width
        level = children
        for _ in range(depth - 1):
            below = []
            for node in level.tolist():
                fresh = list(range(self.size, self.size + width))
                self.size += width
                self.arcs += [(node, v) for v in fresh]
                below += fresh
            level = np.array(below)
        return children
