"""Asking DPAR: a perceptron whose logits are propagated, as `predict` has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from dpgnn.methods.dpar.options import resolved
from dpgnn.methods.queries import by_predict
from dpgnn.methods.shared.layers import Layers, Spread, Sum, network_logits, normalized_features

if TYPE_CHECKING:
    from dpgnn.methods.queries import FittedRun


def layers(run: FittedRun) -> Layers:
    """The perceptron and its propagation."""
    from dpgnn.methods.dpar.fit import network_of, propagation

    config, graph = resolved(run.entry), run.graph
    network = network_of(config, graph, hop=False)
    own = value = network_logits(network, run.state, normalized_features(graph.x, config.row_norm))
    for _ in range(config.power_iterations):
        near = Spread(source=value, factor=1 - config.restart)
        value = Sum(left=near, right=own, weight=config.restart)
    return Layers(logits=value, operator=sp.csr_array(propagation(graph)).astype(np.float64))


QUERIES = by_predict(layers=layers)
