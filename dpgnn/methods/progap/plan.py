"""ProGAP's plans: one budget over K noisy aggregates and, at node level, K + 1 trainings."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from dpgnn.accountants.events import Event, GaussianRelease, compose, compose_all, parts
from dpgnn.accountants.plan import NOTHING_PROVED, Budget, Mechanism, Plan, Spent
from dpgnn.core.checks import require
from dpgnn.methods.base import Entry, Facts, nonprivate_plan
from dpgnn.methods.gap.plan import edge_sensitivity, node_sensitivity
from dpgnn.methods.progap.options import ProgapConfig
from dpgnn.methods.shared.edge_level import gaussian_mechanism, gdp_claim
from dpgnn.methods.shared.node_level import (
    AGGREGATE,
    CHANGED,
    NODE_PUBLIC,
    allocated,
    counted_steps,
    poisson_stage,
    published_multiplier,
)
from dpgnn.methods.shared.planning import claim_for

STAGE = "stage."


def stage_name(stage: int) -> str:
    """The mechanism that trains a stage, 0..K."""
    return f"{STAGE}{stage}"


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """Noise from the budget.

    Guarantee (sound, edge): K adaptive Gaussian releases of sensitivity sqrt 2, exactly mu-GDP with mu =
    sqrt(2 K)/noise_stddev; stages in between are post-processing, as features and labels are public.
    Guarantee (sound, node): K Gaussian releases of the rows of others and K + 1 runs of DP-SGD with one
    changed root, composed on one curve (docs/accounting.md, theorem 18). Published mode states one
    direction, or the noise multiplier shared by all; its second claim is what is proved for the same noise.

    Raises:
        ValueError: options that only published mode has, or no noise meets the budget.

    Source: Sajadmanesh and Gatica-Perez (2024), arXiv:2304.08928.
    """
    if entry.mode == "nonprivate":
        return nonprivate_plan(entry, facts, budget)
    made = _edge_plan if entry.privacy_unit == "edge" else _node_plan
    return made(entry, facts, budget)


def _releases(relation: Any, config: ProgapConfig, noise: float, sensitivity: float) -> Event[Any]:
    one: GaussianRelease[Any] = GaussianRelease(
        relation=relation, noise_stddev=noise, sensitivity=sensitivity
    )
    return compose(one, config.num_hops)


def _edge_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    config: ProgapConfig = entry.options
    true = edge_sensitivity(directed=False)
    claims: tuple[Any, ...]
    if entry.mode == "sound":
        mechanism = gaussian_mechanism(
            AGGREGATE, lambda noise: _releases("add-remove", config, noise, true), budget,
            sensitivity=true, num_hops=config.num_hops, details={},
        )  # fmt: skip
        claims = (gdp_claim(entry, budget, mechanism.event),)
    else:
        require(budget.is_private, "progap: epsilon", "be finite", budget.epsilon,
                "use mode nonprivate")  # fmt: skip
        l2_sensitivity = edge_sensitivity(directed=config.directed)
        z, stated = published_multiplier((_releases("add-remove", config, 1.0, 1.0),), budget)
        event = _releases("add-remove", config, z * l2_sensitivity, l2_sensitivity)
        mechanism = _aggregate(config, event, z, l2_sensitivity, {})
        first = claim_for(
            entry, budget, Spent(epsilon=stated, accountant="rdp"),
            assumed_public=gdp_claim(entry, budget, event).assumed_public, released="noisy-state",
            selection="public", caveats=("directed-sensitivity",) if config.directed else (),
        )  # fmt: skip
        actual = _releases("add-remove", config, z * l2_sensitivity, true)
        claims = (first, gdp_claim(entry, budget, actual, status="proved"))
    return Plan(
        mechanisms=(mechanism,), claims=claims, num_steps=config.num_hops, facts=facts.recorded()
    )


def _aggregate(
    config: ProgapConfig, event: Event[Any], z: float, sensitivity: float, details: dict[str, Any]
) -> Mechanism:
    return Mechanism(
        name=AGGREGATE,
        event=event,
        noise_stddev=z * sensitivity,
        sensitivity=sensitivity,
        num_steps=config.num_hops,
        details={"noise_multiplier": z, "num_hops": config.num_hops, **details},
    )


def _node_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    config: ProgapConfig = entry.options
    require(budget.is_private, "progap: epsilon", "be finite at node level", budget.epsilon,
            "use mode nonprivate")  # fmt: skip
    _check_batch(config, facts)
    if entry.mode == "published":
        return _published_node_plan(entry, facts, budget)
    return _sound_node_plan(entry, facts, budget)


def _sound_node_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """K releases of a declared degree bound and K + 1 runs of DP-SGD, counted by composed losses."""
    config: ProgapConfig = entry.options
    for name, wanted, value in (
        ("node.bounding", "declared", config.node.bounding),
        ("node.drop_last_node", False, config.node.drop_last_node),
    ):
        require(value == wanted, name, f"be {wanted} in sound mode", value)
    assert entry.relation is not None
    l2_sensitivity = node_sensitivity(config.node.max_degree, entry.relation)
    names = [stage_name(stage) for stage in range(config.num_hops + 1)]

    def trained(name: str, z: float) -> Mechanism:
        return poisson_stage(
            entry, name, config.node.stage, CHANGED[str(entry.relation)], facts.num_train, z
        )

    # equal stages have one multiplier, so they count as one share of the budget
    stages = compose_all(*(trained(name, 1.0).event for name in names))
    aggregates = _releases(entry.relation, config, l2_sensitivity, l2_sensitivity)
    found = allocated(
        (("stages", stages, config.node.shares[0]), (AGGREGATE, aggregates, config.node.shares[1])),
        config.node.rule,
        budget,
    )
    z_stages, z = (found.noise_multipliers[name] for name in ("stages", AGGREGATE))
    aggregate = _aggregate(
        config, _releases(entry.relation, config, z * l2_sensitivity, l2_sensitivity), z, l2_sensitivity,
        {"max_degree": config.node.max_degree},
    )  # fmt: skip
    mechanisms = (aggregate, *(trained(name, z_stages) for name in names))
    return Plan(
        mechanisms=mechanisms,
        claims=(_claim(entry, budget, config, spent=found),),
        num_steps=mechanisms[-1].num_steps,
        facts=facts.recorded(),
    )


def _published_node_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """K releases of sensitivity sqrt D and K + 1 runs of DP-SGD, one multiplier, by Renyi DP.

    The steps of all epochs are counted; the run skips incomplete batches.
    """
    config: ProgapConfig = entry.options
    stage, l2_sensitivity = config.node.stage, math.sqrt(config.node.max_degree)
    one = counted_steps(stage, facts.num_train)
    counted = (_releases("add-remove", config, 1.0, 1.0), *[one] * (config.num_hops + 1))
    z, stated = published_multiplier(counted, budget)
    event = _releases("add-remove", config, z * l2_sensitivity, l2_sensitivity)
    aggregate = _aggregate(config, event, z, l2_sensitivity, {"max_degree": config.node.max_degree})
    mechanisms = [aggregate]
    for number in range(config.num_hops + 1):
        made = poisson_stage(entry, stage_name(number), stage, (1, 0), facts.num_train, z)
        ((step, _),) = parts(made.event)
        run = stage.num_epochs * max(1, facts.num_train // stage.batch_size)
        mechanisms.append(replace(made, event=compose(step, run), num_steps=run))
    stable = config.node.bounding == "declared"
    first = _claim(
        entry, budget, config, spent=Spent(epsilon=stated, accountant="rdp"),
        released="weights+predictions",
        caveats=(
            "own-row-uncounted", "validation-unaccounted",
            *(() if stable else ("degree-bound-unstable",)),
        ),
    )  # fmt: skip
    proved = NOTHING_PROVED
    if stable:
        from dpgnn.accountants.composition import spent

        whole = compose_all(*(mechanism.event for mechanism in mechanisms))
        proved = spent(whole, delta=budget.delta, relation="add-remove")
    second = _claim(entry, budget, config, spent=proved, status="proved")
    return Plan(
        mechanisms=tuple(mechanisms),
        claims=(first, second),
        num_steps=mechanisms[-1].num_steps,
        facts=facts.recorded(),
    )


def _check_batch(config: ProgapConfig, facts: Facts) -> None:
    size = config.node.stage.batch_size
    require(
        size <= facts.num_train, "node.stage.batch_size",
        f"be <= the number of training nodes, {facts.num_train}", size,
        "no stage would take a step of a whole batch; lower it",
    )  # fmt: skip


def _claim(
    entry: Entry, budget: Budget, config: ProgapConfig, *, spent: Spent, **words: Any
) -> Any:
    bound = config.node.max_degree if entry.privacy_unit == "node-bounded" else None
    common = {"assumed_public": NODE_PUBLIC, "released": "weights"}
    return claim_for(entry, budget, spent, degree_bound=bound, **(common | words))
