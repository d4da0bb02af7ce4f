"""Networks that are a tape of operations (DP-MLP, DP-GNN, DRW, DPAR), for `differences` to follow a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dpgnn.attacks.differences import Differences, RowMap
from dpgnn.attacks.stacks import Stack, normalize_all, row_norm, start

if TYPE_CHECKING:
    from dpgnn.attacks.queries import Target
    from dpgnn.models.network import Network


@dataclass(frozen=True, kw_only=True, eq=False)
class Tape:
    """A network on one graph.

    Attributes:
        network: its operations.
        row_norm: of the features.
        operator: CSR float64: what a hop does; None where there is no hop.
        first_hop: whether the features pass the operator before the first operation, which is linear.
        num_averages, restart: the logits are propagated so often afterwards, with that share of the own.
    """

    network: Network
    row_norm: str
    operator: sp.csr_array | None = None
    first_hop: bool = False
    num_averages: int = 0
    restart: float = 0.0


def has_tape(target: Target) -> bool:
    """Whether `tape_of` knows the model."""
    method, options = target.entry.method, target.entry.options
    if method == "dp_gnn":
        plain = options.projection is None and not options.aggregate_once
        return bool(plain and options.conv != "gat")
    return method in ("dp_mlp", "drw", "dpar")


def tape_of(target: Target) -> Tape:
    """The network and the operator with which the method's `predict` answers."""
    entry, graph, method = target.entry, target.graph, target.entry.method
    if method == "dp_mlp":
        from dpgnn.methods.dp_mlp import _network as perceptron

        return Tape(network=perceptron(entry.options, graph), row_norm=entry.options.row_norm)
    if method == "dp_gnn":
        from dpgnn.methods.dp_gnn.method import _network as convolution
        from dpgnn.methods.dp_gnn.sample import arcs_of

        config = entry.options
        arcs = arcs_of(graph, symmetrize=config.symmetrize) if config.num_hops else None
        return Tape(
            network=convolution(config, graph), row_norm=config.row_norm,
            operator=None if arcs is None else _lists(arcs, graph.num_nodes, config.conv),
        )  # fmt: skip
    if method == "drw":
        from dpgnn.methods.drw import data as drw_data
        from dpgnn.methods.drw import fit as drw_fit
        from dpgnn.methods.drw import options as drw_options

        config = drw_options.resolved(entry)
        network, hops = drw_fit._network(config, graph), config.sampler != "nodes"
        edges = drw_data.undirected(graph)
        return Tape(
            network=network, row_norm=config.row_norm, first_hop=hops,
            operator=_lists(edges, graph.num_nodes, config.conv) if hops else None,
        )  # fmt: skip
    from dpgnn.methods.dpar import fit as dpar_fit
    from dpgnn.methods.dpar import options as dpar_options

    config = dpar_options.resolved(entry)
    return Tape(
        network=dpar_fit.network_of(config, graph, hop=False), row_norm=config.row_norm,
        operator=sp.csr_array(dpar_fit.propagation(graph)).astype(np.float64),
        num_averages=config.power_iterations, restart=config.restart,
    )  # fmt: skip


def tape_stack(target: Target) -> Stack:
    """The tape's values without perturbation, and the way of a query through it."""
    from dpgnn.models.network import Activate, Add, Aggregate, Keep, Linear

    tape = tape_of(target)
    normalize = row_norm(tape.row_norm)
    graph, operations = target.graph, tape.network.operations
    weights = {name: value.double().numpy() for name, value in target.state.items()}
    activate = _activation(tape.network.config.activation)
    columns = None if tape.operator is None else sp.csc_array(tape.operator)
    bases = _bases(tape, weights, graph.x, activate)
    first_hops = [isinstance(op, Linear) and op.source == 0 for op in operations]
    num_hops = sum(isinstance(op, Aggregate) for op in operations)

    def run(
        nodes: np.ndarray, before: np.ndarray, after: np.ndarray, wanted: list[np.ndarray]
    ) -> Differences:
        keep = iter(wanted)
        values = [start(nodes, normalize(before), normalize(after), graph.num_nodes)]
        for op in operations:
            if isinstance(op, Linear):
                moved = values[op.source].times(weights[f"{op.name}.weight"])
                if tape.first_hop and op.source == 0:
                    moved = moved.spread(columns, keep=next(keep))
            elif isinstance(op, Activate):
                moved = values[op.source].through(bases[op.source], activate)
            elif isinstance(op, Aggregate):
                moved = values[op.source].spread(columns, keep=next(keep))
            elif isinstance(op, Add):
                moved = values[op.left].plus(values[op.right])
            else:
                assert isinstance(op, Keep)
                moved = values[op.source]
            values.append(moved)
        own = state = values[-1]
        for _ in range(tape.num_averages):
            near = state.spread(columns, keep=next(keep))
            state = near.scaled(1 - tape.restart).plus(own.scaled(tape.restart))
        return state

    num_spreads = num_hops + tape.first_hop * sum(first_hops) + tape.num_averages
    width = max(value.shape[1] for value in bases[1:])
    return Stack(run=run, columns=columns, num_spreads=num_spreads, width=width)


def _bases(
    tape: Tape, weights: Mapping[str, np.ndarray], x: Any, activate: RowMap
) -> list[np.ndarray]:
    """Every value of the tape for all nodes, float64; value 0, the features, stays as it is."""
    from dpgnn.models.network import Activate, Add, Aggregate, Keep, Linear

    values: list[Any] = [normalize_all(x, tape.row_norm)]
    for op in tape.network.operations:
        if isinstance(op, Linear):
            value = values[op.source] @ weights[f"{op.name}.weight"]
            if tape.first_hop and op.source == 0:
                value = tape.operator @ value
            if op.bias:
                value = value + weights[f"{op.name}.bias"]
        elif isinstance(op, Activate):
            value = activate(np.arange(len(values[op.source])), values[op.source])
        elif isinstance(op, Aggregate):
            assert tape.operator is not None
            value = tape.operator @ values[op.source]
        elif isinstance(op, Add):
            value = values[op.left] + values[op.right]
        else:
            assert isinstance(op, Keep)
            value = values[op.source]
        values.append(value)
    return values


def _activation(name: str) -> RowMap:
    import torch

    from dpgnn.models.forward import activation

    return lambda node, rows: np.asarray(activation(name, torch.from_numpy(rows)).numpy())


def _lists(edges: np.ndarray, num_nodes: int, conv: Any) -> sp.csr_array:
    """The operator of a convolution, float64 values of its float32 weights."""
    from dpgnn.models.trees import graph_lists

    ptr, row, weight = graph_lists(edges, num_nodes, conv)
    return sp.csr_array((weight.astype(np.float64), row, ptr), shape=(num_nodes, num_nodes))
