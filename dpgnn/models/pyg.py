"""Networks of PyG's layers as in its tutorials: non-private references, and modules for DP-GNN.

Each is a `torch.nn.Module` with `forward(x, edge_index)`: messages go from edge_index[0] to edge_index[1].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch_geometric.nn import GATv2Conv, GCNConv, GINConv, SAGEConv

from dpgnn.models.masks import Masks


class TwoLayers(nn.Module):
    """dropout, convolution, activation, dropout, convolution.

    Args:
        first, second: convolutions.
        dropout: rate.
        activation: relu, elu or tanh.
    """

    def __init__(
        self, first: nn.Module, second: nn.Module, *, dropout: float, activation: str = "relu"
    ) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.dropout, self.activation = dropout, getattr(torch, activation, None) or F.elu

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """float, shape (num_nodes, num_classes): a row of logits for each node."""
        h = F.dropout(x, self.dropout, self.training)
        h = self.activation(self.first(h, edge_index))
        h = F.dropout(h, self.dropout, self.training)
        out: Tensor = self.second(h, edge_index)
        return out


class GCN(TwoLayers):
    """Kipf and Welling (2017), arXiv:1609.02907, by PyG's GCNConv."""

    def __init__(
        self, num_features: int, num_classes: int, hidden: int = 64, dropout: float = 0.5
    ) -> None:
        super().__init__(
            GCNConv(num_features, hidden), GCNConv(hidden, num_classes), dropout=dropout
        )


class SAGE(TwoLayers):
    """Hamilton et al. (2017), arXiv:1706.02216, mean aggregation, by PyG's SAGEConv."""

    def __init__(
        self, num_features: int, num_classes: int, hidden: int = 64, dropout: float = 0.5
    ) -> None:
        super().__init__(
            SAGEConv(num_features, hidden), SAGEConv(hidden, num_classes), dropout=dropout
        )


class GIN(TwoLayers):
    """Xu et al. (2019), arXiv:1810.00826, by PyG's GINConv, without batch normalisation."""

    def __init__(
        self, num_features: int, num_classes: int, hidden: int = 64, dropout: float = 0.5
    ) -> None:
        def update(width: int, out: int) -> nn.Module:
            return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, out))

        super().__init__(
            GINConv(update(num_features, hidden)), GINConv(update(hidden, num_classes)),
            dropout=dropout,
        )  # fmt: skip


class GATv2(TwoLayers):
    """Brody et al. (2022), arXiv:2105.14491, by PyG's GATv2Conv; `hidden` units in `heads` heads."""

    def __init__(
        self, num_features: int, num_classes: int, hidden: int = 64, dropout: float = 0.5,
        heads: int = 8,
    ) -> None:  # fmt: skip
        super().__init__(
            GATv2Conv(num_features, hidden // heads, heads=heads, dropout=dropout),
            GATv2Conv(hidden, num_classes, heads=1, dropout=dropout),
            dropout=dropout, activation="elu",
        )  # fmt: skip


class OneHop(nn.Module):
    """An encoder, one convolution and a decoder, for trees of one hop.

    Args:
        conv: from `hidden` to `hidden` units.
    """

    def __init__(self, num_features: int, num_classes: int, hidden: int, conv: nn.Module) -> None:
        super().__init__()
        self.encode, self.conv = nn.Linear(num_features, hidden), conv
        self.decode = nn.Linear(hidden, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """float, shape (num_nodes, num_classes): a row of logits for each node."""
        h = torch.tanh(self.encode(x))
        out: Tensor = self.decode(torch.tanh(self.conv(h, edge_index)) + h)
        return out


class OneHopSAGE(OneHop):
    """One hop of PyG's SAGEConv."""

    def __init__(self, num_features: int, num_classes: int, hidden: int = 64) -> None:
        super().__init__(num_features, num_classes, hidden, SAGEConv(hidden, hidden))


class OneHopGATv2(OneHop):
    """One hop of PyG's GATv2Conv, `hidden` units in `heads` heads."""

    def __init__(
        self, num_features: int, num_classes: int, hidden: int = 64, heads: int = 4
    ) -> None:
        conv = GATv2Conv(hidden, hidden // heads, heads=heads)
        super().__init__(num_features, num_classes, hidden, conv)


# by the option `network` of the method `pyg`; each takes features, classes, hidden units, dropout
NETWORKS: dict[str, Callable[[int, int, int, float], TwoLayers]] = {
    "gcn": GCN,
    "sage": SAGE,
    "gin": GIN,
    "gatv2": GATv2,
}


class DrawnDropout(TorchFunctionMode):
    """A context in which dropout of any module takes its masks from a stream.

    Args:
        masks: None leaves dropout out.
    """

    def __init__(self, masks: Masks | None) -> None:
        super().__init__()
        self._masks = masks

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Intercept one call of a torch function."""
        if func not in (F.dropout, torch.dropout):
            return func(*args, **(kwargs or {}))

        def drop(
            input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
        ) -> Tensor:
            if self._masks is None or not training or p == 0.0:
                return input
            return input * self._masks.draw(tuple(input.shape), p)

        return drop(*args, **(kwargs or {}))
