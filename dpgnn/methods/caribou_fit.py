"""CARIBOU's runs: encode, iterate with noise, train the head."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from dpgnn.methods._aggregate import (
    ContractiveLayer,
    contractive_iteration,
    operator_without_self_loops,
    released_code_iteration,
    symmetric_operator,
)
from dpgnn.methods._head_training import encode, train_head
from dpgnn.methods._perturb_edges import adjacency_of, check_degree_promise
from dpgnn.methods._perturb_plan import normal_draw
from dpgnn.methods.base import Fitted
from dpgnn.methods.caribou_plan import MECHANISM

if TYPE_CHECKING:
    from dpgnn.accountants.plan import Plan
    from dpgnn.graph import Graph
    from dpgnn.methods.base import Context, Entry
    from dpgnn.methods.caribou_options import CaribouConfig
    from dpgnn.splits import Split


def fit_edge(entry: Entry, graph: Graph, split: Split, plan: Plan, context: Context) -> Fitted:
    """Edge level, or no privacy: encoder and head without noise, X_K once.

    Guarantee: edges enter through the planned mechanism alone; of its states only the last leaves the
    function. Not so for `variant: as-released`, see `released_code_iteration`.
    """
    config: CaribouConfig = entry.options
    as_released = config.variant == "as-released" and entry.mode != "sound"
    layer = ContractiveLayer(contraction=config.contraction, alpha1=config.alpha1, beta=config.beta)
    adjacency = adjacency_of(graph)
    check_degree_promise(
        adjacency, minimum=config.minimum_degree or 0, maximum=None, name=graph.name
    )
    x0, weights = (None, {}) if as_released else encode(config.head, graph, split, context)
    noise = context.ledger.enter(MECHANISM).noise_stddev if plan.mechanisms else 0.0
    draw = normal_draw(context, MECHANISM)
    if x0 is None:
        last = released_code_iteration(
            layer,
            operator_without_self_loops(adjacency),
            graph.dense_x().astype(np.float64),
            num_hops=config.num_hops,
            noise_stddev=noise,
            draw=draw,
            noise_free_layer=config.noise_free_layer,
        )
        channels = [last]
    else:
        last = contractive_iteration(
            layer,
            symmetric_operator(adjacency, padding=config.padding or 1),
            x0,
            num_hops=config.num_hops,
            noise_stddev=noise,
            draw=draw,
        )
        channels = [x0, last]
        weights = weights | {"noisy_state": torch.from_numpy(last.astype(np.float32))}
    head, history = train_head(config.head, channels, graph, split, context)
    return Fitted(state=weights | head, history=tuple(history))
