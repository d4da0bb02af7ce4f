"""Plan first: what a run will do to private data, fixed from public facts before the data is touched.

The plan names every mechanism with its noise and its number of steps; the ledger lets each be executed
once. A mechanism that is not in the plan, or is executed twice, is an error.
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
    """A mechanism was about to run that the plan does not allow; nothing was released."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a run may spend.

    Attributes:
        epsilon: target, > 0; math.inf for a non-private run, and where the noise is given.
        delta: in (0, 1); at most 1 / (10 * number of protected units) in a sound run.
        noise_multiplier: None finds the noise for epsilon; a number is the noise of every stage, relative to
            its sensitivity, and the plan's claim says what it costs.
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
        """Refuse given noise, for a plan whose stages share epsilon by a rule of their own.

        Raises:
            ValueError: the noise is given; names the method.
        """
        require(
            self.noise_multiplier is None, f"{method}: noise_multiplier", "not be given",
            self.noise_multiplier, "give target_epsilon; its stages share it",
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Spent:
    """An epsilon at a budget's delta, with the name of what counted it.

    Attributes:
        epsilon: >= 0; math.inf where nothing finite is proved.
        accountant: pld, gdp, rdp, the name of a published formula, or none.
    """

    epsilon: float
    accountant: str


# what is proved of a run of which nothing finite is
NOTHING_PROVED = Spent(epsilon=math.inf, accountant="none")


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """One release, or one run of equal steps, that touches private data.

    Attributes:
        name: its name in the ledger: "train", "encoder", "aggregate", ...
        event: what an accountant counts, all steps included (`events.compose`).
        noise_stddev: absolute standard deviation of the noise, on the sum.
        sensitivity: L2 change of the sum between neighbouring graphs, in the same units.
        num_steps: how many noisy releases the mechanism makes.
        clipping_norm: L2 bound C on one root's gradient; None where nothing is clipped.
        divisor: the public constant the noisy sum is divided by.
        details: public parameters worth recording (sampling_probability, batch_size, ...).
        population: whose records can enter it, by the public membership of the split: "train", "others" (all
            that are no training nodes), or None for all. The audit of neighbours holds it to that.
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
            "a run that takes no step releases an untrained model; raise epsilon or the noise",
        )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run will do; made from public facts only.

    Attributes:
        mechanisms: every mechanism, by name once; () for a non-private run.
        claims: the guarantees, the first being the one it was calibrated for; () without privacy.
        num_steps: optimiser steps of the last stage (T), public.
        facts: the public facts the plan was made from, as they are recorded.
        details: further public parameters of the run that are worth recording.
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
        """All that one record can enter, one event for each population; the claim is about the worst.

        Guarantee: which population a record belongs to is public and the same in both of two neighbours, so
        that no record enters mechanisms of two populations (parallel composition).
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
            LedgerError: the plan has none of that name.
        """
        for mechanism in self.mechanisms:
            if mechanism.name == name:
                return mechanism
        known = ", ".join(mechanism.name for mechanism in self.mechanisms) or "none"
        raise LedgerError(f"mechanism {name!r} is not in the plan (planned: {known})")


class Ledger:
    """Lets each planned mechanism be executed once; `close` demands that all were."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._entered: list[str] = []

    def enter(self, name: str) -> Mechanism:
        """Enter a mechanism before it touches private data and get its parameters.

        Guarantee: each planned mechanism is executed at most once, and no other is: what the plan claims is
        all that is spent.

        Args:
            name: of a planned mechanism.

        Raises:
            LedgerError: not in the plan, or entered before.
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

    @property
    def entered(self) -> tuple[str, ...]:
        """Names entered so far, in order."""
        return tuple(self._entered)

    def close(self) -> None:
        """Check that every planned mechanism was executed.

        Raises:
            LedgerError: one was not; its budget was charged for nothing.
        """
        missing = [m.name for m in self._plan.mechanisms if m.name not in self._entered]
        if missing:
            raise LedgerError(f"planned mechanisms were not executed: {', '.join(missing)}")
