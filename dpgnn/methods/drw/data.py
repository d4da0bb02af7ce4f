"""From walks to the engine's trees, with the first hop precomputed.

A GCN's first hop reads only features: sum_u w_vu x_u is fixed for given walks. It is computed once per row,
so training starts at the first matrix and a sparse x stays sparse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.models.network import Network
    from dpgnn.models.trees import Trees

Conv = Literal["symmetric", "gcn"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Inputs:
    """Inputs of the clipping engine; as sensitive as the graph.

    Attributes:
        x: float32, dense or CSR: one row per row of the trees (aggregated once), or the features.
        trees: one tree per subgraph.
    """

    x: Any
    trees: Trees


def training_edges(graph: Graph, split: Split) -> np.ndarray:
    """edge_index of the induced training graph without self-loops, arcs as their records list them.

    An undirected graph has both directions of every edge. A directed one is not mirrored, which would add ids
    to other records' lists.
    """
    mask = np.zeros(graph.num_nodes, dtype=bool)
    mask[split.train_idx] = True
    edges = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]]
    return np.ascontiguousarray(edges[:, mask[edges[0]] & mask[edges[1]]])


def first_hop(trees: Trees, x: Any) -> Inputs:
    """Precompute the first hop of trees of depth >= 1: aggregated rows, and trees one hop shallower.

    Guarantee: a network that starts with a linear layer gives every root the same logits on the result as the
    network with one more hop on `trees`, up to rounding.

    Args:
        trees: depth r >= 1, from `build_trees`.
        x: float32, (num_nodes, num_features), dense or CSR.
    """
    from dpgnn.models.trees import Trees

    num_rows = np.diff(trees.row_ptr)
    position = np.arange(len(trees.node)) - np.repeat(trees.row_ptr[:-1], num_rows)
    kept = np.flatnonzero(position < np.repeat(trees.level_rows[:, 1], num_rows))
    base = np.repeat(trees.row_ptr[:-1], num_rows)[kept]
    ptr, entry, count = _lists(trees.entry_ptr, kept)
    columns = trees.node[trees.entry_row[entry] + np.repeat(base, count)]
    shape = (len(kept), x.shape[0])
    operator = sp.csr_array((trees.entry_weight[entry], columns, ptr), shape=shape)
    row_ptr = np.concatenate([[0], np.cumsum(trees.level_rows[:, 1], dtype=np.int64)])
    if trees.num_hops == 1:
        entry_ptr = np.zeros(len(kept) + 1, dtype=np.int64)
        entry_row, entry_weight = np.zeros(0, np.int32), np.zeros(0, np.float32)
    else:
        # only rows that are needed after the next hop still read others
        reads = position[kept] < np.repeat(trees.level_rows[:, 2], trees.level_rows[:, 1])
        entry_ptr = np.concatenate([[0], np.cumsum(count * reads)]).astype(np.int64)
        left = entry[np.repeat(reads, count)]
        entry_row, entry_weight = trees.entry_row[left], trees.entry_weight[left]
    shallower = Trees(
        num_hops=trees.num_hops - 1, node=np.arange(len(kept), dtype=np.int64), row_ptr=row_ptr,
        level_rows=np.ascontiguousarray(trees.level_rows[:, 1:]), entry_ptr=entry_ptr,
        entry_row=entry_row,
        entry_weight=entry_weight, y=trees.y,
    )  # fmt: skip
    return Inputs(x=_features(operator @ x), trees=shallower)


def first_hop_of_graph(edge_index: np.ndarray, x: Any, conv: Conv) -> Any:
    """The first hop on a whole graph: float32, shape of x; CSR for a CSR x."""
    from dpgnn.models.trees import graph_lists

    ptr, row, weight = graph_lists(edge_index, x.shape[0], conv)
    return _features(sp.csr_array((weight, row, ptr), shape=(x.shape[0], x.shape[0])) @ x)


def network_behind_first_hop(
    *, num_layers: int, width: int, num_features: int, num_outputs: int, task: Any, gcn: bool,
    conv: Conv,
) -> Network:  # fmt: skip
    """The network of `num_layers` layers after its first hop; a plain MLP if not `gcn`.

    One layer: d -> classes. Two layers: d -> width, ReLU, (hop,) width -> classes.
    """
    from dpgnn.models.network import Network, NetworkConfig

    hops = num_layers - 1 if gcn else 0
    config = NetworkConfig(
        num_features=num_features, num_outputs=num_outputs, width=width,
        encoder_layers=num_layers - 1, num_hops=hops, decoder_layers=0 if hops else 1, conv=conv,
        activation="relu", task=task,
    )  # fmt: skip
    return Network(config)


def _lists(ptr: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pointers, positions and lengths of the lists of some rows."""
    count = ptr[rows + 1] - ptr[rows]
    new_ptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    entry = np.arange(new_ptr[-1]) - np.repeat(new_ptr[:-1] - ptr[rows], count)
    return new_ptr, entry, count


def _features(x: Any) -> Any:
    """float32, dense arrays contiguous, CSR as a csr_array."""
    if sp.issparse(x):
        return sp.csr_array(x).astype(np.float32)
    return np.ascontiguousarray(x, dtype=np.float32)
