"""CARIBOU's runs: encode, iterate with noise, train the head."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch

from dpgnn.methods.base import Fitted, PlannedRun
from dpgnn.methods.caribou.options import is_released_code
from dpgnn.methods.queries import at_node_level
from dpgnn.methods.shared.aggregate import (
    ContractiveLayer,
    Draw,
    contractive_iteration,
    empty_rows,
    operator_without_self_loops,
    released_code_iteration,
    symmetric_operator,
)
from dpgnn.methods.shared.aggregate_bounds import reading_matrix
from dpgnn.methods.shared.edge_level import entered_noise
from dpgnn.methods.shared.head_private import private_encoder, private_head
from dpgnn.methods.shared.head_training import encode, train_head
from dpgnn.methods.shared.undirected import adjacency_of, check_degree_promise

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import Entry
    from dpgnn.methods.caribou.options import CaribouConfig


def fit_edge(run: PlannedRun) -> Fitted:
    """Edge level, or no privacy: encoder and head without noise, X_K once.

    Guarantee: edges enter only through the planned mechanism, which returns only its last state. This does
    not hold for `variant: as-released`, see `released_code_iteration`.
    """
    config: CaribouConfig = run.entry.options
    adjacency = adjacency_of(run.graph)
    check_degree_promise(
        adjacency, minimum=config.minimum_degree or 0, maximum=None, name=run.graph.name
    )
    if is_released_code(run.entry):
        return _released_code(run, adjacency)
    x0, weights = encode(run)
    channels = channels_of(run.entry, run.graph, x0, adjacency, *entered_noise(run))
    weights = weights | {"noisy_state": torch.from_numpy(channels[-1].astype(np.float32))}
    head, history = train_head(run, channels)
    return Fitted(state=weights | head, history=tuple(history))


def channels_of(
    entry: Entry,
    graph: Graph,
    x0: np.ndarray,
    adjacency: sp.csr_array,
    noise_stddev: float,
    draw: Draw,
) -> list[np.ndarray]:
    """The channels of the head: X0 and X_K, or only the last state of the released code."""
    config: CaribouConfig = entry.options
    layer = ContractiveLayer(contraction=config.contraction, alpha1=config.alpha1, beta=config.beta)
    if is_released_code(entry):
        last = released_code_iteration(
            layer,
            operator_of(entry, adjacency),
            graph.dense_x().astype(np.float64),
            num_hops=config.num_hops,
            noise_stddev=noise_stddev,
            draw=draw,
            noise_free_layer=config.noise_free_layer,
        )
        return [last]
    node_level = at_node_level(entry)
    last = contractive_iteration(
        layer,
        operator_of(entry, adjacency),
        x0,
        num_hops=config.num_hops,
        noise_stddev=noise_stddev,
        draw=draw,
        # by a node's own features only: with degrees, an emptied node's neighbours would lose noise
        emptied=empty_rows(x0) if node_level else None,
        own_rows=node_level and config.release == "noisy-state",
    )
    return [x0, last]


def operator_of(entry: Entry, adjacency: sp.csr_array) -> sp.csr_array:
    """The operator of one hop."""
    if is_released_code(entry):
        return operator_without_self_loops(adjacency)
    padding = 1 if at_node_level(entry) else entry.options.padding or 1
    return symmetric_operator(adjacency, padding=padding)


def fit_node(run: PlannedRun) -> Fitted:
    """Node level: encoder and head by DP-SGD.

    Guarantee: see `node_plan.node_plan`; rows that are not released stay in the process.
    """
    config: CaribouConfig = run.entry.options
    adjacency = reading_matrix(run.prepared, run.graph.num_nodes)
    if run.entry.mode == "published":
        minimum = config.minimum_degree or 0
        check_degree_promise(adjacency, minimum=minimum, maximum=None, name=run.graph.name)
    x0, weights = private_encoder(run)
    channels = channels_of(run.entry, run.graph, x0, adjacency, *entered_noise(run))
    if config.release == "noisy-state":
        weights = weights | {"noisy_state": torch.from_numpy(channels[-1].astype(np.float32))}
    head, logits, history = private_head(run, channels)
    return Fitted(state=weights | head, history=tuple(history), kept={"logits": logits})


def fit_node_authors_code(run: PlannedRun) -> Fitted:
    """The released code at node level: thinned edges made symmetric, a head trained without noise.

    Guarantee: none. Answers and the head's statistics of private rows stay in the process.
    """
    adjacency = reading_matrix(run.prepared, run.graph.num_nodes)
    made = _released_code(run, adjacency)
    state = {key: value for key, value in made.state.items() if key.endswith((".weight", ".bias"))}
    return replace(made, state=state, kept={k: v for k, v in made.state.items() if k not in state})


def _released_code(run: PlannedRun, adjacency: sp.csr_array) -> Fitted:
    none = np.zeros((run.graph.num_nodes, 0))
    channels = channels_of(run.entry, run.graph, none, adjacency, *entered_noise(run))
    head, history = train_head(run, channels)
    return Fitted(state=head, history=tuple(history))
