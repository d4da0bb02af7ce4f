"""Flickr, Reddit and PPI in the GraphSAINT format, with the published split.

Counts (nodes, directed edges, features, classes): flickr 89250, 899756, 500, 7; reddit2 232965,
23213838, 602, 41; ppi 14755, 450540 (225,270 undirected), 50, 121 labels. Training nodes: 44625,
153932, 9716. This Reddit is the sparser one that DP-GNN and DRW use; `reddit` is GraphSAGE's.

Source: Zeng et al. (2020), "GraphSAINT", arXiv:1907.04931.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.core.checks import fail, require
from dpgnn.data.graph import Graph, Task, clean_edges
from dpgnn.data.raw.arrays import read_npy, read_npz
from dpgnn.data.raw.safe_pickle import checked_csr

if TYPE_CHECKING:
    from dpgnn.data.raw.files import RawFiles

ROLES = {"tr": "train", "va": "val", "te": "test"}
ADJACENCY = ("data", "indices", "indptr", "shape")


def load(name: str, files: RawFiles, root_seed: int) -> Graph:
    """Read adj_full.npz, feats.npy, class_map.json and role.json.

    Features as published, not standardised. Edges are made symmetric and kept once; self-loops are
    dropped. A class map of numbers gives classes, one of lists gives the multi-label task.
    """
    adjacency_path = files.path("adj_full.npz")
    arrays = read_npz(adjacency_path, ADJACENCY)
    data, indices, indptr, shape = (arrays[part] for part in ADJACENCY)
    adjacency = checked_csr(data, indices, indptr, shape, where=str(adjacency_path))
    published = files.source.num_edges
    require(
        published in (None, len(indices)),
        f"{name}: entries of adj_full.npz",
        f"be {published}, the published number",
        len(indices),
    )
    x = read_npy(files.path("feats.npy"))
    num_nodes = adjacency.shape[0]
    require(
        x.ndim == 2 and x.shape[0] == num_nodes,
        f"{name}: feats.npy",
        f"have {num_nodes} rows, one a node",
        x.shape,
    )
    y, num_classes, task = read_class_map(files.path("class_map.json"), num_nodes)
    entries = adjacency.tocoo()
    return Graph(
        name=name,
        x=x.astype(np.float32),
        edge_index=clean_edges(entries.row, entries.col, num_nodes),
        y=y,
        num_classes=num_classes,
        task=task,
        splits={"public": read_roles(files.path("role.json"))},
    )


def read_class_map(path: Path, num_nodes: int) -> tuple[np.ndarray, int, Task]:
    """{"node": class} or {"node": [0, 1, ...]} -> labels, their number, the task."""
    mapping = _read_json(path)
    require(isinstance(mapping, dict), str(path), "be a mapping from node to class", type(mapping))
    require(
        sorted(map(int, mapping)) == list(range(num_nodes)),
        str(path),
        f"name the nodes 0..{num_nodes - 1}",
        f"{len(mapping)} entries",
    )
    labels: list[Any] = [None] * num_nodes
    for node, label in mapping.items():
        labels[int(node)] = label
    several = isinstance(labels[0], list)
    for node, label in enumerate(labels):
        if several:
            ok, rule = _is_list_of(label, 0, 1), "be a list of 0 and 1"
            ok = ok and len(label) == len(labels[0])
        else:
            ok, rule = _is_list_of([label], 0, num_nodes), "be the number of a class"
        require(ok, f"{path}: label of node {node}", rule, label, "fetch it again")
    if several:
        return np.array(labels, dtype=np.uint8), len(labels[0]), "multilabel"
    return np.array(labels, dtype=np.int64), max(labels) + 1, "multiclass"


def _is_list_of(values: object, least: int, most: int) -> bool:
    """Whether it is a list of whole numbers in this range; true and false are none."""
    return isinstance(values, list) and all(
        type(value) is int and least <= value <= most for value in values
    )


def read_roles(path: Path) -> dict[str, np.ndarray]:
    """{"tr": [...], "va": [...], "te": [...]} -> int64 positions by part."""
    roles = _read_json(path)
    if not isinstance(roles, dict) or not set(ROLES) <= set(roles):
        fail(str(path), "hold the lists tr, va, te", roles if roles is None else list(roles))
    for role in ROLES:
        ok = _is_list_of(roles[role], 0, 2**62)
        require(
            ok, f"{path}: {role}", "be a list of nodes", str(roles[role])[:60], "fetch it again"
        )
    return {part: np.array(roles[role], dtype=np.int64) for role, part in ROLES.items()}


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        fail(str(path), "be JSON", str(error), "fetch it again")
