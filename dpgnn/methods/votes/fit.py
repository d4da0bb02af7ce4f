"""Runs under node-record: release the board, train on what nodes read from it, and answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dpgnn.core.checks import require
from dpgnn.methods.base import Fitted, PlannedRun
from dpgnn.methods.shared.edge_level import normal_draw
from dpgnn.methods.shared.linear import linear_logits, own_rows, train_linear
from dpgnn.methods.votes.board import (
    READERS_AT_ONCE,
    clipped,
    combined,
    noisy_board,
    noisy_second_board,
    own_lists,
    pushed,
    read,
    shares_of,
    slices,
    vote_vectors,
)
from dpgnn.methods.votes.plan import BOARD, SECOND, has
from dpgnn.samplers.hashing import draw_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from dpgnn.core.randomness import Streams
    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import Entry
    from dpgnn.methods.votes.options import VotesConfig


def fit_node(run: PlannedRun) -> Fitted:
    """Board, then the model on the inputs of the training nodes, then the second board if one is planned.

    Guarantee: records enter only through the planned mechanisms; a training node's input depends on its own
    record and released rows, and so does the second vote of any other node.
    """
    config: VotesConfig = run.entry.options
    state = _first_board(run, config)
    rows = tuple(
        inputs(config, run.graph, part, state) for part in (run.split.train_idx, run.split.val_idx)
    )
    weights, history = train_linear(run, (rows[0], rows[1]))
    if has(run.plan, SECOND):
        state |= _second_board(run, config, weights, state)
    return Fitted(state=dict(weights) | state, history=tuple(history), details={"board": True})


def _first_board(run: PlannedRun, config: VotesConfig) -> dict[str, Tensor]:
    """The released votes of the training nodes, and public facts for readers."""
    planned = run.context.ledger.enter(BOARD)
    voters = np.zeros(run.graph.num_nodes, dtype=np.bool_)
    voters[run.split.train_idx] = True
    sums = sums_of_labels(config, run.graph, run.split.train_idx, run.context.streams)
    board = noisy_board(sums, planned.noise_stddev, normal_draw(run.context, BOARD))
    return {
        "board": torch.from_numpy(board.copy()),
        "voters": torch.from_numpy(voters),
        "scale": torch.tensor(input_scale(config, planned.noise_stddev, run.graph.num_classes)),
    }


def _second_board(
    run: PlannedRun, config: VotesConfig, weights: Mapping[str, Tensor], state: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The model's classes of the other nodes, pushed by each along its own list; training nodes push nothing.

    A pushed vote depends only on the node's own record, the first board and the weights.
    """
    planned = run.context.ledger.enter(SECOND)
    others = second_voters(state["voters"].numpy())
    votes = _second_votes(config, run.graph, others, weights, state)
    sums = _sums(config, run.graph, others, votes, run.context.streams)
    board = noisy_second_board(sums, planned.noise_stddev, normal_draw(run.context, SECOND))
    shares = shares_of(run.plan.mechanism(BOARD).noise_stddev, planned.noise_stddev)
    return {"second": torch.from_numpy(board.copy()), "shares": torch.tensor(shares)}


def second_voters(voters: np.ndarray) -> np.ndarray:
    """Ids that push to the second board: all that did not push to the first."""
    return np.flatnonzero(~voters)


def sums_of_labels(
    config: VotesConfig, graph: Graph, voters: np.ndarray, streams: Streams
) -> np.ndarray:
    """Sums of the voters' pushes for their labels, without noise; float64, shape (num_nodes, num_classes)."""
    return _sums(config, graph, voters, vote_vectors(graph.y[voters], graph.num_classes), streams)


def _sums(
    config: VotesConfig, graph: Graph, nodes: np.ndarray, votes: np.ndarray, streams: Streams
) -> np.ndarray:
    key = None if config.max_pushes is None else draw_key(streams.numpy("sampler"))
    return pushed(
        graph.edge_index, graph.num_nodes, nodes, votes, most=config.max_pushes, key=key,
        exact=streams.is_secret("noise"),
    )  # fmt: skip


def _second_votes(
    config: VotesConfig,
    graph: Graph,
    nodes: np.ndarray,
    weights: Mapping[str, Tensor],
    state: Mapping[str, Tensor],
) -> np.ndarray:
    """Votes for the classes predicted with the first board; shape (len(nodes), num_classes)."""
    votes = np.zeros((len(nodes), graph.num_classes))
    for part in slices(len(nodes), READERS_AT_ONCE):
        rows = inputs(config, graph, nodes[part], state)
        classes = linear_logits(graph, rows)(weights).argmax(dim=1).numpy()
        votes[part] = vote_vectors(classes, graph.num_classes)
    return votes


def input_scale(config: VotesConfig, noise_stddev: float, num_classes: int) -> float:
    """beta: clipping norm of the read values; `clip` times the norm of the noise."""
    return config.clip * noise_stddev * num_classes**0.5


def inputs(
    config: VotesConfig, graph: Graph, nodes: np.ndarray, state: Mapping[str, Tensor]
) -> Any:
    """Rows of the model from the first board.

    Returns:
        as `rows_of`.
    """
    votes = first_votes(graph, nodes, state)
    return rows_of(config, graph, nodes, votes, state["board"].numpy(), float(state["scale"]))


def first_votes(graph: Graph, nodes: np.ndarray, state: Mapping[str, Tensor]) -> np.ndarray:
    """Votes of nodes on the first board, 0 for nodes that did not vote; shape (len(nodes), num_classes).

    Raises:
        ValueError: a node that voted has no label.
    """
    votes = np.zeros((len(nodes), graph.num_classes))
    voted = state["voters"].numpy()[nodes]
    unknown = nodes[voted][graph.y[nodes[voted]] < 0]
    rule, why = "be given for asked nodes that voted", "its own vote is taken out of what it reads"
    require(not len(unknown), "labels", rule, unknown[:1].tolist(), why)
    votes[voted] = vote_vectors(graph.y[nodes[voted]], graph.num_classes)
    return votes


def rows_of(
    config: VotesConfig,
    graph: Graph,
    nodes: np.ndarray,
    votes: np.ndarray,
    board: np.ndarray,
    scale: float,
) -> Any:
    """Rows of the model: own features, values read from a board, and a constant; float32.

    Row v depends only on v's record (features, list, and its own votes) and released values.

    Returns:
        shape (len(nodes), num_features + 2 num_classes + 1), dense; CSR where features are CSR.
    """
    lists = own_lists(graph.edge_index, graph.num_nodes, nodes)
    own = votes if config.subtract else np.zeros_like(votes)
    found = clipped(read(lists, nodes, own, board, most=config.max_pushes), scale)
    for place, name in enumerate(("list", "row")):
        if config.reads not in ("both", name):
            found[:, place] = 0.0
    found = found.reshape(len(nodes), 2 * graph.num_classes)
    constant = np.full((len(nodes), 1), config.bias)
    return own_rows(graph, nodes, np.concatenate([found, constant], axis=1))


def answers(entry: Entry, fitted: Fitted, graph: Graph, nodes: np.ndarray) -> Tensor:
    """Logits of nodes, each from its own record, the boards and the weights."""
    made = []
    for part in slices(len(nodes), READERS_AT_ONCE):
        rows = _asked(entry.options, fitted.state, graph, nodes[part])
        made.append(linear_logits(graph, rows)(fitted.state))
    return torch.cat(made) if made else torch.zeros((0, graph.num_classes))


def _asked(
    config: VotesConfig, state: Mapping[str, Tensor], graph: Graph, nodes: np.ndarray
) -> Any:
    """Rows of the model from all boards; each node's own pushes are subtracted."""
    if "second" not in state:
        return inputs(config, graph, nodes, state)
    shares = [float(share) for share in state["shares"]]
    votes = shares[0] * first_votes(graph, nodes, state)
    other = ~state["voters"].numpy()[nodes]
    votes[other] = shares[1] * _second_votes(config, graph, nodes[other], state, state)
    board = combined([state[name].numpy() for name in ("board", "second")], shares)
    return rows_of(config, graph, nodes, votes, board, float(state["scale"]))
