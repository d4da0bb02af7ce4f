"""Neighbouring graphs: a data set over a public id universe, and its neighbours under a unit and relation.

An arc belongs to the record of its source or of its target (`owner`): the node-record unit changes the arcs
that a node owns, and others' mentions of it stay. The node-bounded and node units change all its edges, and
the edge unit both arcs of an undirected edge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from dpgnn.core.checks import fail, one_of, require
from dpgnn.data.graph import distinct_keys, is_symmetric
from dpgnn.samplers.promise import Owner

UNITS = {
    "node-features": ("replace-one",),
    "node-record": ("add-remove", "null-one", "replace-one"),
    "node-bounded": ("add-remove", "null-one", "replace-one"),
    "node": ("add-remove", "null-one", "replace-one"),
    "edge": ("add-remove",),
}
Pair = tuple[tuple[int, ...], "World", "World"]
_MAX_SUBSETS = 64  # lists tried for one replaced node; all of them if there are fewer


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """A data set as audits change it: records, arcs, and which nodes are present.

    Attributes:
        arcs: int64, shape (2, num_arcs), sorted by (source, target), each once, no self-loops.
        present: bool, shape (num_nodes,): nodes with a record.
        values: int64, shape (num_nodes,); a number represents features and label.
        train_idx: int64; public training ids.
    """

    arcs: np.ndarray
    present: np.ndarray
    values: np.ndarray
    train_idx: np.ndarray

    @property
    def num_nodes(self) -> int:
        """Size of the id universe."""
        return len(self.present)

    def changed(
        self,
        node: int | None = None,
        *,
        arcs: np.ndarray | None = None,
        present: bool = True,
        value: int | None = None,
    ) -> World:
        """A copy with other arcs, or with a node absent or with another value."""
        new_present, new_values = self.present.copy(), self.values.copy()
        if node is not None:
            new_present[node] = present
            if value is not None:
                new_values[node] = value
        return World(
            arcs=self.arcs if arcs is None else arcs,
            present=new_present,
            values=new_values,
            train_idx=self.train_idx,
        )


def make_world(arcs: np.ndarray, num_nodes: int, train_idx: np.ndarray | None = None) -> World:
    """A data set in which every node has a record; by default all are training nodes."""
    train = np.arange(num_nodes) if train_idx is None else np.sort(train_idx)
    return World(
        arcs=_sorted(arcs, num_nodes),
        present=np.ones(num_nodes, np.bool_),
        values=np.zeros(num_nodes, np.int64),
        train_idx=train,
    )


def _check(world: World, privacy_unit: str, relation: str, degree_bound: int | None) -> None:
    one_of("privacy_unit", privacy_unit, UNITS)
    one_of(f"relation of {privacy_unit}", relation, UNITS[privacy_unit])
    if privacy_unit in ("edge", "node-bounded", "node"):
        require(
            is_symmetric(world.arcs, world.num_nodes),
            f"arcs for {privacy_unit}", "hold both directions of every edge", "one direction",
        )  # fmt: skip
    if privacy_unit == "node-bounded":
        if degree_bound is None:
            fail("degree_bound", "be given for node-bounded", None)
        largest = int(np.bincount(world.arcs[0], minlength=world.num_nodes).max(initial=0))
        require(largest <= degree_bound, "graph", f"have degrees <= {degree_bound}", largest)


def neighbours(
    world: World,
    privacy_unit: str,
    relation: str,
    *,
    owner: Owner,
    rng: np.random.Generator,
    max_neighbours: int | None = None,
    degree_bound: int | None = None,
    offenders: np.ndarray | None = None,
) -> Iterator[Pair]:
    """Pairs (offender, G, G') of neighbouring data sets; under add-remove G has the element.

    Args:
        world: base graph; one side of every pair except those of added edges.
        owner: whose record holds an arc.
        rng: of the neighbours if not all are taken, and of the lists of replaced nodes.
        max_neighbours: None takes all (replaced nodes: all lists on small graphs, 64 on larger ones).
        degree_bound: D, needed by node-bounded; both graphs of a pair respect it.
        offenders: only these nodes; None means every present node.

    Raises:
        ValueError: the pair of unit and relation is unknown, or the graph breaks the degree bound.
    """
    _check(world, privacy_unit, relation, degree_bound)
    if privacy_unit == "edge":
        yield from _edge_pairs(world, rng, max_neighbours)
        return
    nodes = np.flatnonzero(world.present) if offenders is None else np.asarray(offenders)
    if max_neighbours is not None and len(nodes) > max_neighbours:
        nodes = rng.choice(nodes, max_neighbours, replace=False)
    limit = _MAX_SUBSETS
    if max_neighbours is not None:
        limit = max(1, min(limit, max_neighbours // max(len(nodes), 1)))
    for node in nodes.tolist():
        yield from _node_pairs(world, node, privacy_unit, relation, owner, rng, degree_bound, limit)


def _node_pairs(
    world: World,
    node: int,
    unit: str,
    relation: str,
    owner: Owner,
    rng: np.random.Generator,
    degree_bound: int | None,
    limit: int,
) -> Iterator[Pair]:
    if unit == "node-features":
        yield (node,), world, world.changed(node, value=1)
        return
    both_ways = unit != "node-record"
    source, target = world.arcs
    own = source == node if owner == "source" else target == node
    if both_ways:
        own = (source == node) | (target == node)
    rest = world.arcs[:, ~own]
    if relation == "add-remove":
        yield (node,), world, world.changed(node, arcs=rest, present=False)
    elif relation == "null-one":
        yield (node,), world, world.changed(node, arcs=rest, value=1)
    else:
        others = np.delete(np.arange(world.num_nodes), node)
        size = len(others)
        if degree_bound is not None and unit == "node-bounded":
            degree = np.bincount(rest[0], minlength=world.num_nodes)
            others, size = others[degree[others] < degree_bound], degree_bound
        for chosen in _subsets(others, size, limit, rng):
            arcs = _joined(rest, node, chosen, owner, both_ways, world.num_nodes)
            yield (node,), world, world.changed(node, arcs=arcs, value=1)


def _edge_pairs(
    world: World, rng: np.random.Generator, max_neighbours: int | None
) -> Iterator[Pair]:
    size = world.num_nodes
    present = np.flatnonzero(world.present)
    number = len(present) * (len(present) - 1) // 2
    if max_neighbours is None or number <= max_neighbours:
        pairs = [(int(a), int(b)) for a, b in combinations(present, 2)]
    else:
        # half of them edges, because random pairs of a sparse graph are rarely edges
        known = world.arcs[:, world.arcs[0] < world.arcs[1]].T
        some = rng.permutation(known)[: max_neighbours // 2].tolist()
        new = [sorted(rng.choice(present, 2, replace=False)) for _ in range(max_neighbours // 2)]
        pairs = [(int(a), int(b)) for a, b in [*some, *new]]
    keys = world.arcs[0] * size + world.arcs[1]
    for a, b in pairs:
        edge = np.isin(keys, (a * size + b, b * size + a))
        if edge.any():
            yield (a, b), world, world.changed(arcs=world.arcs[:, ~edge])
        else:
            more = np.concatenate([world.arcs, [[a, b], [b, a]]], axis=1)
            yield (a, b), world.changed(arcs=_sorted(more, size)), world


def _subsets(
    items: np.ndarray, size: int, limit: int, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """All subsets of at most `size` items if there are at most `limit`; otherwise random ones."""
    size = min(size, len(items))
    if len(items) < 16 and size == len(items) and 2 ** len(items) <= limit:
        for number in range(size + 1):
            for chosen in combinations(items.tolist(), number):
                yield np.array(chosen, dtype=np.int64)
        return
    # the largest list has the most effect; then lists of random length
    yield rng.choice(items, size, replace=False)
    for _ in range(limit - 1):
        yield rng.choice(items, int(rng.integers(size + 1)), replace=False)


def _joined(
    rest: np.ndarray, node: int, chosen: np.ndarray, owner: Owner, both_ways: bool, size: int
) -> np.ndarray:
    same = np.full(len(chosen), node)
    arcs = [rest]
    if both_ways or owner == "source":
        arcs.append(np.stack([same, chosen]))
    if both_ways or owner == "target":
        arcs.append(np.stack([chosen, same]))
    return _sorted(np.concatenate(arcs, axis=1), size)


def _sorted(arcs: np.ndarray, num_nodes: int) -> np.ndarray:
    keys = distinct_keys(np.asarray(arcs[0], np.int64) * num_nodes + arcs[1])
    return np.stack([keys // num_nodes, keys % num_nodes])
