"""GraphSAGE with sums, for PertGraph's perturbed graph; no privacy inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from dpgnn.models.gcn import Operator, propagate
from dpgnn.models.masks import Masks

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph


class SumSage(nn.Module):
    """Base stack, sums over neighbours with a root weight and normalised rows, head stack.

    Args:
        config: a `PertGraphConfig`: widths and layers of the three parts.
        graph: gives the numbers of features and classes.
        dropout, generator: as for `head_model.Stack`.

    Source: Hamilton et al. (2017), arXiv:1706.02216; as SAGE-EDP in Sajadmanesh et al. (2023).
    """

    def __init__(
        self, config: Any, graph: Graph, *, dropout: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        head, hidden, num_hops = config.head, config.head.hidden, config.num_hops
        batch_norm = head.batch_norm
        self.base = Stack(
            [graph.num_features, *[hidden] * head.encoder_layers],
            batch_norm=batch_norm, dropout=dropout, generator=generator,
        )  # fmt: skip
        self.own = nn.ModuleList(uniform_linear(hidden, hidden, generator) for _ in range(num_hops))
        self.neighbours = nn.ModuleList(
            uniform_linear(hidden, hidden, generator) for _ in range(num_hops)
        )
        self.norms = nn.ModuleList(
            batch_norm_or_nothing(hidden, batch_norm) for _ in range(num_hops + 1)
        )
        self.head = Stack(
            [hidden] * head.head_layers + [graph.num_classes],
            batch_norm=batch_norm, dropout=dropout, generator=generator,
        )  # fmt: skip
        self.dropout = Dropout(dropout)

    def forward(self, x: Rows, adjacency: Operator, masks: Masks | None = None) -> Tensor:
        """Logits of all nodes; adjacency [v, u] is 1 where v reads u."""
        h = self.between(0, self.base(x, masks), masks)
        for hop, (own, neighbours) in enumerate(zip(self.own, self.neighbours), start=1):
            summed = propagate(adjacency, h)
            h = F.normalize(own(h) + neighbours(summed), dim=1)
            h = self.between(hop, h, masks)
        return self.head(h, masks)

    def between(self, index: int, h: Tensor, masks: Masks | None) -> Tensor:
        """The layers before hop `index` + 1: normalisation, dropout, SELU."""
        return F.selu(self.dropout(self.norms[index](h), masks))
