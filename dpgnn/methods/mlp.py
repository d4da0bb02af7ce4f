"""MLP without privacy on features only: the baseline for every graph method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpgnn.data.rows import RowNorm, normalize_rows
from dpgnn.methods.base import Entry, Fitted, Method, PlannedRun, Prediction, nonprivate_plan
from dpgnn.methods.queries import Queries
from dpgnn.training.options import AdamConfig, check_layers

if TYPE_CHECKING:
    import torch

    from dpgnn.data.graph import Graph
    from dpgnn.methods.queries import FittedRun
    from dpgnn.methods.shared.layers import Layers
    from dpgnn.models.mlp import MLP


@dataclass(frozen=True, kw_only=True)
class MLPConfig:
    """Options of the non-private MLP.

    Attributes:
        hidden: widths of the hidden layers.
        dropout: rate before each layer.
        row_norm: norm that divides each record's features: none, l1, l2, centred (after subtracting their
            mean).
        training: optimiser and selection.
    """

    hidden: tuple[int, ...] = (64,)
    dropout: float = 0.5
    row_norm: RowNorm = "none"
    training: AdamConfig = AdamConfig()

    def __post_init__(self) -> None:
        check_layers(self.hidden, self.dropout)


def _model(config: MLPConfig, graph: Graph, generator: torch.Generator) -> MLP:
    from dpgnn.models.mlp import MLP

    return MLP(
        graph.num_features,
        config.hidden,
        graph.num_classes,
        dropout=config.dropout,
        generator=generator,
    )


def fit(run: PlannedRun) -> Fitted:
    """Train on the training nodes' features and labels; no guarantee."""
    import torch

    from dpgnn.models.inputs import as_input
    from dpgnn.training.nonprivate import train_on_rows

    config: MLPConfig = run.entry.options
    model = _model(config, run.graph, run.context.streams.torch("weights"))
    # the model runs only on rows for training and selection
    x = normalize_rows(run.graph.x, config.row_norm)
    train, val = (
        (as_input(x[rows]), torch.from_numpy(run.graph.y[rows]))
        for rows in (run.split.train_idx, run.split.val_idx)
    )
    state, history = train_on_rows(
        model,
        model,
        [train],
        val,
        config.training,
        task=run.graph.task,
        generator=run.context.streams.torch("dropout"),
        progress=run.context.progress(config.training.num_epochs),
    )
    return Fitted(state=state, history=tuple(history))


def predict(entry: Entry, fitted: Fitted, graph: Graph, node_idx: np.ndarray) -> Prediction:
    """Logits of the nodes asked for, from their own features alone."""
    import torch

    from dpgnn.methods.shared.nonprivate import at_inference, unprotected
    from dpgnn.models.inputs import as_input

    config: MLPConfig = entry.options
    model = at_inference(_model(config, graph, torch.Generator()), fitted.state)
    with torch.no_grad():
        logits = model(as_input(normalize_rows(graph.x, config.row_norm)[node_idx]))
    return unprotected(logits)


def _layers(run: FittedRun) -> Layers:
    from dpgnn.methods.shared.layers import normalized_features, relu_convolutions

    features = normalized_features(run.graph.x, run.entry.options.row_norm)
    return relu_convolutions(run.state, features, None)


METHOD = Method(
    name="mlp",
    title="MLP",
    config=MLPConfig,
    source="textbook baseline",
    modes=("nonprivate",),
    plan=nonprivate_plan,
    fit=fit,
    predict=predict,
    queries=Queries(layers=_layers),
    example={"training": {"num_epochs": 10}},
    uses_edges=False,
)
