"""Training the encoder and the head without noise: for edge-level guarantees, or none.

This code reads features, labels and earlier releases, never an edge, so at edge level it is post-processing.
Under a node-level guarantee it is not private: see `head_private`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from dpgnn.methods.shared.aggregate import unit_rows
from dpgnn.methods.shared.head_model import Encoder, MultiHead
from dpgnn.methods.shared.head_options import HeadConfig
from dpgnn.methods.shared.nonprivate import at_inference
from dpgnn.models.inputs import as_input
from dpgnn.models.masks import Masks
from dpgnn.training.nonprivate import History, State, train_on_rows
from dpgnn.training.options import AdamConfig

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import PlannedRun


def encode(run: PlannedRun) -> tuple[np.ndarray, State]:
    """Unit rows for every node: a trained encoder's output, or the row-normalised features.

    Guarantee: reads features, labels and the split; no edge.

    Returns:
        x0: float64, shape (num_nodes, width), rows of norm 1 (or 0).
        state: the encoder's weights, names starting with "encoder."; {} without an encoder.
    """
    config: HeadConfig = run.entry.options.head
    if config.encoder_layers == 0:
        return unit_rows(run.graph.dense_x().astype(np.float64)), {}
    model = encoder_of(
        config, run.graph, config.dropout, run.context.streams.torch("weights", stage="encoder")
    )
    state, _ = _train(
        run, model, [run.graph.x], config.encoder_training, "encoder",
        lambda rows, masks: model(rows[0], masks),
    )  # fmt: skip
    return embed(config, state, run.graph), {
        f"encoder.{name}": value for name, value in state.items()
    }


def embed(config: HeadConfig, state: Mapping[str, Tensor], graph: Graph) -> np.ndarray:
    """The encoder's unit rows of all nodes, float64, from its weights."""
    model = at_inference(encoder_of(config, graph), state)
    with torch.no_grad():
        rows = model.embed(as_input(graph.x)).numpy().astype(np.float64)
    return unit_rows(rows)


def train_head(run: PlannedRun, channels: Sequence[np.ndarray]) -> tuple[State, History]:
    """Train the head on the training nodes' rows of the channels.

    Returns:
        state: the weights (names starting with "head.") and "logits", float32, of all nodes.
        history: of the training; empty in a release.
    """
    config: HeadConfig = run.entry.options.head
    model = head_of(
        config, [channel.shape[1] for channel in channels], run.graph.num_classes, config.dropout,
        run.context.streams.torch("weights", stage="head"),
    )  # fmt: skip
    state, history = _train(run, model, channels, config.training, "head", model)
    logits = apply_head(config, state, channels, run.graph.num_classes)
    named = {f"head.{name}": value for name, value in state.items()}
    study = run.context.streams.randomness == "study"
    return named | {"logits": logits}, history if study else []


def apply_head(
    config: HeadConfig, state: Mapping[str, Tensor], channels: Sequence[Any], num_classes: int
) -> Tensor:
    """Logits of all rows of the channels from a head's weights; float32."""
    widths = [channel.shape[1] for channel in channels]
    model = at_inference(head_of(config, widths, num_classes), state)
    with torch.no_grad():
        logits: Tensor = model([as_input(channel) for channel in channels])
    return logits


def encoder_of(
    config: HeadConfig, graph: Graph, dropout: float = 0.0, generator: torch.Generator | None = None
) -> Encoder:
    """The encoder of a graph's sizes; without a generator if its weights are loaded."""
    return Encoder(
        graph.num_features, config.hidden, config.encoder_layers, graph.num_classes,
        batch_norm=config.batch_norm, dropout=dropout, generator=generator or torch.Generator(),
    )  # fmt: skip


def head_of(
    config: HeadConfig,
    widths: Sequence[int],
    num_classes: int,
    dropout: float = 0.0,
    generator: torch.Generator | None = None,
) -> MultiHead:
    """The head on channels of these widths; without a generator if its weights are loaded."""
    return MultiHead(
        widths, config.hidden, config.base_layers, config.head_layers, num_classes,
        batch_norm=config.batch_norm, dropout=dropout, generator=generator or torch.Generator(),
    )  # fmt: skip


def _train(
    run: PlannedRun,
    model: nn.Module,
    channels: Sequence[Any],
    training: AdamConfig,
    stage: str,
    forward: Callable[[list[Any], Masks | None], Tensor],
) -> tuple[State, History]:
    """Full-batch training on the rows of training nodes, which also give the batch statistics."""
    train, val = (
        (
            [as_input(_rows(channel, rows)) for channel in channels],
            torch.from_numpy(run.graph.y[rows]),
        )
        for rows in (run.split.train_idx, run.split.val_idx)
    )
    return train_on_rows(
        model,
        forward,
        [train],
        val,
        training,
        task=run.graph.task,
        generator=run.context.streams.torch("dropout", stage=stage),
        progress=run.context.progress(training.num_epochs, stage),
    )


def _rows(channel: Any, idx: np.ndarray) -> Any:
    return sp.csr_array(channel[idx]) if sp.issparse(channel) else channel[idx]
