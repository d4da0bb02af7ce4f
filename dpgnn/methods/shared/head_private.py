"""Encoder and head trained by planned DP-SGD mechanisms, for node-level guarantees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dpgnn.data.rows import normalize_rows
from dpgnn.methods.shared.aggregate import unit_rows
from dpgnn.methods.shared.node_level import ENCODER, HEAD
from dpgnn.methods.shared.private_training import run_dp_sgd
from dpgnn.models.forward import activation, full_graph_logits, plain_linear
from dpgnn.models.network import SELU_ALPHA, SELU_SCALE, Linear, Network, NetworkConfig
from dpgnn.models.trees import lone_roots
from dpgnn.training.products import apply_by_rows, row_products, sparse_linear

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import PlannedRun
    from dpgnn.methods.shared.head_options import HeadConfig


def private_encoder(run: PlannedRun) -> tuple[np.ndarray, dict[str, Tensor]]:
    """Train the encoder by the planned mechanism and embed every node.

    Guarantee: the weights are the mechanism's release. Row v of x0 reads the weights and v's own features;
    rows of nodes without features are 0.

    Returns:
        x0: float64, shape (num_nodes, width), rows of norm 1 or 0.
        weights: names starting with "encoder."; {} when `head.encoder_layers` is 0.
    """
    config: HeadConfig = run.entry.options.head
    x = normalize_rows(run.graph.x, "l2")
    if config.encoder_layers == 0:
        return unit_rows(np.asarray(x.toarray() if hasattr(x, "toarray") else x, np.float64)), {}
    network = perceptron(config, run.graph, run.graph.num_features, config.encoder_layers)
    weights, _ = _trained(run, ENCODER, network, x)
    by_rows = run.context.streams.is_secret("noise")
    x0 = embed_rows(network, weights, config.encoder_layers, x, by_rows=by_rows)
    return x0, _named(ENCODER, weights)


def private_head(
    run: PlannedRun, channels: Sequence[np.ndarray]
) -> tuple[dict[str, Tensor], Tensor, list[dict[str, Any]]]:
    """Train the head by the planned mechanism on the joined channels of training nodes.

    Guarantee: the weights are the mechanism's release; each training node is one root.

    Args:
        run: with the head's plan.
        channels: float32 or float64, each of shape (num_nodes, any width).

    Returns:
        weights: names starting with "head.".
        logits: float32, of all nodes; row v reads v's own rows.
        history: of the training.
    """
    joined = np.concatenate(channels, axis=1, dtype=np.float32, casting="same_kind")
    config: HeadConfig = run.entry.options.head
    network = perceptron(config, run.graph, joined.shape[1], config.base_layers)
    weights, history = _trained(run, HEAD, network, joined)
    return _named(HEAD, weights), full_graph_logits(network, weights, joined, None), history


def _trained(
    run: PlannedRun, stage: str, network: Network, x: Any
) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """Weights and history of a planned training whose roots are the training nodes' own rows of x."""
    train = run.split.train_idx
    return run_dp_sgd(
        network, x[train], lone_roots(np.arange(len(train)), run.graph.y[train]),
        getattr(run.entry.options.node, stage).optimizer, run.context,
        delta=run.plan.claims[0].delta, mechanism_name=stage,
    )  # fmt: skip


def perceptron(config: HeadConfig, graph: Graph, width: int, layers: int) -> Network:
    """The network of `layers` layers and a classifier, for per-root training."""
    return Network(
        NetworkConfig(
            num_features=width,
            num_outputs=graph.num_classes,
            width=config.hidden,
            encoder_layers=layers,
            num_hops=0,
            decoder_layers=1,
            activation="selu",
            task=graph.task,
        )
    )


def embed_rows(
    network: Network, weights: Mapping[str, Tensor], layers: int, x: Any, *, by_rows: bool = False
) -> np.ndarray:
    """Output of the encoder's last linear layer, before its activation, as unit rows.

    Args:
        network, weights: of the encoder.
        layers: how many of its linear layers.
        x: features of all nodes, dense or CSR.
        by_rows: compute each row by itself, so that its bits do not depend on other nodes; for releases.
    """
    from dpgnn.models.forward import to_torch

    linears = [op for op in network.operations if isinstance(op, Linear)][:layers]
    with torch.no_grad():
        h: Any = None if by_rows else to_torch(x, "cpu", network)
        for depth, op in enumerate(linears):
            if by_rows:
                h = _layer_by_rows(weights, op, h if depth else x, is_first=depth == 0)
            else:
                h = plain_linear(weights, op, activation("selu", h) if depth else h)
    found = h if by_rows else h.numpy()
    present = np.asarray(abs(x).sum(axis=1)).reshape(-1, 1) > 0
    return unit_rows(np.where(present, found.astype(np.float64), 0.0))


def _layer_by_rows(
    weights: Mapping[str, Tensor], op: Linear, a: Any, *, is_first: bool
) -> np.ndarray:
    """a W + b of rows, or of their activations after the first layer; float32."""
    weight = weights[f"{op.name}.weight"].contiguous().numpy()
    out = np.zeros((a.shape[0], weight.shape[1]), dtype=np.float32)
    if op.bias:
        out[:] = weights[f"{op.name}.bias"].numpy()
    if not is_first:
        one = np.float32
        apply_by_rows(2, one(SELU_SCALE), one(SELU_ALPHA), a)
    if isinstance(a, np.ndarray):
        row_products(np.ascontiguousarray(a, dtype=np.float32), weight, out)
    else:
        start = out[0].copy() if len(out) else np.zeros(weight.shape[1], np.float32)
        parts = a.indptr.astype(np.int64), a.indices.astype(np.int64), a.data
        sparse_linear(np.arange(len(out)), *parts, weight, start, out)
    return out


def _named(stage: str, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{stage}.{name}": value for name, value in weights.items()}
