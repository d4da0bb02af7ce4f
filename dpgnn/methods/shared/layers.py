"""Models as sparse products and row-wise layers, a form that an attack can evaluate exactly.

A model is an expression for its logits; all values are float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dpgnn.data.rows import centred_rows, inverse

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.models.network import Network

# (nodes, their rows) -> their rows after a layer that acts on each row by itself
RowMap = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """The features that the model reads.

    Attributes:
        rows: of all nodes, shape (num_nodes, width); CSR or dense.
        encode: raw dense rows -> these rows.
    """

    rows: Any
    encode: RowMap


@dataclass(frozen=True, kw_only=True, eq=False)
class Product:
    """source @ weight."""

    source: Step
    weight: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class Spread:
    """factor (operator @ source): one hop."""

    source: Step
    factor: float = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Offset:
    """source + a public constant: a bias."""

    source: Step
    value: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class Sum:
    """left + weight right."""

    left: Step
    right: Step
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class RowWise:
    """A layer that acts on each row by itself.

    Attributes:
        source: its input.
        layer: may depend on the node's number, like noise of the run.
        exact: whether rounding of a row is independent of the other rows, unlike in a matrix product.
    """

    source: Step
    layer: RowMap
    exact: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Joined:
    """Channels side by side, at the nodes that are answered."""

    sources: tuple[Step, ...]


Step = Features | Product | Spread | Offset | Sum | RowWise | Joined


@dataclass(frozen=True, kw_only=True, eq=False)
class Layers:
    """A fitted model on the graph of its fit.

    Attributes:
        logits: their expression.
        operator: CSR float64, shape (num_nodes, num_nodes): row v has the weights of the nodes that v reads
            in a hop; None without hops.
    """

    logits: Step
    operator: sp.csr_array | None


def normalized_features(x: Any, kind: str) -> Features:
    """Features of `data.rows.normalize_rows` in float64; CSR stays CSR, except for "centred"."""

    def normalize(node: np.ndarray, rows: np.ndarray) -> np.ndarray:
        if kind == "none":
            return rows
        if kind == "centred":
            return centred_rows(rows)
        sizes = np.abs(rows).sum(1) if kind == "l1" else np.linalg.norm(rows, axis=1)
        return rows * inverse(sizes)[:, None]

    if kind == "centred" and sp.issparse(x):
        x = x.toarray()
    if not sp.issparse(x):
        everyone = np.arange(len(x))
        return Features(rows=normalize(everyone, np.asarray(x, np.float64)), encode=normalize)
    rows = sp.csr_array(x).astype(np.float64)
    if kind != "none":
        size = abs(rows).sum(axis=1) if kind == "l1" else np.sqrt(rows.multiply(rows).sum(axis=1))
        rows = sp.csr_array(sp.diags_array(inverse(np.asarray(size).reshape(-1))) @ rows)
    return Features(rows=rows, encode=normalize)


def relu_convolutions(
    state: Mapping[str, Tensor], features: Features, operator: sp.csr_array | None
) -> Layers:
    """A GCN with ReLU between its layers, its weights named layers.0.weight, ...; without operator an MLP."""
    value: Step = features
    depth = 0
    while f"layers.{depth}.weight" in state:
        if depth:
            value = RowWise(source=value, layer=lambda node, rows: np.maximum(rows, 0.0))
        weight, bias = (state[f"layers.{depth}.{n}"].double().numpy() for n in ("weight", "bias"))
        value = Product(source=value, weight=weight.T)
        if operator is not None:
            value = Spread(source=value)
        value = Offset(source=value, value=bias)
        depth += 1
    return Layers(logits=value, operator=operator)


def network_logits(
    network: Network, state: Mapping[str, Tensor], features: Features, *, first_hop: bool = False
) -> Step:
    """Logits of a network that is a list of operations.

    Args:
        network: its operations; without attention.
        state: its weights.
        features: its input.
        first_hop: whether the operator is applied to the features before the first operation, which is
            linear.
    """
    from dpgnn.models import network as tape
    from dpgnn.models.forward import activation

    activate = on_rows(partial(activation, network.config.activation))
    weights = {name: value.double().numpy() for name, value in state.items()}
    values: list[Step] = [features]
    for op in network.operations:
        value: Step
        match op:
            case tape.Linear():
                hop_first = first_hop and op.source == 0
                value = _linear(values[op.source], weights, op.name, op.bias, hop_first)
            case tape.Activate():
                value = RowWise(source=values[op.source], layer=activate)
            case tape.Aggregate():
                value = Spread(source=values[op.source])
            case tape.Add():
                value = Sum(left=values[op.left], right=values[op.right])
            case tape.RowWise():
                (source,) = op.sources
                value = RowWise(source=values[source], layer=on_rows(op.function))
            case _:
                assert isinstance(op, tape.Keep)
                value = values[op.source]
        values.append(value)
    return values[-1]


def on_rows(function: Callable[[Tensor], Tensor]) -> RowMap:
    """A function of tensors as a layer, in float64."""
    import torch

    def layer(node: np.ndarray, rows: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            found = function(torch.from_numpy(np.ascontiguousarray(rows)))
        return np.asarray(found.numpy())

    return layer


def _linear(
    source: Step, weights: Mapping[str, np.ndarray], name: str, bias: bool, hop_first: bool
) -> Step:
    """a W + b, with the operator in between if it is applied to the features first."""
    value: Step = Product(source=source, weight=weights[f"{name}.weight"])
    if hop_first:
        value = Spread(source=value)
    return Offset(source=value, value=weights[f"{name}.bias"]) if bias else value


def convolution(edges: np.ndarray, num_nodes: int, conv: Any) -> sp.csr_array:
    """The operator of a convolution, float64 values of its float32 weights."""
    from dpgnn.models.trees import graph_lists

    ptr, row, weight = graph_lists(edges, num_nodes, conv)
    return sp.csr_array((weight.astype(np.float64), row, ptr), shape=(num_nodes, num_nodes))
