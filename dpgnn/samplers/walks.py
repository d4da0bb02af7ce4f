"""Disjoint random walks: DRW, DRW with restarts, fresh partitions for DRW-D, and the node-record chains.

Every training node is in exactly one subgraph. The partition depends on edges but not on features, so with
public structure exactly one clipped gradient depends on a node: (1, 1) for `node-features`. There is no
promise for units that protect edges: one removed edge can change all later walks
(tests/soundness/test_disjoint_walks.py). `record_chains` is the sampler to use there.

Source: Ayle et al. (2023), Algorithms 2 and 3. In DRW-R the subgraph is added once, after the loop over
restarts; the printed algorithm adds it once in each turn, which would break disjointness.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpgnn.core.checks import at_least, one_of, require
from dpgnn.samplers import _ragged, _walk_kernels
from dpgnn.samplers.adjacency import Adjacency, induced_adjacency
from dpgnn.samplers.hashing import draw_key
from dpgnn.samplers.lists import Arcs
from dpgnn.samplers.own_list import OwnList
from dpgnn.samplers.promise import Change, Promise
from dpgnn.samplers.subgraphs import Subgraphs

if TYPE_CHECKING:
    import pyarrow as pa

Inside = Literal["induced", "walk"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Partition:
    """Training nodes partitioned into walks, in the order of drawing; as sensitive as the edges.

    Attributes:
        node_ptr: int64, shape (num_subgraphs + 1,).
        nodes: int64 global ids; the root is first.
        parent: int32 position inside the subgraph of the node the walk came from; -1 for the root.
    """

    node_ptr: np.ndarray
    nodes: np.ndarray
    parent: np.ndarray

    @property
    def num_subgraphs(self) -> int:
        """M, the number of subgraphs; depends on the edges, which are public under the unit."""
        return len(self.node_ptr) - 1

    @property
    def roots(self) -> np.ndarray:
        """int64, shape (num_subgraphs,)."""
        return self.nodes[self.node_ptr[:-1]]

    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """The subgraph of each node, and its position inside it; int64, shape (num_nodes,) each."""
        sizes = np.diff(self.node_ptr)
        position = np.arange(len(self.nodes)) - np.repeat(self.node_ptr[:-1], sizes)
        return np.repeat(np.arange(self.num_subgraphs), sizes), position

    def to_table(self) -> pa.Table:
        """A pyarrow table of kind `partition`: subgraph, position, node, parent; a row for each node."""
        import pyarrow as pa

        subgraph, position = self.places()
        return pa.table(
            {
                "subgraph": subgraph,
                "position": position.astype(np.int32),
                "node": self.nodes,
                "parent": self.parent,
            }
        )

    def subgraphs(self, graph: Adjacency, *, inside: Inside = "induced") -> Subgraphs:
        """The partition as subgraphs, in the same order.

        Guarantee: each node is in at most one subgraph. The result is as sensitive as the edges.

        Args:
            graph: the graph the partition was drawn from.
            inside: "induced" takes all edges among a subgraph's nodes (the paper does not say), "walk"
                only those that the walk took; both directions of each.

        Raises:
            ValueError: inside is neither of the two.
        """
        one_of("inside", inside, ("induced", "walk"))
        edge_ptr = np.zeros(self.num_subgraphs + 1, np.int64)
        if inside == "walk":
            heads, tails = self._walk_edges(edge_ptr)
        else:
            heads, tails = self._induced_edges(graph, edge_ptr)
        depth = np.empty(len(self.nodes), np.int8)
        _ragged.depths(self.node_ptr, edge_ptr, heads, tails, depth)
        return Subgraphs(
            roots=self.roots,
            node_ptr=self.node_ptr,
            nodes=self.nodes,
            edge_ptr=edge_ptr,
            edge_source=heads,
            edge_target=tails,
            depth=depth,
            max_occurrences=1,
        )

    def _walk_edges(self, edge_ptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        np.cumsum(2 * (np.diff(self.node_ptr) - 1), out=edge_ptr[1:])
        child = self.places()[1][self.parent >= 0].astype(np.int32)
        parent = self.parent[self.parent >= 0]
        heads, tails = np.empty(2 * len(child), np.int32), np.empty(2 * len(child), np.int32)
        heads[0::2], heads[1::2] = child, parent
        tails[0::2], tails[1::2] = parent, child
        return heads, tails

    def _induced_edges(
        self, graph: Adjacency, edge_ptr: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        block = np.full(graph.num_nodes, -1, np.int64)
        local = np.zeros(graph.num_nodes, np.int32)
        block[self.nodes], local[self.nodes] = self.places()
        heads = tails = np.empty(0, np.int32)
        for _ in range(2):  # the first pass counts, the second writes
            _walk_kernels.induced_edges(
                graph.pointer, graph.neighbours, self.node_ptr, self.nodes, block, local,
                edge_ptr, heads, tails,
            )  # fmt: skip
            if len(heads) == edge_ptr[-1]:
                break
            heads, tails = np.empty(edge_ptr[-1], np.int32), np.empty(edge_ptr[-1], np.int32)
        return heads, tails


def partition_from_table(table: pa.Table) -> Partition:
    """A partition from a table of kind `partition`.

    Args:
        table: columns subgraph, position, node, parent.

    Raises:
        ValueError: rows are not ordered by (subgraph, position), or positions do not start at 0.
    """
    subgraph = table.column("subgraph").to_numpy()
    position = table.column("position").to_numpy()
    sizes = np.bincount(subgraph, minlength=0) if len(subgraph) else np.zeros(0, np.int64)
    node_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    found = Partition(
        node_ptr=node_ptr,
        nodes=table.column("node").to_numpy().astype(np.int64),
        parent=table.column("parent").to_numpy().astype(np.int32),
    )
    ordered = all(map(np.array_equal, (subgraph, position), found.places()))
    require(ordered, "partition", "be ordered by subgraph and position", "another order")
    return found


@dataclass(frozen=True, kw_only=True)
class Walks:
    """DRW: disjoint random walks from uniform roots over the training graph.

    Attributes:
        length: L, steps of a walk; the model's depth.
        num_walks: R, walks from each root (DRW: 1, DRW-R: 2).
        inside: which edges a subgraph has, see `Partition.subgraphs`.
        tries: random entries of a short list to try before scanning it. The distribution is the same for any
            number; 0 is slower and lets neighbouring graphs share the most draws.
    """

    length: int
    num_walks: int = 1
    inside: Inside = "induced"
    tries: int = 4

    def __post_init__(self) -> None:
        at_least("length", self.length, 0)
        at_least("num_walks", self.num_walks, 1)
        one_of("inside", self.inside, ("induced", "walk"))
        at_least("tries", self.tries, 0)

    @property
    def promise(self) -> Promise:
        """The promise: one subgraph for each node; only features and label are covered."""
        change = Change(d_plus=1, d_minus=1, proved=True, why="samplers/walks.py")
        return Promise(
            name="walks",
            params=asdict(self),
            owner="source",
            max_occurrences=1,
            changes={("node-features", "replace-one"): change},
            public_facts=("node ids", "training ids", "edges"),
        )

    def draw(self, graph: Adjacency, *, rng: np.random.Generator) -> Partition:
        """A fresh partition of `graph`, the one that the training nodes induce.

        Roots are drawn uniformly from the nodes not yet used; a step goes to a uniform neighbour of the
        current node among those not yet used, and the walk ends when there is none. DRW-D calls this
        with a stream of its own before it draws new batches.

        Guarantee: every member is in exactly one walk; the result is as sensitive as the edges.

        Args:
            graph: induced by the training nodes.
            rng: of the order of roots and of the key.

        Returns:
            the partition; its size depends on the edges.

        Source: Ayle et al. (2023), Algorithms 2 and 3.
        """
        order, key = rng.permutation(graph.members), draw_key(rng)
        used = np.zeros(graph.num_nodes, np.uint8)
        node_ptr = np.empty(len(order) + 1, np.int64)
        nodes, parent = np.empty(len(order), np.int64), np.empty(len(order), np.int32)
        count = _walk_kernels.disjoint_walks(
            graph.pointer, graph.neighbours, order, self.length, self.num_walks, self.tries,
            key, used,
            node_ptr, nodes, parent,
        )  # fmt: skip
        return Partition(node_ptr=node_ptr[: count + 1].copy(), nodes=nodes, parent=parent)

    def sample(
        self,
        arcs: Arcs,
        *,
        num_nodes: int,
        train_idx: np.ndarray,
        rng: np.random.Generator,
        present: np.ndarray | None = None,
    ) -> Subgraphs:
        """One partition of the training nodes as subgraphs.

        Guarantee: at most one root changes when a node's features and label are replaced, on either side
        (1, 1); ids, training ids and edges are public. There is no promise for units that protect edges.

        Args:
            arcs: both directions of each edge.
            num_nodes, train_idx, rng, present: as `OwnList.sample`.

        Returns:
            subgraphs with ascending roots.
        """
        graph = induced_adjacency(arcs, num_nodes=num_nodes, node_idx=train_idx, present=present)
        subgraphs = self.draw(graph, rng=rng).subgraphs(graph, inside=self.inside)
        return subgraphs.select(np.argsort(subgraphs.roots))


def record_chains(length: int) -> OwnList:
    """DRW's node-record variant: every node sends its features to one node of its own list, L arcs deep.

    Guarantee: at most L + 1 roots change when a record is removed, emptied or has its features replaced
    (`OwnList` with K = 1); all training nodes are roots and walks may overlap.

    Args:
        length: L >= 0, in arcs.
    """
    return OwnList(max_degree=1, num_hops=length)
