"""A network as data: a short list of operations on the rows of each root's tree.

Encoder, r hops of aggregation, decoder; every trainable part is a `Linear`, and every row it sees belongs
to exactly one root. So the gradient of one root is a sum of a_t^T g_t over its own rows (inputs a, output
gradients g), never a mixture over roots, which is all that the clipping engine needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from dpgnn.core.checks import at_least, one_of, require
from dpgnn.data.graph import TASKS, Task

Conv = Literal["gcn", "gin", "sage", "gat", "symmetric", "weighted"]
CONVS = ("gcn", "gin", "sage", "gat", "symmetric", "weighted")
ActivationName = Literal["relu", "tanh", "selu"]
ACTIVATIONS = ("relu", "tanh", "selu")
GROUPS = ("encoder", "aggregation", "decoder")
MIXING_NORMALIZATIONS = (
    "batch", "batch_norm", "graph_norm", "instance_norm", "pair_norm", "mean_subtraction",
)  # fmt: skip

SELU_SCALE = 1.0507009873554805
SELU_ALPHA = 1.6732632423543772


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """The configuration of a network.

    Attributes:
        num_features: columns of x.
        num_outputs: classes or labels.
        width: units of each hidden layer (and of a hop's state).
        encoder_layers: layers before the first hop; with 0, the first hop reads x itself.
        num_hops: message-passing depth r; 0 is a plain MLP.
        decoder_layers: layers after the last hop, including the output layer; with 0, the last hop's update
            is the output layer, without activation.
        conv: gcn (mean over the node and its in-neighbours), gin (sum, two-layer update), sage (own state
            and mean of neighbours, one matrix each), gat (dot-product attention), symmetric
            (D^-1/2 (A+I) D^-1/2), weighted (one weighted sum of the rows' logits, after the decoder).
        skip: add the aggregate to the update, h = act(W a + b) + a.
        bias: whether the linear layers, including attention projections, have one.
        activation: relu, tanh or selu.
        task: multiclass (softmax cross-entropy) or multilabel (binary cross-entropy, mean over labels).
        num_heads, head_width: attention heads and units of each.
        normalization: "none"; all others mix roots and are refused.
    """

    num_features: int
    num_outputs: int
    width: int = 256
    encoder_layers: int = 1
    num_hops: int = 1
    decoder_layers: int = 1
    conv: Conv = "gcn"
    skip: bool = False
    bias: bool = True
    activation: ActivationName = "relu"
    task: Task = "multiclass"
    num_heads: int = 10
    head_width: int = 25
    normalization: str = "none"

    def __post_init__(self) -> None:
        for name in ("num_features", "num_outputs", "width", "num_heads", "head_width"):
            at_least(name, getattr(self, name), 1)
        for name in ("encoder_layers", "num_hops", "decoder_layers"):
            at_least(name, getattr(self, name), 0)
        one_of("conv", self.conv, CONVS)
        one_of("activation", self.activation, ACTIVATIONS)
        one_of("task", self.task, TASKS)
        refuse_mixing(self.normalization)
        if self.conv == "weighted":
            require(self.num_hops <= 1, "num_hops", "be 0 or 1 with conv weighted", self.num_hops)
        trainable_hops = self.num_hops if self.conv != "weighted" else 0
        require(
            self.decoder_layers > 0 or trainable_hops > 0,
            "decoder_layers",
            "be >= 1 where no hop has a layer of its own",
            self.decoder_layers,
        )
        if self.skip and trainable_hops:
            ok = self.encoder_layers > 0 or self.num_features == self.width
            require(ok, "skip", "be false where encoder_layers is 0", self.skip)
            require(self.decoder_layers > 0, "skip", "be false where decoder_layers is 0", True)


def refuse_mixing(normalization: str) -> None:
    """Refuse a layer that lets one root's data enter another root's gradient.

    Raises:
        ValueError: names the layer.
    """
    if normalization in MIXING_NORMALIZATIONS:
        raise ValueError(
            f"normalization must not mix roots, got {normalization!r}: its statistics run over the rows "
            "of a whole batch, so one record would move every clipped gradient; use 'none'"
        )
    require(normalization == "none", "normalization", "be 'none'", normalization)


@dataclass(frozen=True, kw_only=True)
class Linear:
    """h = a W + b; W has shape (num_in, num_out)."""

    name: str
    group: str
    source: int
    num_in: int
    num_out: int
    bias: bool


@dataclass(frozen=True, kw_only=True)
class Activate:
    """The network's activation, entry by entry."""

    source: int


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """Weighted sum over each target row's list of rows; hop k maps level k-1 to level k."""

    source: int
    hop: int


@dataclass(frozen=True, kw_only=True)
class Keep:
    """The rows of level hop-1 that are also rows of level hop."""

    source: int
    hop: int


@dataclass(frozen=True, kw_only=True)
class Add:
    """Sum of two values of one level."""

    left: int
    right: int


@dataclass(frozen=True, kw_only=True)
class Attend:
    """Dot-product attention of each target row over its list of rows, heads side by side."""

    query: int
    key: int
    value: int
    hop: int
    num_heads: int


@dataclass(frozen=True, kw_only=True)
class RowWise:
    """A fixed row-wise function of values of one level, without weights.

    Attributes:
        sources: values it reads.
        function: tensors (num_rows, width of the source) -> (num_rows, any width); row i of the result
            depends only on row i of each.
    """

    sources: tuple[int, ...]
    function: Callable[..., Tensor]


Operation: TypeAlias = Linear | Activate | Aggregate | Keep | Add | Attend | RowWise


class Network:
    """The operations of a configuration, in order; value 0 is the input, value i+1 is operation i's.

    Args:
        operations: operations of another network, with the sizes, task and activation of `config`; None
            builds those of `config`.

    Attributes:
        config: of the network.
        operations: in order.
    """

    def __init__(
        self, config: NetworkConfig, operations: Sequence[Operation] | None = None
    ) -> None:
        self.config = config
        self.operations: list[Operation] = list(operations or ())
        if operations is None:
            _Builder(self).build()

    @cached_property
    def linears(self) -> tuple[Linear, ...]:
        """The trainable operations, in order."""
        return tuple(op for op in self.operations if isinstance(op, Linear))

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every parameter tensor, by name, in the order of the flat vector."""
        shapes: dict[str, tuple[int, ...]] = {}
        for op in self.linears:
            shapes[f"{op.name}.weight"] = (op.num_in, op.num_out)
            if op.bias:
                shapes[f"{op.name}.bias"] = (op.num_out,)
        return shapes

    @cached_property
    def groups(self) -> dict[str, str]:
        """Parameter name -> clipping group (encoder, aggregation, decoder)."""
        by_layer = {op.name: op.group for op in self.linears}
        return {name: by_layer[name.rsplit(".", 1)[0]] for name in self.shapes}

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """Level of each value: the number of hops before it; value 0 is the input."""
        levels = [0]
        for op in self.operations:
            if isinstance(op, (Aggregate, Keep, Attend)):
                levels.append(op.hop)
            elif isinstance(op, RowWise):
                levels.append(levels[op.sources[0]])
            else:
                levels.append(levels[op.left if isinstance(op, Add) else op.source])
        return tuple(levels)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of entries of every parameter tensor, in the order of the flat vector."""
        return tuple(math.prod(shape) for shape in self.shapes.values())

    @cached_property
    def num_parameters(self) -> int:
        """Length of the flat parameter vector."""
        return sum(self.sizes)

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """Named views into a flat vector of shape (num_parameters,)."""
        require(
            flat.shape == (self.num_parameters,),
            "flat",
            f"have shape ({self.num_parameters},)",
            tuple(flat.shape),
        )
        pieces = flat.split(self.sizes)
        return {
            name: piece.view(shape) for (name, shape), piece in zip(self.shapes.items(), pieces)
        }

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """Named float32 copies on the CPU of a flat vector, for release, storage and evaluation."""
        views = self.views(flat.detach().to("cpu", torch.float32))
        return {name: value.clone() for name, value in views.items()}

    def flatten(self, named: dict[str, Tensor]) -> Tensor:
        """One flat vector (a copy) from named tensors.

        Raises:
            ValueError: a name is missing or unknown, or a shape differs.
        """
        require(
            set(named) == set(self.shapes), "parameters", f"be {list(self.shapes)}", sorted(named)
        )
        for name, shape in self.shapes.items():
            require(
                tuple(named[name].shape) == shape, f"parameter {name}", f"have shape {shape}",
                tuple(named[name].shape),
            )  # fmt: skip
        return torch.cat([named[name].reshape(-1) for name in self.shapes])

    def initial(self, *, rng: np.random.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        """LeCun normal weights (truncated at two deviations, as in Flax) and zero biases.

        Args:
            rng: the stream `weights`.
            dtype: of the returned vector; the draw itself does not depend on it.

        Returns:
            flat, shape (num_parameters,).
        """
        from scipy.special import ndtr, ndtri

        low, high = ndtr(-2.0), ndtr(2.0)
        parts = []
        for shape in self.shapes.values():
            if len(shape) == 1:
                parts.append(np.zeros(shape))
                continue
            normal = ndtri(rng.uniform(low, high, size=shape))
            # 0.8796... is the deviation of a standard normal truncated at +-2
            parts.append((normal * (np.sqrt(1.0 / shape[0]) / 0.87962566103423978)).ravel())
        return torch.from_numpy(np.concatenate(parts)).to(dtype)


class _Builder:
    """Appends operations to a network; `here` is the value the next one reads."""

    def __init__(self, network: Network) -> None:
        self.network, self.config, self.here = network, network.config, 0

    def put(self, op: Operation) -> int:
        self.network.operations.append(op)
        self.here = len(self.network.operations)
        return self.here

    def linear(self, name: str, group: str, num_in: int, num_out: int, source: int) -> int:
        layer = Linear(
            name=name, group=group, source=source, num_in=num_in, num_out=num_out,
            bias=self.config.bias,
        )  # fmt: skip
        return self.put(layer)

    def activate(self) -> int:
        return self.put(Activate(source=self.here))

    def build(self) -> None:
        config = self.config
        trainable_hops = config.num_hops if config.conv != "weighted" else 0
        width = config.num_features
        for layer in range(config.encoder_layers):
            self.linear(f"encoder.{layer}", "encoder", width, config.width, self.here)
            self.activate()
            width = config.width
        for hop in range(1, trainable_hops + 1):
            last = hop == trainable_hops and config.decoder_layers == 0
            out = config.num_outputs if last else config.width
            self.hop(hop, width, out, activated=not last)
            width = out
        for layer in range(config.decoder_layers):
            last = layer == config.decoder_layers - 1
            out = config.num_outputs if last else config.width
            self.linear(f"decoder.{layer}", "decoder", width, out, self.here)
            if not last:
                self.activate()
            width = out
        if config.conv == "weighted" and config.num_hops:
            self.put(Aggregate(source=self.here, hop=1))

    def hop(self, hop: int, width: int, out: int, *, activated: bool) -> None:
        """One hop of message passing: aggregate, update, skip."""
        config, before, name = self.config, self.here, f"hop.{hop - 1}"
        if config.conv == "sage":
            own = self.put(Keep(source=before, hop=hop))
            mean = self.put(Aggregate(source=before, hop=hop))
            left = self.linear(f"{name}.own", "aggregation", width, out, own)
            right = self.linear(f"{name}.neighbours", "aggregation", width, out, mean)
            aggregate = own
            self.put(Add(left=left, right=right))
        elif config.conv == "gat":
            inner = config.num_heads * config.head_width
            aggregate = self.put(Keep(source=before, hop=hop))
            query = self.linear(f"{name}.query", "aggregation", width, inner, aggregate)
            key = self.linear(f"{name}.key", "aggregation", width, inner, before)
            value = self.linear(f"{name}.value", "aggregation", width, inner, before)
            heads = Attend(query=query, key=key, value=value, hop=hop, num_heads=config.num_heads)
            mixed = self.put(heads)
            self.linear(f"{name}.update", "aggregation", inner, out, mixed)
        else:
            aggregate = self.put(Aggregate(source=before, hop=hop))
            if config.conv == "gin":
                self.linear(f"{name}.first", "aggregation", width, config.width, aggregate)
                self.activate()
                self.linear(f"{name}.second", "aggregation", config.width, out, self.here)
            else:
                self.linear(f"{name}.update", "aggregation", width, out, aggregate)
        if activated:
            self.activate()
        if config.skip:
            self.put(Add(left=self.here, right=aggregate))
