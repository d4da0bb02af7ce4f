"""PyG's own networks without privacy, full-batch on the graph of the setting: SAGE, GATv2, GIN, GCN.

References for the accuracy of PyG's layers on the same splits. Our `gcn` gives the same numbers as PyG's
GCNConv (`tests/models/test_pyg.py`) and is faster, so it is the baseline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpgnn.core.checks import at_least, require
from dpgnn.data.graph import arcs_of
from dpgnn.data.rows import RowNorm, normalize_rows
from dpgnn.methods.base import Entry, Fitted, Method, PlannedRun, Prediction, nonprivate_plan
from dpgnn.methods.queries import Queries
from dpgnn.training.options import AdamConfig, check_dropout

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from dpgnn.data.graph import Graph
    from dpgnn.models.masks import Masks


@dataclass(frozen=True, kw_only=True)
class PyGConfig:
    """Options of PyG's networks without privacy.

    Attributes:
        network: sage, gatv2, gin or gcn; two layers.
        hidden: units of the hidden layer, all heads together.
        dropout: rate before each layer, and of gatv2's attention.
        row_norm: norm that divides each record's features: none, l1, l2, centred (after subtracting their
            mean).
        symmetrize: add the reverse of each edge of a directed graph.
        training: optimiser and selection.
    """

    network: Literal["sage", "gatv2", "gin", "gcn"] = "sage"
    hidden: int = 64
    dropout: float = 0.5
    row_norm: RowNorm = "none"
    symmetrize: bool = True
    training: AdamConfig = AdamConfig()

    def __post_init__(self) -> None:
        at_least("hidden", self.hidden, 1)
        check_dropout(self.dropout)
        heads = 8 if self.network == "gatv2" else 1
        require(self.hidden % heads == 0, "hidden", f"be a multiple of {heads} heads", self.hidden)


def _network(config: PyGConfig, graph: Graph, generator: torch.Generator) -> Any:
    """The network with PyG's own initial weights, drawn from the stream."""
    import torch

    from dpgnn.models.pyg import NETWORKS

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator.initial_seed())
        return NETWORKS[config.network](
            graph.num_features, graph.num_classes, config.hidden, config.dropout
        )


def _input(config: PyGConfig, graph: Graph) -> tuple[Tensor, Tensor]:
    """Dense features, and edges without self-loops."""
    import torch

    x = normalize_rows(graph.x, config.row_norm)
    dense = x if isinstance(x, np.ndarray) else x.toarray()
    plain = np.array(arcs_of(graph, symmetrize=config.symmetrize), order="C")
    return torch.from_numpy(np.array(dense)), torch.from_numpy(plain)


def fit(run: PlannedRun) -> Fitted:
    """Train on the graph of the setting; no guarantee."""
    from dpgnn.methods.shared.nonprivate import train_on_graph
    from dpgnn.models.pyg import DrawnDropout

    config: PyGConfig = run.entry.options
    model = _network(config, run.graph, run.context.streams.torch("weights"))
    x, edges = _input(config, run.graph)

    def forward(masks: Masks | None) -> Tensor:
        with DrawnDropout(masks):
            out: Tensor = model(x, edges)
        return out

    state, history = train_on_graph(run, model, forward, config.training)
    return Fitted(state=state, history=tuple(history))


def predict(entry: Entry, fitted: Fitted, graph: Graph, node_idx: np.ndarray) -> Prediction:
    """Logits of the nodes asked for, from features and edges of `graph`."""
    import torch

    from dpgnn.methods.shared.nonprivate import at_inference, unprotected

    config: PyGConfig = entry.options
    model = at_inference(_network(config, graph, torch.Generator()), fitted.state)
    with torch.no_grad():
        logits = model(*_input(config, graph))
    return unprotected(logits[torch.from_numpy(node_idx)])


METHOD = Method(
    name="pyg",
    title="PyG network",
    config=PyGConfig,
    source="Fey and Lenssen (2019), arXiv:1903.02428",
    modes=("nonprivate",),
    plan=nonprivate_plan,
    fit=fit,
    predict=predict,
    queries=Queries(),
    example={"training": {"num_epochs": 10}},
)
