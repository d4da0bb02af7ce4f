"""DPDGC's plan at edge level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpgnn.accountants.events import Event, GaussianRelease, compose_all
from dpgnn.accountants.plan import Budget, Mechanism, Plan
from dpgnn.core.checks import require
from dpgnn.methods.gap.plan import SQRT2
from dpgnn.methods.shared.edge_level import EDGE_PUBLIC
from dpgnn.methods.shared.node_level import (
    AGGREGATE,
    ENCODER,
    allocated,
    counted_steps,
    poisson_stage,
    published_multiplier,
)
from dpgnn.methods.shared.planning import claim_for

if TYPE_CHECKING:
    from dpgnn.methods.base import Entry, Facts
    from dpgnn.methods.dpdgc.options import DPDGCConfig

# an undirected edge is in two adjacency rows, which exist in both worlds
EDGE_ROWS = (2, 2)


def edge_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """The embedding's training and its release from one budget; the head costs nothing.

    Guarantee (sound): unit edge, add-remove: one undirected edge changes two adjacency rows, so two roots of
    the training (docs/accounting.md, theorem 1, d+ = d- = 2) and two rows of the release, each by a vector
    of norm s: sqrt(2) s. Counted by composed losses. Public: node ids, features, labels, split, options.

    Published: one gradient of norm 2 C and one row count (noise 2 z C on fixed-size batches, z s on the
    release), by Renyi DP; the second claim composes what is run with the bounds above.
    """
    config: DPDGCConfig = entry.options
    require(budget.is_private, "epsilon", "be finite", budget.epsilon, "use mode nonprivate")
    if entry.mode == "sound":
        return _sound(entry, config, facts, budget)
    return _published(entry, config, facts, budget)


def _release(noise: float, sensitivity: float) -> GaussianRelease[Any]:
    return GaussianRelease(relation="add-remove", noise_stddev=noise, sensitivity=sensitivity)


def _sound(entry: Entry, config: DPDGCConfig, facts: Facts, budget: Budget) -> Plan:
    stage, l2_sensitivity = config.node.encoder, SQRT2 * config.norm_scale

    def encoder(z: float) -> Mechanism:
        return poisson_stage(entry, ENCODER, stage, EDGE_ROWS, facts.num_train, z)

    shares = config.node.shares
    allocation = allocated(
        (
            (ENCODER, encoder(1.0).event, shares[0]),
            (AGGREGATE, _release(l2_sensitivity, l2_sensitivity), shares[1]),
        ),
        config.node.rule,
        budget,
    )
    z = allocation.noise_multipliers
    mechanisms = (
        encoder(z[ENCODER]),
        _mechanism(z[AGGREGATE] * l2_sensitivity, l2_sensitivity, l2_sensitivity, config),
    )
    claim = _claim(entry, budget, spent=allocation)
    return Plan(mechanisms=mechanisms, claims=(claim,), num_steps=1, facts=facts.recorded())


def _published(entry: Entry, config: DPDGCConfig, facts: Facts, budget: Budget) -> Plan:
    from dpgnn.accountants.composition import spent
    from dpgnn.accountants.plan import NOTHING_PROVED, Spent

    stage, l2_sensitivity = config.node.encoder, config.norm_scale
    counted = (counted_steps(stage, facts.num_train), _release(l2_sensitivity, l2_sensitivity))
    z, stated = published_multiplier(counted, budget)
    # one changed root is counted with noise 2 z C; two roots change, in batches that are Poisson here
    training = poisson_stage(entry, ENCODER, stage, EDGE_ROWS, facts.num_train, z / 2)
    release = _mechanism(z * l2_sensitivity, l2_sensitivity, SQRT2 * l2_sensitivity, config)
    caveats = ["directed-sensitivity"]
    if not config.normalized:
        caveats.append("normalization-not-applied")
    first = _claim(
        entry, budget, spent=Spent(epsilon=stated, accountant="rdp"), status="as-published",
        caveats=tuple(caveats),
    )  # fmt: skip
    proved = NOTHING_PROVED
    if config.normalized:
        whole: Event[Any] = compose_all(training.event, release.event)
        proved = spent(whole, delta=budget.delta, relation="add-remove")
    second = _claim(entry, budget, spent=proved, status="proved")
    return Plan(
        mechanisms=(training, release), claims=(first, second), num_steps=1, facts=facts.recorded()
    )


def _mechanism(noise: float, sensitivity: float, actual: float, config: DPDGCConfig) -> Mechanism:
    return Mechanism(
        name=AGGREGATE,
        event=_release(noise, actual),
        noise_stddev=noise,
        sensitivity=sensitivity,
        details={"noise_multiplier": noise / sensitivity, "norm_scale": config.norm_scale},
    )


def _claim(entry: Entry, budget: Budget, **words: Any) -> Any:
    return claim_for(
        entry,
        budget,
        assumed_public=(*EDGE_PUBLIC, "number of training nodes"),
        released="noisy-state",
        selection="public",
        **words,
    )
