"""Training without privacy, and its answers: what the non-private baselines share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch

from dpgnn.methods.base import PlannedRun, Prediction
from dpgnn.training.nonprivate import History, State, train_full_batch

if TYPE_CHECKING:
    from torch import Tensor, nn

    from dpgnn.models.masks import Masks
    from dpgnn.training.options import AdamConfig

M = TypeVar("M", bound="nn.Module")


def train_on_graph(
    run: PlannedRun,
    model: nn.Module,
    forward: Callable[[Masks | None], Tensor],
    training: AdamConfig,
) -> tuple[State, History]:
    """Full-batch training on all nodes' inputs; see `train_full_batch`.

    Args:
        model: its parameters are trained in place.
        forward: dropout masks (None at inference) -> logits of all nodes.
        graph, split: labels, and the nodes that are trained and selected on.
        training: optimiser and selection.
        context: the stream `dropout`, and progress.

    Returns:
        the selected weights, and the history of training.
    """
    return train_full_batch(
        model,
        forward,
        torch.from_numpy(np.array(run.graph.y)),
        torch.from_numpy(np.array(run.split.train_idx)),
        torch.from_numpy(np.array(run.split.val_idx)),
        training,
        task=run.graph.task,
        generator=run.context.streams.torch("dropout"),
        progress=run.context.progress(training.num_epochs),
    )


def at_inference(model: M, state: Mapping[str, Tensor]) -> M:
    """The model with weights, for answers."""
    model.load_state_dict(dict(state))
    return model.eval()


def unprotected(logits: Tensor) -> Prediction:
    """Answers without any guarantee; logits of the asked nodes."""
    return Prediction(logits=logits, answers="none", note="no privacy")
