"""DRW: GCNs on disjoint random walks under feature-level privacy (Ayle et al., 2023), and a node-record
variant.

Neighbouring graphs share nodes and edges and differ in one row of features and its label. Published mode
counts as the paper does; sound mode counts the same algorithm exactly; the unit node-record replaces the
walks by own-list chains, because one edge can change every later walk.
"""

from __future__ import annotations

from dpgnn.data.graph import arcs_of
from dpgnn.methods.base import Asked, Method, pairs
from dpgnn.methods.drw.fit import fit, network_of, predict, prepare, sampler
from dpgnn.methods.drw.options import DRWConfig, check, resolved
from dpgnn.methods.drw.plan import plan
from dpgnn.methods.queries import FittedRun, Queries
from dpgnn.methods.scores import OWN_FEATURES
from dpgnn.methods.shared.layers import Layers, convolution, network_logits, normalized_features
from dpgnn.methods.tensors import Tensors, Trained, of_network


def _layers(run: FittedRun) -> Layers:
    """The network after its first hop, on full neighbourhoods, as in `predict`."""
    config, graph = resolved(run.entry), run.graph
    hops = config.sampler != "nodes"
    features = normalized_features(graph.x, config.row_norm)
    logits = network_logits(network_of(config, graph), run.state, features, first_hop=hops)
    operator = (
        convolution(arcs_of(graph, symmetrize=True), graph.num_nodes, config.conv) if hops else None
    )
    return Layers(logits=logits, operator=operator)


def tensors(trained: Trained) -> Tensors:
    """The network's weights."""
    return of_network(network_of(resolved(trained.entry), trained.sizes))


METHOD = Method(
    name="drw",
    title="DRW",
    config=DRWConfig,
    source="Ayle et al. (2023), arXiv:2301.00738",
    modes=("nonprivate", "published", "sound"),
    supports=(
        *pairs("node-features", "replace-one"),
        *pairs("node-record", "add-remove", "replace-one", "null-one"),
    ),
    sampler=sampler,
    prepare=prepare,
    plan=plan,
    fit=fit,
    asked=Asked(
        steps="num_steps",
        counted="steps",
        flags={
            "batch-size": "batch_size",
            "walk-length": "num_layers",
            "restarts": "num_restarts",
            "accountant": "accountant",
        },
    ),
    predict=predict,
    score=lambda entry: OWN_FEATURES,
    tensors=tensors,
    queries=Queries(layers=_layers),
    check=check,
    example={"width": 4, "batch_size": 4, "noise_multiplier": None, "num_steps": 5},
    citation="ayle2023training",
)
