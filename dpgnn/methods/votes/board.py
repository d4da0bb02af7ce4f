"""The board: votes pushed along each voter's own list, noise, and what a node reads of it.

Proof (docs/accounting.md, theorem 12). The list L_u is a set of ids, a function of u's record. A voter adds
V_u / sqrt(|L_u|) to the row of every id of L_u, so its push has norm |V_u| <= 1, whatever its degree, and
no other record changes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dpgnn.methods.releases import (
    Arguments,
    Draw,
    Move,
    Release,
    Where,
    allowed_by,
    distance,
    noised,
    release,
)

if TYPE_CHECKING:
    from dpgnn.accountants.plan import Mechanism


def own_lists(edge_index: np.ndarray, num_nodes: int) -> sp.csr_array:
    """Row u holds a 1 for each id of L_u: targets of u's arcs, each once, u itself never.

    Args:
        edge_index: int64, shape (2, num_edges); an arc u -> v says that v stands in u's list.
        num_nodes: size of the id universe.

    Returns:
        float64 CSR, shape (num_nodes, num_nodes).
    """
    source, target = edge_index
    other = source != target
    shape = (num_nodes, num_nodes)
    ones = np.ones(int(other.sum()))
    lists = sp.csr_array((ones, (source[other], target[other])), shape=shape)
    lists.sum_duplicates()
    lists.data[:] = 1.0
    return lists


def vote_vectors(y: np.ndarray, num_classes: int) -> np.ndarray:
    """V = (e_c - 1/C) / sqrt(1 - 1/C): norm 1; float64, shape (len(y), num_classes)."""
    votes = np.eye(num_classes)[y] - 1 / num_classes
    return np.asarray(votes / np.sqrt(1 - 1 / num_classes))


def pushed(lists: sp.csr_array, voters: np.ndarray, votes: np.ndarray) -> np.ndarray:
    """Sums of the pushes without noise.

    Args:
        lists: from `own_lists`.
        voters: int64 ids; everybody else pushes nothing.
        votes: float64, shape (len(voters), num_classes), rows of norm at most 1.

    Returns:
        float64, shape (num_nodes, num_classes).
    """
    own = sp.csr_array(lists[voters])
    return np.asarray(own.T @ (votes * _inverse_root(own)[:, None]))


def _moved(
    release: Release[..., Any],
    first: Sequence[Arguments],
    second: Sequence[Arguments],
    mechanism: Mechanism,
    where: Where,
) -> Move:
    """All rows of the boards without noise; the round that moves most."""
    if len(first) != len(second):
        return Move(moved=math.inf, allowed=allowed_by(mechanism))
    moved = max(distance(a["sums"], b["sums"], where) for a, b in zip(first, second))
    return Move(moved=moved, allowed=allowed_by(mechanism))


@release({"board": _moved})
def noisy_board(sums: np.ndarray, noise_stddev: float, draw: Draw, step: int = 1) -> np.ndarray:
    """What is released: every row of the sums, of every public id, with Gaussian noise; float32.

    Guarantee: one Gaussian release of the sums; rounding to float32 is post-processing.
    """
    return np.asarray(noised(sums, noise_stddev, draw, step), dtype=np.float32)


def read(
    lists: sp.csr_array, nodes: np.ndarray, votes: np.ndarray, board: np.ndarray
) -> np.ndarray:
    """What nodes read with their own lists, without what they pushed themselves: [b, a].

    b = sum over L_v of board[u] / sqrt(|L_v|) - V_v (0 where the list is empty), a = board[v]. Only v's
    record and released rows enter. The subtraction is for utility: a training node must not read its label.

    Args:
        lists: from `own_lists`.
        nodes: int64 ids of the readers.
        votes: float64, shape (len(nodes), num_classes): V_v, 0 for who did not vote.
        board: what was released, shape (num_nodes, num_classes).

    Returns:
        float64, shape (len(nodes), 2, num_classes).
    """
    own = sp.csr_array(lists[nodes])
    scale = _inverse_root(own)[:, None]
    heard = (own @ board.astype(np.float64)) * scale - votes * (scale > 0)
    return np.stack([heard, board[nodes].astype(np.float64)], axis=1)


def clipped(values: np.ndarray, scale: float) -> np.ndarray:
    """values / scale, each last axis clipped to norm 1."""
    values = values / scale
    norms = np.linalg.norm(values, axis=-1, keepdims=True)
    return np.asarray(values / np.maximum(norms, 1.0))


def _inverse_root(lists: sp.csr_array) -> np.ndarray:
    """1 / sqrt(length) of each list, 0 for an empty one."""
    lengths = np.diff(lists.indptr)
    return np.where(lengths > 0, 1 / np.sqrt(np.maximum(lengths, 1)), 0.0)
