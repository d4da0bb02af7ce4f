"""A PyG `Data`, or any object with its attributes, as a graph and a split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.core.checks import fail, require
from dpgnn.data.custom.arrays import OF_EDGES, array_of
from dpgnn.data.graph import Graph, clean_edges
from dpgnn.data.splits import Split

if TYPE_CHECKING:
    from collections.abc import Sequence

# classes that labels may count; more where a graph has more nodes
MOST_COUNTED = 10_000
SPARSE = ("torch.sparse_coo", "torch.sparse_csr", "torch.sparse_csc")
MASKS = {"train": "train_mask", "val": "val_mask", "test": "test_mask"}


@dataclass(frozen=True, kw_only=True)
class Given:
    """The data of a fit.

    Attributes:
        graph: features, edges and labels.
        split: training, validation and test nodes; without a test mask, nodes of no mask are test nodes.
        caveats: ids of the caveats that follow from reading the graph.
    """

    graph: Graph
    split: Split
    caveats: tuple[str, ...]


def read_data(
    data: Any, *, name: str, num_classes: int | None, directed: bool, task: str | None = None
) -> Given:
    """A graph and its split from a PyG `Data`.

    Args:
        data: x (num_nodes, num_features), edge_index (2, num_edges), y (num_nodes,) with -1 where
            unlabelled, or 0/1 (num_nodes, num_labels); train_mask, and val_mask and test_mask where there are
            any, bool (num_nodes,).
        name: of the graph, in messages.
        num_classes: public; None counts the labels, and claims then carry the caveat `preprocessing`.
        directed: whether edges are directed; otherwise reverse edges are added. Duplicate edges count once.
        task: None takes multilabel if y has two dimensions.

    Raises:
        ValueError: an attribute is missing or wrong; names it.
    """
    y = _labels(data)
    several = task == "multilabel" if task else y.ndim == 2 and y.shape[1] > 1
    counted = num_classes is None
    if num_classes is None:
        num_classes = _array(data, "y").shape[1] if several else _counted(y)
    graph = graph_of(data, name=name, num_classes=num_classes, directed=directed, several=several)
    parts = {part: np.flatnonzero(_mask(data, mask, graph)) for part, mask in MASKS.items()}
    if getattr(data, MASKS["test"], None) is None:
        used = np.concatenate([parts["train"], parts["val"]])
        parts["test"] = np.setdiff1d(np.arange(graph.num_nodes), used)
    _check_parts(graph, parts)
    split = Split(
        train_idx=parts["train"], val_idx=parts["val"], test_idx=parts["test"], inductive=False
    )
    # for multilabel the number of labels is a shape; a number of classes is counted from labels
    return Given(
        graph=graph, split=split, caveats=("preprocessing",) if counted and not several else ()
    )


def graph_of(
    data: Any, *, name: str, num_classes: int, directed: bool = False, several: bool = False
) -> Graph:
    """The graph of a `Data`; without y, nodes are unlabelled.

    Raises:
        ValueError: an attribute is missing or wrong; names it.
    """
    if isinstance(data, Graph):
        return data
    for unread in OF_EDGES:
        given = getattr(data, unread, None)
        remedy = f"edges carry no weights or features here; leave it out: data.{unread} = None"
        require(given is None, f"data.{unread}", "be left out", _size_of(given), remedy)
    x = _features(data)
    edges = _array(data, "edge_index")
    whole = edges.ndim == 2 and len(edges) == 2 and edges.dtype.kind in "iu"
    rule = "be whole numbers of shape (2, num_edges)"
    require(whole, "data.edge_index", rule, f"{edges.dtype} {edges.shape}")
    outside = edges[(edges < 0) | (edges >= x.shape[0])]
    rule = f"hold nodes in 0..{x.shape[0] - 1}"
    require(not outside.size, "data.edge_index", rule, outside[:1].tolist(), "number nodes from 0")
    shape = (x.shape[0], num_classes) if several else (x.shape[0],)
    y = np.full(shape, 0 if several else -1) if getattr(data, "y", None) is None else _labels(data)
    return Graph(
        name=name,
        x=x,
        edge_index=clean_edges(
            edges[0], edges[1], x.shape[0], undirected=not directed, drop_self_loops=False
        ),
        y=y.astype(np.uint8 if several else np.int64),
        num_classes=num_classes,
        task="multilabel" if several else "multiclass",
        directed=directed,
    )


def positions(nodes: Sequence[int] | np.ndarray | Any, num_nodes: int) -> np.ndarray:
    """Node positions from positions or a mask; None is all nodes.

    Raises:
        ValueError: a node does not exist, or a mask has another length.
    """
    if nodes is None:
        return np.arange(num_nodes)
    asked = np.asarray(nodes)
    if asked.dtype == bool:
        require(
            asked.shape == (num_nodes,), "nodes", f"be a mask of {num_nodes} nodes", asked.shape
        )
        return np.flatnonzero(asked)
    whole = asked.ndim == 1 and (asked.dtype.kind in "iu" or not asked.size)
    require(whole, "nodes", "be node positions or a mask", f"{asked.dtype} {asked.shape}")
    outside = asked[(asked < 0) | (asked >= num_nodes)]
    require(not outside.size, "nodes", f"lie in 0..{num_nodes - 1}", outside[:1].tolist())
    return asked.astype(np.int64)


def _size_of(value: Any) -> str:
    return f"{type(value).__name__} {tuple(getattr(value, 'shape', ()))}"


def _features(data: Any) -> Any:
    import scipy.sparse as sp

    x: Any = getattr(data, "x", None)
    if sp.issparse(x):
        return sp.csr_array(x).astype(np.float32)
    if str(getattr(x, "layout", "")) in SPARSE:
        found = x.coalesce() if x.is_sparse else x.to_sparse_coo().coalesce()
        cells = (found.values().numpy(), tuple(found.indices().numpy()))
        return sp.csr_array(cells, shape=tuple(found.shape)).astype(np.float32)
    x = _array(data, "x")
    require(x.dtype.kind in "biuf", "data.x", "hold numbers", str(x.dtype))
    require(x.ndim == 2, "data.x", "have two dimensions", x.shape)
    return x.astype(np.float32)


def _labels(data: Any) -> np.ndarray:
    y = _array(data, "y")
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    require(
        y.dtype.kind in "biuf", "data.y", "hold whole numbers, -1 where unlabelled", str(y.dtype)
    )
    whole = bool(np.isfinite(y).all() and (y == np.round(y)).all())
    require(whole, "data.y", "hold whole numbers, -1 where unlabelled", str(y.dtype))
    return y


def _counted(y: np.ndarray) -> int:
    """One more than the largest label.

    Raises:
        ValueError: a label is too large to count classes by.
    """
    largest, most = int(y.max()) if y.size else -1, max(len(y), MOST_COUNTED)
    remedy = "number the classes from 0 and mark unlabelled nodes by -1, or give num_classes"
    require(
        largest < most,
        "data.y",
        f"hold labels below {most} where they are counted",
        largest,
        remedy,
    )
    return largest + 1


def _array(data: Any, name: str) -> np.ndarray:
    value = getattr(data, name, None)
    if value is None:
        fail(f"data.{name}", "be there", None, "a PyG Data with x, edge_index, y and train_mask")
    return array_of(f"data.{name}", value) if hasattr(value, "detach") else np.asarray(value)


def _mask(data: Any, name: str, graph: Graph) -> np.ndarray:
    if name != MASKS["train"] and getattr(data, name, None) is None:
        return np.zeros(graph.num_nodes, bool)
    mask = _array(data, name)
    ok = mask.dtype == bool and mask.shape == (graph.num_nodes,)
    rule = f"be bool of shape ({graph.num_nodes},)"
    require(ok, f"data.{name}", rule, f"{mask.dtype} {mask.shape}", "choose one split of several")
    return mask


def _check_parts(graph: Graph, parts: dict[str, np.ndarray]) -> None:
    for one, other in (("train", "val"), ("train", "test"), ("val", "test")):
        both = np.intersect1d(parts[one], parts[other])
        rule = f"leave out the nodes of data.{MASKS[one]}"
        require(not len(both), f"data.{MASKS[other]}", rule, both[:1].tolist())
    train = graph.y[parts["train"]]
    require(len(train) > 0, "data.train_mask", "hold a node", "none")
    unlabelled = parts["train"][train < 0] if graph.task == "multiclass" else train[:0]
    remedy = "leave unlabelled nodes out of train_mask"
    require(not len(unlabelled), "data.y of training nodes", "be labels", -1, remedy)
    remedy = "leave a node out of train_mask"
    require(len(parts["test"]) > 0, "data", "have a node that is no training node", "none", remedy)
