"""A multi-layer perceptron on node features; no edges, no privacy inside."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from dpgnn.models.inputs import SparseRows, input_linear, linear_stack
from dpgnn.models.masks import Masks


class Stack(nn.Module):
    """Linear layers, with ReLU and dropout between them.

    Args:
        num_features: width of the input.
        hidden: widths of the hidden layers.
        num_classes: width of the output.
        dropout: rate before each layer, in [0, 1).
        generator: the weights' stream (Glorot uniform weights, zero biases).
    """

    def __init__(
        self,
        num_features: int,
        hidden: tuple[int, ...],
        num_classes: int,
        *,
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        widths = (num_features, *hidden, num_classes)
        self.layers = nn.ModuleList(linear_stack(widths, generator))
        self.dropout = dropout


class MLP(Stack):
    """Linear layers with ReLU and dropout between them; arguments as for `Stack`."""

    def forward(self, x: Tensor | SparseRows, masks: Masks | None = None) -> Tensor:
        """Logits, shape (num_rows, num_classes); `masks` are for dropout, None for none."""
        hidden: Tensor | SparseRows = x
        for depth, layer in enumerate(cast("Iterable[nn.Linear]", self.layers)):
            if isinstance(hidden, Tensor) and depth:
                hidden = torch.relu(hidden)
            hidden = input_linear(
                hidden, layer.weight, layer.bias, dropout=self.dropout, masks=masks
            )
        assert isinstance(hidden, Tensor)
        return hidden
