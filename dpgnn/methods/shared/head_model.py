"""Encoder and classification head of GAP and CARIBOU as torch modules; no privacy inside."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpgnn.models.inputs import SparseRows, dropped, input_linear
from dpgnn.models.masks import Masks

Rows = Tensor | SparseRows


class Dropout:
    """Inverted dropout with masks from an explicit stream; None disables it."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self, h: Tensor, masks: Masks | None) -> Tensor:
        """h with entries dropped."""
        if masks is None or self.rate == 0:
            return h
        return dropped(h, self.rate, masks)


class Stack(nn.Module):
    """Linear layers with batch normalisation, dropout and SELU between them; the last one is plain.

    Args:
        widths: input width, hidden widths, output width.
        batch_norm: whether to use batch normalisation between layers (mixes nodes; never under DP-SGD).
        dropout: rate.
        generator: the weights' stream.
    """

    def __init__(
        self, widths: Sequence[int], *, batch_norm: bool, dropout: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            uniform_linear(a, b, generator) for a, b in zip(widths, widths[1:])
        )
        self.norms = nn.ModuleList(
            batch_norm_or_nothing(width, batch_norm) for width in widths[1:-1]
        )
        self.dropout = Dropout(dropout)

    def forward(self, x: Rows, masks: Masks | None = None) -> Tensor:
        """Shape (num_rows, widths[-1])."""
        first = self.layers[0]
        assert isinstance(first, nn.Linear)
        h = input_linear(x, first.weight, first.bias)
        for norm, layer in zip(self.norms, list(self.layers)[1:]):
            h = layer(F.selu(self.dropout(norm(h), masks)))
        return h


class Encoder(nn.Module):
    """Features to unit rows: a stack, its output normalised per row, and a classifier for training it.

    Args:
        num_features: columns of x.
        hidden: width of the embedding.
        num_layers: linear layers of the stack.
        num_classes: outputs of the training classifier.
        batch_norm, dropout, generator: as for `Stack`.

    Source: Sajadmanesh et al. (2023), arXiv:2203.00949, the encoder module.
    """

    def __init__(
        self,
        num_features: int,
        hidden: int,
        num_layers: int,
        num_classes: int,
        *,
        batch_norm: bool,
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        widths = [num_features, *[hidden] * num_layers]
        self.stack = Stack(widths, batch_norm=batch_norm, dropout=dropout, generator=generator)
        self.norm = batch_norm_or_nothing(hidden, batch_norm)
        self.out = uniform_linear(hidden, num_classes, generator)
        self.dropout = Dropout(dropout)

    def embed(self, x: Rows, masks: Masks | None = None) -> Tensor:
        """Unit rows, shape (num_rows, hidden)."""
        return F.normalize(self.stack(x, masks), dim=1)

    def forward(self, x: Rows, masks: Masks | None = None) -> Tensor:
        """Logits, shape (num_rows, num_classes)."""
        h = self.norm(self.embed(x, masks))
        return self.out(F.selu(self.dropout(h, masks)))


class MultiHead(nn.Module):
    """A base stack per channel, concatenated, normalised per row, then a head stack.

    Args:
        channel_widths: columns of each channel.
        hidden: width of each base stack.
        base_layers, head_layers: linear layers of both.
        num_classes: outputs.
        batch_norm, dropout, generator: as for `Stack`.

    Source: Sajadmanesh et al. (2023), arXiv:2203.00949, the classification module.
    """

    def __init__(
        self,
        channel_widths: Sequence[int],
        hidden: int,
        base_layers: int,
        head_layers: int,
        num_classes: int,
        *,
        batch_norm: bool,
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()

        def stack(widths: list[int]) -> Stack:
            return Stack(widths, batch_norm=batch_norm, dropout=dropout, generator=generator)

        joined = hidden * len(channel_widths)
        self.bases = nn.ModuleList(
            stack([width, *[hidden] * base_layers]) for width in channel_widths
        )
        self.norm = batch_norm_or_nothing(joined, batch_norm)
        self.head = stack([joined, *[hidden] * (head_layers - 1), num_classes])
        self.dropout = Dropout(dropout)

    def forward(self, channels: Sequence[Rows], masks: Masks | None = None) -> Tensor:
        """Logits, shape (num_rows, num_classes)."""
        parts = [base(x, masks) for base, x in zip(self.bases, channels)]
        h = self.norm(F.normalize(torch.cat(parts, dim=1), dim=1))
        return self.head(F.selu(self.dropout(h, masks)))


def uniform_linear(num_in: int, num_out: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer with uniform weights and biases in +-1/sqrt(num_in), torch's default initialisation."""
    layer = nn.Linear(num_in, num_out)
    bound = num_in**-0.5
    for parameter in (layer.weight, layer.bias):
        nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return layer


def batch_norm_or_nothing(width: int, batch_norm: bool) -> nn.Module:
    return nn.BatchNorm1d(width) if batch_norm else nn.Identity()
