"""Neighbours at a step: own lists under a new key, or coins that depend on numbers of readers, as
published."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpgnn.methods.shared.aggregate_bounds import own_arcs
from dpgnn.samplers.own_list import OwnList

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.models.trees import Trees


def fresh_lists(
    arcs: np.ndarray, num_nodes: int, max_degree: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The nodes that each node reads at one step: pointers and ids.

    Guarantee: for every key one record decides its own at most M readers (`OwnList`), so at most M roots
    beside its own; the key is new and public at every step (docs/accounting.md, theorem 15).

    Args:
        arcs: u -> v, where v is in u's list and may read, by its public id.
        rng: of the step's key.
    """
    sampler = OwnList(max_degree=max_degree)
    everyone = np.arange(num_nodes)
    lists = sampler.lists(arcs, num_nodes=num_nodes, train_idx=everyone, rng=rng)
    return np.asarray(lists.pointer, dtype=np.int64), np.asarray(lists.sources, dtype=np.int64)


def star_trees(roots: np.ndarray, pointer: np.ndarray, sources: np.ndarray, y: np.ndarray) -> Trees:
    """Trees of one hop: each root with the nodes it reads, and the mean over both.

    Args:
        roots: int64, ascending.
        pointer, sources: nodes that each node reads.
        y: labels of all nodes.
    """
    from dpgnn.models.trees import Trees

    first, count = pointer[roots], pointer[roots + 1] - pointer[roots]
    sizes = count + 1
    row_ptr = np.concatenate([[0], np.cumsum(sizes)])
    place = np.arange(row_ptr[-1]) - np.repeat(row_ptr[:-1], sizes)  # 0 is the root
    read = np.repeat(first, sizes) + place - 1
    node = np.repeat(roots, sizes)
    node[place > 0] = sources[read[place > 0]]
    entries = np.where(place == 0, np.repeat(sizes, sizes), 0)
    return Trees(
        num_hops=1,
        node=node,
        row_ptr=row_ptr,
        level_rows=np.stack([sizes, np.ones_like(sizes)], axis=1).astype(np.int32),
        entry_ptr=np.concatenate([[0], np.cumsum(entries)]),
        entry_row=place.astype(np.int32),
        entry_weight=np.repeat(1.0 / sizes, sizes).astype(np.float32),
        y=np.asarray(y[roots]),
    )


def readers_and_lists(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each node's stored neighbours (pointers, ids), and how many nodes list each node; sensitive."""
    source, target = own_arcs(graph)
    order = np.lexsort((source, target))
    pointer = np.concatenate([[0], np.cumsum(np.bincount(target, minlength=graph.num_nodes))])
    return pointer, source[order], np.bincount(source, minlength=graph.num_nodes)


def published_lists(
    pointer: np.ndarray,
    sources: np.ndarray,
    readers: np.ndarray,
    roots: np.ndarray,
    max_degree: int,
    rng: np.random.Generator,
    *,
    limit: int = 500,
) -> list[np.ndarray]:
    """The nodes that each root reads: each listed u with probability min(1, M/o(u)).

    Guarantee: none: o(u) counts other nodes' lists (caveat sampler-ripple).
    """
    found = []
    for root in roots:
        listed = sources[pointer[root] : pointer[root + 1]][:limit]
        if len(listed) == 0:
            found.append(rng.integers(len(readers), size=max_degree))
            continue
        taken = rng.random(len(listed)) < max_degree / readers[listed]
        found.append(listed[taken])
    return found


def without_earlier_roots(
    roots: np.ndarray, read: list[np.ndarray], rng: np.random.Generator
) -> list[np.ndarray]:
    """Lists of a batch without nodes that were roots earlier in its (random) order."""
    earlier: set[int] = set()
    kept = list(read)
    for place in rng.permutation(len(roots)):
        kept[place] = np.array([u for u in read[place] if int(u) not in earlier], dtype=np.int64)
        earlier.add(int(roots[place]))
    return kept
