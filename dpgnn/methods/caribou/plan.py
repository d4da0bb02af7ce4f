"""CARIBOU's plans: sensitivities, noise and claims."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dpgnn.accountants.events import ContractiveIteration
from dpgnn.accountants.plan import Budget, Plan
from dpgnn.core.checks import require
from dpgnn.methods.caribou import sensitivity
from dpgnn.methods.shared.edge_level import gaussian_mechanism, gdp_claim, no_guarantee
from dpgnn.methods.shared.node_level import AGGREGATE

if TYPE_CHECKING:
    from dpgnn.accountants.claims import Claim
    from dpgnn.methods.base import Entry, Facts
    from dpgnn.methods.caribou.options import CaribouConfig


def edge_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """One contractive iteration; encoder and head read no edge and cost nothing.

    Guarantee (sound): unit edge, relation add-remove, (epsilon, delta) as claimed, counted exactly; public
    are node ids, features, labels, options, and the promised minimum degree where one is given. Released are
    X_K and everything computed from it. Published mode states the printed sensitivity; its second claim is
    the best proved one for the run.

    Source: CARIBOU, Theorems 2 to 4.
    """
    config: CaribouConfig = entry.options
    layer = config.contraction * config.alpha1 * _operator_sensitivity(entry, facts)
    require(layer > 0, "alpha1", "be > 0", config.alpha1, "without neighbours use the method mlp")

    def event(noise_stddev: float, l2_sensitivity: float = layer) -> ContractiveIteration[Any]:
        return ContractiveIteration(
            relation="add-remove",
            noise_stddev=noise_stddev,
            sensitivity=l2_sensitivity,
            num_hops=config.num_hops,
            contraction=config.contraction,
        )

    mechanism = gaussian_mechanism(
        AGGREGATE,
        event,
        budget,
        sensitivity=layer,
        num_hops=config.num_hops,
        details={"contraction": config.contraction},
    )
    claims = [_first_claim(entry, budget, mechanism.event)]
    if entry.mode == "published":
        claims.append(_proved_claim(entry, budget, event, mechanism.noise_stddev))
    return Plan(
        mechanisms=(mechanism,),
        claims=tuple(claims),
        num_steps=config.num_hops,
        facts=facts.recorded(),
    )


def _operator_sensitivity(entry: Entry, facts: Facts) -> float:
    """The edge sensitivity that noise is calibrated to, in units of c a1."""
    config: CaribouConfig = entry.options
    if entry.mode == "published":
        return sensitivity.published_edge_sensitivity(_published_minimum(config, facts))
    if config.padding is not None:
        return sensitivity.padded_edge_operator_sensitivity(config.padding)
    return sensitivity.edge_operator_sensitivity(config.minimum_degree or 0)


def _published_minimum(config: CaribouConfig, facts: Facts) -> int:
    if config.minimum_degree is not None:
        return config.minimum_degree
    return int(facts.structure["minimum_degree"])


def _first_claim(entry: Entry, budget: Budget, event: Any) -> Claim:
    config: CaribouConfig = entry.options
    caveats: list[str] = []
    if entry.mode == "published":
        if config.minimum_degree is None:
            caveats.append("minimum-degree-from-data")
        if config.variant == "as-released":
            caveats.append("operator-without-self-loops")
            if config.noise_free_layer:
                caveats.append("unnoised-last-layer")
    public: tuple[str, ...] = ()
    if config.minimum_degree:
        public = (f"every degree is at least {config.minimum_degree} in both graphs",)
    return gdp_claim(entry, budget, event, public=public, caveats=tuple(caveats))


def _proved_claim(entry: Entry, budget: Budget, event: Any, noise_stddev: float) -> Claim:
    """The proved claim of a published run: infinite if the noise or the result reads the edges."""
    config: CaribouConfig = entry.options
    leaks = config.variant == "as-released" and config.noise_free_layer
    if leaks or config.minimum_degree is None or math.isinf(budget.epsilon):
        return no_guarantee(entry, budget)
    bound = (
        sensitivity.edge_operator_sensitivity_without_self_loops
        if config.variant == "as-released"
        else sensitivity.edge_operator_sensitivity
    )
    layer = config.contraction * config.alpha1 * bound(config.minimum_degree)
    public = (f"every degree is at least {config.minimum_degree} in both graphs",)
    return gdp_claim(entry, budget, event(noise_stddev, layer), public=public, status="proved")
