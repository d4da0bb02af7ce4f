"""LPGNet's perceptrons: linear layers without biases, trained full-batch; no privacy inside."""

from __future__ import annotations

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
# Adam's defaults
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


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
    weights = [weight.detach() for weight in model.parameters()]
    steps = [_Adam(weight, training.weight_decay) for weight in weights]
    select = training.selection == "validation_loss" and len(val_rows[1]) > 0
    best, kept = float("inf"), [weight.clone() for weight in weights]
    history: list[Mapping[str, float]] = []
    x, y = train_rows
    by_logits = _loss_gradient(y, model.layers[-1].out_features)  # type: ignore[arg-type]
    for epoch in range(1, training.num_epochs + 1):
        lr = training.lr * (1 - (epoch - 1) / training.num_epochs)
        with torch.no_grad():
            loss, gradients = _loss_and_gradients(model, x, y, by_logits, masks)
            for step, gradient in zip(steps, gradients):
                step(gradient, lr)
        shown = epoch % 50 == 0 or epoch == training.num_epochs
        wanted = select or (shown and len(val_rows[1]) > 0)
        on_val = _loss_on(model, val_rows) if wanted else float("nan")
        if select and on_val < best:
            best = on_val
            for copy, weight in zip(kept, weights):
                copy.copy_(weight)
        if shown:
            history.append({"step": epoch, "train_loss": _finite(loss, epoch), "val_loss": on_val})
        progress.update(epoch, val_loss=f"{on_val:.3f}")
    if not select or best == float("inf"):
        kept = [weight.clone() for weight in weights]
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


def _loss_gradient(y: Tensor, num_classes: int) -> Tensor:
    """Of the mean cross-entropy, by log-probabilities: -1/n at each row's class."""
    gradient = torch.zeros(len(y), num_classes)
    gradient[torch.arange(len(y)), y] = -1.0 / len(y)
    return gradient


def _loss_and_gradients(
    model: Perceptron, x: Rows, y: Tensor, by_logits: Tensor, masks: Masks
) -> tuple[Tensor, list[Tensor]]:
    """Mean cross-entropy and its gradients by the weights, bit for bit as autograd.

    Written out, because autograd's overhead exceeds the products of a small perceptron.
    """
    weights = [weight.detach() for weight in model.parameters()]
    rows, columns = x.stored if isinstance(x, SparseRows) else (x, x.T)
    hidden: list[tuple[Tensor, Tensor | None, Tensor]] = []  # after ReLU, mask, input of the layer
    h = rows @ weights[0].T
    for weight in weights[1:]:
        above = torch.relu(h)
        mask = masks.draw(tuple(h.shape), model.dropout) if model.dropout > 0 else None
        hidden.append((above, mask, above if mask is None else above * mask))
        h = hidden[-1][2] @ weight.T
    logs = torch.log_softmax(h, 1)
    g = torch._log_softmax_backward_data(by_logits, logs, 1, logs.dtype)
    gradients = []
    for weight, (above, mask, read) in zip(weights[:0:-1], hidden[::-1]):
        gradients.append(g.T @ read)
        g = g @ weight
        g = torch.ops.aten.threshold_backward(g if mask is None else g * mask, above, 0)
    # both forms are the same product; this one has autograd's bits
    gradients.append((columns @ g).T if isinstance(x, SparseRows) else g.T @ rows)
    return F.nll_loss(logs, y), gradients[::-1]


class _Adam:
    """Steps of `torch.optim.Adam` on one tensor, operation by operation.

    `training.optimizers.Optimizer` takes the root of the corrected moment, torch corrects the root. This
    class has torch's bits, as in the authors' code and the committed records.

    Args:
        weight: changed in place.
        weight_decay: L2 penalty.
    """

    def __init__(self, weight: Tensor, weight_decay: float) -> None:
        self.weight, self.weight_decay, self.count = weight, weight_decay, 0
        self.first, self.second = torch.zeros_like(weight), torch.zeros_like(weight)

    def __call__(self, gradient: Tensor, lr: float) -> None:
        self.count += 1
        if self.weight_decay:
            gradient = gradient.add(self.weight, alpha=self.weight_decay)
        self.first.lerp_(gradient, 1 - BETA1)
        self.second.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
        root = (self.second.sqrt() / (1 - BETA2**self.count) ** 0.5).add_(EPSILON)
        self.weight.addcdiv_(self.first, root, value=-lr / (1 - BETA1**self.count))
