"""Runs at edge level: base scores, two rounds of votes, a head after each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from dpgnn.methods.base import Fitted, PlannedRun
from dpgnn.methods.queries import AGGREGATE
from dpgnn.methods.shared.edge_level import normal_draw
from dpgnn.methods.shared.undirected import adjacency_of
from dpgnn.methods.votes.board import vote_vectors
from dpgnn.methods.votes.edge_base import fit_bases
from dpgnn.methods.votes.edge_head import apply_head, head_rows, train_head
from dpgnn.methods.votes.edge_rounds import Messages, two_rounds

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.votes.edge_options import EdgeConfig

HEAD1, HEAD2 = "head1.", "head2."


def fit_edge(run: PlannedRun) -> Fitted:
    """Fit the base classifiers, then twice a noisy round and a head.

    Guarantee: edges enter only through the planned mechanism; the rest reads released and public values.
    """
    config: EdgeConfig = run.entry.options.edge
    noise = run.context.ledger.enter(AGGREGATE).noise_stddev
    bases = fit_bases(run)
    state, scores = dict(bases.state), bases.scores

    def learn(first: np.ndarray) -> Messages:
        rows = head_rows(config, scores, [(first, noise)])
        head, _ = train_head(run, rows, "head1")
        state.update({HEAD1 + name: value for name, value in head.items()})
        return messages_of(config, head, scores, noise)

    boards = two_rounds(
        adjacency_of(run.graph), votes_of(scores, run.graph, run.split),
        labelled(run.graph, run.split), noise, normal_draw(run.context, AGGREGATE), learn,
    )  # fmt: skip
    rows = second_rows(config, scores, boards, noise)
    head, history = train_head(run, rows, "head2")
    state |= {HEAD2 + name: value for name, value in head.items()}
    state |= {
        f"noisy_state.{number}": torch.from_numpy(board.astype(np.float32))
        for number, board in enumerate(boards, start=1)
    }
    logits = apply_head(head, rows, run.graph.num_classes)
    return Fitted(
        state=state | {"logits": torch.from_numpy(logits.astype(np.float32))},
        history=tuple(history),
    )


def votes_of(scores: np.ndarray, graph: Graph, split: Split) -> np.ndarray:
    """Public votes of all nodes: the label of a training node, the base scores of others."""
    votes = soft_votes(np.exp(scores))
    votes[split.train_idx] = vote_vectors(graph.y[split.train_idx], graph.num_classes)
    return votes


def soft_votes(probabilities: np.ndarray) -> np.ndarray:
    """(p - 1/C) / sqrt(1 - 1/C): norm at most 1, attained by a single certain class."""
    classes = probabilities.shape[-1]
    return np.asarray((probabilities - 1 / classes) / np.sqrt(1 - 1 / classes))


def labelled(graph: Graph, split: Split) -> np.ndarray:
    """bool, shape (num_nodes,): training nodes."""
    mask = np.zeros(graph.num_nodes, dtype=np.bool_)
    mask[split.train_idx] = True
    return mask


def messages_of(
    config: EdgeConfig, head: Mapping[str, Tensor], scores: np.ndarray, noise: float
) -> Messages:
    """Votes by the first head: senders and the values they read -> messages."""

    def messages(senders: np.ndarray, read: np.ndarray) -> np.ndarray:
        rows = head_rows(config, scores[senders], [(read, noise)])
        logits = torch.from_numpy(apply_head(head, rows, scores.shape[1]))
        return soft_votes(torch.softmax(logits, dim=1).numpy())

    return messages


def second_rows(
    config: EdgeConfig, scores: np.ndarray, boards: list[np.ndarray], noise: float
) -> np.ndarray:
    """Rows of the second head: scores, the mean of both rounds, and the second."""
    first, second = boards
    mean = ((first + second) / 2, noise / 2**0.5)
    return head_rows(config, scores, [mean, (second, noise)])
