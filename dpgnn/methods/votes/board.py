"""The board: votes pushed along each voter's own list, noise, and reading.

Proof (docs/accounting.md, theorem 12). The list L_u is a set of ids, a function of u's record. A voter adds
V_u / sqrt(|L_u|) to the row of every id in L_u, so its push has norm |V_u| <= 1 for any degree, and no other
record changes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from dpgnn.methods.releases import (
    Calls,
    Draw,
    Move,
    allowed_by,
    distance,
    noised,
    release,
    rows_with_room,
    summable,
)

if TYPE_CHECKING:
    from dpgnn.samplers.lists import Arcs


# voters or rows of the board processed at a time, and readers, which need more memory
AT_ONCE = 1 << 19
READERS_AT_ONCE = 1 << 18
ARCS_AT_ONCE = 1 << 22


def own_lists(arcs: Arcs, num_nodes: int, nodes: np.ndarray) -> sp.csr_array:
    """Row i has a 1 for each id in the list of nodes[i]: the distinct targets of its arcs, without itself.

    Arcs are processed `ARCS_AT_ONCE` at a time, and only those of these nodes are kept.

    Args:
        arcs: shape (2, num_arcs), or chunks of that form; an arc u -> v means that v is in u's list.
        num_nodes: size of the id universe.
        nodes: int64 ids, each once.

    Returns:
        int8 CSR, shape (len(nodes), num_nodes), indices ascending.
    """
    from dpgnn.samplers.lists import arc_chunks, write_own_arcs

    place = np.full(num_nodes, -1, dtype=np.int32)
    place[nodes] = np.arange(len(nodes), dtype=np.int32)
    rows, ids = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    found = np.empty((2, ARCS_AT_ONCE), dtype=np.int32)
    for chunk in arc_chunks(arcs, num_nodes):
        for first in range(0, chunk.shape[1], ARCS_AT_ONCE):
            source, target = chunk[:, first : first + ARCS_AT_ONCE]
            count = write_own_arcs(place, source, target, found)
            rows.append(found[0, :count].copy())
            ids.append(found[1, :count].copy())
    row, column = np.concatenate(rows), np.concatenate(ids)
    rows.clear()
    ids.clear()
    cells = (np.ones(len(row), dtype=np.int8), (row, column))
    lists = sp.csr_array(cells, shape=(len(nodes), num_nodes))
    del cells, row, column
    lists.sum_duplicates()
    lists.data[:] = 1
    return lists


def shortened(lists: sp.csr_array, nodes: np.ndarray, most: int, key: np.ndarray) -> sp.csr_array:
    """At most `most` ids of each list: those of smallest keyed hash of (owner, id).

    Depends only on each list and the key, so no list depends on another.

    Args:
        lists: from `own_lists` of `nodes`.
        nodes: int64 ids of the lists' owners.
        most: the limit.
        key: from `samplers.hashing.draw_key`; may be public.
    """
    from dpgnn.samplers.hashing import pair_hashes

    lengths = np.diff(lists.indptr)
    row = np.repeat(np.arange(len(nodes)), lengths)
    order = np.lexsort((pair_hashes(key, nodes[row], lists.indices), row))
    kept = np.sort(order[np.arange(len(row)) - lists.indptr[row] < most])
    cells = (lists.data[kept], (row[kept], lists.indices[kept]))
    return sp.csr_array(cells, shape=lists.shape)


def vote_vectors(y: np.ndarray, num_classes: int) -> np.ndarray:
    """V = (e_c - 1/C) / sqrt(1 - 1/C): norm 1; float64, shape (len(y), num_classes)."""
    votes = (np.eye(num_classes) - 1 / num_classes) / np.sqrt(1 - 1 / num_classes)
    return np.asarray(votes[y])


def pushed(
    arcs: Arcs,
    num_nodes: int,
    voters: np.ndarray,
    votes: np.ndarray,
    *,
    most: int | None = None,
    key: np.ndarray | None = None,
    exact: bool = False,
) -> np.ndarray:
    """Sums of the pushes without noise; only the lists of `AT_ONCE` voters are in memory at a time.

    Args:
        arcs, num_nodes: as in `own_lists`.
        voters: int64 ids, each once; other nodes push nothing.
        votes: float64, shape (len(voters), num_classes), rows of norm at most 1.
        most: largest number of ids of its list that a voter pushes to; None pushes to all.
        key: decides these ids, see `shortened`.
        exact: round pushes so that sums are exact, see `releases.summable`; for releases.

    Returns:
        float64, shape (num_nodes, num_classes).
    """
    sums = np.zeros((num_nodes, votes.shape[1]))
    for part in slices(len(voters)):
        own = own_lists(arcs, num_nodes, voters[part])
        if most is not None:
            assert key is not None
            own = shortened(own, voters[part], most, key)
        push = votes[part] * _inverse_root(np.diff(own.indptr))[:, None]
        if exact:
            push = summable(push, rows_with_room(len(voters)))
        mentions = own.T.tocsr()
        for rows in slices(num_nodes):
            sums[rows] += mentions[rows] @ push
    return sums


def slices(count: int, size: int | None = None) -> list[slice]:
    """0..count in pieces of `size`; of `AT_ONCE` if None."""
    size = size or AT_ONCE
    return [slice(first, min(first + size, count)) for first in range(0, count, size)]


def _moved(seen: Calls) -> Move:
    """The change of all rows of the noise-free boards; the largest over rounds."""
    allowed = allowed_by(seen.mechanism)
    if len(seen.first) != len(seen.second):
        return Move(moved=math.inf, allowed=allowed)
    sums = [(a["sums"], b["sums"]) for a, b in zip(seen.first, seen.second)]
    return Move(moved=max(distance(*both, seen.where) for both in sums), allowed=allowed)


@release({"board": _moved})
def noisy_board(sums: np.ndarray, noise_stddev: float, draw: Draw) -> np.ndarray:
    """The released board: the sums for every public id, with Gaussian noise; float32.

    Guarantee: one Gaussian release of the sums; rounding to float32 is post-processing.
    """
    return _released(sums, noise_stddev, draw)


@release({"second-board": _moved})
def noisy_second_board(sums: np.ndarray, noise_stddev: float, draw: Draw) -> np.ndarray:
    """The same for votes of nodes outside the training set.

    Guarantee: as `noisy_board`.
    """
    return _released(sums, noise_stddev, draw)


def _released(sums: np.ndarray, noise_stddev: float, draw: Draw) -> np.ndarray:
    board = np.empty(sums.shape, dtype=np.float32)
    for step, rows in enumerate(slices(len(sums)), start=1):
        board[rows] = noised(sums[rows], noise_stddev, draw, step)
    return board


def combined(boards: Sequence[np.ndarray], shares: Sequence[float]) -> np.ndarray:
    """Sum of share times board; float64."""
    total = np.zeros(boards[0].shape)
    for share, board in zip(shares, boards):
        for rows in slices(len(total)):
            total[rows] += share * board[rows].astype(np.float64)
    return total


def shares_of(first: float, second: float) -> tuple[float, float]:
    """Shares of two boards with these noises, by inverse variance; the sum has the noise of the first.

    This maximises the signal-to-noise ratio among sums of two boards with equal signal for each vote.
    """
    weights = (first**-2, second**-2)
    scale = first / math.hypot(weights[0] * first, weights[1] * second)
    return scale * weights[0], scale * weights[1]


def read(
    lists: sp.csr_array,
    nodes: np.ndarray,
    votes: np.ndarray,
    board: np.ndarray,
    *,
    most: int | None = None,
) -> np.ndarray:
    """The values that nodes read with their own lists, without their own pushes: [b, a].

    b = sum over L_v of board[u] / sqrt(|L_v|) - V_v (0 where the list is empty), a = board[v]. Only v's
    record and released rows enter. The subtraction is for utility, so that a training node does not read its
    own label.

    Args:
        lists: from `own_lists` of `nodes`.
        nodes: int64 ids of the readers.
        votes: float64, shape (len(nodes), num_classes): V_v, 0 for nodes that did not vote.
        board: the released board, shape (num_nodes, num_classes).
        most: as in `pushed`.

    Returns:
        float64, shape (len(nodes), 2, num_classes).
    """
    lengths = np.diff(lists.indptr)
    scale = _inverse_root(lengths)[:, None]
    heard = (lists @ board.astype(np.float64)) * scale
    own = np.ones(len(nodes)) if most is None else np.sqrt(np.minimum(lengths, most)) * scale[:, 0]
    heard -= votes * np.where(lengths > 0, own, 0.0)[:, None]
    return np.stack([heard, board[nodes].astype(np.float64)], axis=1)


def clipped(values: np.ndarray, scale: float) -> np.ndarray:
    """values / scale, each last axis clipped to norm 1."""
    values = values / scale
    norms = np.linalg.norm(values, axis=-1, keepdims=True)
    return np.asarray(values / np.maximum(norms, 1.0))


def _inverse_root(lengths: np.ndarray) -> np.ndarray:
    """1 / sqrt(length) of each list, 0 for an empty one."""
    return np.where(lengths > 0, 1 / np.sqrt(np.maximum(lengths, 1)), 0.0)
