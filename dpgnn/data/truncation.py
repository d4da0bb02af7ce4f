"""Truncates graphs to a largest degree by a fixed public rule, so that a declared bound holds."""

from __future__ import annotations

import numpy as np

from dpgnn.data.graph import distinct_keys

KEY = np.uint64(
    0x9E3779B97F4A7C15
)  # fixed and public: every study truncates a graph in the same way


def truncate(edge_index: np.ndarray, num_nodes: int, max_degree: int) -> np.ndarray:
    """Keep the undirected edges that are among the first `max_degree` edges of both their ends.

    The order is a fixed hash of the two node ids and the number of nodes. No node of the result has more than
    `max_degree` edges, and at one number of nodes whether an edge is kept depends only on the lists of its
    two ends: removing an edge {u, v} can admit one edge at u and one at v, and nothing else changes. A greedy
    rule, which keeps an edge if both ends still have room, has no such bound.

    This makes a data set of bounded degree; it is not a private mechanism. A claim about the result is about
    truncated graphs: one node of the original graph can change the edges of each of its neighbours and of one
    more node for each, and a row more or less, which changes the number of nodes, any edge.

    Args:
        edge_index: int64, shape (2, num_arcs), of an undirected graph: direction is ignored, self-loops are
            dropped. `splits` refuses directed graphs.
        num_nodes: of the graph.
        max_degree: D, at least 1, in undirected edges.

    Returns:
        int64, shape (2, num_kept): both directions of every kept edge, sorted by (source, target).

    Source: Blocki, Blum, Datta, Sheffet (2013), restricted sensitivity.
    """
    low, high = np.sort(edge_index, axis=0)
    pairs = distinct_keys(low[low != high] * num_nodes + high[low != high])
    low, high = pairs // num_nodes, pairs % num_nodes
    ends = np.concatenate([low, high])
    order = np.lexsort((np.tile(pairs, 2), np.tile(_hashes(pairs), 2), ends))
    first = np.searchsorted(ends[order], np.arange(num_nodes))
    place = np.empty(len(ends), dtype=np.int64)
    place[order] = np.arange(len(ends)) - first[ends[order]]
    kept = (place.reshape(2, -1) < max_degree).all(axis=0)
    source = np.concatenate([low[kept], high[kept]])
    target = np.concatenate([high[kept], low[kept]])
    by_source = np.lexsort((target, source))
    return np.stack([source[by_source], target[by_source]])


def _hashes(values: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014) of value * KEY: uint64, of their length."""
    x = values.astype(np.uint64) * KEY
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
