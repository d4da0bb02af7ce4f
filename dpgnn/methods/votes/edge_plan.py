"""The plan of votes at edge level: two Gaussian rounds of equal noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dpgnn.accountants.events import Event, GaussianRelease, compose
from dpgnn.accountants.plan import Budget, Plan
from dpgnn.core.checks import require
from dpgnn.methods.queries import AGGREGATE
from dpgnn.methods.shared.edge_level import gaussian_mechanism, gdp_claim

if TYPE_CHECKING:
    from dpgnn.methods.base import Entry, Facts

ROUNDS = 2
# an undirected edge carries a message of norm at most 1 in each direction
SENSITIVITY = math.sqrt(2)


def edge_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """Noise of both rounds from the budget: 2/mu each, for the mu of (epsilon, delta).

    Guarantee: unit `edge`, add-remove, (epsilon, delta) for the boards, the heads and the answers to
    everyone. Public: node ids, features, labels, split, all options.

    Source: docs/accounting.md, theorem 13.
    """
    private = budget.is_private or budget.noise_multiplier is not None
    require(private, "epsilon of votes", "be finite", budget.epsilon)
    require(facts.task == "multiclass", "task", "be multiclass for votes", facts.task)
    require(facts.num_classes > 1, "num_classes", "be > 1 for votes", facts.num_classes)

    def event(noise_stddev: float) -> Event[Any]:
        one: GaussianRelease[Any] = GaussianRelease(
            relation="add-remove", noise_stddev=noise_stddev, sensitivity=SENSITIVITY
        )
        return compose(one, ROUNDS)

    mechanism = gaussian_mechanism(
        AGGREGATE, event, budget, sensitivity=SENSITIVITY, num_hops=ROUNDS, details={}
    )
    return Plan(
        mechanisms=(mechanism,),
        claims=(gdp_claim(entry, budget, mechanism.event),),
        num_steps=ROUNDS,
        facts=facts.recorded(),
    )
