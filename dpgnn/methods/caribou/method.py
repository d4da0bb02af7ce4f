"""CARIBOU: contractive message passing whose noise converges, at edge and node level.

Published mode runs Algorithm 1 with the printed sensitivities (`variant: paper`), or what the released code
computes (`variant: as-released`). Sound mode uses sensitivities that hold for every graph of the declared
class. See docs/methods/caribou.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpgnn.accountants.plan import Budget, Plan
from dpgnn.methods.base import (
    Asked,
    Degrees,
    Entry,
    Facts,
    Fitted,
    Method,
    PlannedRun,
    SamplerSpec,
    nonprivate_plan,
    pairs,
)
from dpgnn.methods.caribou.options import CaribouConfig
from dpgnn.methods.caribou.queries import LEAKS, QUERIES
from dpgnn.methods.caribou.tensors import tensors
from dpgnn.methods.queries import at_node_level
from dpgnn.methods.scores import by_unit
from dpgnn.methods.shared import aggregate_bounds
from dpgnn.methods.shared.aggregate_answers import answer, for_this_graph
from dpgnn.methods.shared.head_options import EXAMPLE, FLAGS, check_node_level

if TYPE_CHECKING:
    from dpgnn.methods.releases import Release


def sampler(entry: Entry) -> SamplerSpec | None:
    """Degree-bounded edges at node level; the measured minimum degree where the published text uses it."""
    config: CaribouConfig = entry.options
    if entry.privacy_unit == "node-bounded" and entry.mode != "nonprivate":
        return aggregate_bounds.sampler(entry, config.node, mirrored=True)
    if entry.mode == "published" and config.minimum_degree is None:
        return SamplerSpec(name="undirected_edges")
    return None


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """Noise from the budget, at edge or at node level.

    Guarantee: unit and relation of the entry, as `plan.edge_plan` and `node_plan.node_plan` say.

    Args:
        entry: unit, relation and options.
        facts: public ones.
        budget: epsilon and delta, or given noise.
    """
    if entry.mode == "nonprivate":
        return nonprivate_plan(entry, facts, budget)
    from dpgnn.methods.caribou import node_plan as caribou_node_plan
    from dpgnn.methods.caribou import plan as caribou_plan

    edge = entry.privacy_unit == "edge"
    return (caribou_plan.edge_plan if edge else caribou_node_plan.node_plan)(entry, facts, budget)


def fit(run: PlannedRun) -> Fitted:
    """Encode, iterate with noise, train the head.

    Guarantee: the plan's claims. The iteration returns only its last state and stores no earlier one, so an
    interrupted run starts again at hop 1.
    """
    from dpgnn.methods.caribou import fit as caribou_fit

    if not at_node_level(run.entry):
        return for_this_graph(caribou_fit.fit_edge(run), run.graph)
    if run.entry.options.variant == "as-released" and run.entry.mode == "published":
        return caribou_fit.fit_node_authors_code(run)
    return caribou_fit.fit_node(run)


def releases() -> tuple[Release[..., Any], ...]:
    """X_K of the noisy iteration, and the released code's iteration."""
    from dpgnn.methods.shared.aggregate import contractive_iteration, released_code_iteration

    return (contractive_iteration, released_code_iteration)


def degrees(entry: Entry) -> Degrees:
    """The slots of node level, and the promised minimum degree."""
    config: CaribouConfig = entry.options
    return Degrees(slots=config.node.max_degree, minimum=config.minimum_degree or 0)


METHOD = Method(
    name="caribou",
    title="CARIBOU",
    config=CaribouConfig,
    source="Convergent Privacy Framework for Multi-layer GNNs through Contractive Message Passing",
    modes=("nonprivate", "published", "sound"),
    supports=(
        *pairs("edge", "add-remove"),
        *pairs("node-bounded", "add-remove", "null-one", "replace-one"),
    ),
    sampler=sampler,
    prepare=aggregate_bounds.prepare,
    check=check_node_level,
    plan=plan,
    fit=fit,
    asked=Asked(
        steps="num_hops",
        counted="hops",
        structure={"minimum_degree": 1},
        flags={"contraction": "contraction", **FLAGS},
    ),
    predict=answer,
    score=by_unit,
    tensors=tensors,
    releases=releases,
    degrees=degrees,
    example={"num_hops": 2, **EXAMPLE},
    queries=QUERIES,
    leaks=LEAKS,
    citation="caribou",
)
