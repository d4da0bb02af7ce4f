"""Queries of LPGNet: a query with other features repeats the hops, with noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.methods.queries import Leaks, Queries
from dpgnn.methods.shared.aggregate_queries import noise_in_answers

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.data.graph import Graph
    from dpgnn.methods.lpgnet.network import Perceptron
    from dpgnn.methods.queries import FittedRun, Query


def _models(run: FittedRun, graph: Graph) -> Any:
    from dpgnn.methods.lpgnet import fit

    def model_of(hop: int, rows: Any) -> Perceptron:
        model = fit.model_of(rows.shape[1], graph, run.entry.options)
        model.load_state_dict(run.part(f"mlp.{hop}."))
        return model

    return model_of


def answer(run: FittedRun, query: Query) -> Tensor:
    """Logits from the hops on the query's graph and noise."""
    from dpgnn.methods.lpgnet import fit

    degrees = fit.degrees_of(run.entry, query.graph, run.plan, query.streams)
    return fit.hops(run.entry.options, query.graph, degrees, _models(run, query.graph))[0]


def noisy_rows(run: FittedRun) -> tuple[np.ndarray, np.ndarray]:
    """The released degrees of the first hop, and the public rows they are sums of: nodes' clusters."""
    import torch

    from dpgnn.data.rows import normalize_rows
    from dpgnn.models.inputs import as_input

    rows = as_input(normalize_rows(run.graph.x, "l1"))
    with torch.no_grad():
        clusters = _models(run, run.graph)(0, rows)(rows).argmax(dim=1).numpy()
    members = np.eye(run.graph.num_classes)[clusters]
    return run.state["noisy_state.1"].double().numpy(), members


QUERIES = Queries(
    noise=noise_in_answers,
    answer=answer,
    why_not_layers=lambda entry: (
        "a row of zeros gets the class that is drawn next, so it depends on the rows before it"
    ),
)
LEAKS = Leaks(noisy_rows=noisy_rows)
