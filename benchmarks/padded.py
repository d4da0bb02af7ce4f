"""The ordinary way: every tree padded to one size, dense adjacency, torch.func for per-root gradients.

A second route to the clipped sum that shares no ragged layout and no norm with the engine, and the naive
side of the benchmarks. Rows stand in order of distance, so each hop keeps a prefix of the padded rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.func import grad, vmap

from dpgnn.models.forward import activation, per_root_loss
from dpgnn.models.network import (
    Activate,
    Add,
    Aggregate,
    Attend,
    Keep,
    Linear,
    Network,
    RowWise,
)
from dpgnn.models.trees import Trees
from dpgnn.training.clipping import Clipping


def pad(trees: Trees, roots: np.ndarray, size: int) -> tuple[np.ndarray, Tensor]:
    """Rows and dense adjacency of trees padded to `size` rows.

    Returns:
        node: int64, shape (num_roots, size); padding repeats the root.
        adjacency: float32, shape (num_roots, size, size); entry [target, source].
    """
    node = np.repeat(trees.node[trees.row_ptr[roots]][:, None], size, axis=1)
    adjacency = np.zeros((len(roots), size, size), dtype=np.float32)
    for i, root in enumerate(roots):
        first, last = trees.row_ptr[root], trees.row_ptr[root + 1]
        node[i, : last - first] = trees.node[first:last]
        for t in range(last - first):
            entries = slice(trees.entry_ptr[first + t], trees.entry_ptr[first + t + 1])
            adjacency[i, t, trees.entry_row[entries]] = trees.entry_weight[entries]
    return node, torch.from_numpy(adjacency)


def padded_logits(
    network: Network,
    parameters: Mapping[str, Tensor],
    x: Tensor,
    adjacency: Tensor,
    sizes: tuple[int, ...],
) -> Tensor:
    """Logits of padded trees.

    Args:
        x: (..., size, num_features); adjacency: (..., size, size).
        sizes: rows kept after hop k; `level_sizes` gives the smallest.

    Returns:
        shape (..., num_outputs): the root's row of the last value.
    """
    values = [x]
    for op in network.operations:
        match op:
            case Linear():
                value = values[op.source] @ parameters[f"{op.name}.weight"]
                value = value + parameters[f"{op.name}.bias"] if op.bias else value
            case Activate():
                value = activation(network.config.activation, values[op.source])
            case Aggregate():
                value = _between(adjacency, sizes, op.hop).to(x.dtype) @ values[op.source]
            case Keep():
                value = values[op.source][..., : sizes[op.hop], :]
            case Add():
                value = values[op.left] + values[op.right]
            case Attend():
                value = _attend(op, values, _between(adjacency, sizes, op.hop))
            case RowWise():
                value = op.function(*(values[source] for source in op.sources))
        values.append(value)
    return values[-1][..., 0, :]


def level_sizes(trees: Trees, roots: np.ndarray) -> tuple[int, ...]:
    """Rows that must be kept after hop k = 0..r so that every root of the batch fits."""
    return tuple(int(size) for size in trees.level_rows[roots].max(axis=0))


def _between(adjacency: Tensor, sizes: tuple[int, ...], hop: int) -> Tensor:
    return adjacency[..., : sizes[hop], : sizes[hop - 1]]


def _attend(op: Attend, values: list[Tensor], adjacency: Tensor) -> Tensor:
    query, key, value = (
        values[i].unflatten(-1, (op.num_heads, -1)).transpose(-2, -3)
        for i in (op.query, op.key, op.value)
    )
    score = query @ key.mT / query.shape[-1] ** 0.5
    # rows that are no target have no entry; -1e30 instead of -inf keeps their unused softmax finite
    score = torch.where(adjacency.unsqueeze(-3) != 0, score, -1e30)
    return (torch.softmax(score, dim=-1) @ value).transpose(-2, -3).flatten(-2)


def vmap_sum(
    network: Network,
    parameters: Tensor,
    x: Tensor,
    adjacency: Tensor,
    y: Tensor,
    clipping: Clipping,
    sizes: tuple[int, ...],
) -> Tensor:
    """The clipped sum of padded trees with per-root gradients from vmap(grad).

    Args:
        parameters: flat; x: (num_roots, size, num_features); adjacency: (num_roots, size, size).
        sizes: see `padded_logits`.
    """

    def loss(named: dict[str, Tensor], features: Tensor, edges: Tensor, label: Tensor) -> Tensor:
        logits = padded_logits(network, named, features, edges, sizes)
        return per_root_loss(network, logits[None], label[None]).sum()

    # named tensors and not views of the flat one: the backward of a view fills a whole flat vector
    named = {name: view.clone() for name, view in network.views(parameters).items()}
    gradients = vmap(grad(loss), in_dims=(None, 0, 0, 0))(named, x, adjacency, y)
    part_of, bounds = clipping.parts(network)
    each = [gradients[name].flatten(1) for name in network.shapes]
    squared = x.new_zeros(len(bounds), len(y))
    for owner, gradient in zip(part_of, each):
        squared[owner] += gradient.square().sum(dim=1)
    factors = torch.clamp(torch.from_numpy(bounds).to(x)[:, None] / squared.sqrt(), max=1.0)
    return torch.cat([factors[owner] @ gradient for owner, gradient in zip(part_of, each)])
