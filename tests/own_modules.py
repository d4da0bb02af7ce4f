"""Modules as a user writes them: right ones, of PyG's layers, and ones that may not be trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

DEGREES = torch.tensor([2, 5, 3, 1, 1])


def mlp(num_in: int, num_out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(num_in, num_out), nn.ReLU(), nn.Linear(num_out, num_out))


CONVS: dict[str, Callable[[int, int], nn.Module]] = {
    "GCNConv": pyg.GCNConv,
    "SAGEConv": pyg.SAGEConv,
    "GINConv": lambda i, o: pyg.GINConv(mlp(i, o), train_eps=True),
    "GATConv": lambda i, o: pyg.GATConv(i, o, heads=2, concat=False),
    "GATv2Conv": lambda i, o: pyg.GATv2Conv(i, o, heads=2, concat=False, residual=True),
    "PNAConv": lambda i, o: pyg.PNAConv(
        i, o, ["mean", "max", "std"], ["identity", "amplification"], DEGREES
    ),
    "TransformerConv": lambda i, o: pyg.TransformerConv(i, o, heads=2, concat=False, beta=True),
}


class OneHop(nn.Module):
    """Encoder, one convolution, decoder."""

    def __init__(self, num_features: int, num_classes: int, conv: str = "GCNConv") -> None:
        super().__init__()
        self.encode = nn.Linear(num_features, 6)
        self.conv = CONVS[conv](6, 5)
        self.decode = nn.Linear(5, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = torch.tanh(self.encode(x))
        return self.decode(torch.tanh(self.conv(h, edge_index)))


class TwoHops(nn.Module):
    """Two convolutions."""

    def __init__(self, num_features: int, num_classes: int, conv: str = "GCNConv") -> None:
        super().__init__()
        self.first = CONVS[conv](num_features, 6)
        self.second = CONVS[conv](6, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x, edge_index)), edge_index)


class GATv2(nn.Module):
    """As in the page on own networks."""

    def __init__(
        self, num_features: int, num_classes: int, hidden: int = 8, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.conv = pyg.GATv2Conv(num_features, hidden, heads=2, dropout=dropout)
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(2 * hidden, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.out(self.drop(torch.tanh(self.conv(x, edge_index))))


class RootOnly(nn.Module):
    """Returns the root's logits alone."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.conv = pyg.SAGEConv(num_features, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index)[0]


class Shared(nn.Module):
    """One matrix twice, a matrix product by hand, a scale of its own, a layer norm with weights."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(num_features, 6) / 3)
        self.twice, self.norm = nn.Linear(6, 6), nn.LayerNorm(6)
        self.log_scale = nn.Parameter(torch.zeros(6))
        self.conv = pyg.SimpleConv(aggr="mean", combine_root="sum")
        self.out = nn.Linear(6, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = torch.tanh(self.twice(x @ self.weight))
        h = self.norm(self.conv(torch.tanh(self.twice(h)), edge_index))
        return self.out(h * self.log_scale.exp())


class With(nn.Module):
    """A convolution with another layer behind it."""

    def __init__(self, layer: nn.Module, **named: Any) -> None:
        super().__init__()
        self.conv, self.layer = pyg.GCNConv(7, 6, **named), layer
        self.out = nn.Linear(6, 4)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.out(self.layer(self.conv(x, edge_index)))


class Centre(nn.Module):
    """Takes off the mean of all rows."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class TorchNoise(nn.Module):
    """Draws from torch's global generator."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randn_like(x)


class NumpyNoise(nn.Module):
    """Draws from numpy's global generator."""

    def forward(self, x: Tensor) -> Tensor:
        noise = np.random.random(tuple(x.shape))  # noqa: NPY002 that is what is wrong with it
        return x + torch.from_numpy(noise).to(x)


class RunningMean(nn.Module):
    """Keeps a mean from call to call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        self.mean = 0.9 * self.mean + x.mean(0).detach()
        return x


class Counter(nn.Module):
    """Counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


class Holder(nn.Module):
    """Holds a row for every node."""

    def __init__(self, num_nodes: int) -> None:
        super().__init__()
        self.everyone = torch.zeros(num_nodes, 2)

    def forward(self, x: Tensor) -> Tensor:
        return x


class Arcs(nn.Module):
    """Holds a list of edges."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("arcs", torch.zeros(2, 5, dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        return x


EVERYONE = torch.zeros(77, 3)


class Reader(nn.Module):
    """Reads a global tensor with a row for every node."""

    def forward(self, x: Tensor) -> Tensor:
        return x + EVERYONE.sum()


class ClassHolder(nn.Module):
    """Its class holds a row for every node."""

    everyone = torch.zeros(77, 3)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.everyone.sum()


class Defaults(nn.Module):
    """Its forward has a tensor with a row for every node as a default."""

    def forward(self, x: Tensor, everyone: Tensor = EVERYONE) -> Tensor:
        return x + everyone.sum()


class ClipsItself(nn.Module):
    """Clips its own layer's gradient in a hook, at the median of the norms that it has seen.

    The norms of earlier roots decide how a later one is clipped.
    """

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.conv, self.out = pyg.SAGEConv(num_features, 6), nn.Linear(6, num_classes)
        self.norms: list[float] = []

    def _clip(self, gradient: Tensor) -> Tensor:
        self.norms.append(float(gradient.detach().norm()))
        return gradient * min(1.0, float(np.median(self.norms)) / max(self.norms[-1], 1e-12))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = torch.tanh(self.conv(x, edge_index))
        if h.requires_grad:
            h.register_hook(self._clip)
        return self.out(h)


class OfBatch(nn.Module):
    """Its forward depends on the size of the batch, in chunks larger than `limit` alone.

    Args:
        what: edges (reads at most so many), places (adds 1 to later rows), size (doubles in larger chunks),
            backward (doubles gradients in larger chunks).
        limit: rows or edges.
    """

    def __init__(self, what: str, limit: int) -> None:
        super().__init__()
        self.conv, self.out = pyg.SAGEConv(7, 8), nn.Linear(8, 4)
        self.what, self.limit = what, limit

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if self.what == "edges":
            edge_index = edge_index[:, : self.limit]
        if self.what == "places":
            x = x + (torch.arange(len(x)) >= self.limit).to(x)[:, None]
        h = torch.tanh(self.conv(x, edge_index))
        large = len(x) > self.limit
        if self.what == "backward" and large and h.requires_grad:
            h.register_hook(lambda gradient: 2.0 * gradient)
        return self.out(h) * (2.0 if self.what == "size" and large else 1.0)


class WritesInAnswers(nn.Module):
    """Keeps a mean of rows when it answers; with `least`, only where there are many rows."""

    def __init__(self, num_features: int, num_classes: int, least: int = 0) -> None:
        super().__init__()
        self.conv, self.out = pyg.SAGEConv(num_features, 6), nn.Linear(6, num_classes)
        self.least = least
        self.register_buffer("last", torch.zeros(6))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = torch.tanh(self.conv(x, edge_index))
        if not self.training and len(x) > self.least:
            self.last.copy_(h.detach().mean(0))
        return self.out(h)


class Frozen(nn.Module):
    """A table that is not trained."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = nn.Embedding.from_pretrained(table)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table.weight.sum()


class BySize:
    """Keeps degrees by the size of a tree."""

    def __init__(self) -> None:
        self.kept: dict[tuple[int, int], Tensor] = {}

    def degrees(self, x: Tensor, edge_index: Tensor) -> Tensor:
        size = len(x), edge_index.shape[1]
        if size not in self.kept:
            self.kept[size] = torch.bincount(edge_index[1], minlength=len(x)).double()
        return self.kept[size]


class Remembers(nn.Module):
    """Reads degrees that an object of its own keeps."""

    def __init__(self, num_features: int = 7, num_classes: int = 4) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(num_features, 6), nn.Linear(6, num_classes)
        self.memory = BySize()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.inner(x)
        sums = h.index_add(0, edge_index[1], h[edge_index[0]])
        scale = 1 / (1 + self.memory.degrees(x, edge_index).to(h.dtype))
        return self.out(torch.tanh(sums * scale[:, None]))


class Checkpointed(nn.Module):
    """Computes a part again in the backward pass."""

    def __init__(self, num_features: int = 7, num_classes: int = 4) -> None:
        super().__init__()
        self.conv, self.out = pyg.SAGEConv(num_features, 6), nn.Linear(6, num_classes)
        self.part = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = torch.tanh(self.conv(x, edge_index))
        h = checkpoint(self.part, h, use_reentrant=False)
        return self.out(torch.dropout(torch.tanh(h), 0.3, self.training))[0]


class Half(nn.Module):
    """Computes in half precision inside forward."""

    def __init__(self, num_features: int = 7, num_classes: int = 4) -> None:
        super().__init__()
        self.conv, self.out = pyg.SAGEConv(num_features, 6), nn.Linear(6, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.float16):
            return self.out(torch.tanh(self.conv(x, edge_index)))


class SkipsLoneRoots(nn.Module):
    """Takes another course where there is no edge."""

    def __init__(self, num_features: int = 7, num_classes: int = 4) -> None:
        super().__init__()
        self.near, self.own = nn.Linear(num_features, 6), nn.Linear(num_features, 6)
        self.out = nn.Linear(6, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.own(x)
        if edge_index.shape[1]:
            h = h.index_add(0, edge_index[1], self.near(x[edge_index[0]]))
        return self.out(torch.tanh(h))


class DegreeTable(nn.Module):
    """A row of a table for each degree; fails where a degree is larger."""

    def __init__(self, num_features: int = 7, num_classes: int = 4) -> None:
        super().__init__()
        self.table, self.own = nn.Embedding(12, 6), nn.Linear(num_features, 6)
        self.out = nn.Linear(6, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        degrees = torch.bincount(edge_index[1], minlength=len(x))
        return self.out(torch.tanh(self.own(x) + self.table(degrees)))


class DropsEdges(nn.Module):
    """Draws from torch's generator where there are many edges, beside dropout."""

    def __init__(self, num_features: int = 7, num_classes: int = 4) -> None:
        super().__init__()
        self.conv, self.out = pyg.SAGEConv(num_features, 6), nn.Linear(6, num_classes)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if self.training and len(x) > 9 and edge_index.shape[1] > 9:
            edge_index = edge_index[:, torch.randperm(edge_index.shape[1])[:9]]
        return self.out(self.dropout(torch.tanh(self.conv(x, edge_index)))[0])


class Tied(nn.Module):
    """One matrix under two names."""

    def __init__(self, num_features: int = 7, num_classes: int = 4) -> None:
        super().__init__()
        self.first = nn.Linear(num_features, num_features)
        self.second = nn.Linear(num_features, num_features)
        self.second.weight = self.first.weight
        self.out = nn.Linear(num_features, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.first(x)
        return self.out(self.second(torch.tanh(h.index_add(0, edge_index[1], h[edge_index[0]]))))


class Scaled(nn.Module):
    """Answers times a number that is no tensor."""

    def __init__(self, num_features: int, num_classes: int, factor: float) -> None:
        super().__init__()
        self.inner, self.factor = nn.Linear(num_features, num_classes), factor

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.factor * self.inner(x)
