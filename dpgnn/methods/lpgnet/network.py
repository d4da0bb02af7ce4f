"""LPGNet's perceptrons: linear layers without biases, trained full-batch; no privacy inside."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpgnn.models.inputs import SparseRows, dropped, input_linear
from dpgnn.models.masks import Masks

if TYPE_CHECKING:
    from dpgnn.methods.lpgnet.options import LPGNetConfig

Rows = Tensor | SparseRows


class Perceptron(nn.Module):
    """Linear layers without biases; ReLU and dropout between them.

    Args:
        num_inputs, num_outputs: widths.
        config: hidden width, number of layers, dropout.
        generator: the weights' stream: uniform in +-1/sqrt(inputs of the layer).
    """

    def __init__(
        self, num_inputs: int, num_outputs: int, config: LPGNetConfig, generator: torch.Generator
    ) -> None:
        super().__init__()
        widths = [num_inputs, *[config.hidden] * (config.num_layers - 1), num_outputs]
        self.layers = nn.ModuleList(
            nn.Linear(a, b, bias=False) for a, b in itertools.pairwise(widths)
        )
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            bound = layer.in_features**-0.5
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
        self.dropout = config.dropout

    def forward(self, x: Rows, masks: Masks | None = None) -> Tensor:
        """Logits, shape (num_rows, num_outputs); `masks` are for dropout, None for none."""
        first, *rest = (layer.weight for layer in self.layers)
        h = input_linear(x, first, None)  # type: ignore[arg-type]
        for weight in rest:
            h = torch.relu(h)
            if masks is not None and self.dropout > 0:
                h = dropped(h, self.dropout, masks)
            h = h @ weight.T  # type: ignore[operator]
        return h


def train(
    model: Perceptron,
    train_rows: tuple[Rows, Tensor],
    val_rows: tuple[Rows, Tensor],
    config: LPGNetConfig,
    *,
    generator: torch.Generator,
    progress: Any,
) -> tuple[dict[str, Tensor], list[Mapping[str, float]]]:
    """Adam on all training rows at every step; the step size falls linearly to 0.

    Args:
        train_rows, val_rows: inputs and int64 labels; without validation rows the last weights are kept.
        generator: the dropout stream.
        progress: has update(step, **shown).

    Returns:
        the kept weights; a row per fiftieth epoch: step, train_loss, val_loss.

    Raises:
        ValueError: the loss is not finite.
    """
    training, masks = config.training, Masks(generator)
    weights = list(model.parameters())
    optimizer = torch.optim.Adam(weights, lr=training.lr, weight_decay=training.weight_decay)
    step = inspect.unwrap(type(optimizer).step)  # without wrappers for profiler and compiler
    select = training.selection == "validation_loss" and len(val_rows[1]) > 0
    best, kept = float("inf"), [weight.detach().clone() for weight in weights]
    history: list[Mapping[str, float]] = []
    for epoch in range(1, training.num_epochs + 1):
        optimizer.param_groups[0]["lr"] = training.lr * (1 - (epoch - 1) / training.num_epochs)
        loss = F.cross_entropy(model(train_rows[0], masks), train_rows[1])
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights)):
            weight.grad = gradient
        with torch.no_grad():
            step(optimizer)
        shown = epoch % 50 == 0 or epoch == training.num_epochs
        wanted = select or (shown and len(val_rows[1]) > 0)
        on_val = _loss_on(model, val_rows) if wanted else float("nan")
        if select and on_val < best:
            best = on_val
            for copy, weight in zip(kept, weights):
                copy.copy_(weight.detach())
        if shown:
            history.append({"step": epoch, "train_loss": _finite(loss, epoch), "val_loss": on_val})
        progress.update(epoch, val_loss=f"{on_val:.3f}")
    if not select or best == float("inf"):
        kept = [weight.detach().clone() for weight in weights]
    return dict(zip(model.state_dict(), kept)), history


@torch.no_grad()
def _loss_on(model: Perceptron, rows: tuple[Rows, Tensor]) -> float:
    return float(F.cross_entropy(model(rows[0]), rows[1]))


def _finite(loss: Tensor, epoch: int) -> float:
    if not torch.isfinite(loss):
        raise ValueError(
            f"training loss must be finite, got {loss.item()} at epoch {epoch}; lower lr"
        )
    return float(loss.detach())
