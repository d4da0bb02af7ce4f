"""Recipes of splits: functions from a graph's labels and edges to node positions."""

from __future__ import annotations

import numpy as np

from dpgnn.core.checks import require
from dpgnn.data.graph import Graph

Sizes = tuple[int, int, int]  # per class, validation, test
Parts = tuple[np.ndarray, np.ndarray, np.ndarray]
FIXED_SEED = 0  # seed of the clustered split: one split for all repeats, like the paper's file
CARIBOU_SEED = 12345  # seed of the torch generator that CARIBOU's code splits with


def labelled_nodes(graph: Graph) -> np.ndarray:
    """Positions of the labelled nodes, int64, ascending."""
    if graph.task == "multilabel":
        return np.arange(graph.num_nodes)
    return np.flatnonzero(graph.y >= 0)


def cut(order: np.ndarray, train_fraction: float, val_fraction: float) -> Parts:
    """Training, validation and test nodes, in this order, by fractions of all."""
    num_train, num_val = round(train_fraction * len(order)), round(val_fraction * len(order))
    train, val, test = np.split(order, [num_train, num_train + num_val])
    return train, val, test


def coins(
    graph: Graph, train_fraction: float, val_fraction: float, *, rng: np.random.Generator
) -> Parts:
    """Each labelled node by its own coin, the one of its row, so no node moves another.

    Guarantee: a row that loses its label, or comes after all others, leaves every other node in its part. A
    node is known by its row, and an absent one keeps it (docs/accounting.md, theorem 4).
    """
    coin, labelled = rng.random(graph.num_nodes), labelled_nodes(graph)
    part = np.searchsorted([train_fraction, train_fraction + val_fraction], coin[labelled], "right")
    return labelled[part == 0], labelled[part == 1], labelled[part == 2]


def clustered(graph: Graph, train_fraction: float, val_fraction: float) -> Parts:
    """Whole communities go to one part; only labelled nodes count for the sizes."""
    from dpgnn.data.communities import louvain, pack

    rng = np.random.default_rng(FIXED_SEED)
    labelled = labelled_nodes(graph)
    community = louvain(graph.edge_index, graph.num_nodes, rng=rng)[labelled]
    fractions = (train_fraction, val_fraction, 1 - train_fraction - val_fraction)
    part = pack(np.bincount(community), fractions)[community]
    return labelled[part == 0], labelled[part == 1], labelled[part == 2]


def caribou(graph: Graph) -> Parts:
    """10 % validation, 20 % test, the rest training, in the order of torch's generator.

    Bit-exact with the paper's code on Cora, PubMed, Photo and Computers, where all nodes are split. On
    Facebook the paper's code splits before dropping small classes, and our loader drops them first.
    """
    import torch

    generator = torch.Generator().manual_seed(CARIBOU_SEED)
    order = torch.randperm(graph.num_nodes, generator=generator).numpy()
    order = order[np.isin(order, labelled_nodes(graph))]
    num_val, num_test = round(0.1 * graph.num_nodes), round(0.2 * graph.num_nodes)
    val, test, train = np.split(order, [num_val, num_val + num_test])
    return train, val, test


def per_class(graph: Graph, sizes: Sizes, *, rng: np.random.Generator) -> Parts:
    """The same number of training nodes of each class; validation and test from the rest."""
    num_per_class, num_val, num_test = sizes
    order = rng.permutation(labelled_nodes(graph))
    train = np.concatenate(take_per_class(graph, order, num_per_class))
    rest = rng.permutation(_without(order, train))
    num_test = num_test or len(rest) - num_val
    require(
        num_val + num_test <= len(rest) and num_test > 0,
        f"split of {graph.name}: num_val + num_test",
        f"leave test nodes among the {len(rest)} that remain",
        num_val + num_test,
        "lower num_val or num_test",
    )
    return train, rest[:num_val], rest[num_val : num_val + num_test]


def membership(graph: Graph, sizes: Sizes, *, rng: np.random.Generator) -> tuple[Parts, Parts]:
    """Target and shadow: disjoint training nodes of each class, and nodes left out of training."""
    num_per_class, _, num_test = sizes
    order = rng.permutation(labelled_nodes(graph))
    both = take_per_class(graph, order, 2 * num_per_class)
    # within a class the first half is the target's
    target = np.concatenate([members[:num_per_class] for members in both])
    shadow = np.concatenate([members[num_per_class:] for members in both])
    rest = rng.permutation(_without(order, np.concatenate([target, shadow])))
    require(
        2 * num_test <= len(rest),
        f"split of {graph.name}: 2 * num_test",
        f"be <= {len(rest)}, the nodes that remain",
        2 * num_test,
        "lower num_test or num_per_class",
    )
    none = np.zeros(0, dtype=np.int64)
    return (target, none, rest[:num_test]), (shadow, none, rest[num_test : 2 * num_test])


def take_per_class(graph: Graph, order: np.ndarray, count: int) -> list[np.ndarray]:
    """The first `count` nodes of each class in `order`.

    Raises:
        ValueError: a multilabel graph, or a class with fewer labelled nodes.
    """
    require(
        graph.task == "multiclass",
        f"split of {graph.name}",
        "be random or public for a multilabel graph",
        "a number per class",
    )
    chosen = []
    for label in range(graph.num_classes):
        members = order[graph.y[order] == label]
        require(
            len(members) >= count,
            f"split of {graph.name}: nodes taken of each class",
            f"be <= {len(members)}, the size of class {label}",
            count,
            "lower num_per_class or use random",
        )
        chosen.append(members[:count])
    return chosen


def _without(order: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """What remains of `order`, in its order.

    This order is not uniform if nodes were taken class by class from the front: a large class lost only its
    first nodes, a small one nearly all, so large classes come early. Permute it again before cutting a sample
    off the front.
    """
    return order[~np.isin(order, taken)]


def dropped_nodes(graph: Graph, *, min_class_size: int, drop_isolated: bool) -> np.ndarray:
    """Members of small classes, and nodes without an edge after their removal; int64, ascending."""
    out = np.zeros(graph.num_nodes, dtype=bool)
    if min_class_size:
        require(
            graph.task == "multiclass",
            f"split of {graph.name}: min_class_size",
            "be 0 for a multilabel graph",
            min_class_size,
        )
        sizes = np.bincount(graph.y[graph.y >= 0], minlength=graph.num_classes)
        out = (graph.y >= 0) & (sizes[graph.y] < min_class_size)
    if drop_isolated:
        kept = graph.edges_within(~out)
        kept = kept[:, kept[0] != kept[1]]
        out |= np.bincount(kept.ravel(), minlength=graph.num_nodes) == 0
    return np.flatnonzero(out)
