"""The shapes of the published experiments, on synthetic data of the same sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dpgnn.models.network import Network, NetworkConfig
from dpgnn.models.trees import Trees, build_trees, lone_roots, trees_of, weighted_rows
from dpgnn.samplers.published import Published
from dpgnn.training.clipping import Clipping, uniform_clipping


@dataclass(frozen=True, kw_only=True, eq=False)
class Workload:
    """One shape: network, features, trees and batch size."""

    name: str
    network: Network
    x: Any
    trees: Trees
    batch_size: int
    clipping: Clipping
    pad_to: int

    def batch(self, size: int | None = None) -> np.ndarray:
        """The same roots at every call."""
        rng = np.random.default_rng(1)
        wanted = min(size or self.batch_size, self.trees.num_roots)
        return np.sort(rng.choice(self.trees.num_roots, wanted, replace=False))


def arcs(num_nodes: int, num_arcs: int, seed: int = 0) -> np.ndarray:
    """Distinct arcs with heavy-tailed receivers (weight rank^-0.6) and uniform senders."""
    rng = np.random.default_rng(seed)
    weight = np.arange(1, num_nodes + 1) ** -0.6
    receivers = rng.permutation(num_nodes)[
        np.searchsorted(np.cumsum(weight) / weight.sum(), rng.random(num_arcs))
    ]
    senders = rng.integers(0, num_nodes, num_arcs)
    keys = np.unique(senders * num_nodes + receivers)
    both = np.stack([keys // num_nodes, keys % num_nodes])
    return both[:, both[0] != both[1]]


def dp_gnn(
    *,
    num_hops: int = 1,
    max_degree: int = 7,
    batch_size: int = 10_000,
    cut: int | None = None,
    encoder_layers: int = 1,
    multilabel: bool = False,
) -> Workload:
    """128 -> 256 tanh, mean + skip per hop, 256 -> 40, on a graph of the size of ogbn-arxiv.

    Args:
        cut: symmetrise the graph and cut lists at this size, the root included, instead of bounding how
            often a node appears only.
    """
    num_nodes, rng = 169_343, np.random.default_rng(0)
    edges = arcs(num_nodes, 1_170_000)
    train = np.sort(rng.choice(num_nodes, 90_941, replace=False))
    if cut is not None:
        edges = np.unique(np.concatenate([edges, edges[::-1]], axis=1), axis=1)
    # lists of at most K keep every tree within the padded size, so that all variants do the same work
    sampler = Published(
        max_degree=max_degree, num_hops=num_hops, max_subgraph_size=cut or max_degree + 1
    )
    sample = sampler.sample(edges, num_nodes=num_nodes, train_idx=train, rng=rng)
    features, outputs = (50, 121) if multilabel else (128, 40)
    network = Network(
        NetworkConfig(
            num_features=features, num_outputs=outputs, width=256, num_hops=num_hops,
            encoder_layers=encoder_layers, decoder_layers=encoder_layers, skip=True,
            activation="tanh", task="multilabel" if multilabel else "multiclass",
        )
    )  # fmt: skip
    x = rng.standard_normal((num_nodes, features), dtype=np.float32)
    y = (
        rng.integers(0, 2, (num_nodes, outputs)).astype(np.uint8)
        if multilabel
        else rng.integers(0, outputs, num_nodes)
    )
    trees = trees_of(sample, y, num_hops=num_hops, conv="gcn")
    pad_to = cut or (max_degree + 1 if num_hops == 1 else 1 + max_degree + max_degree**2)
    name = f"dp_gnn r={num_hops} K={max_degree}" + (" multi-label" if multilabel else "")
    name += f" enc={encoder_layers}" * (encoder_layers > 1) + (f" cut {cut}" if cut else "")
    return Workload(
        name=name, network=network, x=x, trees=trees, batch_size=batch_size,
        clipping=uniform_clipping(network, "group", 4.5), pad_to=pad_to,
    )  # fmt: skip


def mlp(batch_size: int = 10_000) -> Workload:
    """DP-MLP 128 -> 256 -> 256 -> 40."""
    rng = np.random.default_rng(0)
    network = Network(
        NetworkConfig(
            num_features=128, num_outputs=40, width=256, num_hops=0, encoder_layers=2,
            activation="tanh",
        )
    )  # fmt: skip
    x = rng.standard_normal((90_941, 128), dtype=np.float32)
    trees = lone_roots(np.arange(len(x)), rng.integers(0, 40, len(x)))
    return Workload(
        name="dp_mlp", network=network, x=x, trees=trees, batch_size=batch_size,
        clipping=uniform_clipping(network, "global", 1.0), pad_to=1,
    )  # fmt: skip


def drw(length: int = 1, batch_size: int = 20_000) -> Workload:
    """Paths of 2 or 3 nodes, 128 -> 512 -> 40, one aggregation between encoder and decoder."""
    rng, num_roots = np.random.default_rng(0), 90_941 // (length + 1)
    size = length + 1
    network = Network(
        NetworkConfig(
            num_features=128, num_outputs=40, width=512, num_hops=length, encoder_layers=0,
            decoder_layers=1, conv="symmetric", activation="relu",
        )
    )  # fmt: skip
    x = rng.standard_normal((90_941, 128), dtype=np.float32)
    near = np.tile(np.arange(length), num_roots)
    source, target = np.concatenate([near, near + 1]), np.concatenate([near + 1, near])
    order = np.argsort(np.tile(np.repeat(np.arange(num_roots), length), 2), kind="stable")
    trees = build_trees(
        node_ptr=np.arange(num_roots + 1) * size, node=rng.permutation(90_941)[: num_roots * size],
        edge_ptr=np.arange(num_roots + 1) * 2 * length, edge_source=source[order],
        edge_target=target[order], y=rng.integers(0, 40, num_roots), num_hops=length,
        conv="symmetric",
    )  # fmt: skip
    return Workload(
        name=f"drw L={length}", network=network, x=x, trees=trees, batch_size=batch_size,
        clipping=uniform_clipping(network, "global", 0.1), pad_to=size,
    )  # fmt: skip


def dpar(num_features: int, num_classes: int, *, sparse: bool = False) -> Workload:
    """Weighted mixes of three rows of an MLP d -> 32 -> classes without bias, batches of 60."""
    rng, num_nodes = np.random.default_rng(0), 2000
    network = Network(
        NetworkConfig(
            num_features=num_features, num_outputs=num_classes, width=32, num_hops=1,
            conv="weighted", bias=False, activation="relu",
        )
    )  # fmt: skip
    x: Any = rng.standard_normal((num_nodes, num_features), dtype=np.float32)
    if sparse:
        x = sp.random_array((num_nodes, num_features), density=0.01, rng=rng, dtype=np.float32)
        x = sp.csr_array(x)
    columns = np.stack([rng.choice(num_nodes, 3, replace=False) for _ in range(num_nodes)])
    weights = rng.dirichlet(np.ones(3), num_nodes).astype(np.float32)
    pi = sp.csr_array(
        (weights.ravel(), columns.ravel(), np.arange(num_nodes + 1) * 3),
        shape=(num_nodes, num_nodes),
    )
    trees = weighted_rows(pi, rng.integers(0, num_classes, num_nodes))
    return Workload(
        name=f"dpar {num_features}->32->{num_classes}" + (" CSR" if sparse else ""),
        network=network, x=x, trees=trees, batch_size=60,
        clipping=uniform_clipping(network, "global", 1.0), pad_to=3,
    )  # fmt: skip


SHAPES: dict[str, Callable[[], Workload]] = {
    "A": dp_gnn,
    "A-cut100": lambda: dp_gnn(cut=100),
    "A-two-layers": lambda: dp_gnn(encoder_layers=2),
    "B-r2": lambda: dp_gnn(num_hops=2, max_degree=3),
    "B-r2-ppi": lambda: dp_gnn(num_hops=2, max_degree=3, multilabel=True),
    "B-drw2": drw,
    "B-drw3": lambda: drw(2),
    "B-mlp": mlp,
    "B-dpar602": lambda: dpar(602, 41),
    "B-dpar2879": lambda: dpar(2879, 7),
    "B-dpar8415": lambda: dpar(8415, 15),
    "B-dpar8415-csr": lambda: dpar(8415, 15, sparse=True),
}
