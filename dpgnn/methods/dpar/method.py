"""DPAR: private personalised PageRank rows, then decoupled private training (Zhang et al., 2024).

Published mode follows the paper's chain of budgets and its sensitivities; sound mode composes the same two
stages at sensitivities that hold. The controls that the paper lacks (random and true neighbours, the
root alone, each with and without propagation at inference) are options.
"""

from __future__ import annotations

import numpy as np

from dpgnn.methods.base import Asked, Method, pairs
from dpgnn.methods.dpar.fit import fit, network_of, predict, propagation
from dpgnn.methods.dpar.options import DPARConfig, check, resolved
from dpgnn.methods.dpar.plan import plan
from dpgnn.methods.dpar.rows import prepare, sampler, vectors
from dpgnn.methods.queries import FittedRun, Queries
from dpgnn.methods.scores import OWN_FEATURES
from dpgnn.methods.shared.layers import Layers, Spread, Sum, network_logits, normalized_features
from dpgnn.methods.tensors import Tensors, Trained, of_network


def _layers(run: FittedRun) -> Layers:
    """The perceptron and its propagation, as in `predict`."""
    config, graph = resolved(run.entry), run.graph
    network = network_of(config, graph, hop=False)
    own = value = network_logits(network, run.state, normalized_features(graph.x, config.row_norm))
    for _ in range(config.power_iterations):
        near = Spread(source=value, factor=1 - config.restart)
        value = Sum(left=near, right=own, weight=config.restart)
    return Layers(logits=value, operator=propagation(graph).astype(np.float64))


def tensors(trained: Trained) -> Tensors:
    """The perceptron's weights; propagation has none."""
    return of_network(network_of(resolved(trained.entry), trained.sizes, hop=False))


METHOD = Method(
    name="dpar",
    title="DPAR",
    config=DPARConfig,
    source="Zhang et al. (2024), arXiv:2210.04442",
    modes=("nonprivate", "published", "sound"),
    supports=(*pairs("node", "replace-one", "add-remove"),),
    sampler=sampler,
    prepare=prepare,
    plan=plan,
    fit=fit,
    asked=Asked(
        steps="num_steps",
        counted="steps",
        flags={
            "batch-size": "batch_size",
            "subsample-rate": "subsample_rate",
            "num-vectors": "num_vectors",
            "num-selected": "top_k",
            "rows": "rows",
            "rows-share": "rows_share",
            "column-cap": "column_cap",
        },
    ),
    predict=predict,
    score=lambda entry: OWN_FEATURES,
    tensors=tensors,
    queries=Queries(layers=_layers),
    releases=lambda: (vectors,),
    counts_own_roots=True,
    restartable=True,
    check=check,
    example={"width": 4, "batch_size": 8, "num_steps": 5, "num_vectors": 5, "subsample_rate": 0.9},
    citation="zhang2024dpar",
)
