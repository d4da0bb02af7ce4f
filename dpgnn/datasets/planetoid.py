"""Cora, CiteSeer and PubMed in the Planetoid format, with the public split.

Counts (nodes, directed edges, features, classes): cora 2708, 10556, 1433, 7; citeseer 3327, 9104,
3703, 6; pubmed 19717, 88648, 500, 3. Public split: 20 training nodes a class, 500 validation, 1000
test.

Source: Yang et al. (2016), "Revisiting semi-supervised learning with graph embeddings",
arXiv:1603.08861; file format of github.com/kimiyoung/planetoid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dpgnn.checks import fail, require
from dpgnn.datasets.edges import clean_edges
from dpgnn.datasets.safe_pickle import load_pickle
from dpgnn.graph import Graph

if TYPE_CHECKING:
    from pathlib import Path

    from dpgnn.datasets.raw_files import RawFiles

PICKLES = ("x", "tx", "allx", "y", "ty", "ally", "graph")
NUM_VAL = 500


def load(name: str, files: RawFiles, root_seed: int) -> Graph:
    """Read the eight ind.NAME.* files.

    Features as published (binary for Cora and CiteSeer, TF-IDF for PubMed), not normalised. Edges
    are made symmetric, each kept once, self-loops dropped. The 15 isolated CiteSeer nodes that the
    files leave out get zero features and, as in every published loader, class 0; they stand in no
    part of the public split.
    """
    raw: dict[str, Any] = {part: load_pickle(files.path(f"ind.{name}.{part}")) for part in PICKLES}
    test_idx = _read_index(files.path(f"ind.{name}.test.index"))
    first = raw["allx"].shape[0]
    require(
        test_idx.min() >= first,
        f"{name}: test.index",
        f"start at or after node {first}",
        int(test_idx.min()),
    )
    num_nodes = max(int(test_idx.max()) + 1, first)
    num_classes = raw["ally"].shape[1]
    labels = np.zeros((num_nodes, num_classes), dtype=np.int64)
    labels[:first], labels[test_idx] = raw["ally"], raw["ty"]
    num_train = raw["y"].shape[0]
    source, target = _read_adjacency(name, raw["graph"], num_nodes)
    return Graph(
        name=name,
        x=_place_rows(raw["allx"], raw["tx"], test_idx, num_nodes),
        edge_index=clean_edges(source, target, num_nodes),
        y=labels.argmax(axis=1),
        num_classes=num_classes,
        splits={
            "public": {
                "train": np.arange(num_train, dtype=np.int64),
                "val": np.arange(num_train, num_train + NUM_VAL, dtype=np.int64),
                "test": test_idx,
            }
        },
    )


def _place_rows(
    allx: sp.csr_array, tx: sp.csr_array, test_idx: np.ndarray, num_nodes: int
) -> sp.csr_array:
    """Rows of `allx` at the start, rows of `tx` at `test_idx`, zero rows elsewhere."""
    upper, lower = allx.tocoo(), tx.tocoo()
    row = np.concatenate([upper.row, test_idx[lower.row]])
    column = np.concatenate([upper.col, lower.col])
    value = np.concatenate([upper.data, lower.data]).astype(np.float32)
    x = sp.csr_array((value, (row, column)), shape=(num_nodes, allx.shape[1]))
    x.sort_indices()
    return x


def _read_index(path: Path) -> np.ndarray:
    """One node position a line."""
    lines = path.read_text(encoding="ascii").split()
    if not lines or not all(line.isdigit() for line in lines):
        fail(str(path), "hold one node position a line", lines[:3], "fetch it again")
    return np.array([int(line) for line in lines], dtype=np.int64)


def _read_adjacency(name: str, lists: Any, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """{node: [neighbours]} -> sources and targets."""
    require(isinstance(lists, dict), f"{name}: graph", "be a dictionary of lists", type(lists))
    source = np.repeat(
        np.fromiter(lists, dtype=np.int64, count=len(lists)), [len(item) for item in lists.values()]
    )
    target = np.array([node for item in lists.values() for node in item], dtype=np.int64)
    for ids in (source, target):
        inside = len(ids) > 0 and ids.min() >= 0 and ids.max() < num_nodes
        require(bool(inside), f"{name}: graph", f"name nodes 0..{num_nodes - 1}", "a node outside")
    return source, target
