"""A stage of ProGAP as a network for per-root training, for node-level guarantees.

Every operation acts on each node's row by itself: normalisation is over a row's own entries (group
normalisation with one group, without weights of its own).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dpgnn.models.forward import activation, plain_linear
from dpgnn.models.network import (
    SELU_ALPHA,
    SELU_SCALE,
    Activate,
    Linear,
    Network,
    NetworkConfig,
    Operation,
    RowWise,
)
from dpgnn.training.products import apply_by_rows, row_products, standardize_rows

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.methods.progap.options import ProgapConfig

# added to the variance of a row
VARIANCE_FLOOR = 1e-5


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


def embedded_by_rows(
    config: ProgapConfig, channel: int, weights: Mapping[str, Tensor], rows: np.ndarray
) -> np.ndarray:
    """As `embedded`, each row by itself, so that its bits do not depend on other nodes; for releases.

    Guarantee: a row is a function of the weights and of the same row of `rows`, to the last bit.

    Args:
        config, channel, weights: as for `embedded`.
        rows: float32 or float64, which is also the type of the result.

    Source: docs/accounting.md, theorem 16.
    """
    h, number = np.ascontiguousarray(rows), rows.dtype.type
    for op in base_layers(config, channel, rows.shape[1]):
        weight, bias = (weights[f"{op.name}.{part}"].numpy() for part in ("weight", "bias"))
        out = np.repeat(bias[None, :], len(h), axis=0)
        row_products(h, np.ascontiguousarray(weight), out)
        apply_by_rows(2, number(SELU_SCALE), number(SELU_ALPHA), out)
        standardize_rows(out, VARIANCE_FLOOR)
        h = out
    return h


def activated(h: Tensor) -> Tensor:
    """SELU, then standardisation of each row."""
    return F.layer_norm(activation("selu", h), (h.shape[-1],), eps=VARIANCE_FLOOR)


def joined(*parts: Tensor) -> Tensor:
    """Rows side by side, scaled to norm 1."""
    return F.normalize(torch.cat(parts, dim=-1), dim=-1)


def _columns(x: Tensor, *, first: int, width: int) -> Tensor:
    return x[..., first : first + width]
