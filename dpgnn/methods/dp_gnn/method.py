"""DP-GNN: message passing on sampled subgraphs, trained by DP-SGD over roots.

Published mode is the paper as its text states it; sound mode makes the claim true with the smallest change
(own-list sampler, Poisson roots, joint noise, public norms) and counts it tightly. Without privacy the same
networks train on the same sampled graph. Options: `options.py`; proofs and differences:
docs/methods/dpgnn.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.accountants.plan import Budget, Plan
from dpgnn.data.files.stored_graph import StoredGraph
from dpgnn.methods.base import (
    Asked,
    Degrees,
    Entry,
    Facts,
    Fitted,
    Method,
    PlannedRun,
    Prediction,
    nonprivate_plan,
    own_features_only,
    pairs,
)
from dpgnn.methods.dp_gnn.module import check_sizes, outside_code
from dpgnn.methods.dp_gnn.options import DPGNNConfig, check_entry, network_of, sampler_spec
from dpgnn.methods.dp_gnn.plan import sound_plan
from dpgnn.methods.dp_gnn.published import published_plan
from dpgnn.methods.dp_gnn.sample import (
    aggregated,
    arcs_of,
    features_of,
    inference_arcs,
    prepare,
    read_sample,
    training_input,
)
from dpgnn.methods.entry import StoredSample
from dpgnn.methods.queries import FittedRun, Leaks, Queries
from dpgnn.methods.scores import OWN_FEATURES
from dpgnn.methods.shared.layers import Layers, convolution, network_logits, normalized_features
from dpgnn.methods.tensors import Tensors, Trained, of_network

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.data.graph import Graph
    from dpgnn.methods.releases import Release
    from dpgnn.models.network import Network
    from dpgnn.samplers.subgraphs import Subgraphs


@dataclass(frozen=True, kw_only=True)
class FittedGNN(Fitted):
    """A fit whose evaluation reads sampled lists at training nodes, as in the paper.

    Attributes:
        arcs: int64, shape (2, num_arcs), the arcs of inference; as sensitive as the graph and never written;
            None reads complete lists, as a released model does.
    """

    arcs: np.ndarray | None = None


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """The plan of the entry's mode: the paper's plan, the sound one, or none without privacy.

    Guarantee: unit and relation of the entry at (epsilon, delta) as the claims of the mode's plan say;
    training ids and options are public.

    Args:
        entry: unit, relation and options.
        facts: public ones.
        budget: epsilon and delta, or given noise.

    Raises:
        ValueError: a batch is larger than the training set, or as the mode's plan says.
    """
    if entry.mode == "nonprivate":
        entry.options.training.batch_size(facts.num_train)
        return nonprivate_plan(entry, facts, budget)
    return (sound_plan if entry.mode == "sound" else published_plan)(entry, facts, budget)


def fit(run: PlannedRun) -> Fitted:
    """Run the plan on the prepared subgraphs of the training nodes.

    Guarantee: the released weights are post-processing of the plan's mechanisms (sound mode).
    """
    from dpgnn.methods.dp_gnn.fit import train_plain, train_private
    from dpgnn.methods.dp_gnn.module import released
    from dpgnn.methods.dp_gnn.stored import stored_trees
    from dpgnn.methods.shared.private_training import scorer

    config: DPGNNConfig = run.entry.options
    network = _network(config, run.graph)
    x = features_of(config, run.graph.x)
    if isinstance(run.prepared, StoredSample):
        sample, inputs, trees = None, x, stored_trees(run.entry, run.graph, run.prepared)
    else:
        sample = read_sample(run.entry, run.graph, run.prepared)
        inputs, trees = training_input(config, x, run.graph.y, run.split.train_idx, sample)
    # sampled lists matter from the second hop on: validation and test nodes read complete ones
    sampled = sample if run.entry.mode != "sound" and config.num_hops > 1 else None
    arcs, answers = _asked(
        config, network, run.graph, x, run.split.val_idx, (run.split.train_idx, sampled)
    )
    evaluate = scorer(answers, run.graph.y[run.split.val_idx], run.graph.task)
    details: dict[str, Any] = {}
    if run.entry.mode == "nonprivate":
        weights, history, details = train_plain(
            run.entry, network, inputs, trees, run.context, evaluate
        )
    else:
        weights, history, details = train_private(
            run.entry,
            network,
            inputs,
            trees,
            run.context,
            delta=run.plan.claims[0].delta,
            evaluate=evaluate,
        )
    return FittedGNN(
        state=released(network, weights), history=tuple(history), details=details,
        arcs=None if sampled is None else arcs,
    )  # fmt: skip


def predict(entry: Entry, fitted: Fitted, graph: Graph, node_idx: np.ndarray) -> Prediction:
    """Logits of the nodes asked for by full-graph inference with complete lists.

    With a hop no claim covers the answers: an answer reads the neighbours' features afresh.

    Guarantee: without a hop, as `own_features_only`: joint, for unit and relation of the first claim; the
    answer about a node is for that node alone. With hops, none for the answers, which read other nodes'
    records of the evaluation graph afresh.

    Args:
        entry, fitted, graph, node_idx: as for `Method.predict`.

    Source: docs/accounting.md, "Answers, and who may see them".
    """
    config: DPGNNConfig = entry.options
    x, network = features_of(config, graph.x), _network(config, graph)
    held = fitted.arcs if isinstance(fitted, FittedGNN) else None
    _, answers = _asked(config, network, graph, x, node_idx, (node_idx[:0], None), held)
    logits = answers(fitted.state)
    if config.num_hops == 0:
        return own_features_only(entry, logits)
    note = f"an answer reads features and edges within {config.num_hops} hops of the asked node"
    return Prediction(logits=logits, answers="none", note=note)


def _network(config: DPGNNConfig, graph: Graph) -> Network:
    return network_of(
        config, num_features=graph.num_features, num_classes=graph.num_classes, task=graph.task
    )


def _asked(
    config: DPGNNConfig,
    network: Network,
    graph: Graph,
    x: Any,
    node_idx: np.ndarray,
    sampled: tuple[np.ndarray, Subgraphs | None],
    arcs: np.ndarray | None = None,
) -> tuple[np.ndarray | None, Callable[[Mapping[str, Tensor]], Tensor]]:
    """Arcs of inference (None on disk), and named parameters -> logits of the asked nodes."""
    if isinstance(graph, StoredGraph):
        from dpgnn.models.blocks import stored_answers

        lists = graph.lists(config.symmetrize and graph.directed) if config.num_hops else None
        return None, stored_answers(network, x, lists, node_idx)
    if arcs is None:
        arcs = inference_arcs(config, graph, *sampled)
    ready = _inference_input(config, x, arcs, node_idx)
    return arcs, _answers(network, ready, arcs, node_idx)


def _inference_input(config: DPGNNConfig, x: Any, arcs: np.ndarray, node_idx: np.ndarray) -> Any:
    """The network's input: all features, or only the asked nodes' rows if no hop is left."""
    if config.aggregate_once:
        return aggregated(x, arcs, config.num_hops)[node_idx]
    return x if config.num_hops else x[node_idx]


def _answers(
    network: Network, ready: Any, arcs: np.ndarray, node_idx: np.ndarray
) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """Named parameters -> logits of the asked nodes."""
    import torch

    from dpgnn.methods.dp_gnn.module import module_answers
    from dpgnn.models.forward import full_graph
    from dpgnn.models.modules import ModuleNetwork

    if isinstance(network, ModuleNetwork):
        return module_answers(network, ready, arcs, node_idx)
    if network.config.num_hops == 0:
        return full_graph(network, ready, None)
    logits, asked = full_graph(network, ready, arcs), torch.from_numpy(node_idx.copy())
    return lambda weights: logits(weights)[asked]


def releases() -> tuple[Release[..., Any], ...]:
    """The privately chosen clipping norms."""
    from dpgnn.methods.dp_gnn.fit import private_quantile

    return (private_quantile,)


def degrees(entry: Entry) -> Degrees:
    """K of the sampler, and the declared degree bound."""
    config: DPGNNConfig = entry.options
    return Degrees(slots=config.max_degree or 4, declared=config.degree_bound)


def _layers(run: FittedRun) -> Layers:
    config, graph = run.entry.options, run.graph
    features = normalized_features(graph.x, config.row_norm)
    logits = network_logits(_network(config, graph), run.state, features)
    if config.num_hops == 0:
        return Layers(logits=logits, operator=None)
    arcs = arcs_of(graph, symmetrize=config.symmetrize)
    return Layers(logits=logits, operator=convolution(arcs, graph.num_nodes, config.conv))


def _why_not_layers(entry: Entry) -> str:
    if entry.options.module:
        return "the network is a module of the user's"
    if entry.options.conv == "gat":
        return "attention weighs neighbours by their features"
    if entry.options.projection is not None or entry.options.aggregate_once:
        return "features are projected or averaged before the network"
    return ""


def _why_not_hub(entry: Entry) -> str:
    if entry.mode == "nonprivate":
        return "it is about DP-GNN's sampler"
    if entry.privacy_unit != "node-record":
        return "its worlds differ in one node's record, edges included, and the claim is about another unit"
    if entry.relation != "replace-one":
        return "worlds of a replaced hub need the relation replace-one"
    return "" if entry.options.num_hops == 1 else "it is made for one hop"


def _public_thresholds(entry: Entry) -> Entry:
    """The entry with public clipping norms, so that only the sampler's leak remains."""
    return replace(entry, options=replace(entry.options, thresholds="public"))


def _why_not_on_disk(entry: Entry) -> str:
    config: DPGNNConfig = entry.options
    if entry.privacy_unit == "node-bounded":
        return "the degree of every node is checked against the declared bound"
    if config.module:
        return "a user's module answers about the whole graph at once"
    if config.aggregate_once or config.projection is not None:
        return "features are averaged or projected all at once"
    if entry.mode != "sound" and config.num_hops > 1:
        return "its evaluation joins sampled lists and complete ones"
    return ""


def tensors(trained: Trained) -> Tensors | None:
    """The network's weights; of a user's own network only its code knows them."""
    config, facts = trained.entry.options, trained.facts
    if config.module:
        return None
    sizes = {name: getattr(facts, name) for name in ("num_features", "num_classes", "task")}
    return of_network(network_of(config, **sizes))


METHOD = Method(
    name="dp_gnn",
    title="DP-GNN",
    config=DPGNNConfig,
    source="Daigavane et al. (2021), arXiv:2111.15521",
    modes=("nonprivate", "published", "sound"),
    supports=(
        *pairs("node-record", "add-remove", "replace-one", "null-one"),
        *pairs("node-bounded", "add-remove", "replace-one", "null-one"),
        *pairs("node-features", "replace-one"),
    ),
    sampler=sampler_spec,
    prepare=prepare,
    plan=plan,
    fit=fit,
    asked=Asked(
        steps="training.num_steps",
        counted="steps",
        flags={
            "batch-size": "training.expected_batch_size",
            "max-degree": "max_degree",
            "num-hops": "num_hops",
            "degree-bound": "degree_bound",
        },
        published={"reference_code": True},
    ),
    predict=predict,
    score=lambda entry: OWN_FEATURES,
    tensors=tensors,
    why_not_on_disk=_why_not_on_disk,
    queries=Queries(layers=_layers, why_not_layers=_why_not_layers, disjoint=True),
    leaks=Leaks(without_other_leaks=_public_thresholds, why_not_sampler=_why_not_hub),
    releases=releases,
    degrees=degrees,
    check=check_entry,
    check_sizes=check_sizes,
    fixed_sizes=lambda entry: bool(entry.options.module),
    outside_code=outside_code,
    state={"weights": ("module.*",)},
    example={
        "width": 8, "max_degree": 3, "degree_bound": 40,
        "training": {"num_steps": 10, "expected_batch_size": 10},
    },
    citation="daigavane2021dpgnn",
)  # fmt: skip
