"""ProGAP's runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch

from dpgnn.methods.base import Fitted
from dpgnn.methods.progap.aggregate import noisy_sum
from dpgnn.methods.progap.stages import EdgeStages, NodeStages, Stages, dense_or_sparse
from dpgnn.methods.shared.aggregate_bounds import reading_matrix
from dpgnn.methods.shared.edge_level import normal_draw
from dpgnn.methods.shared.node_level import AGGREGATE
from dpgnn.methods.shared.undirected import adjacency_of

if TYPE_CHECKING:
    from dpgnn.accountants.plan import Plan
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.base import Context, Entry, Prepared
    from dpgnn.methods.progap.options import ProgapConfig
    from dpgnn.methods.releases import Draw


def fit_edge(entry: Entry, graph: Graph, split: Split, plan: Plan, context: Context) -> Fitted:
    """Edge level, or no privacy: stages without noise.

    Guarantee: edges enter only through the planned mechanism.
    """
    stages = EdgeStages(entry.options, graph, split=split, context=context)
    noise = context.ledger.enter(AGGREGATE).noise_stddev if plan.mechanisms else 0.0
    channels = trained(
        entry.options, stages, edge_adjacency(entry, graph), dense_or_sparse(graph.x),
        noise, normal_draw(context, AGGREGATE),
    )  # fmt: skip
    sums = {
        f"noisy_state.{hop}": torch.from_numpy(rows.astype(np.float32))
        for hop, rows in enumerate(channels[1:], start=1)
    }
    study = context.streams.randomness == "study"
    state = stages.state() | sums | {"logits": stages.logits(channels)}
    return Fitted(state=state, history=tuple(stages.history) if study else ())


def fit_node(
    entry: Entry, graph: Graph, split: Split, prepared: Prepared, plan: Plan, context: Context
) -> Fitted:
    """Node level: every stage by DP-SGD; weights are released, rows are kept.

    Guarantee: see `shared.node_level`, with K + 1 trainings in place of two (docs/accounting.md, theorem 18).
    """
    stages = NodeStages(
        entry.options, graph, split=split, context=context, delta=plan.claims[0].delta
    )
    noise = context.ledger.enter(AGGREGATE).noise_stddev
    channels = trained(
        entry.options, stages, reading_matrix(prepared, graph.num_nodes), dense_or_sparse(graph.x),
        noise, normal_draw(context, AGGREGATE),
    )  # fmt: skip
    return Fitted(
        state=stages.state(),
        history=tuple(_public(row) for row in stages.history),
        kept={"logits": stages.logits(channels)},
    )


def trained(
    config: ProgapConfig,
    stages: Stages,
    adjacency: sp.csr_array,
    x0: Any,
    noise_stddev: float,
    draw: Draw,
) -> list[Any]:
    """Train the stages in order, with a noisy sum between two; returns the channels x_0, ..., x_K."""
    channels: list[Any] = [x0]
    for stage in range(config.num_hops + 1):
        stages.train(stage, channels)
        if stage < config.num_hops:
            channels.append(next_channel(stages, stage, channels, adjacency, noise_stddev, draw))
    return channels


def next_channel(
    stages: Stages,
    stage: int,
    channels: list[Any],
    adjacency: sp.csr_array,
    noise_stddev: float,
    draw: Draw,
) -> np.ndarray:
    """The noisy sum over neighbours of a trained stage's embedding of its own channel."""
    return noisy_sum(
        adjacency, stages.embed(stage, channels[stage]), hop=stage + 1, noise_stddev=noise_stddev,
        draw=draw,
    )  # fmt: skip


def edge_adjacency(entry: Entry, graph: Graph) -> sp.csr_array:
    """Undirected edges, or the stored ones if a published run counts one direction."""
    config: ProgapConfig = entry.options
    if entry.mode == "published" and config.directed and graph.directed:
        return sp.csr_array(graph.adjacency().astype(np.float64))
    return adjacency_of(graph)


def _public(row: Any) -> Any:
    """A row of the history; a release shows only step and epsilon."""
    return {name: value for name, value in row.items() if name != "stage"}
