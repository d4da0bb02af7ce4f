"""DP-MLP: an MLP on node features trained by DP-SGD; it never reads an edge.

Because no other node's record enters a root's gradient, one node changes one root. The guarantee holds for
every node unit and every graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpgnn.accountants.plan import Budget, Plan
from dpgnn.core.checks import at_least, layers
from dpgnn.data.rows import RowNorm
from dpgnn.data.stored import StoredRows, normalized
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
from dpgnn.methods.shared.planning import DPSGDConfig
from dpgnn.methods.tensors import Tensors, Trained, of_network

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.data.graph import Graph
    from dpgnn.methods.queries import FittedRun
    from dpgnn.methods.shared.layers import Layers
    from dpgnn.models.network import Network


@dataclass(frozen=True, kw_only=True)
class DPMLPConfig:
    """Options of DP-MLP; every value is public.

    Attributes:
        width: units of each hidden layer.
        num_layers: linear layers, including the output layer.
        activation: relu, tanh or selu.
        row_norm: norm that divides each record's features: none, l1, l2, centred (after subtracting their
            mean).
        training: noisy gradient descent.
    """

    width: int = 64
    num_layers: int = 2
    activation: Literal["relu", "tanh", "selu"] = "tanh"
    row_norm: RowNorm = "l2"
    training: DPSGDConfig = DPSGDConfig()

    def __post_init__(self) -> None:
        at_least("width", self.width, 1)
        layers("num_layers", self.num_layers, 1)


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """Noise or steps from the budget.

    Guarantee: unit `node` (or any weaker node unit), relation of the entry, (epsilon, delta) as claimed; the
    number of training nodes and the split are public.

    Source: Abadi et al. (2016), arXiv:1607.00133; sound mode counts by docs/accounting.md, theorem 1, with
    one changed root; published mode by Renyi DP, as the papers that use DP-MLP as their baseline do.
    """
    return plan_own_roots(entry, entry.options.training, facts, budget)


def network_of(config: DPMLPConfig, *, num_features: int, num_classes: int, task: Any) -> Network:
    """The perceptron as the engine's network of depth 0."""
    from dpgnn.models.network import Network, NetworkConfig

    return Network(
        NetworkConfig(
            num_features=num_features,
            num_outputs=num_classes,
            width=config.width,
            encoder_layers=config.num_layers - 1,
            num_hops=0,
            decoder_layers=1,
            activation=config.activation,
            task=task,
        )
    )


def fit(run: PlannedRun) -> Fitted:
    """Run the planned steps on the training nodes.

    Guarantee: the released weights are post-processing of the plan's mechanism.
    """
    from dpgnn.methods.shared.private_training import run_dp_sgd, scorer
    from dpgnn.models.trees import lone_roots

    config: DPMLPConfig = run.entry.options
    network = _network(config, run.graph)
    x = normalized(run.graph.x, config.row_norm)
    train, val = run.split.train_idx, run.split.val_idx
    stored = isinstance(x, StoredRows)  # in a file: a batch reads its own rows
    weights, history = run_dp_sgd(
        network,
        x if stored else x[train],
        lone_roots(train if stored else np.arange(len(train)), run.graph.y[train]),
        config.training.optimizer,
        run.context,
        delta=run.plan.claims[0].delta,
        evaluate=scorer(_answers(network, x, val), run.graph.y[val], run.graph.task),
    )
    return Fitted(state=weights, history=tuple(history))


def predict(entry: Entry, fitted: Fitted, graph: Graph, node_idx: np.ndarray) -> Prediction:
    """Logits of the nodes asked for, each from its own features and the released weights.

    Guarantee: as `own_features_only`.

    Args:
        entry, fitted, graph, node_idx: as for `Method.predict`.

    Source: docs/accounting.md, "Answers, and who may see them".
    """
    config: DPMLPConfig = entry.options
    x = normalized(graph.x, config.row_norm)
    logits = _answers(_network(config, graph), x, node_idx)(fitted.state)
    return own_features_only(entry, logits)


def _answers(
    network: Network, x: Any, node_idx: np.ndarray
) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """Named parameters -> logits of the asked nodes; in blocks if features are in a file."""
    from dpgnn.models.blocks import stored_answers
    from dpgnn.models.forward import full_graph

    if isinstance(x, StoredRows):
        return stored_answers(network, x, None, node_idx)
    return full_graph(network, x[node_idx], None)


def _network(config: DPMLPConfig, graph: Graph) -> Network:
    return network_of(
        config, num_features=graph.num_features, num_classes=graph.num_classes, task=graph.task
    )


def _layers(run: FittedRun) -> Layers:
    from dpgnn.methods.shared.layers import Layers, network_logits, normalized_features

    config: DPMLPConfig = run.entry.options
    features = normalized_features(run.graph.x, config.row_norm)
    network = _network(config, run.graph)
    return Layers(logits=network_logits(network, run.state, features), operator=None)


def tensors(trained: Trained) -> Tensors:
    """The network's weights."""
    return of_network(_network(trained.entry.options, trained.sizes))


METHOD = Method(
    name="dp_mlp",
    title="DP-MLP",
    config=DPMLPConfig,
    source="Abadi et al. (2016), arXiv:1607.00133",
    modes=("published", "sound"),
    supports=SUPPORTS,
    plan=plan,
    fit=fit,
    asked=Asked(
        steps="training.num_steps",
        counted="steps",
        flags={"batch-size": "training.expected_batch_size"},
    ),
    predict=predict,
    # a record of a training node enters the training alone, another node's its own answer alone
    score=lambda entry: Score(sensitivity=1.0, of_training=("train",)),
    tensors=tensors,
    queries=Queries(layers=_layers),
    example={"width": 8, "training": {"num_steps": 10, "expected_batch_size": 10}},
    uses_edges=False,
    why_not_on_disk=lambda entry: "",
    citation="abadi2016deep",
)
