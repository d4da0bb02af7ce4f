"""Random problems for the clipping engine: a network, features, trees, parameters, roots."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dpgnn.core.randomness import Streams
from dpgnn.models.network import Network, NetworkConfig
from dpgnn.models.trees import Trees, build_trees, lone_roots, weighted_rows


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C as in a terminal: a shell starts background jobs with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@dataclass
class Problem:
    """Everything a clipped sum needs."""

    network: Network
    x: np.ndarray
    trees: Trees
    parameters: torch.Tensor
    roots: np.ndarray


def random_trees(rng: Any, num_roots: int, num_nodes: int, y: Any, r: int, conv: str) -> Trees:
    """Trees of random subgraphs, or of random weights for `weighted`."""
    if r == 0:
        return lone_roots(rng.integers(0, num_nodes, num_roots), y)
    if conv == "weighted":
        dense = rng.random((num_roots, num_nodes)) * (rng.random((num_roots, num_nodes)) < 0.1)
        return weighted_rows(sp.csr_array(dense.astype(np.float32)), y)
    node_ptr, edge_ptr, nodes, sources, targets = [0], [0], [], [], []
    for _ in range(num_roots):
        size = int(rng.integers(1, 9))
        edges = rng.random((size, size)) < 0.35
        np.fill_diagonal(edges, False)
        source, target = np.nonzero(edges | edges.T if conv == "symmetric" else edges)
        nodes.append(rng.choice(num_nodes, size, replace=False))
        sources.append(source)
        targets.append(target)
        node_ptr.append(node_ptr[-1] + size)
        edge_ptr.append(edge_ptr[-1] + len(source))
    return build_trees(
        node_ptr=np.array(node_ptr), node=np.concatenate(nodes), edge_ptr=np.array(edge_ptr),
        edge_source=np.concatenate(sources), edge_target=np.concatenate(targets), y=y, num_hops=r,
        conv=conv,
    )  # fmt: skip


def random_problem(seed: int, num_roots: int = 9, scale: float = 1.0, **config: Any) -> Problem:
    """A problem from a seed; `config` changes the network."""
    rng, num_nodes = np.random.default_rng(seed), 25
    values = {
        "num_features": 7, "num_outputs": 4, "width": 6, "activation": "tanh", "num_heads": 2,
        "head_width": 3,
    } | config  # fmt: skip
    network = Network(NetworkConfig(**values))
    config = network.config
    if config.task == "multilabel":
        y = rng.integers(0, 2, (num_roots, config.num_outputs)).astype(np.uint8)
    else:
        y = rng.integers(0, config.num_outputs, num_roots)
    x = (scale * rng.standard_normal((num_nodes, config.num_features))).astype(np.float32)
    trees = random_trees(rng, num_roots, num_nodes, y, config.num_hops, config.conv)
    parameters = network.initial(rng=rng, dtype=torch.float64)
    parameters += 0.1 * torch.from_numpy(rng.standard_normal(len(parameters)))
    roots = rng.permutation(num_roots)[: int(rng.integers(1, num_roots + 1))]
    return Problem(network, x, trees, parameters, roots)


@pytest.fixture(scope="session")
def make_problem() -> Callable[..., Problem]:
    """The builder of random problems."""
    return random_problem


@pytest.fixture
def streams() -> Streams:
    """Seeded streams."""
    return Streams(root_seed=7, axes={"entry": "toy", "repeat": 0})


class Quiet:
    """A progress line that keeps what it was shown."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, dict[str, Any]]] = []

    def update(self, step: int, **shown: Any) -> None:
        self.lines.append((step, shown))


@pytest.fixture
def quiet() -> Quiet:
    """A silent progress line."""
    return Quiet()
