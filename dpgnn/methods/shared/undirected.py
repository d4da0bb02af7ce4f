"""The undirected edges that an edge-level guarantee is about, and degrees under a declared bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from dpgnn.core.checks import at_least, require
from dpgnn.data.graph import distinct_keys

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph


def undirected_pairs(edge_index: np.ndarray, num_nodes: int) -> np.ndarray:
    """Each undirected edge once, without self-loops.

    A directed edge counts as the undirected edge between its ends: the unit `edge` protects the pair.

    Args:
        edge_index: int64, shape (2, num_edges).
        num_nodes: number of nodes.

    Returns:
        int64, shape (2, num_pairs), row 0 < row 1, in ascending order.
    """
    low, high = np.minimum(*edge_index), np.maximum(*edge_index)
    keys, loops = low * num_nodes + high, low == high
    keys = distinct_keys(keys[~loops] if loops.any() else keys)
    return np.stack(np.divmod(keys, num_nodes)).astype(np.int64)


def symmetric_adjacency(pairs: np.ndarray, num_nodes: int) -> sp.csr_array:
    """0/1 CSR, float64, both directions of every pair, zero diagonal.

    Args:
        pairs: int64, shape (2, num_pairs), from `undirected_pairs`.
        num_nodes: number of nodes.
    """
    # smaller neighbours first, so that columns ascend without sorting when rows are joined
    rows = np.concatenate([pairs[1], pairs[0]])
    columns = np.concatenate([pairs[0], pairs[1]])
    shape = (num_nodes, num_nodes)
    return sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)


def adjacency_of(graph: Graph) -> sp.csr_array:
    """The undirected 0/1 adjacency of a graph, float64 CSR."""
    return symmetric_adjacency(undirected_pairs(graph.edge_index, graph.num_nodes), graph.num_nodes)


def degrees(adjacency: sp.csr_array) -> np.ndarray:
    """int64, shape (num_nodes,): neighbours of each node; sensitive."""
    return np.diff(adjacency.indptr).astype(np.int64)


def check_degree_promise(
    adjacency: sp.csr_array, *, minimum: int, maximum: int | None, name: str
) -> None:
    """Refuse a graph outside the class that the claim is about.

    The user promises that both neighbouring graphs satisfy the bound. The check reads the private graph, so
    that a wrong promise is found before any release; the message names the promise but no measured number.

    Raises:
        ValueError: a degree is below `minimum` or above `maximum`.
    """
    degree = degrees(adjacency)
    at_least(f"{name}: minimum_degree", minimum, 0)
    require(
        bool((degree >= minimum).all()), f"{name}: every degree", f"be >= minimum_degree {minimum}",
        "a smaller one", "lower minimum_degree; 0 assumes nothing",
    )  # fmt: skip
    if maximum is not None:
        require(
            bool((degree <= maximum).all()), f"{name}: every degree",
            f"be <= max_degree {maximum}, the declared bound of node-bounded", "a larger one",
            "raise max_degree, or protect node-record",
        )  # fmt: skip
