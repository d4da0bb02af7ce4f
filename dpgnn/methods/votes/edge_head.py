"""The head after a round: base scores and released noisy sums -> logits; row by row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from dpgnn.methods.votes.edge_network import Networks, Rows, State
from dpgnn.methods.votes.edge_network import train as train_networks
from dpgnn.models.masks import Masks
from dpgnn.training.nonprivate import task_accuracy
from dpgnn.training.products import row_products

if TYPE_CHECKING:
    from dpgnn.methods.base import PlannedRun
    from dpgnn.methods.votes.edge_options import EdgeConfig

# blocks of a row that are added to the logits with one weight each: log-scores, and scaled sums
DIRECT = 2
# hidden values of this many rows fit into the cache
ROWS_AT_ONCE = 1024


def head_rows(
    config: EdgeConfig, scores: np.ndarray, sums: list[tuple[np.ndarray, float]]
) -> np.ndarray:
    """Rows of a head: log-scores, then norm and direction of each noisy sum; float64.

    Args:
        scores: float64, shape (num_rows, num_classes), log-probabilities.
        sums: (released sums, shape (num_rows, num_classes), the deviation of their noise).
    """
    blocks = [np.maximum(scores, config.lowest_score)]
    for values, noise in sums:
        size = np.linalg.norm(values, axis=1, keepdims=True) + noise * values.shape[1] ** 0.5
        blocks.append(np.arcsinh(values / max(noise, config.smallest_scale)))
        # without noise, as in audits, a node without neighbours has no direction
        blocks.append(np.divide(values, size, out=np.zeros_like(values), where=size > 0))
    return np.concatenate(blocks, axis=1)


def train_head(
    run: PlannedRun, rows: np.ndarray, stage: str
) -> tuple[State, list[dict[str, float]]]:
    """Train on the rows of training nodes.

    Guarantee: reads released sums, features, labels and the split; no edge.

    Returns:
        weights, and the history of the training; empty in a release.
    """
    config: EdgeConfig = run.entry.options.edge
    train, val = run.split.train_idx, run.split.val_idx
    mean, deviation = rows[train].mean(axis=0), np.sqrt(rows[train].var(axis=0) + 1e-6)
    networks = _networks(config, rows.shape[1], run.graph.num_classes)
    networks.start([run.context.streams.torch("weights", stage=stage)])
    # logits start as the first block
    networks.named["layer.1.weight"].zero_()
    networks.named["direct.weight"][0] = 1.0

    def read(nodes: np.ndarray) -> Rows:
        direct = [_block(rows[nodes], block, run.graph.num_classes) for block in range(DIRECT)]
        return Rows(
            x=torch.from_numpy((rows[nodes] - mean) / deviation).float(),
            direct=torch.from_numpy(np.stack(direct)).float(),
            y=torch.from_numpy(run.graph.y[nodes]),
            seen=torch.ones(len(nodes), 1),
        )

    order = run.context.streams.numpy("batches", stage=stage).permutation(train)
    parts = [read(part) for part in _split(order, config.head.rows_a_step)]
    watched = {"train_accuracy": parts[0], "val_accuracy": read(val)}
    history = train_networks(
        networks, parts,
        replace(config.head.training, weight_decay=config.head.decay / len(train)),
        masks=Masks(run.context.streams.torch("dropout", stage=stage)),
        progress=run.context.progress(config.head.training.num_epochs, stage),
        scored=None if run.context.streams.randomness == "release" else
        lambda: {name: _accuracy(networks, part, run.graph.task) for name, part in watched.items()},
    )  # fmt: skip
    fitted = {"running_mean": torch.from_numpy(mean), "running_var": torch.from_numpy(deviation**2)}
    return networks.state() | fitted, history


def apply_head(state: Mapping[str, Tensor], rows: np.ndarray, num_classes: int) -> np.ndarray:
    """Logits in float64, each row by itself, so that its bits do not depend on the other rows."""
    named = {name: value.double().numpy() for name, value in state.items()}
    # the standardisation of columns is folded into the first layer
    first = named["layer.0.weight"] / np.sqrt(named["running_var"])[:, None]
    start = named["layer.0.bias"] - named["running_mean"] @ first
    second, end = named["layer.1.weight"][0], named["layer.1.bias"]
    found = np.empty((len(rows), num_classes))
    found[:] = end
    for low in range(0, len(rows), ROWS_AT_ONCE):
        part = slice(low, low + ROWS_AT_ONCE)
        hidden = np.empty((len(rows[part]), len(start)))
        hidden[:] = start
        row_products(rows[part], first, hidden)
        np.maximum(hidden, 0.0, out=hidden)
        row_products(hidden, second, found[part])
    for block, weight in enumerate(named["direct.weight"]):
        found += weight * _block(rows, block, num_classes)
    return found


def _networks(config: EdgeConfig, width: int, num_classes: int) -> Networks:
    head = config.head
    return Networks(
        (width, head.hidden, num_classes), (head.input_dropout, head.dropout), 1, DIRECT
    )


def _block(rows: np.ndarray, block: int, num_classes: int) -> np.ndarray:
    return rows[:, block * num_classes :][:, :num_classes]


def _split(nodes: np.ndarray, most: int) -> list[np.ndarray]:
    return np.array_split(nodes, math.ceil(len(nodes) / most))


def _accuracy(networks: Networks, rows: Rows, task: str) -> float:
    direct = sum(
        weight * block for weight, block in zip(networks.named["direct.weight"], rows.direct)
    )
    return task_accuracy(networks.logits(rows.x)[:, 0] + direct, rows.y, task)
