"""Plan and ledger: what a run will do to private data, decided from public facts before it reads any.

The plan lists every mechanism with its noise and number of steps. The ledger lets each of them run once; a
mechanism that is not planned, or is run twice, is an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from dpgnn.core.checks import at_least, non_negative, open_probability, positive, require
from dpgnn.core.config import later

if TYPE_CHECKING:
    from dpgnn.accountants.claims import Claim
    from dpgnn.accountants.events import Event


Population = Literal["train", "others"]


class LedgerError(RuntimeError):
    """The plan does not allow a mechanism; it was not run."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The privacy budget of a run.

    Attributes:
        epsilon: target, > 0; math.inf without privacy and where the noise is given.
        delta: in (0, 1); at most 1 / (10 * number of protected units) in a sound run.
        noise_multiplier: None finds the noise for epsilon; a number is the noise of every stage relative to
            its sensitivity, and the plan's claim has the resulting epsilon.
    """

    epsilon: float
    delta: float
    noise_multiplier: float | None = None

    def __post_init__(self) -> None:
        require(
            isinstance(self.epsilon, (int, float)) and self.epsilon > 0, "epsilon", "be > 0",
            self.epsilon, "use inf for a non-private run",
        )  # fmt: skip
        open_probability("delta", self.delta)
        if self.noise_multiplier is not None:
            positive("noise_multiplier", self.noise_multiplier)

    @property
    def is_private(self) -> bool:
        """Whether the budget is finite, or the noise is given."""
        return math.isfinite(self.epsilon) or self.noise_multiplier is not None

    def require_target(self, method: str) -> None:
        """Refuse given noise in a plan that divides epsilon among its stages.

        Raises:
            ValueError: the noise is given; names the method.
        """
        require(
            self.noise_multiplier is None, f"{method}: noise_multiplier", "not be given",
            self.noise_multiplier, "give target_epsilon, which is divided among the stages",
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Spent:
    """An epsilon at the delta of a budget, and the accountant that computed it.

    Attributes:
        epsilon: >= 0; math.inf if no finite value is proved.
        accountant: pld, gdp, rdp, the name of a published formula, or none.
    """

    epsilon: float
    accountant: str


# for a run without a finite guarantee
NOTHING_PROVED = Spent(epsilon=math.inf, accountant="none")


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """One release from private data, or several equal ones.

    Attributes:
        name: its name in the ledger: "train", "encoder", "aggregate", ...
        event: what an accountant counts, including all steps (`events.compose`).
        noise_stddev: absolute standard deviation of the noise on the sum.
        sensitivity: L2 change of the sum between neighbouring graphs, in the same units.
        num_steps: number of noisy releases.
        clipping_norm: L2 bound C on one root's gradient; None without clipping.
        divisor: public constant by which the noisy sum is divided.
        details: further public parameters for the record (sampling_probability, batch_size, ...).
        population: nodes whose records can enter it, by the public split: "train", "others" (all except
            training nodes), or None for all. The audit of neighbours checks this.
    """

    name: str
    event: Event
    noise_stddev: float
    sensitivity: float
    num_steps: int = 1
    clipping_norm: float | None = None
    divisor: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    population: Population | None = later(None)

    def __post_init__(self) -> None:
        non_negative(f"mechanism {self.name}: noise_stddev", self.noise_stddev)
        non_negative(f"mechanism {self.name}: sensitivity", self.sensitivity)
        at_least(
            f"mechanism {self.name}: num_steps",
            self.num_steps,
            1,
            "without a step the model stays untrained; raise epsilon or the noise",
        )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run will do, decided from public facts only.

    Attributes:
        mechanisms: every mechanism, with different names; () without privacy.
        claims: the guarantees; the noise was calibrated for the first; () without privacy.
        num_steps: optimiser steps T of the last stage; public.
        facts: public facts from which the plan was made, for the record.
        details: further public parameters for the record.
    """

    mechanisms: tuple[Mechanism, ...] = ()
    claims: tuple[Claim, ...] = ()
    num_steps: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [mechanism.name for mechanism in self.mechanisms]
        require(len(set(names)) == len(names), "plan: mechanism names", "differ", names)
        require(
            bool(self.claims) or not self.mechanisms,
            "plan: claims",
            "name at least one guarantee where mechanisms touch private data",
            self.claims,
        )

    def composed(self) -> tuple[Event, ...]:
        """One event for each population: all mechanisms that one record can enter.

        Guarantee: the population of a record is public and the same in both neighbours, so no record enters
        mechanisms of two populations (parallel composition).
        """
        from dpgnn.accountants.events import compose_all

        found = {m.population for m in self.mechanisms}
        named = [name for name in ("train", "others") if name in found]
        return tuple(
            compose_all(*(m.event for m in self.mechanisms if m.population in (None, name)))
            for name in named or (None,)
        )

    def mechanism(self, name: str) -> Mechanism:
        """The mechanism called `name`.

        Args:
            name: as planned.

        Raises:
            LedgerError: the plan has no such mechanism.
        """
        for mechanism in self.mechanisms:
            if mechanism.name == name:
                return mechanism
        known = ", ".join(mechanism.name for mechanism in self.mechanisms) or "none"
        raise LedgerError(f"mechanism {name!r} is not in the plan (planned: {known})")


class Ledger:
    """Lets each planned mechanism run once; `close` checks that all did."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._entered: list[str] = []
        self._within: list[Ledger] = []

    def within(self, plan: Plan) -> Ledger:
        """A ledger of one run of several that a planned mechanism counts together; closed with this one.

        Args:
            plan: of the run.
        """
        self._within.append(Ledger(plan))
        return self._within[-1]

    def enter(self, name: str) -> Mechanism:
        """Enter a mechanism before it reads private data, and return its parameters.

        Guarantee: each planned mechanism runs at most once and no other runs, so the plan's claim covers the
        whole run.

        Args:
            name: of a planned mechanism.

        Raises:
            LedgerError: it is not in the plan, or was entered before.
        """
        mechanism = self._plan.mechanism(name)
        if name in self._entered:
            raise LedgerError(f"mechanism {name!r} was executed already; it is planned once")
        self._entered.append(name)
        return mechanism

    def planned(self, name: str) -> Mechanism:
        """A planned mechanism's parameters, without entering it.

        Args:
            name: as planned.

        Raises:
            LedgerError: the plan has none of that name.
        """
        return self._plan.mechanism(name)

    def fact(self, name: str) -> Any:
        """A public fact from which the plan was made; None if it has none of that name.

        Args:
            name: as in `Plan.facts`.
        """
        return self._plan.facts.get(name)

    @property
    def entered(self) -> tuple[str, ...]:
        """Names entered so far, in order."""
        return tuple(self._entered)

    def close(self) -> None:
        """Check that every planned mechanism was run.

        Raises:
            LedgerError: one was not run, although the budget paid for it.
        """
        missing = [m.name for m in self._plan.mechanisms if m.name not in self._entered]
        if missing:
            raise LedgerError(f"planned mechanisms were not executed: {', '.join(missing)}")
        for ledger in self._within:
            ledger.close()
