"""Reddit as GraphSAGE published it: posts joined when one user commented on both.

Counts (nodes, directed edges, features, classes): reddit 232965, 114615892, 602, 41; training nodes
153431. `reddit-dpar`, DPAR's subset, is stated as 116713 nodes, 46233380 edges, 602 features, 8
classes.

Source: Hamilton et al. (2017), arXiv:1706.02216; reddit.zip, which holds reddit_data.npz
and reddit_graph.npz.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpgnn.core.checks import require
from dpgnn.data.graph import Graph, clean_edges
from dpgnn.data.raw.arrays import read_npz

if TYPE_CHECKING:
    from dpgnn.data.raw.files import RawFiles

PARTS = {"train": 1, "val": 2, "test": 3}
DPAR_CLASSES = 8


def load(name: str, files: RawFiles, root_seed: int) -> Graph:
    """Read both files; `reddit-dpar` keeps the 8 largest classes.

    DPAR does not describe how its 8-class subset was chosen. The rule here is a guess; the counts are checked
    after loading, so a wrong guess is an error with both numbers.
    """
    archive = files.only_path()
    data = read_npz(archive, ("feature", "label", "node_types"), inside="reddit_data.npz")
    edges = read_npz(archive, ("row", "col"), inside="reddit_graph.npz")
    num_nodes = len(data["label"])
    for array in (edges["row"], edges["col"]):
        inside = len(array) > 0 and array.min() >= 0 and array.max() < num_nodes
        require(bool(inside), f"{archive}: row, col", f"lie in 0..{num_nodes - 1}", "outside")
    types = data["node_types"]
    graph = Graph(
        name=name,
        x=data["feature"].astype(np.float32),
        edge_index=clean_edges(edges["row"], edges["col"], num_nodes),
        y=data["label"].astype(np.int64),
        num_classes=int(data["label"].max()) + 1,
        splits={"public": {part: np.flatnonzero(types == code) for part, code in PARTS.items()}},
    )
    return largest_classes(graph, DPAR_CLASSES) if name == "reddit-dpar" else graph


def largest_classes(graph: Graph, num_classes: int) -> Graph:
    """The graph induced by its `num_classes` most frequent classes, relabelled in ascending order."""
    sizes = np.bincount(graph.y[graph.y >= 0], minlength=graph.num_classes)
    classes = np.sort(np.argsort(-sizes, kind="stable")[:num_classes])
    mask = np.isin(graph.y, classes)
    kept = np.flatnonzero(mask)
    edges = np.searchsorted(kept, graph.edges_within(mask))
    return Graph(
        name=graph.name,
        x=graph.x[kept],
        edge_index=edges,
        y=np.searchsorted(classes, graph.y[kept]),
        num_classes=num_classes,
    )
