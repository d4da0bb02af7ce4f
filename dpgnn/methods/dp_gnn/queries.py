"""Asking DP-GNN, and its sampler's known leak."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpgnn.methods.queries import Leaks, ReaderSampler, by_predict
from dpgnn.methods.shared.layers import Layers, convolution, network_logits, normalized_features

if TYPE_CHECKING:
    from dpgnn.methods.base import Entry
    from dpgnn.methods.queries import FittedRun


def layers(run: FittedRun) -> Layers:
    """The network with complete lists, as `predict` has it."""
    from dpgnn.methods.dp_gnn.options import network_of
    from dpgnn.methods.dp_gnn.sample import arcs_of

    config, graph = run.entry.options, run.graph
    network = network_of(
        config, num_features=graph.num_features, num_classes=graph.num_classes, task=graph.task
    )
    logits = network_logits(network, run.state, normalized_features(graph.x, config.row_norm))
    if config.num_hops == 0:
        return Layers(logits=logits, operator=None)
    arcs = arcs_of(graph, symmetrize=config.symmetrize)
    return Layers(logits=logits, operator=convolution(arcs, graph.num_nodes, config.conv))


def _why_not_layers(entry: Entry) -> str:
    if entry.options.conv == "gat":
        return "attention weighs neighbours by their features"
    if entry.options.projection is not None or entry.options.aggregate_once:
        return "features are projected or averaged before the network"
    return ""


def _why_not_hub(entry: Entry) -> str:
    if entry.mode == "nonprivate":
        return "it is about DP-GNN's sampler"
    if entry.relation != "replace-one":
        return "worlds of a replaced hub need the relation replace-one"
    return "" if entry.options.num_hops == 1 else "it is made for one hop"


def _public_thresholds(entry: Entry) -> Entry:
    """The entry with public clipping norms, so that what is seen is the sampler's leak and no other."""
    return replace(entry, options=replace(entry.options, thresholds="public"))


QUERIES = by_predict(layers=layers, why_not_layers=_why_not_layers, disjoint=True)
LEAKS = Leaks(sampler=ReaderSampler(why_not=_why_not_hub, alone=_public_thresholds))
