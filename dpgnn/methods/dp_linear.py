"""DP-Linear: a linear model of node features by full-batch noisy gradient descent; it never reads an edge.

The model of votes without a board: their difference shows what the board adds. See docs/methods/votes.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.accountants.plan import Budget, Plan
from dpgnn.core.checks import positive, require
from dpgnn.methods.base import (
    Asked,
    Entry,
    Facts,
    Fitted,
    Method,
    PlannedRun,
    Prediction,
    own_features_only,
)
from dpgnn.methods.queries import Queries
from dpgnn.methods.scores import Score
from dpgnn.methods.shared.own_root import SUPPORTS, plan_own_roots
from dpgnn.methods.shared.planning import LINEAR, DPSGDConfig
from dpgnn.methods.tensors import Tensors, Trained, of_network

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.methods.queries import FittedRun
    from dpgnn.methods.shared.layers import Layers


@dataclass(frozen=True, kw_only=True)
class DPLinearConfig:
    """Options of DP-Linear; every value is public.

    Attributes:
        bias: the constant input that acts as the bias.
        training: noisy gradient descent.
    """

    bias: float = 0.3
    training: DPSGDConfig = LINEAR

    def __post_init__(self) -> None:
        positive("bias", self.bias)


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """Noise or steps from the budget.

    Guarantee: as DP-MLP's: unit `node` or a weaker one, relation of the entry; the number of training nodes
    and the split are public.

    Source: docs/accounting.md, theorem 1, with one changed root.
    """
    require(facts.task == "multiclass", "task", "be multiclass for dp_linear", facts.task)
    return plan_own_roots(entry, entry.options.training, facts, budget)


def fit(run: PlannedRun) -> Fitted:
    """Run the planned steps on the training nodes.

    Guarantee: the released weights are post-processing of the plan's mechanism.
    """
    from dpgnn.methods.shared.linear import train_linear

    config: DPLinearConfig = run.entry.options
    rows = tuple(
        _rows(config, run.graph, part) for part in (run.split.train_idx, run.split.val_idx)
    )
    weights, history = train_linear(run, (rows[0], rows[1]))
    return Fitted(state=weights, history=tuple(history))


def predict(entry: Entry, fitted: Fitted, graph: Graph, node_idx: np.ndarray) -> Prediction:
    """Logits of the nodes asked for, each from its own features and the released weights.

    Guarantee: as `own_features_only`.

    Args:
        entry, fitted, graph, node_idx: as for `Method.predict`.

    Source: docs/accounting.md, "Answers, and who may see them".
    """
    from dpgnn.methods.shared.linear import linear_logits

    rows = _rows(entry.options, graph, node_idx)
    return own_features_only(entry, linear_logits(graph, rows)(fitted.state))


def _rows(config: DPLinearConfig, graph: Graph, nodes: np.ndarray) -> Any:
    from dpgnn.methods.shared.linear import own_rows

    return own_rows(graph, nodes, np.full((len(nodes), 1), config.bias))


def _layers(run: FittedRun) -> Layers:
    from dpgnn.methods.shared.layers import Features, Layers, network_logits
    from dpgnn.methods.shared.linear import linear_model, own_features, read_weights

    config: DPLinearConfig = run.entry.options
    whole = run.graph

    def encode(node: np.ndarray, rows: np.ndarray) -> np.ndarray:
        own = own_features(whole, np.asarray(rows, np.float64))
        return np.concatenate([own, np.full((len(own), 1), config.bias)], axis=1)

    everyone = Features(rows=_rows(config, whole, np.arange(whole.num_nodes)), encode=encode)
    network = linear_model(whole.num_features + 1, whole)
    weights = read_weights(whole, run.state)
    return Layers(logits=network_logits(network, weights, everyone), operator=None)


def tensors(trained: Trained) -> Tensors:
    """Weights of own features and of the constant input."""
    from dpgnn.methods.shared.linear import linear_model

    return of_network(linear_model(trained.facts.num_features + 1, trained.sizes))


METHOD = Method(
    name="dp_linear",
    title="DP-Linear",
    config=DPLinearConfig,
    source="this project; docs/methods/votes.md",
    modes=("sound",),
    supports=SUPPORTS,
    plan=plan,
    fit=fit,
    predict=predict,
    # a record of a training node enters the training alone, another node's its own answer alone
    score=lambda entry: Score(sensitivity=1.0, of_training=("train",)),
    tensors=tensors,
    queries=Queries(layers=_layers),
    asked=Asked(steps="training.num_steps", counted="steps"),
    example={"training": {"num_steps": 10}},
    uses_edges=False,
)
