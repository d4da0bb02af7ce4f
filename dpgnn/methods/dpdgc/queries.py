"""Queries of DPDGC with other features, which its released sums do not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpgnn.methods.queries import Leaks, Queries, at_node_level
from dpgnn.methods.shared import aggregate_queries
from dpgnn.methods.shared.aggregate import unit_rows
from dpgnn.methods.shared.layers import Joined, Layers, RowWise
from dpgnn.methods.shared.undirected import adjacency_of

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.methods.base import Entry
    from dpgnn.methods.queries import FittedRun, NoiseIn, Query


def _noise(entry: Entry) -> NoiseIn:
    return "none" if entry.mode == "nonprivate" else "release"


def _why_not_other_features(entry: Entry) -> str:
    if entry.mode == "nonprivate" or at_node_level(entry):
        return "the sums over neighbours, which read no feature, are not part of the release"
    return ""


def answer(run: FittedRun, query: Query) -> Tensor:
    """Logits at edge level from the query's features beside the noisy sums."""
    from dpgnn.methods.dpdgc import fit

    graph = query.graph
    if query.frozen:
        released = run.state["noisy_state"].double().numpy()
    else:
        released = fit.released_sums(
            run.entry.options, adjacency_of(graph), run.state["encoder.weight"],
            *aggregate_queries.noise_of(run, query.streams),
        )  # fmt: skip
    return aggregate_queries.head_logits(run, graph, [graph.x, released], private_head=False)


def layers(run: FittedRun) -> Layers:
    """Features beside the released sums: a query changes only its own answer."""
    raw = aggregate_queries.raw_features(run.graph)
    released = run.state["noisy_state"].double().numpy()
    widths = [raw.rows.shape[1], released.shape[1]]
    head = aggregate_queries.head_layer(run, run.graph, widths, private_head=False)

    def beside_sums(node: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return head(node, np.concatenate([rows, released[node]], axis=1))

    return Layers(logits=RowWise(source=Joined(sources=(raw,)), layer=beside_sums), operator=None)


def _noisy_rows(run: FittedRun) -> tuple[np.ndarray, np.ndarray]:
    weights = run.state["encoder.weight"].double().numpy()
    return run.state["noisy_state"].double().numpy(), unit_rows(weights)


QUERIES = Queries(
    noise=_noise,
    why_not_other_features=_why_not_other_features,
    why_not_other_graph=lambda entry: (
        "the model has one weight vector per node of the graph it was fitted on"
    ),
    answer=answer,
    covered=True,
    layers=layers,
)
LEAKS = Leaks(noisy_rows=_noisy_rows)
