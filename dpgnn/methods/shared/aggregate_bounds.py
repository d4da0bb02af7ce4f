"""Edges under a degree bound for node-level aggregation: as declared, own lists, or sampled as published.

`declared` (unit node-bounded): every edge, both directions; the graph is refused if a degree exceeds the
bound. `own_list` (unit node-record): node u sends to the K ids of its own list with the smallest keyed
priority, so u's record decides at most K rows that read it, for every key (samplers/own_list.py). `sampled`
(published): each node keeps at most D random out-edges and the result may be mirrored; one node affects which
edges of others are kept, so the bound holds for the thinned graph but not for its neighbours.
`undirected_edges` (edge level) is every edge.

A greedy truncation in a fixed public order (keep an edge if both ends have room) also bounds degrees, but
does not help: removing a node frees a slot, which admits an edge, which excludes another, along a path of any
length (tests/soundness/test_greedy_degree.py), so no finite stability factor exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dpgnn.core.checks import at_least
from dpgnn.data.graph import distinct_keys
from dpgnn.methods.base import Degrees, Prepared, SamplerSpec, pairs
from dpgnn.methods.shared.node_level_options import NodeConfig
from dpgnn.methods.shared.undirected import (
    check_degree_promise,
    symmetric_adjacency,
    undirected_pairs,
)

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.base import Entry


# of methods whose only private reading of edges is a sum over neighbours
SUPPORTS = (
    *pairs("edge", "add-remove"),
    *pairs("node-bounded", "add-remove", "null-one", "replace-one"),
    *pairs("node-record", "add-remove", "null-one", "replace-one"),
)


def degrees(entry: Entry) -> Degrees:
    """The slots of node level."""
    return Degrees(slots=entry.options.node.max_degree)


def sampler_of_node(entry: Entry) -> SamplerSpec | None:
    """Degree-bounded edges by the options `node` at node level; nothing at edge level."""
    return sampler(entry, entry.options.node)


def sampler(entry: Entry, config: NodeConfig, *, mirrored: bool = False) -> SamplerSpec | None:
    """The prepared edges of a node-level entry; None at edge level.

    Args:
        entry: unit and mode.
        config: the bound and how it is enforced.
        mirrored: `sampled` only: symmetrise the thinned edges (CARIBOU).
    """
    if entry.mode == "nonprivate" or entry.privacy_unit == "edge":
        return None
    if entry.privacy_unit == "node-record":
        name, params = "own_list_edges", {"max_degree": config.max_degree}
    elif config.bounding == "sampled":
        name = "sampled_edges"
        params = {
            "max_degree": config.max_degree,
            "mirrored": mirrored,
            "drop_last_node": config.drop_last_node,
        }
    else:
        name, params = "bounded_edges", {"max_degree": config.max_degree}
        if entry.mode == "published":
            params["measured"] = True  # published noise may read the smallest degree
    return SamplerSpec(name=name, params=params)


def prepare(graph: Graph, split: Split, spec: SamplerSpec, rng: np.random.Generator) -> Prepared:
    """Edges source -> target, ascending by target; as sensitive as the graph.

    The smallest degree is a fact only if a published plan may read it, because facts are in the record and
    one node can change it.

    Raises:
        ValueError: bounded_edges and a degree above the bound.
    """
    import pyarrow as pa

    pairs = undirected_pairs(graph.edge_index, graph.num_nodes)
    both = np.concatenate([pairs, pairs[::-1]], axis=1)
    params: dict[str, Any] = dict(spec.params)
    bound = int(params.get("max_degree", 0))
    if spec.name == "bounded_edges":
        adjacency = symmetric_adjacency(pairs, graph.num_nodes)
        check_degree_promise(adjacency, minimum=0, maximum=bound, name=graph.name)
    elif spec.name == "undirected_edges":
        pass
    elif spec.name == "own_list_edges":
        both = own_list_edges(own_arcs(graph), graph.num_nodes, bound, rng=rng)
    else:
        both = sampled_edges(
            both, graph.num_nodes, bound, rng=rng, drop_last_node=params["drop_last_node"]
        )
        if params["mirrored"]:
            kept = undirected_pairs(both, graph.num_nodes)
            both = np.concatenate([kept, kept[::-1]], axis=1)
    both = both[:, np.lexsort((both[0], both[1]))]
    facts = {}
    if spec.name in ("sampled_edges", "undirected_edges") or params.get("measured"):
        facts["minimum_degree"] = int(np.bincount(both[1], minlength=graph.num_nodes).min())
    return Prepared(
        kind="edges", table=pa.table({"source": both[0], "target": both[1]}), facts=facts
    )


def own_arcs(graph: Graph) -> np.ndarray:
    """Arcs from the node whose record lists them, int64, shape (2, num_arcs), without self-loops.

    A directed arc belongs only to its source; if mirrored, it would also be in the target's list, and a
    record could displace ids in other records' lists. An undirected edge is a half-edge of each end.
    """
    if not graph.directed:
        pairs = undirected_pairs(graph.edge_index, graph.num_nodes)
        return np.concatenate([pairs, pairs[::-1]], axis=1)
    source, target = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]]
    keys = distinct_keys(source * graph.num_nodes + target)
    return np.stack(np.divmod(keys, graph.num_nodes)).astype(np.int64)


def own_list_edges(
    arcs: np.ndarray, num_nodes: int, max_degree: int, *, rng: np.random.Generator
) -> np.ndarray:
    """Each node's K neighbours of smallest keyed priority, as edges node -> neighbour.

    Guarantee: for every key, a node's own list decides only its own out-edges, at most K.
    """
    from dpgnn.samplers.own_list import OwnList

    lists = OwnList(max_degree=max_degree).lists(
        arcs, num_nodes=num_nodes, train_idx=np.arange(num_nodes), rng=rng
    )
    target = np.repeat(np.arange(num_nodes), np.diff(lists.pointer))
    return np.stack([np.asarray(lists.sources, dtype=np.int64), target])


def sampled_edges(
    both: np.ndarray,
    num_nodes: int,
    max_degree: int,
    *,
    rng: np.random.Generator,
    drop_last_node: bool = False,
) -> np.ndarray:
    """At most D random out-edges of each node, as published; without a guarantee.

    Args:
        both: int64, shape (2, num_edges): both directions.
        drop_last_node: omit the last node's out-edges, a defect of the released sampler.
        num_nodes, max_degree, rng: size, D, and the order of the draw.
    """
    at_least("max_degree", max_degree, 1)
    order = np.lexsort((rng.random(both.shape[1]), both[0]))
    source = both[0, order]
    first = np.searchsorted(source, np.arange(num_nodes))
    rank = np.arange(len(source)) - first[source]
    keep = rank < max_degree
    if drop_last_node:
        keep &= source != num_nodes - 1
    return both[:, order[keep]]


def reading_matrix(prepared: Prepared | None, num_nodes: int) -> sp.csr_array:
    """CSR with 1 at [target, source] for every prepared edge, float64."""
    assert prepared is not None, "the sampler makes it for every entry at node level"
    source = prepared.table["source"].to_numpy()
    target = prepared.table["target"].to_numpy()
    shape = (num_nodes, num_nodes)
    return sp.csr_array((np.ones(len(source)), (target, source)), shape=shape)
