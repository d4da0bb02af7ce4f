"""CARIBOU's runs: encode, iterate with noise, train the head."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch

from dpgnn.methods.base import Fitted
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
from dpgnn.methods.shared.edge_level import normal_draw
from dpgnn.methods.shared.head_private import private_encoder, private_head
from dpgnn.methods.shared.head_training import encode, train_head
from dpgnn.methods.shared.node_level import AGGREGATE
from dpgnn.methods.shared.undirected import adjacency_of, check_degree_promise

if TYPE_CHECKING:
    from dpgnn.accountants.plan import Plan
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.base import Context, Entry, Prepared
    from dpgnn.methods.caribou.options import CaribouConfig


def fit_edge(entry: Entry, graph: Graph, split: Split, plan: Plan, context: Context) -> Fitted:
    """Edge level, or no privacy: encoder and head without noise, X_K once.

    Guarantee: edges enter only through the planned mechanism, which returns only its last state. This does
    not hold for `variant: as-released`, see `released_code_iteration`.
    """
    config: CaribouConfig = entry.options
    adjacency = adjacency_of(graph)
    check_degree_promise(
        adjacency, minimum=config.minimum_degree or 0, maximum=None, name=graph.name
    )
    if is_released_code(entry):
        return _released_code(entry, adjacency, graph, split, plan, context)
    x0, weights = encode(config.head, graph, split, context)
    channels = channels_of(
        entry, graph, x0, adjacency, _noise(plan, context), normal_draw(context, AGGREGATE)
    )
    weights = weights | {"noisy_state": torch.from_numpy(channels[-1].astype(np.float32))}
    head, history = train_head(config.head, channels, graph, split, context)
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


def fit_node(
    entry: Entry, graph: Graph, split: Split, prepared: Prepared, plan: Plan, context: Context
) -> Fitted:
    """Node level: encoder and head by DP-SGD.

    Guarantee: see `node_plan.node_plan`; rows that are not released stay in the process.
    """
    config: CaribouConfig = entry.options
    delta = plan.claims[0].delta
    adjacency = reading_matrix(prepared, graph.num_nodes)
    if entry.mode == "published":
        minimum = config.minimum_degree or 0
        check_degree_promise(adjacency, minimum=minimum, maximum=None, name=graph.name)
    x0, weights = private_encoder(
        config.head, config.node.encoder.optimizer, graph, split, context, delta=delta
    )
    channels = channels_of(
        entry, graph, x0, adjacency, _noise(plan, context), normal_draw(context, AGGREGATE)
    )
    if config.release == "noisy-state":
        weights = weights | {"noisy_state": torch.from_numpy(channels[-1].astype(np.float32))}
    head, logits, history = private_head(
        config.head, config.node.head.optimizer, channels, graph, split, context, delta=delta
    )
    return Fitted(state=weights | head, history=tuple(history), kept={"logits": logits})


def fit_node_authors_code(
    entry: Entry, graph: Graph, split: Split, prepared: Prepared, plan: Plan, context: Context
) -> Fitted:
    """The released code at node level: thinned edges made symmetric, a head trained without noise.

    Guarantee: none. Answers and the head's statistics of private rows stay in the process.
    """
    adjacency = reading_matrix(prepared, graph.num_nodes)
    made = _released_code(entry, adjacency, graph, split, plan, context)
    state = {key: value for key, value in made.state.items() if key.endswith((".weight", ".bias"))}
    return replace(made, state=state, kept={"logits": made.state["logits"]})


def _released_code(
    entry: Entry, adjacency: sp.csr_array, graph: Graph, split: Split, plan: Plan, context: Context
) -> Fitted:
    channels = channels_of(
        entry,
        graph,
        np.zeros((graph.num_nodes, 0)),
        adjacency,
        _noise(plan, context),
        normal_draw(context, AGGREGATE),
    )
    head, history = train_head(entry.options.head, channels, graph, split, context)
    return Fitted(state=head, history=tuple(history))


def _noise(plan: Plan, context: Context) -> float:
    """Enter the planned mechanism and return its noise; 0 without privacy."""
    return context.ledger.enter(AGGREGATE).noise_stddev if plan.mechanisms else 0.0
