"""Queries of CARIBOU, and data for attacks on its releases."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dpgnn.methods.caribou.options import CaribouConfig, is_released_code
from dpgnn.methods.queries import Leaks, Queries, at_node_level
from dpgnn.methods.shared import aggregate, aggregate_queries
from dpgnn.methods.shared.layers import Features, Layers, RowWise, Spread, Step, Sum

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import Entry
    from dpgnn.methods.queries import FittedRun, Query


def _private_head(entry: Entry) -> bool:
    return at_node_level(entry) and not is_released_code(entry)


def answer(run: FittedRun, query: Query) -> Tensor:
    """Logits from the iteration on the query's graph and noise."""
    from dpgnn.methods.caribou import fit

    channels = fit.channels_of(
        run.entry,
        query.graph,
        aggregate_queries.first_rows(run, query.graph),
        aggregate_queries.read_edges(run, query.graph, query.prepared),
        *aggregate_queries.noise_of(run, query.streams),
    )
    return aggregate_queries.head_logits(
        run, query.graph, channels, private_head=_private_head(run.entry)
    )


def layers(run: FittedRun) -> Layers:
    """The iteration with the noise of the run."""
    from dpgnn.methods.caribou import fit

    entry, config, graph = run.entry, run.entry.options, run.graph
    released = is_released_code(entry)
    operator = fit.operator_of(entry, aggregate_queries.read_edges(run, graph, run.prepared))
    first = aggregate_queries.encoded_features(run, graph)
    residual = aggregate_queries.raw_features(graph) if released else first

    def mixed(source: Step) -> Step:
        value: Step = Spread(source=source, factor=config.contraction * config.alpha1)
        return Sum(left=value, right=residual, weight=config.beta) if config.beta else value

    value: Step = first
    for hop in range(1, config.num_hops + 1):
        value = RowWise(source=mixed(value), layer=_end_of_hop(run, first, hop), exact=True)
        if released and config.noise_free_layer:
            value = mixed(value)
    channels: tuple[Step, ...] = (value,) if released else (first, value)
    logits = aggregate_queries.head_on(
        run, graph, channels, first.rows.shape[1], private_head=_private_head(entry)
    )
    return Layers(logits=logits, operator=operator)


def _end_of_hop(
    run: FittedRun, first: Features, hop: int
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The steps after the linear part of a hop, with the noise of the run."""
    entry, config = run.entry, run.entry.options
    noise = aggregate_queries.run_noise(run, hop, first.rows.shape)
    if is_released_code(entry):

        def authors_code(node: np.ndarray, rows: np.ndarray) -> np.ndarray:
            rows = rows if noise is None else rows + noise[node]
            return rows if hop == config.num_hops else aggregate.project_rows(rows)

        return authors_code
    emptied = aggregate.empty_rows(first.rows) if at_node_level(entry) else None

    def finish(node: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return aggregate.end_of_hop(
            rows,
            None if noise is None else lambda rows: rows + noise[node],
            emptied=None if emptied is None else emptied[node],
            own_rows=emptied is not None and config.release == "noisy-state",
        )

    return finish


def _noisy_rows(run: FittedRun) -> tuple[np.ndarray, np.ndarray]:
    public = aggregate_queries.encoded_features(run, run.graph).rows
    return run.state["noisy_state"].double().numpy(), public


def _why_not_rows(entry: Entry) -> str:
    if is_released_code(entry):
        return "the released code's own attack is noise-free-layer"
    return ""


def _why_not_last_row(entry: Entry) -> str:
    if entry.privacy_unit == "edge" and is_released_code(entry):
        return ""
    return "it is about CARIBOU as released, at edge level"


def _last_row(run: FittedRun, graph: Graph, node: int) -> Callable[[aggregate.Draw], np.ndarray]:
    from dpgnn.methods.caribou import fit

    config: CaribouConfig = run.entry.options
    raw = aggregate_queries.raw_features(graph).rows
    x0 = aggregate.unit_rows(raw)
    adjacency = aggregate_queries.read_edges(run, graph, None)
    residual = (raw if is_released_code(run.entry) else x0)[node]

    def row(draw: aggregate.Draw) -> np.ndarray:
        channels = fit.channels_of(run.entry, graph, x0, adjacency, run.noise_stddev, draw)
        rest: np.ndarray = channels[-1][node] - config.beta * residual
        return rest

    return row


QUERIES = Queries(
    noise=aggregate_queries.noise_in_answers,
    answer=answer,
    reads_sample=at_node_level,
    reads_kept=lambda entry: at_node_level(entry) and is_released_code(entry),
    layers=layers,
    why_not_layers=lambda entry: (
        "" if entry.options.alpha1 == 1.0 else "the mean over all nodes changes every row"
    ),
)
LEAKS = Leaks(
    noisy_rows=_noisy_rows,
    why_not_rows=_why_not_rows,
    last_row=_last_row,
    why_not_last_row=_why_not_last_row,
)
