"""CARIBOU's node-level plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpgnn.accountants.events import ContractiveIteration, Event
from dpgnn.accountants.plan import NOTHING_PROVED, Budget, Plan, Spent
from dpgnn.core.checks import require
from dpgnn.methods.caribou import sensitivity
from dpgnn.methods.shared.edge_level import gaussian_mechanism
from dpgnn.methods.shared.node_level import (
    AGGREGATE,
    NODE_PUBLIC,
    Aggregation,
    published_plan,
    sound_plan,
)
from dpgnn.methods.shared.planning import claim_for

if TYPE_CHECKING:
    from dpgnn.methods.base import Entry, Facts
    from dpgnn.methods.caribou.options import CaribouConfig


def node_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """Encoder, contractive iteration and head from one budget.

    Guarantee (sound): unit node-bounded with the declared max_degree D, relation of the entry. `release:
    weights`: the weights of encoder and head are released. The iteration moves by `node_layer_sensitivity`
    without the own row. Proof: let the world G' without u's edges run a copy of u's row by G's own map of
    that row (rows v != u of G' do not read it, as emptied rows count as 0), so the maps phi of G and phi'' of
    this extension differ in rows v != u only, from one common start. The shifted interpolation that bounds
    the trade-off function (gdp.effective_hops) needs the contraction of phi alone: in z_k <= (1 - l)(||phi(X)
    - phi(X~)|| + ||phi(X~) - phi''(X~)||) only phi is moved. The bound is Gaussian, so it holds in both
    directions. Dropping u's row is post-processing; encoder and head compose by `shared.node_level`.
    `release: noisy-state` counts the own row and holds for null-one: there the first states differ in
    row u, which the sensitivity of the first hop counts. Replacing a node is emptying it in two worlds,
    and mu of a pair at distance 2 is at most 2 mu (Dong, Roth, Su 2022, Theorem 4), so Delta doubles.

    Published: Theorem 5's constant, one multiplier for all, Theorem 6.
    """
    config: CaribouConfig = entry.options
    if entry.mode == "published" and config.variant == "as-released":
        return _authors_code_plan(entry, facts, budget)
    build = _builder(entry, config)
    with_encoder = config.head.encoder_layers > 0
    if entry.mode == "sound":
        _check_sound(entry, config)
        l2_sensitivity = _sound_sensitivity(entry, config, facts)
        aggregation = Aggregation(
            build=build, sensitivity=l2_sensitivity, proved=l2_sensitivity, num_hops=config.num_hops,
            released=config.release, details=_details(config),
        )  # fmt: skip
        return sound_plan(entry, facts, budget, config.node, aggregation, with_encoder=with_encoder)
    aggregation = Aggregation(
        build=build, sensitivity=_published_sensitivity(config, facts),
        proved=_proved_sensitivity(entry, config, facts), num_hops=config.num_hops,
        details=_details(config),
    )  # fmt: skip
    return published_plan(
        entry, facts, budget, config.node, aggregation, caveats=_caveats(config),
        with_encoder=with_encoder,
    )  # fmt: skip


def _builder(entry: Entry, config: CaribouConfig) -> Any:
    relation: Any = entry.relation

    def build(noise_stddev: float, l2_sensitivity: float) -> Event[Any]:
        return ContractiveIteration(
            relation=relation,
            noise_stddev=noise_stddev,
            sensitivity=l2_sensitivity,
            num_hops=config.num_hops,
            contraction=config.contraction,
        )

    return build


def _sound_sensitivity(entry: Entry, config: CaribouConfig, facts: Facts) -> float:
    layer = sensitivity.node_layer_sensitivity(
        config.contraction,
        config.alpha1,
        max_degree=config.node.max_degree,
        num_nodes=facts.num_nodes,
        minimum_degree=0,
        own_row=config.release == "noisy-state",
    )
    return 2 * layer if entry.relation == "replace-one" else layer


def _published_sensitivity(config: CaribouConfig, facts: Facts) -> float:
    minimum = config.minimum_degree
    return sensitivity.published_node_sensitivity(
        config.contraction,
        config.alpha1,
        minimum_degree=facts.structure["minimum_degree"] if minimum is None else minimum,
        max_degree=config.node.max_degree,
        num_nodes=facts.num_nodes,
    )


def _proved_sensitivity(entry: Entry, config: CaribouConfig, facts: Facts) -> float | None:
    """The proved sensitivity; finite only if degrees are declared and no mean couples the rows."""
    declared = config.node.bounding == "declared" and config.minimum_degree is not None
    if not declared or config.alpha1 < 1:
        return None
    return _sound_sensitivity(entry, config, facts)


def _caveats(config: CaribouConfig) -> tuple[str, ...]:
    caveats = ["node-sensitivity"]
    if config.node.bounding == "sampled":
        caveats.append("degree-bound-unstable")
    if config.minimum_degree is None:
        caveats.append("minimum-degree-from-data")
    return tuple(caveats)


def _authors_code_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """The plan of the released code's class: only the iteration is calibrated; the head is not private."""
    config: CaribouConfig = entry.options
    l2_sensitivity, build = _published_sensitivity(config, facts), _builder(entry, config)
    mechanism = gaussian_mechanism(
        AGGREGATE,
        lambda noise: build(noise, l2_sensitivity),
        budget,
        sensitivity=l2_sensitivity,
        num_hops=config.num_hops,
        details=_details(config),
    )
    caveats = [*_caveats(config), "operator-without-self-loops", "head-not-private"]
    if config.noise_free_layer:
        caveats.append("unnoised-last-layer")
    common: dict[str, Any] = {
        "degree_bound": config.node.max_degree,
        "assumed_public": NODE_PUBLIC,
        "released": "noisy-state",
    }
    stated = claim_for(
        entry,
        budget,
        Spent(epsilon=budget.epsilon, accountant="gdp"),
        caveats=tuple(caveats),
        **common,
    )
    true = claim_for(entry, budget, NOTHING_PROVED, status="proved", **common)
    return Plan(
        mechanisms=(mechanism,),
        claims=(stated, true),
        num_steps=config.num_hops,
        facts=facts.recorded(),
    )


def _details(config: CaribouConfig) -> dict[str, Any]:
    return {
        "num_hops": config.num_hops,
        "contraction": config.contraction,
        "max_degree": config.node.max_degree,
    }


def _check_sound(entry: Entry, config: CaribouConfig) -> None:
    require(config.node.bounding == "declared", "node.bounding", "be declared in sound mode",
            config.node.bounding)  # fmt: skip
    require(config.padding is None, "padding", "be given at edge level only", config.padding)
    # an emptied node has no edges, and its neighbours have one fewer
    require(not config.minimum_degree, "minimum_degree", "be left out at node level in sound mode",
            config.minimum_degree)  # fmt: skip
    # without the node's row the mean is over one node fewer
    require(config.alpha1 == 1 or entry.relation != "add-remove", "alpha1",
            "be 1 under add-remove at node level", config.alpha1,
            "use null-one or replace-one for a mean over all rows")  # fmt: skip
    if config.release == "noisy-state":
        rule = "be null-one or replace-one where X_K is released: its number of rows is public"
        require(entry.relation != "add-remove", "relation", rule, entry.relation)
