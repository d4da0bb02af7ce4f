"""Queries of GAP, and data for the attack on its released rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpgnn.methods.queries import Leaks, Queries, at_node_level
from dpgnn.methods.shared import aggregate_queries
from dpgnn.methods.shared.aggregate import unit_rows
from dpgnn.methods.shared.layers import Layers, RowMap, RowWise, Spread, Step

if TYPE_CHECKING:
    import scipy.sparse as sp
    from torch import Tensor

    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import Prepared
    from dpgnn.methods.queries import FittedRun, Query


def _read_edges(run: FittedRun, graph: Graph, prepared: Prepared | None) -> sp.csr_array:
    from dpgnn.methods.gap import fit

    if at_node_level(run.entry):
        return aggregate_queries.read_edges(run, graph, prepared)
    return fit.edge_adjacency(run.entry, graph)


def answer(run: FittedRun, query: Query) -> Tensor:
    """Logits from the hops on the query's graph and noise."""
    from dpgnn.methods.gap import fit

    channels = fit.channels_of(
        run.entry.options,
        _read_edges(run, query.graph, query.prepared),
        aggregate_queries.first_rows(run, query.graph),
        *aggregate_queries.noise_of(run, query.streams),
    )
    return aggregate_queries.head_logits(
        run, query.graph, channels, private_head=at_node_level(run.entry)
    )


def layers(run: FittedRun) -> Layers:
    """The hops with the noise of the run."""
    graph = run.graph
    first = aggregate_queries.encoded_features(run, graph)
    states: list[Step] = [first]
    for hop in range(1, run.entry.options.num_hops + 1):
        noise = aggregate_queries.run_noise(run, hop, first.rows.shape)
        hop_layer = _end_of_hop(noise)
        states.append(RowWise(source=Spread(source=states[-1]), layer=hop_layer, exact=True))
    logits = aggregate_queries.head_on(
        run, graph, tuple(states), first.rows.shape[1], private_head=at_node_level(run.entry)
    )
    return Layers(logits=logits, operator=_read_edges(run, graph, run.prepared))


def _end_of_hop(noise: np.ndarray | None) -> RowMap:
    return lambda node, rows: unit_rows(rows if noise is None else rows + noise[node])


def _noisy_rows(run: FittedRun) -> tuple[np.ndarray, np.ndarray]:
    public = aggregate_queries.encoded_features(run, run.graph).rows
    return run.state["noisy_state.1"].double().numpy(), public


QUERIES = Queries(
    noise=aggregate_queries.noise_in_answers,
    answer=answer,
    reads_sample=at_node_level,
    layers=layers,
    why_not_layers=lambda entry: (
        "" if entry.options.normalization == "l2" else "columns are divided by norms over all rows"
    ),
)
LEAKS = Leaks(noisy_rows=_noisy_rows)
