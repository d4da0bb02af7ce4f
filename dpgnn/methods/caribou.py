"""CARIBOU: contractive message passing whose noise converges, at edge and node level.

Published mode runs Algorithm 1 with the printed sensitivities (`variant: paper`), or what the released code
computes (`variant: as-released`). Sound mode uses sensitivities that hold for every graph of the declared
class. See docs/methods/caribou.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpgnn.accountants.plan import Budget, Plan
from dpgnn.methods.base import (
    Context,
    Entry,
    Facts,
    Fitted,
    Method,
    Prediction,
    Prepared,
    SamplerSpec,
    Support,
    nonprivate_plan,
)
from dpgnn.methods.caribou_options import CaribouConfig

if TYPE_CHECKING:
    from dpgnn.graph import Graph
    from dpgnn.splits import Split


def sampler(entry: Entry) -> SamplerSpec | None:
    """The measured minimum degree, where the published text uses it."""
    config: CaribouConfig = entry.options
    if entry.mode == "published" and config.minimum_degree is None:
        return SamplerSpec(name="minimum_degree")
    return None


def prepare(graph: Graph, split: Split, spec: SamplerSpec, rng: np.random.Generator) -> Prepared:
    """The undirected edges and the smallest degree of the private graph (a fact of the structure)."""
    import pyarrow as pa

    from dpgnn.methods._perturb_edges import degrees, symmetric_adjacency, undirected_pairs

    pairs = undirected_pairs(graph.edge_index, graph.num_nodes)
    smallest = int(degrees(symmetric_adjacency(pairs, graph.num_nodes)).min())
    table = pa.table({"source": pairs[0], "target": pairs[1]})
    return Prepared(kind="edges", table=table, facts={"minimum_degree": smallest})


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """Noise from the budget; see `caribou_plan` for the guarantees."""
    if entry.mode == "nonprivate":
        return nonprivate_plan(entry, facts, budget)
    from dpgnn.methods import caribou_plan

    return caribou_plan.edge_plan(entry, facts, budget)


def fit(
    entry: Entry,
    graph: Graph,
    split: Split,
    prepared: Prepared | None,
    plan: Plan,
    context: Context,
) -> Fitted:
    """Encode, iterate with noise, train the head."""
    from dpgnn.methods import caribou_fit

    return caribou_fit.fit_edge(entry, graph, split, plan, context)


def predict(entry: Entry, fitted: Fitted, graph: Graph, node_idx: np.ndarray) -> Prediction:
    """Logits of the nodes asked for, made from the released state when it was made."""
    import torch

    if entry.mode == "nonprivate":
        covered, note = False, "no privacy"
    else:
        covered, note = True, "computed from the released state and public features"
    logits = fitted.state["logits"][torch.from_numpy(node_idx)]
    return Prediction(logits=logits, covered=covered, note=note)


METHOD = Method(
    name="caribou",
    title="CARIBOU",
    config=CaribouConfig,
    source="Convergent Privacy Framework for Multi-layer GNNs through Contractive Message Passing",
    modes=("nonprivate", "published", "sound"),
    supports=(Support(privacy_unit="edge", relation="add-remove"),),
    sampler=sampler,
    prepare=prepare,
    plan=plan,
    fit=fit,
    predict=predict,
    citation="caribou",
)
