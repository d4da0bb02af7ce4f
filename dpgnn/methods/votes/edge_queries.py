"""Queries of votes: from the own record at node level, by both rounds at edge level; and data for attacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpgnn.methods.base import Fitted
from dpgnn.methods.queries import Queries
from dpgnn.methods.shared import aggregate_queries

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.methods.entry import Entry
    from dpgnn.methods.queries import FittedRun, Query


def answer(run: FittedRun, query: Query) -> Tensor:
    """Logits of all nodes of the query's graph.

    Node level: from the released board and each node's own record. Edge level: both rounds are repeated on
    the query's features, edges and noise, with the fitted models.
    """
    from dpgnn import methods

    if run.entry.privacy_unit == "edge":
        return _both_rounds(run, query)
    everyone, fitted = np.arange(query.graph.num_nodes), Fitted(state=dict(run.state))
    return methods.get("votes").predict(run.entry, fitted, query.graph, everyone).logits


def _both_rounds(run: FittedRun, query: Query) -> Tensor:
    import torch

    from dpgnn.methods.shared.undirected import adjacency_of
    from dpgnn.methods.votes import edge_fit
    from dpgnn.methods.votes.edge_base import base_scores
    from dpgnn.methods.votes.edge_head import apply_head
    from dpgnn.methods.votes.edge_rounds import two_rounds

    config, graph, split = run.entry.options.edge, query.graph, run.split
    noise, draw = aggregate_queries.noise_of(run, query.streams)
    scores = base_scores(config, run.state, graph, split)
    boards = two_rounds(
        adjacency_of(graph),
        edge_fit.votes_of(scores, graph, split),
        edge_fit.labelled(graph, split),
        noise,
        draw,
        lambda first: edge_fit.messages_of(config, run.part(edge_fit.HEAD1), scores, noise),
    )
    rows = edge_fit.second_rows(config, scores, boards, noise)
    return torch.from_numpy(apply_head(run.part(edge_fit.HEAD2), rows, graph.num_classes))


def noisy_rows(run: FittedRun) -> tuple[np.ndarray, np.ndarray]:
    """The sums of the first round, and the public votes they are sums of."""
    from dpgnn.methods.votes.edge_base import base_scores
    from dpgnn.methods.votes.edge_fit import votes_of

    scores = base_scores(run.entry.options.edge, run.state, run.graph, run.split)
    return run.state["noisy_state.1"].double().numpy(), votes_of(scores, run.graph, run.split)


def why_not_rows(entry: Entry) -> str:
    """Why released rows are not attacked as sums of public rows; "" if they are."""
    return "" if entry.privacy_unit == "edge" else "rows of the board are sums of private votes"


# at node level the board is released once; besides it, only the asked node's own record enters its answer
QUERIES = Queries(
    noise=lambda entry: "answers" if entry.privacy_unit == "edge" else "none",
    answer=answer,
    why_not_other_graph=lambda entry: (
        "the board has a row for each node of the graph it was fitted on"
    ),
)
