"""Asking DRW's networks: sparse products and layers, as `predict` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpgnn.methods.drw.options import resolved
from dpgnn.methods.queries import by_predict
from dpgnn.methods.shared.layers import Layers, convolution, network_logits, normalized_features

if TYPE_CHECKING:
    from dpgnn.methods.queries import FittedRun


def layers(run: FittedRun) -> Layers:
    """The network behind its first hop, on full neighbourhoods."""
    from dpgnn.methods.drw.data import undirected
    from dpgnn.methods.drw.fit import network_of

    config, graph = resolved(run.entry), run.graph
    hops = config.sampler != "nodes"
    features = normalized_features(graph.x, config.row_norm)
    logits = network_logits(network_of(config, graph), run.state, features, first_hop=hops)
    operator = convolution(undirected(graph), graph.num_nodes, config.conv) if hops else None
    return Layers(logits=logits, operator=operator)


QUERIES = by_predict(layers=layers)
