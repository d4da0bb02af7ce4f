"""Artificial trees on which a module is tested, so that no result depends on data."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dpgnn.models.modules import ModuleNetwork
from dpgnn.models.trees import Trees, build_trees
from dpgnn.training.modules.batches import TreeBatch, tree_batch

# rows of the largest chunk on a CPU, and of trees at once when norms are computed
CHUNK_ROWS = 4096
# each chunk on the way to the largest is this much larger than the one before
GROWTH = 8


def moved(network: ModuleNetwork, seed: int = 0) -> dict[str, Tensor]:
    """The module's weights, perturbed, in float64, so that zeros and equal entries hide nothing."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: value.detach().double()
        + 0.1 * torch.randn(value.shape, generator=generator, dtype=torch.float64)
        for name, value in network.module.named_parameters()
        if name in network.shapes
    }


def _lists(*, deep: bool, crowded: bool) -> list[list[tuple[int, int]]]:
    """The edges of each tree, source before target; 0 is the root."""
    trees = [[], [(1, 0)], [(1, 0), (2, 0)], [(k, 0) for k in range(1, 6)]]
    # as large as the last tree, so that what is kept by size is found
    trees.append([(1, 0), (2, 0), (3, int(deep))])
    if deep:
        trees += [
            [(1, 0), (2, 1)], [(1, 0), (2, 0), (3, 1), (3, 2)],
            [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (2, 1)],
            [(1, 0), (2, 1), (0, 1), (3, 2), (4, 3), (1, 2)],
        ]  # fmt: skip
    if crowded:
        trees.append([(k, m) for k in range(9) for m in range(9) if k != m])
    return [*trees, [(1, 0), (2, 0), (3, 0)]]


def probe(
    network: ModuleNetwork, seed: int = 0, *, crowded: bool = False
) -> tuple[Trees, Tensor, Tensor]:
    """Artificial trees of the network's depth: single root, stars, chains, shared neighbours.

    Args:
        network: gives depth, numbers of features and outputs, task.
        seed: of features and labels.
        crowded: with a tree that has all edges, so that chunks have more edges than rows.

    Returns:
        trees; x float64, shape (num_rows, num_features); labels of the roots. The numbers of nodes, edges,
        both together, and roots are all different.
    """
    config, rng = network.config, np.random.default_rng(seed)
    lists = _lists(deep=config.num_hops > 1, crowded=crowded)
    sizes = [1 + max((max(pair) for pair in arcs), default=0) for arcs in lists]
    ends = np.array([pair for arcs in lists for pair in arcs], dtype=np.int64).reshape(-1, 2)
    num_rows = sum(sizes)
    if config.task == "multiclass":
        y = rng.integers(0, config.num_outputs, len(lists))
    else:
        y = rng.integers(0, 2, (len(lists), config.num_outputs))
    given = {
        "node_ptr": np.concatenate([[0], np.cumsum(sizes)]), "node": np.arange(num_rows),
        "edge_ptr": np.concatenate([[0], np.cumsum([len(arcs) for arcs in lists])]),
        "edge_source": ends[:, 0], "edge_target": ends[:, 1],
    }  # fmt: skip
    trees = build_trees(**given, y=y, num_hops=max(config.num_hops, 1), conv="sage")
    x = torch.from_numpy(rng.standard_normal((num_rows, config.num_features)))
    return trees, x, torch.from_numpy(trees.y)


def num_copies(trees: Trees, max_rows: int) -> list[int]:
    """How often the trees of `probe` stand side by side in chunks up to one of at least `max_rows` rows."""
    found = [max(-(-max_rows // len(trees.node)), 1)]
    while found[-1] > GROWTH:
        found.append(found[-1] // GROWTH)
    return found[::-1]


def copies(
    trees: Trees, number: int, device: torch.device | str = "cpu"
) -> tuple[TreeBatch, np.ndarray]:
    """A chunk in which the trees stand `number` times side by side, and its roots.

    Copies have the same features and labels, so the rows of all copies must be equal.
    """
    roots = np.tile(np.arange(trees.num_roots), number)
    return tree_batch(trees, roots, device), roots


def largest_chunk(network: ModuleNetwork, max_rows: int) -> tuple[int, int]:
    """Rows and edges of the largest chunk in which a module is tested; public."""
    trees, _, _ = probe(network, crowded=True)
    number = num_copies(trees, max_rows)[-1]
    return number * len(trees.node), number * len(trees.entry_row)
