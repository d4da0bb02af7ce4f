"""Inputs of DP-GNN from a graph: sampled trees, aggregated rows, inference lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.core.checks import require
from dpgnn.data.graph import arcs_of, distinct_keys
from dpgnn.data.stored import StoredRows, normalized
from dpgnn.methods.base import Entry, Prepared, SamplerSpec
from dpgnn.methods.dp_gnn.options import DPGNNConfig, sampler_from_spec, sampler_of

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.models.trees import Trees
    from dpgnn.samplers.promise import Promise
    from dpgnn.samplers.subgraphs import Subgraphs


def prepare(graph: Graph, split: Split, spec: SamplerSpec, rng: np.random.Generator) -> Prepared:
    """Sample the subgraph of every training node.

    Guarantee: none by itself; the table is as sensitive as the graph. `facts` holds the sampler's promise,
    which follows from the parameters alone. Samplers with a promise about own lists read the arcs of a
    directed graph as stored, so that one record decides one list. Answers may read the mirrored arcs.

    Args:
        graph: edges are those of the setting.
        split: training nodes are the roots; public.
        spec: from `options.sampler_spec`.
        rng: gives the sampler's key.
    """
    sampler = sampler_from_spec(spec.name, spec.params)
    # a list is part of its owner's record; a mirrored arc would take a slot in another list
    merged = bool(spec.params["symmetrize"]) and spec.name not in ("own_list", "stable")
    arcs = arcs_of(graph, symmetrize=merged)
    sample = sampler.sample(arcs, num_nodes=graph.num_nodes, train_idx=split.train_idx, rng=rng)
    return prepared_from(sampler.promise, sample, graph.num_nodes, num_arcs=int(arcs.shape[1]))


def prepared_from(
    promise: Promise, sample: Subgraphs, num_nodes: int, *, num_arcs: int
) -> Prepared:
    """A drawn sample in its stored form, checked against the promise.

    Args:
        promise: of the sampler.
        sample: of all training nodes.
        num_nodes: of the graph.
        num_arcs: number of offered arcs.

    Raises:
        ValueError: a subgraph is malformed, or a node is in more subgraphs than promised.
    """
    sample.check(num_nodes)
    sizes, occurrences = sample.num_nodes, sample.occurrences(num_nodes)
    return Prepared(
        kind="subgraphs",
        table=sample.to_table(),
        facts={"promise": promise.recorded()},
        diagnostics={
            "num_roots": len(sample),
            "num_arcs": num_arcs,
            "num_sampled_arcs": int(sample.arcs_into_roots().shape[1]),
            "mean_subgraph_size": float(sizes.mean()) if len(sizes) else 0.0,
            "largest_subgraph": int(sizes.max(initial=0)),
            "largest_occurrence": int(occurrences.max(initial=0)),
        },
    )


def read_sample(entry: Entry, graph: Graph, prepared: Prepared | None) -> Subgraphs | None:
    """The prepared subgraphs, checked against the entry's promise; None for an MLP.

    Raises:
        ValueError: there is no sample, it breaks the promise, or a node has more edges than declared.
    """
    from dpgnn.samplers.subgraphs import from_table

    config: DPGNNConfig = entry.options
    if config.num_hops == 0:
        return None
    require(prepared is not None, "prepared sample", "be given", None, "run `dpgnn prepare` first")
    assert prepared is not None
    bound = sampler_of(entry).promise.max_occurrences
    if entry.privacy_unit == "node-bounded":
        _check_degrees(graph, config)
    return from_table(prepared.table, max_occurrences=bound).check(graph.num_nodes)


def _check_degrees(graph: Graph, config: DPGNNConfig) -> None:
    """Refuse a graph with a degree above D, because the claim is about graphs with degrees of at most D."""
    assert config.degree_bound is not None
    source, target = arcs_of(graph, symmetrize=config.symmetrize)
    low, high = np.minimum(source, target), np.maximum(source, target)
    pairs = distinct_keys(low * graph.num_nodes + high)
    ends = np.concatenate(np.divmod(pairs, graph.num_nodes))
    largest = int(np.bincount(ends, minlength=graph.num_nodes).max(initial=0))
    require(
        largest <= config.degree_bound, "degree_bound", "be at least every node's degree",
        config.degree_bound, "declare a larger public bound, or protect the unit node-record",
    )  # fmt: skip


def features_of(config: DPGNNConfig, x: Any) -> Any:
    """Features as the network reads them; acts on each record by itself.

    Args:
        x: float32, shape (num_nodes, num_features), dense, CSR or in a file.

    Returns:
        float32, shape (num_nodes, num_features), or dense with `projection` columns.
    """
    x = normalized(x, config.row_norm)
    if config.projection is None:
        return x
    # a constant seed: the matrix is the same in training, inference and every run, and depends on no data
    matrix = np.random.default_rng(0).standard_normal((x.shape[1], config.projection))
    return np.asarray(x @ (matrix / np.sqrt(config.projection)), dtype=np.float32)


def training_input(
    config: DPGNNConfig, x: Any, y: np.ndarray, train_idx: np.ndarray, sample: Subgraphs | None
) -> tuple[Any, Trees]:
    """Features and trees of the roots, in the order of ascending root ids.

    Each root's tree, features and label depend only on its own subgraph, also with `aggregate_once`: the rows
    of A^r x at the roots use arcs inside the subgraph, with weights from its degrees.

    Args:
        x: all features, normalised; dense float32, CSR or in a file.
        y: all labels.
        train_idx: the roots when there is no sample.
        sample: from `read_sample`.
    """
    from dpgnn.models.trees import lone_roots, trees_of

    if sample is None:
        roots = np.sort(train_idx)
        # a batch reads a file on demand; masks of a module go by row of x: an absent root moves no other's
        if isinstance(x, StoredRows) or config.module:
            return x, lone_roots(roots, y[roots])
        return x[roots], lone_roots(np.arange(len(roots)), y[roots])
    if config.aggregate_once:
        rows = aggregated(x, sample.arcs_into_roots(), config.num_hops)[sample.roots]
        return rows, lone_roots(np.arange(len(sample)), y[sample.roots])
    # a module weights its messages itself: plain lists without self-loops
    conv = "sage" if config.module else config.conv
    return x, trees_of(sample, y, num_hops=config.num_hops, conv=conv)


def inference_arcs(
    config: DPGNNConfig, graph: Graph, train_idx: np.ndarray, sample: Subgraphs | None
) -> np.ndarray:
    """Arcs for full-graph inference: complete lists, or for training nodes the sampled ones if given.

    Args:
        train_idx: nodes whose lists are the sampled ones; not read without a sample.
        sample: None reads complete lists everywhere.
    """
    arcs = arcs_of(graph, symmetrize=config.symmetrize)
    if sample is None:
        return arcs
    is_train = np.zeros(graph.num_nodes, dtype=bool)
    is_train[train_idx] = True
    return np.concatenate([arcs[:, ~is_train[arcs[1]]], sample.arcs_into_roots()], axis=1)


def aggregated(x: Any, arcs: np.ndarray, num_hops: int) -> Any:
    """[x, A^r x] with A the mean over a node and its list; dense or CSR like x, float32."""
    import scipy.sparse as sp

    mixed = mean_over_lists(x, arcs, num_hops)
    if sp.issparse(x):
        return sp.csr_array(sp.hstack([x, mixed], format="csr")).astype(np.float32)
    return np.concatenate([x, mixed], axis=1).astype(np.float32)


def mean_over_lists(values: Any, arcs: np.ndarray, num_hops: int) -> Any:
    """A^r values: each row the mean over the node itself and the nodes it reads, r times.

    Args:
        values: float32, shape (num_nodes, width), dense or CSR.
        arcs: int64, shape (2, num_arcs), messages go row 0 to row 1; no self-loops.
        num_hops: r.
    """
    import scipy.sparse as sp

    num_nodes = values.shape[0]
    loops = np.arange(num_nodes)
    source, target = np.concatenate([np.stack([loops, loops]), arcs], axis=1)
    weight = 1.0 / np.bincount(target, minlength=num_nodes)[target]
    mean = sp.csr_array((weight.astype(np.float32), (target, source)), shape=(num_nodes,) * 2)
    for _ in range(num_hops):
        values = mean @ values
    return values
