"""The head after a round: base scores and released noisy sums -> logits; row by row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from dpgnn.models.inputs import linear_stack
from dpgnn.models.masks import Masks
from dpgnn.training.nonprivate import History, State, train_on_rows

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.base import Context
    from dpgnn.methods.votes.edge_options import EdgeConfig, HeadConfig

# the blocks of a row that are added to the logits with one weight each: log-scores, and scaled sums
DIRECT = 2


class Head(nn.Module):
    """Two weighted blocks of the row, plus a small network on the whole standardised row.

    Args:
        width: columns of a row.
        num_classes: columns of a block.
        config: width and dropout.
        generator: the weights' stream; the last layer starts at zero, so logits start as the first block.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self, width: int, num_classes: int, config: HeadConfig, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.config, self.num_classes = config, num_classes
        self.layers = nn.ModuleList(linear_stack((width, config.hidden, num_classes), generator))
        nn.init.zeros_(self.layers[-1].weight)  # type: ignore[arg-type]
        self.direct = nn.Linear(DIRECT, 1, bias=False)
        self.direct.weight.data = torch.tensor([[1.0, 0.0]])
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(self, rows: Tensor, masks: Masks | None = None) -> Tensor:
        """Logits, shape (num_rows, num_classes)."""
        first, last = self.layers
        hidden = (rows - self.running_mean) / self.running_var.sqrt()
        hidden = torch.relu(first(_dropped(hidden, self.config.input_dropout, masks)))
        found: Tensor = last(_dropped(hidden, self.config.dropout, masks))
        for block, weight in enumerate(self.direct.weight[0]):
            found = found + weight * rows[:, block * self.num_classes :][:, : self.num_classes]
        return found


def head_rows(
    config: EdgeConfig, scores: np.ndarray, sums: list[tuple[np.ndarray, float]]
) -> np.ndarray:
    """Rows of a head: log-scores, then size and direction of each noisy sum; float64.

    Args:
        scores: float64, shape (num_rows, num_classes), log-probabilities.
        sums: (released sums, shape (num_rows, num_classes), the deviation of their noise).
    """
    blocks = [np.maximum(scores, config.lowest_score)]
    for values, noise in sums:
        size = np.linalg.norm(values, axis=1, keepdims=True) + noise * values.shape[1] ** 0.5
        blocks.append(np.arcsinh(values / max(noise, config.smallest_scale)))
        # without noise, as audits ask, a node without neighbours has no direction
        blocks.append(np.divide(values, size, out=np.zeros_like(values), where=size > 0))
    return np.concatenate(blocks, axis=1)


def train_head(
    config: EdgeConfig, rows: np.ndarray, graph: Graph, split: Split, context: Context, stage: str
) -> tuple[State, History]:
    """Train on the rows of training nodes.

    Guarantee: reads released sums, features, labels and the split; no edge.

    Returns:
        weights, and the history of the training; empty in a release.
    """
    train, val = split.train_idx, split.val_idx
    model = Head(
        rows.shape[1], graph.num_classes, config.head, context.streams.torch("weights", stage=stage)
    )
    model.running_mean = torch.from_numpy(rows[train].mean(axis=0)).float()
    model.running_var = torch.from_numpy(rows[train].var(axis=0) + 1e-6).float()
    learnt, watched = (
        (torch.from_numpy(rows[part]).float(), torch.from_numpy(graph.y[part]))
        for part in (train, val)
    )
    state, history = train_on_rows(
        model, model, [learnt], watched,
        replace(config.head.training, weight_decay=config.head.decay / len(train)),
        task=graph.task,
        generator=context.streams.torch("dropout", stage=stage),
        progress=context.progress(config.head.training.num_epochs, stage),
    )  # fmt: skip
    return state, history if context.streams.randomness == "study" else []


def apply_head(
    config: EdgeConfig, state: Mapping[str, Tensor], rows: np.ndarray, num_classes: int
) -> np.ndarray:
    """Logits in float64, so that a row does not feel which rows are computed beside it."""
    model = Head(rows.shape[1], num_classes, config.head, torch.Generator())
    model.load_state_dict(dict(state))
    model.double().eval()
    with torch.no_grad():
        return np.asarray(model(torch.from_numpy(rows)).numpy())


def _dropped(x: Tensor, rate: float, masks: Masks | None) -> Tensor:
    return x if masks is None or rate == 0 else x * masks.draw(tuple(x.shape), rate)
