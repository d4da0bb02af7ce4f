"""Votes: each training node pushes one vote along its own list onto a noisy public board.

Node level (`node-record`): a push is divided by the square root of the voter's own degree, so one record
changes the board by 1 for any degree. A node reads the rows of its own list, and a linear model trained by
DP-SGD uses them. Edge level (`edge`): two rounds of noisy sums of votes along edges, each read by a model
that is trained without noise. See docs/methods/votes.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.accountants.plan import Budget, Plan
from dpgnn.methods import dp_mlp
from dpgnn.methods.base import (
    Asked,
    Context,
    Entry,
    Facts,
    Fitted,
    Method,
    PlannedRun,
    Prediction,
    pairs,
)
from dpgnn.methods.queries import Leaks
from dpgnn.methods.scores import RELEASED, Score
from dpgnn.methods.shared.aggregate_answers import answer
from dpgnn.methods.votes import edge_queries
from dpgnn.methods.votes.edge_plan import edge_plan
from dpgnn.methods.votes.options import VotesConfig
from dpgnn.methods.votes.plan import BOARD, as_dp_mlp, has, node_plan
from dpgnn.methods.votes.tensors import tensors

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpgnn.data.graph import Graph
    from dpgnn.methods.queries import FittedRun
    from dpgnn.methods.releases import Draw, Release

OWN_RECORD = (
    "own-record: an answer reads the released weights and board and the asked node's own record; it is for "
    "that node alone"
)


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """Noise from the budget; see `node_plan` and `edge_plan`.

    Guarantee: of `node_plan` or, for the unit `edge`, of `edge_plan`.

    Source: docs/accounting.md, theorems 12 and 13.
    """
    if entry.privacy_unit == "edge":
        return edge_plan(entry, facts, budget)
    return node_plan(entry, facts, budget)


def fit(run: PlannedRun) -> Fitted:
    """Release the board and train; DP-MLP's fit where the plan falls back to it.

    Guarantee: records, or edges, enter only through planned mechanisms.
    """
    if run.entry.privacy_unit == "edge":
        from dpgnn.methods.votes.edge_fit import fit_edge

        return fit_edge(run)
    from dpgnn.methods.votes import fit as votes_fit

    if not has(run.plan, BOARD):
        made = dp_mlp.fit(replace(
            run, entry=as_dp_mlp(run.entry), graph=dp_mlp.METHOD.sees(run.graph),
            context=_as_dp_mlp(run.context),
        ))  # fmt: skip
        return Fitted(state=made.state, history=made.history, details={"board": False})
    return votes_fit.fit_node(run)


def predict(entry: Entry, fitted: Fitted, graph: Graph, node_idx: np.ndarray) -> Prediction:
    """Logits of the nodes asked for, each from its own record and what was released.

    The claim covers the answers to all nodes except the one whose record changes (`own-record`); at edge
    level it covers all answers.

    Guarantee: under node-record joint (`own-record`): weights, board and all answers about other nodes are
    covered for a record. At edge level features, labels of training nodes and ids are public, and all
    answers are covered.

    Args:
        entry, fitted: of the run.
        graph: the evaluation graph; private.
        node_idx: int64, shape (num_asked,).

    Source: docs/accounting.md, theorems 12 and 13, and "Answers, and who may see them".
    """
    if entry.privacy_unit == "edge":
        return answer(entry, fitted, graph, node_idx)
    from dpgnn.methods.votes import fit as votes_fit

    if "board" not in fitted.state:
        return dp_mlp.predict(as_dp_mlp(entry), fitted, graph, node_idx)
    logits = votes_fit.answers(entry, fitted, graph, node_idx)
    return Prediction(logits=logits, answers="own-record", note=OWN_RECORD)


def score(entry: Entry) -> Score:
    """How far right answers move: an answer reads the boards, the weights and the asked node's own record.

    Guarantee: of the second board and the score a node that is no training node enters both, a training node
    none; at edge level answers are functions of released and public values.

    Args:
        entry: names the unit.

    Source: docs/accounting.md, theorems 12 (6), 13 (5) and 19.
    """
    if entry.privacy_unit == "edge":
        return RELEASED
    return Score(sensitivity=1.0, of_training=(BOARD, "train"))


def _as_dp_mlp(context: Context) -> Context:
    """The context of the entry `dp_mlp`, so that a seeded run has the same draws as that entry's run."""
    axes = {**context.streams.axes, "entry": "dp_mlp"}
    return replace(context, streams=replace(context.streams, axes=axes))


def _board_of(
    run: FittedRun, graph: Graph, voters: np.ndarray
) -> Callable[[Draw], np.ndarray] | None:
    """The first board of a graph with the run's noise; None if the plan has none."""
    from dpgnn.methods.votes import fit as votes_fit
    from dpgnn.methods.votes.board import noisy_board

    if not has(run.plan, BOARD):
        return None
    sums = votes_fit.sums_of_labels(run.entry.options, graph, voters, run.streams)
    return lambda draw: noisy_board(sums, run.plan.mechanism(BOARD).noise_stddev, draw)


def releases() -> tuple[Release[..., Any], ...]:
    """The boards, and both rounds at edge level."""
    from dpgnn.methods.votes.board import noisy_board, noisy_second_board
    from dpgnn.methods.votes.edge_rounds import two_rounds

    return (noisy_board, noisy_second_board, two_rounds)


METHOD = Method(
    name="votes",
    title="Votes",
    config=VotesConfig,
    source="this project; docs/accounting.md, theorems 12 and 13",
    modes=("sound",),
    supports=(
        *pairs("node-record", "add-remove", "null-one", "replace-one"),
        *pairs("edge", "add-remove"),
    ),
    plan=plan,
    fit=fit,
    predict=predict,
    score=score,
    tensors=tensors,
    asked=Asked(
        steps="training.num_steps",
        counted="steps",
        fixed_steps=("edge",),
        flags={"mean-degree": "mean_degree"},
    ),
    releases=releases,
    queries=edge_queries.QUERIES,
    leaks=Leaks(
        board=_board_of,
        noisy_rows=edge_queries.noisy_rows,
        why_not_rows=edge_queries.why_not_rows,
    ),
    # theorem 12: boards are noised; who votes, the clipping scale and the shares of boards are public facts
    state={"noisy-state": ("board", "second", "voters", "scale", "shares")},
    list_owner="source",
    shows_nodes=lambda entry: True,
    example={
        "mean_degree": 50.0,
        "rounds": 2,
        "training": {"num_steps": 10},
        "edge": {
            "scaled": {"hidden": [8], "training": {"num_epochs": 5}},
            "raw": {"hidden": [8], "training": {"num_epochs": 5}},
            "linear": {"training": {"num_epochs": 5}},
            "head": {"hidden": 8, "training": {"num_epochs": 5}},
        },
    },
)
