"""GAP's runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch

from dpgnn.methods.base import Fitted, PlannedRun
from dpgnn.methods.shared.aggregate import Draw, column_scaled_rows, noisy_sums, unit_rows
from dpgnn.methods.shared.aggregate_bounds import reading_matrix
from dpgnn.methods.shared.edge_level import entered_noise
from dpgnn.methods.shared.head_private import private_encoder, private_head
from dpgnn.methods.shared.head_training import encode, train_head
from dpgnn.methods.shared.undirected import adjacency_of

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import Entry
    from dpgnn.methods.gap.options import GapConfig

NORMALIZE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "l2": unit_rows,
    "columns-l1": column_scaled_rows,
}


def fit_edge(run: PlannedRun) -> Fitted:
    """Edge level, or no privacy: encoder and head without noise.

    Guarantee: edges enter only through the planned mechanism.
    """
    config: GapConfig = run.entry.options
    x0, weights = encode(run)
    adjacency = edge_adjacency(run.entry, run.graph)
    channels = channels_of(config, adjacency, x0, *entered_noise(run))
    weights = weights | {
        f"noisy_state.{hop}": torch.from_numpy(state.astype(np.float32))
        for hop, state in enumerate(channels[1:], start=1)
    }
    head, history = train_head(run, channels)
    return Fitted(state=weights | head, history=tuple(history))


def fit_node(run: PlannedRun) -> Fitted:
    """Node level: encoder and head by DP-SGD; weights are released, rows are kept.

    Guarantee: see `shared.node_level`.
    """
    config: GapConfig = run.entry.options
    x0, encoder = private_encoder(run)
    adjacency = reading_matrix(run.prepared, run.graph.num_nodes)
    channels = channels_of(config, adjacency, x0, *entered_noise(run))
    head, logits, history = private_head(run, channels)
    return Fitted(state=encoder | head, history=tuple(history), kept={"logits": logits})


def edge_adjacency(entry: Entry, graph: Graph) -> sp.csr_array:
    """Undirected edges; the stored ones, self-loops too, where a published run counts one direction.

    Without privacy the same code runs without noise.
    """
    config: GapConfig = entry.options
    if entry.mode != "sound" and config.directed and graph.directed:
        return sp.csr_array(graph.adjacency().astype(np.float64))
    return adjacency_of(graph)


def channels_of(
    config: GapConfig, adjacency: sp.csr_array, x0: np.ndarray, noise_stddev: float, draw: Draw
) -> list[np.ndarray]:
    """The channels of the head: x0 and the noisy states."""
    states = noisy_sums(
        adjacency,
        x0,
        num_hops=config.num_hops,
        noise_stddev=noise_stddev,
        draw=draw,
        normalize=NORMALIZE[config.normalization],
    )
    return [x0, *states]
