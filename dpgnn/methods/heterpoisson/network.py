"""HeterPoisson's network of one hop: the mean over a root and its neighbours, beside the root's own row."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from dpgnn.models.network import (
    Add,
    Aggregate,
    Keep,
    Linear,
    Network,
    NetworkConfig,
    Operation,
    RowWise,
)

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.methods.heterpoisson.options import HeterPoissonConfig
    from dpgnn.models.forward import LinearRule


def network_of(config: HeterPoissonConfig, graph: Graph) -> Network:
    """The operations: mean, ELU, standardised, ELU; a linear layer; ELU of it beside the root's row; classes.

    The last standardisation is over the root's own row. If features are narrower than the hidden layer, the
    root's row is padded with zeros; otherwise the same linear layer reads it, which equals one layer on the
    sum.
    """
    width, features = config.width, graph.num_features
    tape: list[Operation] = [
        Keep(source=0, hop=1),  # value 1
        Aggregate(source=0, hop=1),  # value 2
        RowWise(sources=(2,), function=squashed),  # value 3
    ]
    layer = partial(Linear, name="encoder.0", group="encoder", num_out=width, bias=True)
    if features < width:
        tape += [
            layer(source=3, num_in=features),  # 4
            RowWise(sources=(1,), function=partial(filled, width=width)),  # 5
            Add(left=4, right=5),  # 6
        ]
    else:
        tape += [Add(left=3, right=1), layer(source=4, num_in=features)]  # 4, 5
    hidden = len(tape)
    tape += [
        RowWise(sources=(hidden,), function=standard_elu),
        Linear(
            name="decoder.0", group="decoder", source=hidden + 1, num_in=width,
            num_out=graph.num_classes, bias=True,
        ),
    ]  # fmt: skip
    sizes = NetworkConfig(
        num_features=features, num_outputs=graph.num_classes, width=width, encoder_layers=0,
        num_hops=1, decoder_layers=1, conv="gcn", task=graph.task,
    )  # fmt: skip
    return Network(sizes, tape)


def squashed(mean: Tensor) -> Tensor:
    """ELU, standardisation of each row, ELU."""
    return F.elu(standardized(F.elu(mean)))


def standard_elu(h: Tensor) -> Tensor:
    """ELU, then standardisation of each row."""
    return standardized(F.elu(h))


def standardized(h: Tensor) -> Tensor:
    """Each row minus its mean, divided by its deviation."""
    return F.layer_norm(h, (h.shape[-1],))


def root_of(variance: Tensor) -> Tensor:
    """The square root, >= 0; constant at 0, where its derivative is infinite."""
    flat = variance == 0
    return variance.masked_fill(flat, 1.0).sqrt().masked_fill(flat, 0.0)


def filled(x: Tensor, *, width: int) -> Tensor:
    """Rows padded with zeros."""
    return F.pad(x, (0, width - x.shape[-1]))


def padded_logits(
    config: HeterPoissonConfig,
    network: Network,
    linear: LinearRule,
    rows: Tensor,
    counts: Tensor,
    missing: Tensor,
) -> Tensor:
    """The published network on padded examples; its statistics include the padding rows.

    Args:
        linear: a W + b of a layer.
        rows: (num_rows, num_features); examples stand one after another, each with its root first and one
            row of zeros last, which stands for all its padding.
        counts: (num_examples,), rows of an example there.
        missing: (num_examples,), how many rows of padding it has.

    Returns:
        shape (num_examples, num_outputs): of the roots.
    """
    encoder, decoder = network.linears
    owner = torch.repeat_interleave(counts, output_size=len(rows))
    last = counts.cumsum(0) - 1
    first = last - counts + 1

    def total(values: Tensor) -> Tensor:
        return values.new_zeros(len(counts), *values.shape[1:]).index_add(0, owner, values)

    mean = squashed(total(rows) / (counts - 1)[:, None])
    if rows.shape[-1] < config.width:
        h = linear(encoder, mean)[owner] + filled(rows, width=config.width)
    else:  # the same layer reads both
        h = linear(encoder, mean[owner] + rows)
    h = F.elu(h)
    roots = h[first]
    if config.padding:
        times = torch.ones_like(rows[:, 0]).index_copy(0, last, missing.to(rows.dtype))
        size = total(times) * config.width
        middle = total(times * h.sum(1)) / size
        deviation = root_of(total(times * (h - middle[owner, None]).square().sum(1)) / size)
    else:
        middle, deviation = roots.mean(1), roots.std(1, unbiased=False)
    return linear(decoder, (roots - middle[:, None]) / (deviation[:, None] + 1e-5))
