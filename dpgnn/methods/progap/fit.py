"""ProGAP's runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch

from dpgnn.methods.base import Fitted, PlannedRun
from dpgnn.methods.progap.aggregate import noisy_sum
from dpgnn.methods.progap.stages import EdgeStages, NodeStages, Stages, dense_or_sparse
from dpgnn.methods.shared.aggregate_bounds import reading_matrix
from dpgnn.methods.shared.edge_level import entered_noise
from dpgnn.methods.shared.undirected import adjacency_of

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import Entry
    from dpgnn.methods.progap.options import ProgapConfig
    from dpgnn.methods.releases import Draw


def fit_edge(run: PlannedRun) -> Fitted:
    """Edge level, or no privacy: stages without noise.

    Guarantee: edges enter only through the planned mechanism.
    """
    stages = EdgeStages(run.entry.options, run.graph, split=run.split, context=run.context)
    channels = trained(run, stages, edge_adjacency(run.entry, run.graph))
    sums = {
        f"noisy_state.{hop}": torch.from_numpy(rows.astype(np.float32))
        for hop, rows in enumerate(channels[1:], start=1)
    }
    study = run.context.streams.randomness == "study"
    state = stages.state() | sums | {"logits": stages.logits(channels)}
    return Fitted(state=state, history=tuple(stages.history) if study else ())


def fit_node(run: PlannedRun) -> Fitted:
    """Node level: every stage by DP-SGD; weights are released, rows are kept.

    Guarantee: see `shared.node_level`, with K + 1 trainings in place of two (docs/accounting.md, theorem 18).
    """
    stages = NodeStages(
        run.entry.options,
        run.graph,
        split=run.split,
        context=run.context,
        delta=run.plan.claims[0].delta,
    )
    channels = trained(run, stages, reading_matrix(run.prepared, run.graph.num_nodes))
    return Fitted(
        state=stages.state(),
        history=tuple(_public(row) for row in stages.history),
        kept={"logits": stages.logits(channels)},
    )


def trained(run: PlannedRun, stages: Stages, adjacency: sp.csr_array) -> list[Any]:
    """Train the stages in order, with a noisy sum between two; returns the channels x_0, ..., x_K."""
    num_hops, noise = run.entry.options.num_hops, entered_noise(run)
    channels: list[Any] = [dense_or_sparse(run.graph.x)]
    for stage in range(num_hops + 1):
        stages.train(stage, channels)
        if stage < num_hops:
            channels.append(next_channel(stages, stage, channels, adjacency, *noise))
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
