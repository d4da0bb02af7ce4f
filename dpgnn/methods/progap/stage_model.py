"""A stage of ProGAP as a torch module, for training without noise; no privacy inside."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpgnn.methods.shared.head_model import (
    Dropout,
    Rows,
    Stack,
    batch_norm_or_nothing,
    uniform_linear,
)
from dpgnn.models.inputs import input_linear
from dpgnn.models.masks import Masks


class Base(nn.Module):
    """Linear layers, each followed by SELU, batch normalisation and dropout: a channel's embedding.

    Args:
        num_inputs: columns of the channel.
        hidden: width of every layer.
        num_layers: linear layers.
        batch_norm: whether to use batch normalisation, which mixes nodes and is never used under DP-SGD.
        dropout: rate.
        generator: the weights' stream.
    """

    def __init__(
        self,
        num_inputs: int,
        hidden: int,
        num_layers: int,
        *,
        batch_norm: bool,
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        widths = [num_inputs, *[hidden] * num_layers]
        self.layers = nn.ModuleList(
            uniform_linear(a, b, generator) for a, b in itertools.pairwise(widths)
        )
        self.norms = nn.ModuleList(batch_norm_or_nothing(hidden, batch_norm) for _ in widths[1:])
        self.dropout = Dropout(dropout)

    def forward(self, x: Rows, masks: Masks | None = None) -> Tensor:
        """Shape (num_rows, hidden)."""
        h: Rows = x
        for layer, norm in zip(self.layers, self.norms):
            assert isinstance(layer, nn.Linear)
            h = self.dropout(norm(F.selu(input_linear(h, layer.weight, layer.bias))), masks)
        assert isinstance(h, Tensor)
        return h


class StageModel(nn.Module):
    """Base modules of all channels, their embeddings joined and normalised row by row, and a head.

    Args:
        bases: one for each channel; those of earlier stages continue from their weights.
        head: reads the joined embeddings.
        frozen: number of first channels that are already embeddings, from bases that are no longer trained.
    """

    def __init__(self, bases: Sequence[Base], head: Stack, *, frozen: int = 0) -> None:
        super().__init__()
        self.bases, self.head, self.frozen = nn.ModuleList(bases), head, frozen

    def forward(self, channels: Sequence[Rows], masks: Masks | None = None) -> Tensor:
        """Logits, shape (num_rows, num_classes)."""
        parts = list(channels[: self.frozen])
        parts += [base(x, masks) for base, x in zip(self.bases, channels[self.frozen :])]
        logits: Tensor = self.head(F.normalize(torch.cat(parts, dim=1), dim=1), masks)  # type: ignore[arg-type]
        return logits
