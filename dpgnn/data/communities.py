"""Communities of a graph by the Louvain method, and packing them into parts of given sizes.

Used for the clustered split of DP-GNN, which the paper describes as agglomerative clustering into
0.67/0.18/0.15 without giving the file; results on it are not comparable with the paper's.

Source: Blondel et al. (2008), "Fast unfolding of communities in large networks", arXiv:0803.0476.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import scipy.sparse as sp

from dpgnn.core.checks import require

MAX_LEVELS = 20
MAX_SWEEPS = 50
MIN_MOVED_SHARE = 1e-3


def louvain(edge_index: np.ndarray, num_nodes: int, *, rng: np.random.Generator) -> np.ndarray:
    """A community for each node, from 0, found by greedy modularity.

    Args:
        edge_index: int64, shape (2, num_edges); read as undirected.
        num_nodes: number of nodes.
        rng: the order in which nodes are visited.

    Returns:
        int64, shape (num_nodes,). A node without edges is a community of its own; sensitive.
    """
    if not edge_index.shape[1]:
        return np.arange(num_nodes)  # modularity divides by the number of edges
    ones = np.ones(edge_index.shape[1])
    graph = sp.csr_array((ones, tuple(edge_index)), shape=(num_nodes, num_nodes))
    graph = sp.csr_array(graph + graph.T)
    found = np.arange(num_nodes)
    for _ in range(MAX_LEVELS):
        size = graph.shape[0]
        community, moved = _move_nodes(graph, rng)
        found = community[found]
        count = int(community.max()) + 1
        if not moved or count == size:
            break
        shape = (size, count)
        member = sp.csr_array((np.ones(size), (np.arange(size), community)), shape=shape)
        graph = sp.csr_array(member.T @ graph @ member)
    return found


def pack(sizes: np.ndarray, fractions: tuple[float, ...]) -> np.ndarray:
    """Assign whole communities to parts, the largest first, each to the part with the most space left.

    Args:
        sizes: int64, shape (num_communities,).
        fractions: wanted share of each part; they sum to 1.

    Returns:
        int64, shape (num_communities,), the part of each community.

    Raises:
        ValueError: fewer communities than parts.
    """
    wanted = np.array(fractions) * sizes.sum()
    parts = int((wanted > 0).sum())
    require(
        len(sizes) >= parts, "communities", f"be {parts} or more", len(sizes), "use kind random"
    )
    part = np.zeros(len(sizes), dtype=np.int64)
    lacking = wanted.copy()
    for community in np.argsort(-sizes, kind="stable"):
        part[community] = int(np.argmax(lacking))
        lacking[part[community]] -= sizes[community]
    return part


def _move_nodes(graph: sp.csr_array, rng: np.random.Generator) -> tuple[np.ndarray, bool]:
    """One level: move nodes between communities while modularity grows; communities are numbered from 0."""
    size = graph.shape[0]
    order = rng.permutation(size)
    strength = np.asarray(graph.sum(axis=1)).ravel()
    community = np.arange(size)
    indptr, indices = graph.indptr.astype(np.int64), graph.indices.astype(np.int64)
    moved = False
    total = strength.copy()
    for _ in range(MAX_SWEEPS):
        changes = _sweep()(indptr, indices, graph.data, strength, order, community, total)
        moved = moved or changes > 0
        if changes <= MIN_MOVED_SHARE * size:
            break
    _, community = np.unique(community, return_inverse=True)
    return community, moved


@cache
def _sweep() -> Callable[..., int]:
    """The compiled loop; numba is imported when the first clustered split is drawn."""
    import numba

    return numba.njit(cache=True)(_sweep_plain)


def _sweep_plain(
    indptr: np.ndarray,
    indices: np.ndarray,
    weights: np.ndarray,
    strength: np.ndarray,
    order: np.ndarray,
    community: np.ndarray,
    total: np.ndarray,
) -> int:
    """Visit every node once; `community` and `total` change in place; returns the number of moves."""
    all_weight = strength.sum()
    to = np.zeros(len(total))
    changes = 0
    for node in order:
        own = community[node]
        total[own] -= strength[node]
        for entry in range(indptr[node], indptr[node + 1]):
            if indices[entry] != node:
                to[community[indices[entry]]] += weights[entry]
        best, best_gain = own, to[own] - strength[node] * total[own] / all_weight
        for entry in range(indptr[node], indptr[node + 1]):
            if indices[entry] != node:
                other = community[indices[entry]]
                gain = to[other] - strength[node] * total[other] / all_weight
                if gain > best_gain + 1e-12:
                    best, best_gain = other, gain
        for entry in range(indptr[node], indptr[node + 1]):
            to[community[indices[entry]]] = 0.0
        total[best] += strength[node]
        if best != own:
            community[node] = best
            changes += 1
    return changes
