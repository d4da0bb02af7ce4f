"""GAP's runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch

from dpgnn.methods.base import Fitted
from dpgnn.methods.shared.aggregate import Draw, column_scaled_rows, noisy_sums, unit_rows
from dpgnn.methods.shared.aggregate_bounds import reading_matrix
from dpgnn.methods.shared.edge_level import normal_draw
from dpgnn.methods.shared.head_private import private_encoder, private_head
from dpgnn.methods.shared.head_training import encode, train_head
from dpgnn.methods.shared.node_level import AGGREGATE
from dpgnn.methods.shared.undirected import adjacency_of

if TYPE_CHECKING:
    from dpgnn.accountants.plan import Plan
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.base import Context, Entry, Prepared
    from dpgnn.methods.gap.options import GapConfig

NORMALIZE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "l2": unit_rows,
    "columns-l1": column_scaled_rows,
}


def fit_edge(entry: Entry, graph: Graph, split: Split, plan: Plan, context: Context) -> Fitted:
    """Edge level, or no privacy: encoder and head without noise.

    Guarantee: edges enter only through the planned mechanism.
    """
    config: GapConfig = entry.options
    x0, weights = encode(config.head, graph, split, context)
    channels = channels_of(
        config,
        edge_adjacency(entry, graph),
        x0,
        _noise(plan, context),
        normal_draw(context, AGGREGATE),
    )
    weights = weights | {
        f"noisy_state.{hop}": torch.from_numpy(state.astype(np.float32))
        for hop, state in enumerate(channels[1:], start=1)
    }
    head, history = train_head(config.head, channels, graph, split, context)
    return Fitted(state=weights | head, history=tuple(history))


def fit_node(
    entry: Entry, graph: Graph, split: Split, prepared: Prepared, plan: Plan, context: Context
) -> Fitted:
    """Node level: encoder and head by DP-SGD; weights are released, rows are kept.

    Guarantee: see `shared.node_level`.
    """
    config: GapConfig = entry.options
    delta = plan.claims[0].delta
    x0, encoder = private_encoder(
        config.head, config.node.encoder.optimizer, graph, split, context, delta=delta
    )
    channels = channels_of(
        config,
        reading_matrix(prepared, graph.num_nodes),
        x0,
        _noise(plan, context),
        normal_draw(context, AGGREGATE),
    )
    head, logits, history = private_head(
        config.head, config.node.head.optimizer, channels, graph, split, context, delta=delta
    )
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


def _noise(plan: Plan, context: Context) -> float:
    """Enter the planned mechanism and return its noise; 0 without privacy."""
    return context.ledger.enter(AGGREGATE).noise_stddev if plan.mechanisms else 0.0
