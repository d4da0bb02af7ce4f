"""Sharing one budget among several mechanisms, by one of three rules.

`shared-multiplier`: every mechanism has the same noise multiplier (GAP, CARIBOU as published).
`epsilon-ratio`: the epsilons of the single mechanisms are in a given ratio. `mu2-ratio`: the same for mu^2,
where mu of a mechanism is that of the Gaussian mechanism with the same epsilon at this delta, or at half the
delta that this mu costs at epsilon 0 where that is smaller. Under every rule, epsilon is computed on the
composed curve, where delta is spent once, and is at most the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, get_args

from dpgnn.accountants import calibration, gdp
from dpgnn.accountants.composition import spent as composed
from dpgnn.accountants.events import Event, R, compose_all
from dpgnn.accountants.plan import Spent
from dpgnn.core import checks

Rule = Literal["shared-multiplier", "epsilon-ratio", "mu2-ratio"]
RULES: tuple[Rule, ...] = get_args(Rule)


@dataclass(frozen=True, kw_only=True)
class Share(Generic[R]):
    """A mechanism whose noise is to be found."""

    name: str
    build: Callable[[float], Event[R]]
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Allocation(Spent):
    """Noise multipliers by name, and the epsilon of the composition."""

    noise_multipliers: Mapping[str, float]


def allocate(
    shares: Sequence[Share[R]],
    *,
    rule: Rule,
    target_epsilon: float,
    delta: float,
    relation: R,
    fixed: Sequence[Event[R]] = (),
    tolerance: float = 1e-3,
) -> Allocation:
    """Noise multipliers for which the composition meets (target_epsilon, delta).

    Guarantee: the composition meets (target_epsilon, delta) under the relation; delta is spent once, on the
    composed curve. No private data is read.

    Args:
        shares: mechanisms with their weights (ignored by `shared-multiplier`); names differ.
        rule: how the budget is shared.
        target_epsilon: > 0, for the composition of all shares and `fixed`.
        delta: in (0, 1), spent once.
        relation: the relation of the guarantee.
        fixed: further events of the run, whose noise is given.
        tolerance: relative, on the noise.

    Returns:
        the multipliers, and their composed epsilon, which is at most the target.

    Raises:
        ValueError: no noise meets the target, or a parameter is out of range.
        TypeError: an event has another relation.

    Source: docs/accounting.md, theorems 8 and 11.
    """
    names = _checked_names(shares, rule)
    checks.positive("target_epsilon", target_epsilon)

    if rule == "shared-multiplier":
        start = 1.0

        def noise_at(level: float) -> list[float]:
            return [level] * len(shares)
    else:
        start = sum(share.weight for share in shares) / target_epsilon
        alone = [_Alone(share=share, delta=delta, relation=relation) for share in shares]

        def noise_at(level: float) -> list[float]:
            return [one.noise_at(rule, level) for one in alone]

    tried: dict[float, Allocation] = {}

    def spent_at(level: float) -> float:
        """Epsilon at a level, with which the noise grows."""
        noise = noise_at(level)
        built = [share.build(value) for share, value in zip(shares, noise)]
        found = composed(compose_all(*built, *fixed), delta=delta, relation=relation)
        multipliers = dict(zip(names, noise))
        tried[level] = Allocation(
            noise_multipliers=multipliers, epsilon=found.epsilon, accountant=found.accountant
        )
        return found.epsilon

    level = calibration.smallest_meeting(
        spent_at, target_epsilon, start=start, tolerance=tolerance, name="target_epsilon"
    )
    return tried[level]


def _checked_names(shares: Sequence[Share[R]], rule: Rule) -> list[str]:
    checks.one_of("rule", rule, RULES)
    names = [share.name for share in shares]
    checks.require(len(names) > 0, "shares", "hold at least one mechanism", names)
    checks.require(len(set(names)) == len(names), "share names", "differ", names)
    for share in shares:
        checks.positive(f"weight of {share.name}", share.weight)
    return names


@dataclass(kw_only=True)
class _Alone(Generic[R]):
    """Noise of one mechanism for an epsilon; earlier results start the next search."""

    share: Share[R]
    delta: float
    relation: R
    start: float = 1.0

    def noise_at(self, rule: Rule, level: float) -> float:
        """Noise for the mechanism's share of the budget, which falls as the level grows."""
        share = self.share.weight / level
        if rule == "epsilon-ratio":
            return self._noise_for(share, self.delta)
        # a mu so small that it costs delta alone is compared at a smaller one
        mu = math.sqrt(share)
        delta = min(self.delta, gdp.delta(0.0, mu) / 2)
        return self._noise_for(gdp.epsilon(mu, delta), delta)

    def _noise_for(self, epsilon: float, delta: float) -> float:
        self.start = calibration.calibrate_noise(
            self.share.build,
            target_epsilon=epsilon,
            delta=delta,
            relation=self.relation,
            start=self.start,
            tolerance=1e-4,
        ).value
        return self.start
