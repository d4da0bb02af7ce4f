"""GCN without privacy (Kipf and Welling, 2017), full-batch on the graph of the setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpgnn.data.graph import arcs_of
from dpgnn.data.rows import RowNorm, normalize_rows
from dpgnn.methods.base import Entry, Fitted, Method, PlannedRun, Prediction, nonprivate_plan
from dpgnn.methods.queries import Queries
from dpgnn.methods.tensors import Tensors, Trained, of_module
from dpgnn.training.options import AdamConfig, check_layers

if TYPE_CHECKING:
    import torch

    from dpgnn.data.graph import Graph
    from dpgnn.methods.queries import FittedRun
    from dpgnn.methods.shared.layers import Layers
    from dpgnn.models.gcn import GCN, Operator


@dataclass(frozen=True, kw_only=True)
class GCNConfig:
    """Options of the non-private GCN.

    Attributes:
        hidden: widths of the hidden layers; the depth is one more.
        dropout: rate before each layer.
        row_norm: norm that divides each record's features: none, l1, l2, centred (after subtracting their
            mean).
        symmetrize: add the reverse of each edge of a directed graph.
        training: optimiser and selection.
    """

    hidden: tuple[int, ...] = (64,)
    dropout: float = 0.5
    row_norm: RowNorm = "none"
    symmetrize: bool = True
    training: AdamConfig = AdamConfig()

    def __post_init__(self) -> None:
        check_layers(self.hidden, self.dropout)


def _model(config: GCNConfig, graph: Graph, generator: torch.Generator) -> GCN:
    from dpgnn.models.gcn import GCN

    return GCN(
        graph.num_features,
        config.hidden,
        graph.num_classes,
        dropout=config.dropout,
        generator=generator,
    )


def _operator(config: GCNConfig, graph: Graph) -> Operator:
    from dpgnn.models.gcn import normalized_adjacency

    return normalized_adjacency(arcs_of(graph, symmetrize=config.symmetrize), graph.num_nodes)


def fit(run: PlannedRun) -> Fitted:
    """Train on the graph of the setting; no guarantee."""
    from dpgnn.methods.shared.nonprivate import train_on_graph
    from dpgnn.models.inputs import as_input

    config: GCNConfig = run.entry.options
    model = _model(config, run.graph, run.context.streams.torch("weights"))
    x = as_input(normalize_rows(run.graph.x, config.row_norm))
    operator = _operator(config, run.graph)
    state, history = train_on_graph(
        run, model, lambda masks: model(x, operator, masks), config.training
    )
    return Fitted(state=state, history=tuple(history))


def predict(entry: Entry, fitted: Fitted, graph: Graph, node_idx: np.ndarray) -> Prediction:
    """Logits of the nodes asked for, from features and edges of `graph`."""
    import torch

    from dpgnn.methods.shared.nonprivate import at_inference, unprotected
    from dpgnn.models.inputs import as_input

    config: GCNConfig = entry.options
    model = at_inference(_model(config, graph, torch.Generator()), fitted.state)
    with torch.no_grad():
        x = as_input(normalize_rows(graph.x, config.row_norm))
        logits = model(x, _operator(config, graph))
    return unprotected(logits[torch.from_numpy(node_idx)])


def _layers(run: FittedRun) -> Layers:
    import scipy.sparse as sp

    from dpgnn.methods.shared.layers import normalized_features, relu_convolutions

    graph, config = run.graph, run.entry.options
    loops = np.arange(graph.num_nodes)
    arcs = arcs_of(graph, symmetrize=config.symmetrize)
    source, reader = np.concatenate([arcs, np.stack([loops, loops])], axis=1)
    scale = 1.0 / np.sqrt(np.bincount(reader, minlength=graph.num_nodes))
    values = scale[source] * scale[reader]
    operator = sp.csr_array((values, (reader, source)), shape=(graph.num_nodes,) * 2)
    return relu_convolutions(run.state, normalized_features(graph.x, config.row_norm), operator)


def gcn_tensors(trained: Trained) -> Tensors:
    """Of methods that perturb the graph and train a GCN on it: the weights and the answers."""
    import torch

    model = _model(trained.entry.options.gcn, trained.sizes, torch.Generator())
    return Tensors(state=of_module(model) | trained.released_answers)


METHOD = Method(
    name="gcn",
    title="GCN",
    config=GCNConfig,
    source="Kipf and Welling (2017), arXiv:1609.02907",
    modes=("nonprivate",),
    plan=nonprivate_plan,
    fit=fit,
    predict=predict,
    queries=Queries(layers=_layers),
    example={"training": {"num_epochs": 10}},
    citation="kipf2017semi",
)
