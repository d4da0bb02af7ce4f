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

from dpgnn.core.checks import fail, require
from dpgnn.data.graph import Graph, clean_edges
from dpgnn.data.raw.safe_pickle import load_pickle

if TYPE_CHECKING:
    from pathlib import Path

    from dpgnn.data.raw.files import RawFiles

MATRICES, ARRAYS = ("x", "tx", "allx"), ("y", "ty", "ally")
NUM_VAL = 500
MAX_DIGITS = 9  # of a node's position


def load(name: str, files: RawFiles, root_seed: int) -> Graph:
    """Read the eight ind.NAME.* files.

    Features as published (binary for Cora and CiteSeer, TF-IDF for PubMed), not normalised. Edges
    are made symmetric, each kept once, self-loops dropped. The 15 isolated CiteSeer nodes that the files
    leave out get zero features and, as in every published loader, class 0; they are in no part of the public
    split.

    Raises:
        ValueError: a file is damaged, holds something else, or has other rows than its companions.
    """
    raw = _read_pickles(name, files)
    test_idx = _read_index(files.path(f"ind.{name}.test.index"))
    _check_shapes(name, files, raw, len(test_idx))
    first = raw["allx"].shape[0]
    require(
        test_idx.min() >= first, f"{name}: test.index", f"start at or after node {first}",
        int(test_idx.min()),
    )  # fmt: skip
    num_nodes = max(int(test_idx.max()) + 1, first)
    num_classes = raw["ally"].shape[1]
    labels = np.zeros((num_nodes, num_classes), dtype=np.int64)
    labels[:first], labels[test_idx] = raw["ally"], raw["ty"]
    num_train = raw["y"].shape[0]
    source, target = _read_adjacency(files.path(f"ind.{name}.graph"), num_nodes)
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


def _read_pickles(name: str, files: RawFiles) -> dict[str, Any]:
    """Features and labels, with their types checked."""
    raw: dict[str, Any] = {}
    for part in (*MATRICES, *ARRAYS):
        path = files.path(f"ind.{name}.{part}")
        found = raw[part] = load_pickle(path)
        matrix = part in MATRICES
        right = sp.issparse(found) if matrix else isinstance(found, np.ndarray) and found.ndim == 2
        rule = "hold a CSR matrix" if matrix else "hold an array of two dimensions"
        require(right, str(path), rule, type(found).__name__, "fetch it again")
    return raw


def _check_shapes(name: str, files: RawFiles, raw: dict[str, Any], num_test: int) -> None:
    """Labels and features that belong together have the same rows."""
    rows = {"y": raw["x"].shape[0], "ally": raw["allx"].shape[0], "ty": num_test, "tx": num_test}
    shapes = {part: (size, raw["ally"].shape[1]) for part, size in rows.items()}
    shapes["tx"] = (num_test, raw["allx"].shape[1])
    for part, shape in shapes.items():
        path = files.path(f"ind.{name}.{part}")
        require(raw[part].shape == shape, str(path), f"have shape {shape}", raw[part].shape)


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
    lines = path.read_bytes().split()
    if not lines or not all(line.isdigit() and len(line) < MAX_DIGITS for line in lines):
        fail(str(path), "hold one node position a line", lines[:3], "fetch it again")
    return np.array([int(line) for line in lines], dtype=np.int64)


def _read_adjacency(path: Path, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """{node: [neighbours]} -> sources and targets."""
    lists = load_pickle(path)
    right = isinstance(lists, dict) and all(
        isinstance(node, int) and isinstance(near, list) and all(isinstance(v, int) for v in near)
        for node, near in lists.items()
    )
    rule = "hold a dictionary of lists of node positions"
    require(right, str(path), rule, type(lists).__name__, "fetch it again")
    ends = [(node, other) for node, near in lists.items() for other in near]
    inside = ends and all(0 <= node < num_nodes for pair in ends for node in pair)
    require(bool(inside), f"{path}: graph", f"name nodes 0..{num_nodes - 1}", "a node outside")
    source, target = np.array(ends, dtype=np.int64).T
    return source, target
