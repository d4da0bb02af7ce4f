"""Neighbour lists of an induced subgraph, for walks and diffusions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpgnn.samplers import _walk_kernels
from dpgnn.samplers.lists import Arcs, arc_chunks, node_mask, present_mask, present_roots


@dataclass(frozen=True, kw_only=True, eq=False)
class Adjacency:
    """An undirected graph on some nodes of an id universe; as sensitive as the edges.

    Attributes:
        pointer: int64, shape (num_nodes + 1,).
        neighbours: int32; node v's neighbours are neighbours[pointer[v]:pointer[v + 1]].
        members: int64, the nodes of the graph, ascending; all others have no neighbours.
    """

    pointer: np.ndarray
    neighbours: np.ndarray
    members: np.ndarray

    @property
    def num_nodes(self) -> int:
        """Size of the id universe."""
        return len(self.pointer) - 1


def induced_adjacency(
    arcs: Arcs, *, num_nodes: int, node_idx: np.ndarray, present: np.ndarray | None = None
) -> Adjacency:
    """The graph that `node_idx` induces, in two passes over the arcs.

    Guarantee: none; the lists are as sensitive as the edges.

    Args:
        arcs: both directions of every edge, integers, shape (2, num_arcs), or a function that starts a
            pass over chunks of that shape. Self-loops are left out.
        num_nodes: size of the id universe.
        node_idx: ids of the nodes.
        present: bool, shape (num_nodes,): nodes with a record; None means all.

    Returns:
        neighbour lists of the induced graph; sensitive.

    Raises:
        ValueError: an id is outside 0..num_nodes-1, or `node_idx` repeats one.
    """
    allowed = node_mask(num_nodes, node_idx, "node_idx") & present_mask(num_nodes, present)
    pointer = np.zeros(num_nodes + 1, np.int64)
    for chunk in arc_chunks(arcs, num_nodes):
        _walk_kernels.count_ends(chunk[0], chunk[1], allowed, pointer)
    np.cumsum(pointer, out=pointer)
    neighbours, place = np.empty(pointer[-1], np.int32), pointer[:-1].copy()
    for chunk in arc_chunks(arcs, num_nodes):
        _walk_kernels.fill_ends(chunk[0], chunk[1], allowed, place, neighbours)
    members = present_roots(node_idx, present)
    return Adjacency(pointer=pointer, neighbours=neighbours, members=members)
