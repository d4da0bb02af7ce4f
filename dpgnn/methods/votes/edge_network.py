"""Small networks of the edge level, several in parallel, and their training without privacy.

This code reads no edge. Gradients are written out, so that a step of a small network has little overhead.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dpgnn.models.inputs import linear_stack
from dpgnn.training.optimizers import Optimizer
from dpgnn.training.options import AdamConfig, OptimizerConfig
from dpgnn.training.products import sparse_linear, sparse_outer, through_relu
from dpgnn.training.softmax import softmax

if TYPE_CHECKING:
    from dpgnn.models.masks import Masks

State = dict[str, Tensor]
EVERY = 10  # steps between two rows of a history


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Training rows of a network, with labels.

    Attributes:
        x: float32, shape (num_rows, width), a tensor or CSR.
        direct: float32, shape (num_blocks, num_rows, num_classes): blocks added to the logits with one weight
            each.
        y: int64, shape (num_rows,).
        seen: float32, shape (num_rows, num_networks): 1 if a network may train on the row, else 0.
    """

    x: Tensor | sp.csr_array
    direct: Tensor
    y: Tensor
    seen: Tensor

    @cached_property
    def read(self) -> Tensor | _Csr:
        """x in the form for kernels."""
        return _readable(self.x)

    @cached_property
    def share(self) -> Tensor:
        """float32, shape (num_rows, num_networks): weight of each row in a network's mean loss."""
        return self.seen / self.seen.sum(dim=0).clamp_(min=1.0)


class _Csr(NamedTuple):
    """The arrays of CSR rows; indices are int64."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


class Networks:
    """Perceptrons of one shape, in parallel, with ReLU and dropout between their layers.

    The first layers are computed as one product, which is most of the work.

    Args:
        widths: of the input, the hidden layers and the output.
        dropout: rate before the first layer, and before all others.
        num_networks: number of networks.
        num_blocks: of `Rows.direct`.

    Attributes:
        flat: float32, all parameters; `named` views them: layer.0.weight of shape (width, num_networks *
            hidden), layer.L.weight of shape (num_networks, before, after), layer.L.bias, direct.weight.
    """

    def __init__(
        self,
        widths: tuple[int, ...],
        dropout: tuple[float, float],
        num_networks: int,
        num_blocks: int = 0,
    ) -> None:
        self.widths, self.dropout = widths, dropout
        self.num_networks, self.num_layers = num_networks, len(widths) - 1
        shapes: dict[str, tuple[int, ...]] = {}
        for layer, (before, after) in enumerate(itertools.pairwise(widths)):
            stacked = (num_networks, before, after) if layer else (before, num_networks * after)
            shapes[f"layer.{layer}.weight"] = stacked
            shapes[f"layer.{layer}.bias"] = (num_networks * after,)
        shapes["direct.weight"] = (num_blocks,)
        self.shapes = shapes
        self._sizes = [math.prod(shape) for shape in shapes.values()]
        self.flat = torch.zeros(sum(self._sizes))
        self.named = self._views(self.flat)
        # of `gradient`, written over by each
        self._gradient = torch.zeros_like(self.flat)
        self._found = self._views(self._gradient)

    def start(self, generators: Sequence[torch.Generator]) -> None:
        """Glorot weights, each network's from its own generator; other parameters stay 0."""
        for number, generator in enumerate(generators):
            for layer, linear in enumerate(linear_stack(self.widths, generator)):
                weight = linear.weight.detach().T
                held = self.named[f"layer.{layer}.weight"]
                if layer:
                    held[number] = weight
                else:
                    held.unflatten(1, (self.num_networks, -1))[:, number] = weight

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Load the parameters of a state."""
        for name, held in self.named.items():
            held.copy_(state[name])

    def state(self) -> State:
        """A copy of the parameters."""
        return {name: held.clone() for name, held in self.named.items()}

    def logits(self, x: Tensor | sp.csr_array) -> Tensor:
        """float32, shape (num_rows, num_networks, num_classes), without the direct blocks."""
        return self._forward(_readable(x), None)[0]

    def gradient(self, rows: Rows, masks: Masks) -> tuple[Tensor, float]:
        """Flat gradient of the sum of all networks' mean losses over their rows, and the mean loss.

        The next call overwrites the gradient.
        """
        logits, values, dropped = self._forward(rows.read, masks)
        for weight, block in zip(self.named["direct.weight"], rows.direct):
            logits = logits + weight * block[:, None]
        share = rows.share
        right = rows.y[:, None, None].expand(-1, self.num_networks, 1)
        g = softmax(logits)
        likely = g.gather(2, right)[:, :, 0]
        loss = -float((likely.clamp(min=1e-38).log_() * share).sum()) / self.num_networks
        g.scatter_(2, right, (likely - 1.0)[:, :, None]).mul_(share[:, :, None])
        found = self._found
        for number, block in enumerate(rows.direct):
            found["direct.weight"][number] = (g * block[:, None]).sum()
        for layer in range(self.num_layers - 1, 0, -1):
            hidden, mask = values[layer], dropped[layer]
            torch.bmm(
                hidden.permute(1, 2, 0), g.transpose(0, 1), out=found[f"layer.{layer}.weight"]
            )
            found[f"layer.{layer}.bias"].copy_(g.sum(dim=0).flatten())
            g = torch.bmm(g.transpose(0, 1), self.named[f"layer.{layer}.weight"].mT).transpose(0, 1)
            g = _back(g, mask, hidden)
        g = g.flatten(1)
        found["layer.0.bias"].copy_(g.sum(dim=0))
        if isinstance(values[0], Tensor):
            torch.mm(values[0].T, g, out=found["layer.0.weight"])
        else:
            _add_outer(values[0], g, found["layer.0.weight"].zero_())
        return self._gradient, loss

    def _forward(
        self, x: Tensor | _Csr, masks: Masks | None
    ) -> tuple[Tensor, list[Any], list[Any]]:
        """Logits, the input of each layer after dropout, and the masks."""
        rate, later = self.dropout
        if masks is not None and rate > 0:
            if isinstance(x, Tensor):
                x = masks.draw(tuple(x.shape), rate).mul_(x)
            else:
                x = x._replace(data=masks.draw(x.data.shape, rate).numpy() * x.data)
        values: list[Any] = [x]
        dropped: list[Any] = [None]
        weight, bias = self.named["layer.0.weight"], self.named["layer.0.bias"]
        found = torch.addmm(bias, x, weight) if isinstance(x, Tensor) else _product(x, weight, bias)
        found = found.unflatten(1, (self.num_networks, -1))
        for layer in range(1, self.num_layers):
            hidden, mask = torch.relu_(found), None
            if masks is not None and later > 0:
                mask = masks.draw(tuple(hidden.shape), later)
                hidden = hidden * mask
            values.append(hidden)
            dropped.append(mask)
            bias = self.named[f"layer.{layer}.bias"].unflatten(0, (self.num_networks, 1, -1))
            weight = self.named[f"layer.{layer}.weight"]
            found = torch.baddbmm(bias, hidden.transpose(0, 1), weight).transpose(0, 1)
        return found, values, dropped

    def _views(self, flat: Tensor) -> State:
        parts = flat.split(self._sizes)
        return {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts)}


def train(
    networks: Networks,
    parts: Sequence[Rows],
    config: AdamConfig,
    *,
    masks: Masks,
    progress: Any,
    scored: Callable[[], Mapping[str, float]] | None = None,
) -> list[dict[str, float]]:
    """Adam for `config.num_epochs` steps, which cycle through the parts; the last parameters are kept.

    Args:
        networks: initialised; changed in place.
        parts: of the training rows.
        config: rate, steps and penalty.
        masks: of dropout.
        progress: has update(step).
        scored: further values of a row of the history; None makes no history.

    Returns:
        a row for every tenth step: step, train_loss, and the values of `scored`.

    Raises:
        ValueError: the loss is not finite.
    """
    rule = OptimizerConfig(lr=config.lr, weight_decay=config.weight_decay)
    optimizer, history = Optimizer(rule, networks.flat, config.num_epochs), []
    with torch.no_grad():
        for step, rows in enumerate(itertools.islice(itertools.cycle(parts), config.num_epochs), 1):
            gradient, loss = networks.gradient(rows, masks)
            if not math.isfinite(loss):
                raise ValueError(
                    f"training loss must be finite, got {loss} at step {step}; lower lr"
                )
            optimizer.step(gradient)
            if scored is not None and (step % EVERY == 0 or step == config.num_epochs):
                history.append({"step": step, "train_loss": loss, **scored()})
            progress.update(step)
    return history


def _readable(x: Tensor | sp.csr_array) -> Tensor | _Csr:
    if isinstance(x, Tensor):
        return x
    return _Csr(x.indptr.astype(np.int64), x.indices.astype(np.int64), x.data)


def _product(x: _Csr, weight: Tensor, bias: Tensor) -> Tensor:
    count = len(x.indptr) - 1
    out = torch.empty(count, weight.shape[1])
    sparse_linear(np.arange(count), *x, weight.numpy(), bias.numpy(), out.numpy())
    return out


def _add_outer(x: _Csr, g: Tensor, out: Tensor) -> None:
    """out += x^T g."""
    rows = np.arange(len(x.indptr))
    none = np.zeros(len(rows) - 1, dtype=np.bool_)
    sparse_outer(rows[:-1], *x, g.numpy(), rows, none, out.numpy())


def _back(g: Tensor, mask: Tensor | None, hidden: Tensor) -> Tensor:
    """The gradient before ReLU and dropout; contiguous."""
    found = torch.empty(hidden.shape)
    kept = hidden if mask is None else mask
    through_relu(g.numpy(), kept.numpy(), hidden.numpy(), mask is not None, found.numpy())
    return found
