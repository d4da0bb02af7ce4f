"""Answers of models that aggregate with noise (CARIBOU, GAP), hop by hop, so that differences can follow.

The steps repeat `aggregate.contractive_iteration`, `released_code_iteration` and `noisy_sums`;
tests/attacks/test_influence.py holds them against these functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dpgnn.methods.shared.aggregate import (
    Draw,
    empty_rows,
    operator_without_self_loops,
    project_rows,
    symmetric_operator,
    unit_rows,
)

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.attacks.differences import RowMap
    from dpgnn.attacks.queries import Target
    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import Prepared


def start_map(target: Target, graph: Graph) -> RowMap:
    """Raw features -> rows of X0 (the encoder's unit rows, or normalised features), in float64."""
    import torch

    from dpgnn.attacks.queries import part
    from dpgnn.methods.shared.head_model import Encoder
    from dpgnn.methods.shared.head_private import _embed, _perceptron

    config = target.entry.options.head
    if target.is_released_code or config.encoder_layers == 0:
        return lambda node, rows: unit_rows(rows)
    state = part(target.state, "encoder.")
    if target.at_node_level:
        network = _perceptron(config, graph, graph.num_features, config.encoder_layers)
        weights = {name: value.double() for name, value in state.items()}
        return lambda node, rows: _embed(network, weights, config.encoder_layers, unit_rows(rows))
    model: Any = Encoder(
        graph.num_features, config.hidden, config.encoder_layers, graph.num_classes,
        batch_norm=config.batch_norm, dropout=0.0, generator=torch.Generator(),
    )  # fmt: skip
    model.load_state_dict(state)
    model = model.double().eval()

    def encode(node: Any, rows: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return unit_rows(model.embed(torch.from_numpy(rows)).numpy())

    return encode


def start_rows(target: Target, graph: Graph) -> np.ndarray:
    """X0 of every node, float64."""
    return start_map(target, graph)(np.arange(graph.num_nodes), graph.dense_x().astype(np.float64))


def adjacency(target: Target, graph: Graph, prepared: Prepared | None) -> sp.csr_array:
    """What the aggregation reads: every edge, or the prepared ones at node level."""
    from dpgnn.methods.gap import fit as gap_fit
    from dpgnn.methods.shared.aggregate_bounds import reading_matrix
    from dpgnn.methods.shared.undirected import adjacency_of

    if target.at_node_level:
        assert prepared is not None
        return reading_matrix(prepared, graph.num_nodes)
    if target.entry.method == "gap":
        return gap_fit.edge_adjacency(target.entry, graph)
    return adjacency_of(graph)


def node_logits(target: Target, graph: Graph, prepared: Prepared, draw: Draw) -> Tensor:
    """Logits of all nodes at node level, as `fit_node` makes them."""
    import torch

    from dpgnn.methods.caribou import fit as caribou_fit
    from dpgnn.methods.gap import fit as gap_fit
    from dpgnn.methods.shared.aggregate import contractive_iteration

    entry, config = target.entry, target.entry.options
    matrix, noise = adjacency(target, graph, prepared), target.noise_stddev
    x0 = start_rows(target, graph)
    if target.is_released_code:
        empty = np.zeros((graph.num_nodes, 0))
        channels = caribou_fit.edge_channels(entry, graph, empty, matrix, noise, draw)
    elif entry.method == "gap":
        channels = gap_fit.channels_of(config, matrix, x0, noise, draw)
    else:
        last = contractive_iteration(
            caribou_fit._layer(config),
            symmetric_operator(matrix),
            x0,
            num_hops=config.num_hops,
            noise_stddev=noise,
            draw=draw,
            emptied=empty_rows(x0),
            own_rows=config.release == "noisy-state",
        )
        channels = [x0, last]
    joined = np.concatenate(channels, axis=1)
    everyone = np.arange(graph.num_nodes)
    logits = head_map(target, graph, [c.shape[1] for c in channels])(everyone, joined)
    return torch.from_numpy(logits)


def head_map(target: Target, graph: Graph, widths: list[int]) -> RowMap:
    """Joined channels -> logits, row by row, in float64."""
    import torch

    from dpgnn.attacks.queries import part
    from dpgnn.methods.shared.head_model import MultiHead
    from dpgnn.methods.shared.head_private import _perceptron
    from dpgnn.models.forward import full_graph_logits

    config, state = target.entry.options.head, part(target.state, "head.")
    if target.at_node_level and not target.is_released_code:
        network = _perceptron(config, graph, sum(widths), config.base_layers)
        weights = {name: value.double() for name, value in state.items()}

        def perceptron(node: Any, rows: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                return np.asarray(full_graph_logits(network, weights, rows, None).numpy())

        return perceptron
    model: Any = MultiHead(
        widths, config.hidden, config.base_layers, config.head_layers, graph.num_classes,
        batch_norm=config.batch_norm, dropout=0.0, generator=torch.Generator(),
    )  # fmt: skip
    model.load_state_dict(state)
    model = model.double().eval()
    ends = np.cumsum(widths)[:-1]

    def multi_head(node: Any, rows: np.ndarray) -> np.ndarray:
        parts = np.split(rows, ends, axis=1)
        with torch.no_grad():
            logits = model([torch.from_numpy(np.ascontiguousarray(p)) for p in parts])
        return np.asarray(logits.numpy())

    return multi_head


def reading_operator(target: Target, matrix: sp.csr_array) -> sp.csr_array:
    """The linear operator of one hop."""
    config = target.entry.options
    if target.entry.method == "gap":
        return matrix
    if target.is_released_code:
        return operator_without_self_loops(matrix)
    padding = 1 if target.at_node_level else config.padding or 1
    return symmetric_operator(matrix, padding=padding)


def after_noise(target: Target, hop: int, noise: np.ndarray, emptied: np.ndarray | None) -> RowMap:
    """What follows the linear part of a hop, row by row: noise, projection or normalisation, emptied rows.

    Args:
        target: the model.
        hop: 1, 2, ...
        noise: float64, shape (num_nodes, width): the hop's noise, already scaled; zeros without privacy.
        emptied: as `contractive_iteration` has it, at node level; else None.
    """
    config = target.entry.options
    if target.entry.method == "gap":
        return lambda node, rows: unit_rows(rows + noise[node])
    if target.is_released_code:
        last = hop == config.num_hops
        return lambda node, rows: rows + noise[node] if last else project_rows(rows + noise[node])
    own_rows = emptied is not None and config.release == "noisy-state"

    def finish(node: np.ndarray, rows: np.ndarray) -> np.ndarray:
        if own_rows:
            assert emptied is not None
            rows = np.where(emptied[node, None], 0.0, project_rows(rows))
        rows = project_rows(rows + noise[node])
        if emptied is not None and not own_rows:
            rows = np.where(emptied[node, None], 0.0, rows)
        return rows

    return finish
