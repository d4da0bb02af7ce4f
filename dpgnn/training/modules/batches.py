"""The trees of some roots as one graph without edges between them, the input of a user's module."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from dpgnn.models.trees import Trees
from dpgnn.training.chunks import level_ptr, row_nodes, tree_entries

# what the rows of a tensor belong to: "nodes", "edges", or "edges and nodes" (self-loops are appended)
Kind = str


@dataclass(frozen=True, kw_only=True, eq=False)
class TreeBatch:
    """The trees of some roots as one graph.

    Attributes:
        ptr: int64, shape (num_roots + 1,): rows of each root; its first row is the root.
        edge_ptr: int64, shape (num_roots + 1,).
        node: int64: positions of the rows in x.
        edge_index: int64, shape (2, num_edges); edges of a root are consecutive.
        root_id: int64, shape (num_roots,): positions of the roots in x.
    """

    ptr: np.ndarray
    edge_ptr: np.ndarray
    node: Tensor
    edge_index: Tensor
    root_id: Tensor
    _kept: dict[Kind, tuple[Tensor, np.ndarray, Tensor | None]] = field(default_factory=dict)

    @property
    def num_roots(self) -> int:
        """Number of roots."""
        return len(self.ptr) - 1

    def sizes(self) -> dict[Kind, int]:
        """Number of rows of each kind."""
        nodes, edges = int(self.ptr[-1]), int(self.edge_ptr[-1])
        return {"nodes": nodes, "edges": edges, "edges and nodes": nodes + edges}

    def owners(self, kind: Kind) -> tuple[Tensor, np.ndarray, Tensor | None]:
        """Owner of each row; starts of each root's rows after sorting; the sorting order, or None."""
        if kind not in self._kept:
            root = np.arange(self.num_roots)
            by = {"nodes": self.ptr, "edges": self.edge_ptr}
            parts = [np.repeat(root, np.diff(ptr)) for name, ptr in by.items() if name in kind][
                ::-1
            ]
            owner = torch.from_numpy(np.concatenate(parts)).to(self.node.device)
            order = None if len(parts) == 1 else torch.argsort(owner, stable=True)
            pointer = sum(ptr for name, ptr in by.items() if name in kind)
            self._kept[kind] = (owner, np.asarray(pointer, np.int64), order)
        return self._kept[kind]

    def places(self, kind: Kind) -> tuple[Tensor, Tensor]:
        """For each row: position of its root in x, and place among the rows of that root."""
        owner, _, _ = self.owners(kind)
        first = {
            name: torch.from_numpy(p[:-1]).to(owner.device)
            for name, p in (("nodes", self.ptr), ("edges", self.edge_ptr))
        }
        num_edges = torch.from_numpy(np.diff(self.edge_ptr)).to(owner.device)
        parts, at = [], 0
        for name in ("edges", "nodes"):
            if name in kind:
                size = self.sizes()[name]
                root = owner[at : at + size]
                place = torch.arange(size, device=owner.device) - first[name][root]
                parts.append(place + (num_edges[root] if kind != name and name == "nodes" else 0))
                at += size
        return self.root_id[owner], torch.cat(parts)


def tree_batch(trees: Trees, roots: np.ndarray, device: torch.device | str = "cpu") -> TreeBatch:
    """The trees of some roots, side by side; `trees` were made for a convolution without self-loops.

    Args:
        trees: trees of all roots.
        roots: int64 positions among the roots.
        device: where the tensors go.
    """
    ptr = level_ptr(trees, roots)[0]
    node = np.empty(ptr[-1], dtype=np.int64)
    row_nodes(roots, ptr, trees.row_ptr, trees.node, node)
    lists = (trees.row_ptr, trees.entry_ptr, trees.entry_row, trees.entry_weight)
    target, source, _ = tree_entries(roots, ptr, ptr, *lists)
    edge_ptr = np.zeros_like(ptr)
    first, last = trees.row_ptr[roots], trees.row_ptr[roots + 1]
    np.cumsum(trees.entry_ptr[last] - trees.entry_ptr[first], out=edge_ptr[1:])
    return TreeBatch(
        ptr=ptr,
        edge_ptr=edge_ptr,
        node=torch.from_numpy(node).to(device),
        edge_index=torch.from_numpy(np.stack([source, target])).to(device),
        root_id=torch.from_numpy(trees.node[first]).to(device),
    )
