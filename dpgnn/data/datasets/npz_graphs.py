"""Graphs published as one .npz of two CSR matrices and labels (Shchur et al.; CitationFull).

Counts (nodes, directed edges, features, classes): cora_ml 2995, 16316, 2879, 7; dblp 17716, 105734,
1639, 4; photo 7650, 238162, 745, 8; computers 13752, 491722, 767, 10; cs 18333, 163788, 6805, 15;
physics 34493, 495924, 8415, 5.

Source: Shchur et al. (2018), "Pitfalls of graph neural network evaluation", arXiv:1811.05868 (photo,
computers, cs, physics); Bojchevski and Guennemann (2018), arXiv:1707.03815 (cora_ml, dblp).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpgnn.core.checks import require
from dpgnn.data.graph import Graph, clean_edges
from dpgnn.data.raw.arrays import csr_from, read_npz

if TYPE_CHECKING:
    from dpgnn.data.raw.files import RawFiles

ARRAYS = tuple(
    f"{prefix}_{part}"
    for prefix in ("adj", "attr")
    for part in ("data", "indices", "indptr", "shape")
) + ("labels",)


def load(name: str, files: RawFiles, root_seed: int) -> Graph:
    """Read the one .npz file of a data set.

    As in every published loader, edges are made symmetric and kept once, self-loops are dropped, and a
    feature is 1 if the raw value (a count or TF-IDF) is above 0.
    """
    path = files.only_path()
    arrays = read_npz(path, ARRAYS)
    adjacency = csr_from(arrays, "adj", str(path))
    x = csr_from(arrays, "attr", str(path))
    num_nodes = x.shape[0]
    require(
        adjacency.shape == (num_nodes, num_nodes),
        f"{path}: adj_shape",
        f"be ({num_nodes}, {num_nodes}), the number of feature rows",
        adjacency.shape,
    )
    x.data = (x.data > 0).astype(np.float32)
    x.eliminate_zeros()
    labels = arrays["labels"]
    entries = adjacency.tocoo()
    return Graph(
        name=name,
        x=x,
        edge_index=clean_edges(entries.row, entries.col, num_nodes),
        y=labels.astype(np.int64),
        num_classes=int(labels.max()) + 1,
    )
