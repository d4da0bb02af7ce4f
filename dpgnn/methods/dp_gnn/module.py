"""A user's own module as the network of DP-GNN: code, checks, released tensors, answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.core import user_code
from dpgnn.methods.dp_gnn.options import DPGNNConfig, network_of

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.methods.base import Entry, Facts
    from dpgnn.models.modules import ModuleNetwork
    from dpgnn.models.network import Network

# a module's tensors in a model file
PREFIX = "module."


def outside_code(entry: Entry) -> str:
    """Hash of the file of the entry's module and of what it imports beside it; "" without a module."""
    config: DPGNNConfig = entry.options
    return user_code.code_sha256(config.module) if config.module else ""


def check_sizes(entry: Entry, facts: Facts) -> None:
    """Validate the entry's module for a graph of this size.

    Guarantee: reads public facts alone, so whether a module is refused tells no private number.

    Raises:
        ValueError: as `training.modules.checks.validate`.
    """
    from dpgnn.training.modules.checks import validate

    config: DPGNNConfig = entry.options
    if not config.module:
        return
    sizes = {name: getattr(facts, name) for name in ("num_features", "num_classes", "task")}
    network: Any = network_of(config, **sizes)
    validate(network, num_nodes=facts.num_nodes, is_declared=facts.declared)


def released(network: Network, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The released tensors of a fit: its weights, and a module's public frozen tensors and buffers."""
    from dpgnn.models.modules import ModuleNetwork

    if not isinstance(network, ModuleNetwork):
        return dict(weights)
    return {f"{PREFIX}{name}": value for name, value in {**network.rest(), **weights}.items()}


def module_answers(
    network: ModuleNetwork, x: Any, arcs: np.ndarray, node_idx: np.ndarray
) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """Tensors by name, with or without `PREFIX` -> logits of the asked nodes, by complete lists.

    A module that returns a row for each node gets the whole graph at once; one that returns its root's row
    gets the tree of each asked node.

    Args:
        x: features, dense or CSR.
        arcs: int64, shape (2, num_arcs); messages go row 0 to row 1.
        node_idx: the nodes asked about.
    """
    import torch

    rows = torch.from_numpy(np.array(x if isinstance(x, np.ndarray) else x.toarray()))
    edges, asked = torch.from_numpy(np.array(arcs)), torch.from_numpy(node_idx.copy())
    if network.config.num_hops == 0:  # x has only the asked nodes, and no edge is read
        edges, asked = edges[:, :0], torch.arange(len(rows))

    def logits(given: Mapping[str, Tensor]) -> Tensor:
        state = {name.removeprefix(PREFIX): value for name, value in given.items()}
        if not len(asked):
            return rows.new_zeros(0, network.config.num_outputs)
        out = network.answer(state, rows, edges)
        if network.gives_rows(len(rows), out):
            return out[asked]
        return torch.cat(
            [
                network.answer(state, rows[nodes], inner).reshape(1, -1)
                for nodes, inner in _trees(arcs, len(rows), asked.tolist(), network.config.num_hops)
            ]
        )

    return logits


def _trees(arcs: np.ndarray, num_nodes: int, roots: list[int], num_hops: int) -> Any:
    """Nodes (the root first) and inner edges of each root's tree, by complete lists."""
    import torch

    order = np.argsort(arcs[1], kind="stable")
    source = arcs[0][order]
    ptr = np.concatenate([[0], np.cumsum(np.bincount(arcs[1], minlength=num_nodes))])
    for root in roots:
        place, level, ends = {root: 0}, [root], []
        for _ in range(num_hops):
            below = []
            for target in level:
                for reads in source[ptr[target] : ptr[target + 1]].tolist():
                    if reads not in place:
                        place[reads] = len(place)
                        below.append(reads)
                    ends.append((place[reads], place[target]))
            level = below
        inner = np.array(ends, dtype=np.int64).reshape(-1, 2).T.copy()
        yield torch.tensor(list(place)), torch.from_numpy(inner)
