"""Random ragged subgraphs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest


def random_subgraphs(
    rng: np.random.Generator, num_roots: int, num_nodes: int, *, symmetric: bool, largest: int = 8
) -> dict[str, np.ndarray]:
    """Arguments of `build_trees` apart from labels, depth and convolution."""
    node_ptr, edge_ptr, nodes, sources, targets = [0], [0], [], [], []
    for _ in range(num_roots):
        size = int(rng.integers(1, largest + 1))
        edges = rng.random((size, size)) < 0.35
        np.fill_diagonal(edges, False)
        edges = edges | edges.T if symmetric else edges
        source, target = np.nonzero(edges)
        nodes.append(rng.choice(num_nodes, size, replace=False))
        sources.append(source)
        targets.append(target)
        node_ptr.append(node_ptr[-1] + size)
        edge_ptr.append(edge_ptr[-1] + len(source))
    return {
        "node_ptr": np.array(node_ptr),
        "node": np.concatenate([np.zeros(0, np.int64), *nodes]),
        "edge_ptr": np.array(edge_ptr),
        "edge_source": np.concatenate([np.zeros(0, np.int64), *sources]),
        "edge_target": np.concatenate([np.zeros(0, np.int64), *targets]),
    }


@pytest.fixture
def make_subgraphs() -> Callable[..., dict[str, np.ndarray]]:
    """The builder of random subgraphs."""
    return random_subgraphs
