"""A user's own graph in one file of arrays: graph.npz, or graph.pt as PyG saves it."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.core.checks import fail, require
from dpgnn.data.custom.check import Problems, RawGraph
from dpgnn.data.custom.options import MAX_FEATURES, Options
from dpgnn.data.files.content import PART_CODES
from dpgnn.data.raw.arrays import csr_from, read_npz

if TYPE_CHECKING:
    import torch

SPARSE = ("x_data", "x_indices", "x_indptr", "x_shape")
READ = ("x", *SPARSE, "y", "edge_index", *(f"{part}_mask" for part in PART_CODES))
OF_EDGES = ("edge_weight", "edge_attr")  # PyG's names of data of edges, which no method reads
MAX_INT = 2**63 - 1


def read_npz_graph(path: Path, options: Options, problems: Problems) -> RawGraph:
    """Read graph.npz: x (or x_data, x_indices, x_indptr, x_shape), y, edge_index, *_mask.

    Raises:
        ValueError: damaged, an array is missing, or has another shape.
    """
    arrays = read_npz(path)
    with zipfile.ZipFile(path) as archive:
        unread = {name.removesuffix(".npy") for name in archive.namelist()} - set(arrays)
    for name in ("x", "y", "edge_index"):
        if name in unread:
            remedy = f"save it as numbers: {name} = np.array({name}.tolist(), dtype=...)"
            fail(
                f"{path}: array {name}",
                "hold numbers",
                "Python objects, which are not read",
                remedy,
            )
    _refuse_weights(path, sorted(arrays))
    return _from_arrays(path, arrays, options, present=sorted(arrays))


def read_pyg(path: Path, options: Options, problems: Problems) -> RawGraph:
    """Read graph.pt: a PyG `Data` or a dictionary of tensors, without executing any code in it.

    Raises:
        ValueError: it holds anything but tensors and PyG's own containers, or a needed tensor is not dense.
    """
    import torch
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    try:
        with torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]):
            found = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # torch raises many exception types for damaged and hostile files
        text = " ".join(str(error).split())
        remedy = "save the graph as `torch.save(data, ...)` with tensors only; nothing was executed"
        fail(str(path), "hold tensors only", text[-160:], remedy)
    values = found.to_dict() if hasattr(found, "to_dict") else found
    if not isinstance(values, Mapping):
        fail(str(path), "hold a PyG Data or a dictionary", type(values).__name__)
    tensors = {str(k): v for k, v in values.items() if isinstance(v, torch.Tensor)}
    # other attributes, such as a sparse copy of the edges, are ignored
    _refuse_weights(path, sorted(tensors))
    arrays = {k: array_of(f"{path}: {k}", v) for k, v in tensors.items() if k in READ}
    return _from_arrays(path, arrays, options, present=sorted(tensors))


def array_of(where: str, tensor: torch.Tensor) -> np.ndarray:
    """A dense tensor's values; bfloat16, which numpy lacks, becomes float32.

    Raises:
        ValueError: it is not dense; `where` names it.
    """
    import torch

    plain = tensor.detach().cpu()
    try:
        return (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
    except (TypeError, RuntimeError):
        kind = f"{tensor.layout}, {tensor.dtype}".replace("torch.", "")
        fail(where, "be a dense tensor of numbers", kind, "give it as `tensor.to_dense()`")


def _refuse_weights(path: Path, present: list[str]) -> None:
    """Refuse data of edges, which would be left out without a word."""
    for name in sorted(set(OF_EDGES) & set(present)):
        remedy = "edges carry no weights or features here; save the graph without it"
        fail(f"{path}: {name}", "not be there", ", ".join(present), remedy)


def _from_arrays(
    path: Path, arrays: dict[str, np.ndarray], options: Options, *, present: list[str]
) -> RawGraph:
    wanted = ["y", "edge_index", *([] if "x_data" in arrays else ["x"])]
    for name in wanted:
        if name not in arrays:
            fail(f"{path}: array {name}", "be there", ", ".join(present) or "no arrays")
    x: Any = csr_from(arrays, "x", str(path)) if "x_data" in arrays else arrays["x"]
    require(x.ndim == 2, f"{path}: x", "have two dimensions", x.shape)
    require(x.dtype.kind in "biuf", f"{path}: x", "hold numbers", str(x.dtype))
    num_nodes, y, edges = x.shape[0], arrays["y"], arrays["edge_index"]
    require(num_nodes > 0, f"{path}: x", "have a row for each node", x.shape)
    require(x.shape[1] > 0, f"{path}: features", "be one column or more", "none")
    rule = f"be {MAX_FEATURES} or fewer columns"
    require(x.shape[1] <= MAX_FEATURES, f"{path}: features", rule, x.shape[1])
    require(y.dtype.kind in "biu", f"{path}: y", "hold whole numbers", str(y.dtype))
    if y.dtype.kind == "u" and y.size:
        require(int(y.max()) <= MAX_INT, f"{path}: y", f"be <= {MAX_INT}", int(y.max()))
    multilabel = options.task == "multilabel"
    shape = f"({num_nodes}, number of labels)" if multilabel else f"({num_nodes},)"
    right = y.ndim == (2 if multilabel else 1) and len(y) == num_nodes
    require(right, f"{path}: y", f"have shape {shape}", y.shape)
    right = edges.ndim == 2 and edges.shape[0] == 2
    require(right, f"{path}: edge_index", "have shape (2, num_edges)", edges.shape)
    require(edges.dtype.kind in "iu", f"{path}: edge_index", "hold integers", str(edges.dtype))
    if multilabel:
        require(y.shape[1] > 0, f"{path}: y", "have a column for each label", y.shape)
        other = y[(y != 0) & (y != 1)]
        if len(other):
            fail(f"{path}: y", "hold 0 and 1 only", int(other[0]))
    return RawGraph(
        where=str(path),
        where_edges=f"{path}: edge_index",
        num_nodes=num_nodes,
        x=x.astype(np.float32),
        y=y.astype(np.uint8 if multilabel else np.int64),
        source=edges[0].astype(np.int64),
        target=edges[1].astype(np.int64),
        codes=_codes(path, arrays, num_nodes),
    )


def _codes(path: Path, arrays: Mapping[str, np.ndarray], num_nodes: int) -> np.ndarray | None:
    """train_mask, val_mask, test_mask -> int8 codes."""
    masks = {part: arrays[f"{part}_mask"] for part in PART_CODES if f"{part}_mask" in arrays}
    if not masks:
        return None
    codes = np.full(num_nodes, -1, dtype=np.int8)
    for part, mask in masks.items():
        where = f"{path}: {part}_mask"
        right = mask.shape == (num_nodes,) and mask.dtype == np.bool_
        require(right, where, f"be bool of shape ({num_nodes},)", f"{mask.dtype} {mask.shape}")
        taken = codes[mask] >= 0
        require(not taken.any(), where, "share no node with another mask", f"{int(taken.sum())}")
        codes[mask] = PART_CODES[part]
    return codes
