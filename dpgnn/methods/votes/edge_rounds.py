"""The two rounds at edge level: messages along edges, summed at their ends, with noise.

Proof (docs/accounting.md, theorem 13). A message u -> v has norm at most 1 and is a function of u, v,
released sums and public values. Removing the edge {u, v} takes one message from row v and one from row u:
sqrt 2; no other row changes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from dpgnn.core.checks import require
from dpgnn.methods.releases import (
    Draw,
    RoundedDraw,
    as_called,
    gaussian,
    noised,
    release,
    summable,
)

# (senders, each one's released sum minus the receiver's vote) -> messages, rows of norm at most 1
Messages = Callable[[np.ndarray, np.ndarray], np.ndarray]
CHUNK = 200_000


@release({"aggregate": gaussian(as_called)})
def two_rounds(
    adjacency: sp.csr_array,
    votes: np.ndarray,
    labelled: np.ndarray,
    noise_stddev: float,
    draw: Draw,
    learn: Callable[[np.ndarray], Messages],
) -> list[np.ndarray]:
    """Noisy sums of the neighbours' votes, then of the neighbours' messages.

    Guarantee: edges enter through two Gaussian releases, each of sensitivity sqrt 2 for one undirected edge.

    Args:
        adjacency: symmetric 0/1 with zero diagonal, float64 CSR.
        votes: float64, shape (num_nodes, num_classes), rows of norm at most 1; public.
        labelled: bool, shape (num_nodes,); these nodes send their vote again.
        noise_stddev: per coordinate, of each round.
        draw: standard normal noise of a round; secret.
        learn: the released first round -> a function for the messages of the other nodes; reads no edge.

    Returns:
        both released sums, float64, shape (num_nodes, num_classes).
    """
    _in_unit_ball(votes)
    exact = isinstance(draw, RoundedDraw)
    summed = summable(votes, len(votes)) if exact else votes
    first = noised(adjacency @ summed, noise_stddev, draw, 1)
    sums = second_sums(adjacency, votes, labelled, first, learn(first), exact=exact)
    return [first, noised(sums, noise_stddev, draw, 2)]


def second_sums(
    adjacency: sp.csr_array,
    votes: np.ndarray,
    labelled: np.ndarray,
    released: np.ndarray,
    messages: Messages,
    *,
    exact: bool = False,
) -> np.ndarray:
    """Sums of the second round's messages without noise.

    A node u without a label sends to v a message from its released sum minus the vote of v, so that no vote
    returns to its sender.

    Args:
        adjacency, votes, labelled, messages: of `two_rounds`.
        released: the first round, float64, shape (num_nodes, num_classes).
        exact: round messages so that sums are exact, see `releases.summable`; for releases.
    """
    repeated = votes * labelled[:, None]
    if exact:
        repeated = summable(repeated, len(votes))
    from dpgnn.training.products import add_rows

    sums = np.asarray(adjacency @ repeated)
    # the adjacency is symmetric: row u has the receivers of u
    unlabelled = np.flatnonzero(~labelled)
    own = sp.csr_array(adjacency[unlabelled])
    senders, receivers = np.repeat(unlabelled, np.diff(own.indptr)), own.indices
    kind = _kinds(votes, labelled)
    for start in range(0, len(senders), CHUNK):
        u, v = senders[start : start + CHUNK], receivers[start : start + CHUNK]
        chosen, of_arc = _different(u, kind[v])
        sent = messages(u[chosen], released[u[chosen]] - votes[v[chosen]])
        _in_unit_ball(sent)
        if exact:
            sent = summable(sent, len(votes))
        heard = np.zeros_like(sums)
        add_rows(sent, of_arc, v, heard)
        sums += heard
    return sums


def _kinds(votes: np.ndarray, labelled: np.ndarray) -> np.ndarray:
    """A number >= 0 for labelled nodes, equal for equal votes, or -1; int64, shape (num_nodes,)."""
    kind = np.where(labelled, votes.argmax(axis=1), -1)
    # one node of each kind
    sample = np.zeros(votes.shape[1], dtype=np.int64)
    sample[kind[labelled]] = np.flatnonzero(labelled)
    same = (votes == votes[sample[kind]]).all(axis=1)
    return np.where(labelled & same, kind, -1)


def _different(senders: np.ndarray, kind: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Arcs with distinct messages, and for each arc the position of its message among those.

    A message depends only on its sender and its receiver's vote, so receivers of one kind share it.

    Args:
        senders: int64, shape (num_arcs,), ascending.
        kind: of the receivers; -1 for an individual vote.
    """
    arcs = np.arange(len(senders))
    if len(senders) == 0 or kind.max() < 0:
        return arcs, arcs
    width = int(kind.max()) + 1
    # a small table of known pairs; if it would be too large, every arc has its own message
    size = (int(senders[-1] - senders[0]) + 1) * width
    if size > 4 * len(senders):
        return arcs, arcs
    shared = np.flatnonzero(kind >= 0)
    key = (senders[shared] - senders[0]) * width + kind[shared]
    first = np.empty(size, dtype=np.int64)
    first[key[::-1]] = shared[::-1]
    stands_for = arcs.copy()
    stands_for[shared] = first[key]
    is_chosen = stands_for == arcs
    return np.flatnonzero(is_chosen), (np.cumsum(is_chosen) - 1)[stands_for]


def _in_unit_ball(rows: np.ndarray) -> None:
    inside = bool((np.linalg.norm(rows, axis=1) <= 1 + 1e-9).all())
    require(inside, "votes", "lie in the unit ball", "a longer one")
