"""Chains: only the features of each chain's first node show the label.

Counts (nodes, stored edges, features, classes): chains-s 48, 90, 5, 2; chains-m 60, 114, 5, 2;
chains-l 90, 174, 5, 2; chains-x 150, 290, 5, 2; chains-50 1500, 2900, 5, 2.

Source: Gu et al. (2020), "Implicit graph neural networks", arXiv:2009.06211, as run by CARIBOU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpgnn.core.checks import one_of
from dpgnn.data.graph import Graph

if TYPE_CHECKING:
    from dpgnn.data.raw.files import RawFiles

NUM_CLASSES = 2
NUM_FEATURES = 5
GENERATOR_SEED = 42  # the paper's; all methods and repeats share one graph and one split


@dataclass(frozen=True, kw_only=True)
class ChainShape:
    """Length of a chain, chains of each class, and sizes of the public split."""

    length: int
    chains_per_class: int
    num_train: int
    num_val: int


SHAPES = {
    "chains-s": ChainShape(length=8, chains_per_class=3, num_train=8, num_val=8),
    "chains-m": ChainShape(length=10, chains_per_class=3, num_train=10, num_val=10),
    "chains-l": ChainShape(length=15, chains_per_class=3, num_train=15, num_val=15),
    "chains-x": ChainShape(length=15, chains_per_class=5, num_train=25, num_val=25),
    "chains-50": ChainShape(length=15, chains_per_class=50, num_train=250, num_val=250),
}


def load(name: str, files: RawFiles, root_seed: int) -> Graph:
    """Make one of the chain graphs; bit-exact, so neither files nor the root seed are used.

    Directed as the paper stores it: node i -> i + 1 within a chain, and one self-loop on every node.
    A method that needs both directions or no self-loops changes the edges itself.
    """
    shape = SHAPES[one_of("chains", name, SHAPES)]
    # the legacy generator on purpose: the published graph was drawn from it, features first
    rng = np.random.RandomState(GENERATOR_SEED)
    per_class, length = shape.chains_per_class, shape.length
    x = rng.uniform(-0.0, 0.0, size=(NUM_CLASSES, per_class, length, NUM_FEATURES))
    for label in range(NUM_CLASSES):
        x[label, :, 0, label] += 1.0
    num_nodes = NUM_CLASSES * per_class * length
    order = rng.permutation(num_nodes)
    nodes = np.arange(num_nodes, dtype=np.int64)
    inner = nodes[nodes % length != length - 1]
    edges = np.concatenate([np.stack([nodes, nodes]), np.stack([inner, inner + 1])], axis=1)
    edges = edges[:, np.lexsort((edges[1], edges[0]))]
    first_test = shape.num_train + shape.num_val
    return Graph(
        name=name,
        # adding 0 turns the generator's negative zeros into zeros
        x=(x.reshape(num_nodes, NUM_FEATURES) + 0.0).astype(np.float32),
        edge_index=edges,
        y=nodes // (per_class * length),
        num_classes=NUM_CLASSES,
        directed=True,
        allow_self_loops=True,
        splits={
            "public": {
                "train": order[: shape.num_train].astype(np.int64),
                "val": order[shape.num_train : first_test].astype(np.int64),
                "test": order[first_test:].astype(np.int64),
            }
        },
    )
