"""Digits: 1,797 real handwritten digits of 8 x 8 pixels, joined to their nearest neighbours.

Counts: 1,797 nodes, 64 features, 10 classes; the edges are ours, made with k = 10.

Source: Alpaydin and Kaynak (1998), "Optical recognition of handwritten digits", UCI repository;
the copy that scikit-learn installs, so no download is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpgnn.data.graph import Graph, clean_edges

if TYPE_CHECKING:
    from dpgnn.data.raw.files import RawFiles

NUM_NEIGHBORS = 10
MAX_PIXEL = 16


def load(name: str, files: RawFiles, root_seed: int) -> Graph:
    """Digits with a symmetric 10-nearest-neighbour graph; deterministic.

    An edge joins two digits when either is among the other's 10 nearest in squared Euclidean
    distance of pixels, ties going to the lower id. Pixels are divided by 16, so x is in [0, 1].

    The edges are computed from the features, so a guarantee for a graph method takes the graph as given and
    carries the caveat `preprocessing`.
    """
    from sklearn.datasets import load_digits

    raw = load_digits()
    pixels = raw.data.astype(np.int64)  # whole numbers 0..16: distances are exact on any platform
    norms = (pixels**2).sum(axis=1)
    distance = norms[:, None] + norms[None, :] - 2 * pixels @ pixels.T
    np.fill_diagonal(distance, np.iinfo(np.int64).max)
    nearest = np.argsort(distance, axis=1, kind="stable")[:, :NUM_NEIGHBORS]
    num_nodes = len(pixels)
    source = np.repeat(np.arange(num_nodes), NUM_NEIGHBORS)
    return Graph(
        name=name,
        x=(pixels / MAX_PIXEL).astype(np.float32),
        edge_index=clean_edges(source, nearest.ravel(), num_nodes),
        y=raw.target.astype(np.int64),
        num_classes=10,
    )
