"""Queries of ProGAP, and data for the attack on its released rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.methods.queries import Leaks, Queries, at_node_level
from dpgnn.methods.shared import aggregate_queries
from dpgnn.methods.shared.aggregate import unit_rows
from dpgnn.methods.shared.layers import Joined, Layers, RowMap, RowWise, Spread, Step

if TYPE_CHECKING:
    import scipy.sparse as sp
    from torch import Tensor

    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import Prepared
    from dpgnn.methods.progap.stages import Stages
    from dpgnn.methods.queries import FittedRun, Query


def _stages(run: FittedRun, graph: Graph) -> Stages:
    from dpgnn.methods.progap.stages import EdgeStages, NodeStages

    kind = NodeStages if at_node_level(run.entry) else EdgeStages
    return kind(run.entry.options, graph, state=run.state)


def _edges(run: FittedRun, graph: Graph, prepared: Prepared | None) -> sp.csr_array:
    from dpgnn.methods.progap import fit

    if at_node_level(run.entry):
        return aggregate_queries.read_edges(run, graph, prepared)
    return fit.edge_adjacency(run.entry, graph)


def answer(run: FittedRun, query: Query) -> Tensor:
    """Logits from the sums on the query's graph and noise."""
    from dpgnn.methods.progap import fit
    from dpgnn.methods.progap.stages import dense_or_sparse

    stages = _stages(run, query.graph)
    adjacency = _edges(run, query.graph, query.prepared)
    channels: list[Any] = [dense_or_sparse(query.graph.x)]
    noise = aggregate_queries.noise_of(run, query.streams)
    for stage in range(run.entry.options.num_hops):
        channels.append(fit.next_channel(stages, stage, channels, adjacency, *noise))
    return stages.logits(channels)


def layers(run: FittedRun) -> Layers:
    """The channels with the noise of the run, and the last stage on them."""
    config = run.entry.options
    stages = _stages(run, run.graph).double()
    states: list[Step] = [aggregate_queries.raw_features(run.graph)]
    for hop in range(1, config.num_hops + 1):
        sent = RowWise(source=states[-1], layer=_sent_by(stages, hop - 1))
        noise = aggregate_queries.run_noise(run, hop, (run.graph.num_nodes, config.hidden))
        states.append(RowWise(source=Spread(source=sent), layer=_plus(noise), exact=True))
    widths = [run.graph.num_features, *[config.hidden] * config.num_hops]
    ends = np.cumsum(widths)[:-1]
    logits = RowWise(
        source=Joined(sources=tuple(states)),
        layer=lambda node, rows: stages.logits(np.split(rows, ends, axis=1)).numpy(),
    )
    return Layers(logits=logits, operator=_edges(run, run.graph, run.prepared))


def _sent_by(stages: Stages, stage: int) -> RowMap:
    return lambda node, rows: unit_rows(stages.embed(stage, rows))


def _plus(noise: np.ndarray | None) -> RowMap:
    return lambda node, rows: rows if noise is None else rows + noise[node]


def _noisy_rows(run: FittedRun) -> tuple[np.ndarray, np.ndarray]:
    from dpgnn.methods.progap.stages import dense_or_sparse

    public = unit_rows(_stages(run, run.graph).embed(0, dense_or_sparse(run.graph.x)))
    return run.state["noisy_state.1"].double().numpy(), public


QUERIES = Queries(
    noise=aggregate_queries.noise_in_answers,
    answer=answer,
    reads_sample=at_node_level,
    layers=layers,
)
LEAKS = Leaks(noisy_rows=_noisy_rows)
