"""Evaluate a network with torch: on the trees of some roots, or on a whole graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dpgnn.core.checks import require
from dpgnn.models.network import (
    Activate,
    Add,
    Aggregate,
    Attend,
    Conv,
    Keep,
    Linear,
    Network,
    Operation,
    RowWise,
)
from dpgnn.models.trees import graph_lists

LinearRule = Callable[[Linear, Tensor], Tensor]


class Layout(Protocol):
    """How rows relate at each hop; hop k maps rows of level k-1 to rows of level k."""

    def keep(self, hop: int, h: Tensor) -> Tensor:
        """Rows of level hop-1 that are also rows of level hop."""

    def aggregate(self, hop: int, h: Tensor) -> Tensor:
        """Weighted sum over each target's entries."""

    def entries(self, hop: int) -> tuple[Tensor, Tensor, int]:
        """Entries as (target row, source row), ascending targets, and the number of targets."""


def evaluate(
    network: Network,
    parameters: Mapping[str, Tensor],
    layout: Layout,
    inputs: Tensor,
    linear: LinearRule | None = None,
) -> Tensor:
    """Run the network's operations in order and return the last value, the logits.

    Args:
        network: its operations.
        parameters: named tensors as given by `Network.views`.
        inputs: shape (rows of level 0, num_features); dense, or sparse CSR where a Linear reads it.
        layout: how rows relate at each hop.
        linear: replaces a W + b; the clipping engine records inputs and outputs with it.

    Returns:
        shape (rows of the last level, num_outputs), in the dtype of the inputs.
    """
    return _go_on(network, layout, [inputs], linear or partial(plain_linear, parameters))


def _go_on(
    network: Network,
    layout: Layout,
    values: list[Tensor],
    linear: LinearRule,
    stop: int | None = None,
) -> Tensor:
    """Append the values of the remaining operations, up to `stop`; returns the last one."""
    for op in network.operations[len(values) - 1 : stop]:
        match op:
            case Linear():
                value = linear(op, values[op.source])
            case Activate():
                value = activation(network.config.activation, values[op.source])
            case Aggregate():
                value = layout.aggregate(op.hop, values[op.source])
            case Keep():
                value = layout.keep(op.hop, values[op.source])
            case Add():
                value = values[op.left] + values[op.right]
            case Attend():
                value = _attend(op, layout, values)
            case RowWise():
                value = op.function(*(values[source] for source in op.sources))
        values.append(value)
    return values[-1]


def plain_linear(parameters: Mapping[str, Tensor], op: Linear, a: Tensor) -> Tensor:
    """a W + b, a dense or sparse CSR."""
    weight = parameters[f"{op.name}.weight"]
    if a.layout == torch.sparse_csr:
        product = a @ weight
        return product + parameters[f"{op.name}.bias"] if op.bias else product
    if op.bias:
        return torch.addmm(parameters[f"{op.name}.bias"], a, weight)
    return a @ weight


def activation(name: str, h: Tensor) -> Tensor:
    """relu, tanh or selu, entry by entry."""
    if name == "relu":
        return torch.relu(h)
    return torch.tanh(h) if name == "tanh" else F.selu(h)


def per_root_loss(network: Network, logits: Tensor, y: Tensor) -> Tensor:
    """Each root's loss: softmax cross-entropy, or binary cross-entropy, mean over labels.

    Args:
        logits: (num_roots, num_outputs).
        y: int64 (num_roots,), or float (num_roots, num_labels).

    Returns:
        shape (num_roots,), nats; sensitive.
    """
    if network.config.task == "multiclass":
        return F.cross_entropy(logits, y, reduction="none")
    target = y.to(logits.dtype)
    return F.binary_cross_entropy_with_logits(logits, target, reduction="none").mean(dim=1)


class SumRows(torch.autograd.Function):
    """out[target] += weight * h[source]: keeps no copy of the gathered rows for the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, target: Tensor, source: Tensor, weight: Tensor, num_targets: int
    ) -> Tensor:
        ctx.save_for_backward(target, source, weight)
        ctx.num_sources = h.shape[0]
        out = h.new_zeros(num_targets, h.shape[1])
        return out.index_add_(0, target, h.index_select(0, source).mul_(weight[:, None]))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None]:
        target, source, weight = ctx.saved_tensors
        spread = grads[0].index_select(0, target).mul_(weight[:, None])
        back = grads[0].new_zeros(ctx.num_sources, grads[0].shape[1])
        return back.index_add_(0, source, spread), None, None, None, None


def _attend(op: Attend, layout: Layout, values: list[Tensor]) -> Tensor:
    """Softmax over each target's entries of q.k / sqrt(head width), head by head."""
    target, source, num_targets = layout.entries(op.hop)
    heads = (op.num_heads, values[op.query].shape[1] // op.num_heads)
    query, key, value = (values[i].unflatten(1, heads) for i in (op.query, op.key, op.value))
    score = (query[target] * key[source]).sum(dim=2) / heads[1] ** 0.5
    index = target[:, None].expand_as(score)
    lowest = score.new_full((num_targets, heads[0]), -torch.inf)
    # the maximum cancels in the softmax, so no gradient flows through it
    highest = lowest.scatter_reduce(0, index, score.detach(), "amax", include_self=True)
    exponent = torch.exp(score - highest[target])
    total = exponent.new_zeros(num_targets, heads[0]).index_add(0, target, exponent)
    share = exponent / total[target]
    mixed = value.new_zeros(num_targets, *heads).index_add(
        0, target, value[source] * share[:, :, None]
    )
    return mixed.flatten(1)


@dataclass(frozen=True, kw_only=True, eq=False)
class GraphLayout:
    """Every level is the whole graph; made once per graph by `graph_layout`."""

    entry_ptr: Tensor
    entry_row: Tensor
    entry_weight: Tensor

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.entry_ptr.shape[0] - 1

    def keep(self, hop: int, h: Tensor) -> Tensor:
        """Every row stays."""
        return h

    def aggregate(self, hop: int, h: Tensor) -> Tensor:
        """One sparse product."""
        shape = (self.num_nodes, self.num_nodes)
        weight = self.entry_weight.to(h.dtype)
        return _csr(self.entry_ptr, self.entry_row, weight, shape) @ h

    def entries(self, hop: int) -> tuple[Tensor, Tensor, int]:
        """All entries of the graph."""
        counts = self.entry_ptr.diff()
        target = torch.repeat_interleave(torch.arange(self.num_nodes, device=counts.device), counts)
        return target, self.entry_row, self.num_nodes


def graph_layout(
    edge_index: np.ndarray, num_nodes: int, conv: Conv, device: str | torch.device = "cpu"
) -> GraphLayout:
    """The layout of a whole graph, every level of which is all nodes.

    Args:
        edge_index: int64, shape (2, num_edges); messages go from row 0 to row 1; no self-loops.
        conv: decides entries and weights (see `trees.graph_lists`).
    """
    ptr, row, weight = graph_lists(edge_index, num_nodes, conv)
    return GraphLayout(
        entry_ptr=torch.from_numpy(ptr).to(device),
        entry_row=torch.from_numpy(row).to(device),
        entry_weight=torch.from_numpy(weight).to(device),
    )


def full_graph(
    network: Network, x: Any, edge_index: np.ndarray | None, *, device: str | torch.device = "cpu"
) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """Full-graph inference for many weights: named parameters -> logits of every node.

    Values that do not depend on the weights are computed at the first call and kept.

    Args:
        x: dense float32 array or scipy CSR, shape (num_nodes, num_features).
        edge_index: int64, (2, num_edges); messages go from row 0 to row 1 (training nodes may keep their
            sampled lists while others keep all). Not read where the network has no hop.

    Returns:
        a function to float32, shape (num_nodes, num_outputs), on the CPU. Its values read every node's
        features, so a claim about the weights does not cover them.

    Raises:
        ValueError: the network has a hop and no edge_index is given, or its conv is "weighted".
    """
    config = network.config
    hops = config.num_hops > 0
    require(config.conv != "weighted" or not hops, "conv",
            "be a graph convolution for full-graph inference", config.conv,
            "evaluate the network without its hop and propagate the logits")  # fmt: skip
    rule = "be given for a network with hops"
    require(not hops or edge_index is not None, "edge_index", rule, None)

    @cache
    def ready() -> tuple[GraphLayout, list[Tensor]]:
        edges = edge_index if edge_index is not None else np.zeros((2, 0), dtype=np.int64)
        layout = graph_layout(edges, x.shape[0], config.conv if hops else "gcn", device)
        return layout, _before_weights(network, layout, to_torch(x, device, network))

    @torch.no_grad()
    def logits(parameters: Mapping[str, Tensor]) -> Tensor:
        moved = {name: value.to(device) for name, value in parameters.items()}
        layout, values = ready()
        return _go_on(network, layout, list(values), partial(plain_linear, moved)).cpu()

    return logits


def _before_weights(network: Network, layout: GraphLayout, x: Tensor) -> list[Tensor]:
    """Values before the first weights; values that are not read later are empty."""
    values = [x]
    first = [isinstance(op, Linear) for op in network.operations].index(True)
    _go_on(network, layout, values, _no_weights, first)
    read = {index for op in network.operations[first:] for index in _sources(op)}
    nothing = torch.empty(0)
    return [v if i in read else nothing for i, v in enumerate(values)]


def _sources(op: Operation) -> tuple[int, ...]:
    """Values that an operation reads."""
    if isinstance(op, RowWise):
        return op.sources
    names = ("source", "left", "right", "query", "key", "value")
    return tuple(getattr(op, name) for name in names if hasattr(op, name))


def _no_weights(op: Linear, a: Tensor) -> Tensor:
    raise AssertionError(f"{op.name} has weights")


def full_graph_logits(
    network: Network,
    parameters: Mapping[str, Tensor],
    x: Any,
    edge_index: np.ndarray | None,
    *,
    device: str | torch.device = "cpu",
) -> Tensor:
    """Logits of every node for one set of weights; arguments, result and errors as `full_graph`."""
    return full_graph(network, x, edge_index, device=device)(parameters)


def to_torch(x: Any, device: str | torch.device, network: Network) -> Tensor:
    """Features as torch: CSR stays CSR where a Linear reads it first, else it becomes dense."""
    if isinstance(x, np.ndarray):
        with warnings.catch_warnings():
            # a graph's arrays are read-only; this code does not write, and a copy may not fit into memory
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            return torch.from_numpy(x).to(device)
    if not isinstance(network.operations[0], Linear):
        return torch.from_numpy(x.toarray()).to(device)
    ptr, column = (torch.from_numpy(a.astype(np.int64)) for a in (x.indptr, x.indices))
    values = torch.from_numpy(np.array(x.data))
    return _csr(ptr, column, values, x.shape).to(device)


def _csr(ptr: Tensor, column: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A sparse tensor, without torch's warning that CSR is in beta."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(ptr, column, values, size=shape, check_invariants=False)
