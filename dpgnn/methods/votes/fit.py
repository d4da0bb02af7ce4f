"""Runs under node-record: release the board, train on what nodes read of it, answer with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch

from dpgnn.data.rows import normalize_rows
from dpgnn.methods.base import Fitted
from dpgnn.methods.shared.edge_level import normal_draw
from dpgnn.methods.shared.private_training import run_dp_sgd, scorer
from dpgnn.methods.votes.board import clipped, noisy_board, own_lists, pushed, read, vote_vectors
from dpgnn.methods.votes.plan import BOARD
from dpgnn.models.forward import full_graph
from dpgnn.models.network import Network, NetworkConfig
from dpgnn.models.trees import lone_roots

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from dpgnn.accountants.plan import Plan
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.base import Context, Entry
    from dpgnn.methods.votes.options import VotesConfig

# sparse features with more columns are not centred: a row's mean is next to nothing there
CENTRED_COLUMNS = 10_000


def fit_node(entry: Entry, graph: Graph, split: Split, plan: Plan, context: Context) -> Fitted:
    """Board, then the model on the inputs of the training nodes.

    Guarantee: records enter through the two planned mechanisms alone; a training node's input is made of
    its own record and of released rows.
    """
    config: VotesConfig = entry.options
    board_plan = context.ledger.enter(BOARD)
    voters = np.zeros(graph.num_nodes, dtype=np.bool_)
    voters[split.train_idx] = True
    sums = pushed(
        own_lists(graph.edge_index, graph.num_nodes), split.train_idx,
        vote_vectors(graph.y[split.train_idx], graph.num_classes),
    )  # fmt: skip
    board = noisy_board(sums, board_plan.noise_stddev, normal_draw(context, BOARD))
    state = {
        "board": torch.from_numpy(board.copy()),
        "voters": torch.from_numpy(voters),
        "scale": torch.tensor(input_scale(config, board_plan.noise_stddev, graph.num_classes)),
    }
    network = model_of(graph)
    val = split.val_idx
    weights, history = run_dp_sgd(
        network,
        inputs(config, graph, split.train_idx, state),
        lone_roots(np.arange(len(split.train_idx)), graph.y[split.train_idx]),
        config.training.optimizer,
        context,
        delta=plan.claims[0].delta,
        evaluate=scorer(
            full_graph(network, inputs(config, graph, val, state), None), graph.y[val], graph.task
        ),
    )
    return Fitted(state=weights | state, history=tuple(history), details={"board": True})


def input_scale(config: VotesConfig, noise_stddev: float, num_classes: int) -> float:
    """beta: the norm that what is read is clipped at; `clip` times the norm of noise alone."""
    return config.clip * noise_stddev * num_classes**0.5


def inputs(
    config: VotesConfig, graph: Graph, nodes: np.ndarray, state: Mapping[str, Tensor]
) -> Any:
    """Rows of the model: own features, what is read of the board, and a constant; float32.

    Row v is a function of v's record (features, list, and the label of a voter) and of released values.

    Returns:
        shape (len(nodes), num_features + 2 num_classes + 1), dense; CSR where wide features are CSR.
    """
    lists = own_lists(graph.edge_index, graph.num_nodes)
    votes = np.zeros((len(nodes), graph.num_classes))
    voted = state["voters"].numpy()[nodes]
    votes[voted] = vote_vectors(graph.y[nodes[voted]], graph.num_classes)
    found = read(lists, nodes, votes, state["board"].numpy())
    found = clipped(found, float(state["scale"])).reshape(len(nodes), 2 * graph.num_classes)
    constant = np.full((len(nodes), 1), config.bias)
    rest = np.concatenate([found, constant], axis=1).astype(np.float32)
    x = graph.x[nodes]
    if not isinstance(x, np.ndarray) and graph.num_features > CENTRED_COLUMNS:
        return sp.csr_array(sp.hstack([normalize_rows(sp.csr_array(x), "l2"), rest])).astype(
            np.float32
        )
    x = x if isinstance(x, np.ndarray) else x.toarray()
    x = normalize_rows(x - x.mean(axis=1, keepdims=True), "l2")
    return np.concatenate([x, rest], axis=1)


def model_of(graph: Graph) -> Network:
    """The linear softmax model; its constant input is its bias."""
    return Network(
        NetworkConfig(
            num_features=graph.num_features + 2 * graph.num_classes + 1,
            num_outputs=graph.num_classes,
            encoder_layers=0,
            num_hops=0,
            decoder_layers=1,
            bias=False,
            task=graph.task,
        )
    )


def answers(entry: Entry, fitted: Fitted, graph: Graph, nodes: np.ndarray) -> Tensor:
    """Logits of nodes from their own records, the board and the weights."""
    rows = inputs(entry.options, graph, nodes, fitted.state)
    return full_graph(model_of(graph), rows, None)(fitted.state)
