"""HeterPoisson: a Poisson batch of roots and a few of their neighbours, redrawn at every step.

Sound: every node sends its features to at most M ids of its own list, under a new public key at every step.
Published: neighbours by coins that count readers, multivariate Laplace noise. See
docs/methods/heterpoisson.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.core.checks import require
from dpgnn.data.rows import normalize_rows
from dpgnn.methods.base import (
    Asked,
    Degrees,
    Entry,
    Fitted,
    Method,
    PlannedRun,
    Prediction,
    Prepared,
    SamplerSpec,
    pairs,
)
from dpgnn.methods.heterpoisson.options import HeterPoissonConfig
from dpgnn.methods.heterpoisson.plan import plan
from dpgnn.methods.queries import Queries
from dpgnn.methods.tensors import Tensors, Trained, of_network

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.queries import FittedRun
    from dpgnn.methods.shared.layers import Layers

NOTE = "an answer reads features and edges of the evaluation graph within one hop of the asked node"


def check(entry: Entry, path: str) -> None:
    """Published runs are about a node with its edges, proofs about its record.

    Raises:
        ValueError: mode and unit do not go together.
    """
    if entry.mode == "nonprivate":
        return
    wanted = "node" if entry.mode == "published" else "node-record"
    require(
        entry.privacy_unit == wanted, f"{path}.privacy_unit", f"be {wanted} in mode {entry.mode}",
        entry.privacy_unit,
    )  # fmt: skip


def sampler(entry: Entry) -> SamplerSpec | None:
    """Half-edges into training nodes, from which own lists are drawn at every step; none as published."""
    config: HeterPoissonConfig = entry.options
    return None if config.draws_coins(entry.mode) else SamplerSpec(name="training_arcs")


def prepare(graph: Graph, split: Split, spec: SamplerSpec, rng: np.random.Generator) -> Prepared:
    """Half-edges u -> v, v in u's list and a training node; as sensitive as the graph.

    The training ids are public and equal in both worlds: an absent node keeps its slots.
    """
    import pyarrow as pa

    from dpgnn.methods.shared.aggregate_bounds import own_arcs

    source, target = own_arcs(graph)
    is_reader = np.zeros(graph.num_nodes, dtype=bool)
    is_reader[split.train_idx] = True
    kept = is_reader[target]
    return Prepared(kind="edges", table=pa.table({"source": source[kept], "target": target[kept]}))


def fit(run: PlannedRun) -> Fitted:
    """Run the planned steps on trees drawn at each step.

    Guarantee: in sound mode the weights are post-processing of the plan's mechanism.
    """
    from dpgnn.methods.heterpoisson.network import network_of
    from dpgnn.methods.heterpoisson.train import train_plain, train_private
    from dpgnn.methods.shared.private_training import scorer

    network, x = network_of(run.entry.options, run.graph), features_of(run.entry, run.graph)
    answers = _answers(run.entry, run.graph)
    val_idx = run.split.val_idx.copy()  # torch warns of arrays that it must not write
    evaluate = scorer(lambda w: answers(w)[val_idx], run.graph.y[val_idx], run.graph.task)
    train = train_plain if run.entry.mode == "nonprivate" else train_private
    weights, history = train(run, network, x, arcs_in(run.prepared), evaluate)
    return Fitted(state=weights, history=tuple(history))


def arcs_in(prepared: Prepared | None) -> np.ndarray:
    """The prepared half-edges; none for runs with coins, which read whole lists."""
    if prepared is None:
        return np.zeros((2, 0), dtype=np.int64)
    return np.stack([prepared.table[name].to_numpy() for name in ("source", "target")])


def features_of(entry: Entry, graph: Graph) -> Any:
    """Features as the network reads them: each record by itself, except for the scaling of published runs."""
    config: HeterPoissonConfig = entry.options
    x = normalize_rows(graph.x, config.row_norm)
    if entry.mode == "published" and config.preprocessing:
        x = np.asarray(x if isinstance(x, np.ndarray) else x.toarray())
        x = ((x - x.mean()) / (x.std() + 1e-6)).astype(np.float32)
    return x


def _answers(entry: Entry, graph: Graph) -> Any:
    """Named parameters -> logits of all nodes, from complete lists."""
    from dpgnn.methods.heterpoisson.network import network_of
    from dpgnn.methods.shared.aggregate_bounds import own_arcs
    from dpgnn.models.forward import full_graph

    return full_graph(network_of(entry.options, graph), features_of(entry, graph), own_arcs(graph))


def predict(entry: Entry, fitted: Fitted, graph: Graph, node_idx: np.ndarray) -> Prediction:
    """Logits of the nodes asked for, on the evaluation graph with complete lists; no claim covers them.

    Guarantee: none for the answers, which read other nodes' records of the evaluation graph afresh.

    Args:
        entry, fitted: of the run.
        graph: the evaluation graph; private.
        node_idx: int64, shape (num_asked,).

    Source: docs/accounting.md, "Answers, and who may see them".
    """
    import torch

    logits = _answers(entry, graph)(fitted.state)[torch.from_numpy(np.array(node_idx))]
    return Prediction(logits=logits, answers="none", note=NOTE)


def _layers(run: FittedRun) -> Layers:
    from dpgnn.methods.heterpoisson.network import network_of
    from dpgnn.methods.shared.aggregate_bounds import own_arcs
    from dpgnn.methods.shared.layers import Layers, convolution, network_logits, normalized_features

    config, graph = run.entry.options, run.graph
    features = normalized_features(graph.x, config.row_norm)
    logits = network_logits(network_of(config, graph), run.state, features)
    return Layers(logits=logits, operator=convolution(own_arcs(graph), graph.num_nodes, "gcn"))


def _why_not_layers(entry: Entry) -> str:
    scaled = entry.mode == "published" and entry.options.preprocessing
    return "features are scaled by the mean and deviation of all entries" if scaled else ""


def degrees(entry: Entry) -> Degrees:
    """M slots."""
    return Degrees(slots=entry.options.max_degree)


def tensors(trained: Trained) -> Tensors:
    """The network's weights."""
    from dpgnn.methods.heterpoisson.network import network_of

    return of_network(network_of(trained.entry.options, trained.sizes))


METHOD = Method(
    name="heterpoisson",
    title="HeterPoisson",
    config=HeterPoissonConfig,
    source="Xiang, Wang and Wang (2024), arXiv:2311.06888",
    modes=("nonprivate", "published", "sound"),
    supports=(
        *pairs("node-record", "add-remove", "null-one", "replace-one"),
        *pairs("node", "add-remove"),
    ),
    sampler=sampler,
    prepare=prepare,
    plan=plan,
    fit=fit,
    check=check,
    asked=Asked(
        flags={
            "batch-size": "batch_size", "max-degree": "max_degree", "epochs": "num_epochs",
        },
    ),
    predict=predict,
    tensors=tensors,
    queries=Queries(layers=_layers, why_not_layers=_why_not_layers),
    list_owner="source",
    degrees=degrees,
    example={"batch_size": 10, "num_epochs": 2, "width": 8},
    citation="xiang2024heterpoisson",
)  # fmt: skip
