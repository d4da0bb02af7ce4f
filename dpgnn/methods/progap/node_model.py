"""A stage of ProGAP as a network for per-root training, for node-level guarantees.

Every operation acts on each node's row by itself: normalisation is over a row's own entries (group
normalisation with one group, without weights of its own).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from dpgnn.models.forward import activation, plain_linear
from dpgnn.models.network import Activate, Linear, Network, NetworkConfig, Operation, RowWise

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.methods.progap.options import ProgapConfig


def stage_network(
    config: ProgapConfig, widths: Sequence[int], graph: Graph, *, frozen: int = 0
) -> Network:
    """The network of a stage on its channels side by side.

    Args:
        config: widths and layers.
        widths: columns of each channel.
        graph: classes and task.
        frozen: number of first channels that are already embeddings.
    """
    operations: list[Operation] = []

    def put(operation: Operation) -> int:
        operations.append(operation)
        return len(operations)

    firsts = [sum(widths[:channel]) for channel in range(len(widths))]
    embeddings = tuple(
        _put_channel(put, config, channel, first, width, with_base=channel >= frozen)
        for channel, (first, width) in enumerate(zip(firsts, widths))
    )
    here = put(RowWise(sources=embeddings, function=joined))
    width = sum(config.hidden for _ in widths)
    for layer in range(config.head_layers):
        last = layer == config.head_layers - 1
        out = graph.num_classes if last else config.hidden
        name = f"head.{layer}"
        here = put(
            Linear(name=name, group="decoder", source=here, num_in=width, num_out=out, bias=True)
        )
        if not last:
            here = put(Activate(source=here))
        width = out
    sizes = NetworkConfig(
        num_features=sum(widths), num_outputs=graph.num_classes, width=config.hidden, encoder_layers=0,
        num_hops=0, decoder_layers=1, activation="selu", task=graph.task,
    )  # fmt: skip
    return Network(sizes, operations)


def _put_channel(
    put: Callable[[Operation], int],
    config: ProgapConfig,
    channel: int,
    first: int,
    width: int,
    *,
    with_base: bool,
) -> int:
    """Append a channel's columns and its base module, if any; returns the position of its embedding."""
    here = put(RowWise(sources=(0,), function=partial(_columns, first=first, width=width)))
    for op in base_layers(config, channel, width) if with_base else ():
        place = put(replace(op, source=here))
        here = put(RowWise(sources=(place,), function=activated))
    return here


def base_layers(
    config: ProgapConfig, channel: int, width: int, source: int = 0
) -> tuple[Linear, ...]:
    """The linear layers of a channel's base module."""
    return tuple(
        Linear(
            name=f"base.{channel}.{layer}", group="encoder", source=source,
            num_in=width if layer == 0 else config.hidden, num_out=config.hidden, bias=True,
        )
        for layer in range(config.base_layers)
    )  # fmt: skip


def embedded(
    config: ProgapConfig, channel: int, weights: Mapping[str, Tensor], rows: Tensor
) -> Tensor:
    """Output of a channel's base module, row by row."""
    h = rows
    for op in base_layers(config, channel, rows.shape[1]):
        h = activated(plain_linear(weights, op, h))
    return h


def activated(h: Tensor) -> Tensor:
    """SELU, then standardisation of each row."""
    return F.layer_norm(activation("selu", h), (h.shape[-1],))


def joined(*parts: Tensor) -> Tensor:
    """Rows side by side, scaled to norm 1."""
    return F.normalize(torch.cat(parts, dim=-1), dim=-1)


def _columns(x: Tensor, *, first: int, width: int) -> Tensor:
    return x[..., first : first + width]
