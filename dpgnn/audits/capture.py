"""Captures what a method's real `fit` gives to its private mechanisms in two neighbouring worlds.

`prepare` and `fit` run as in any run, with one plan for both worlds (a plan reads public facts). A mechanism
is audited given the earlier ones, so their outputs are fixed: training returns its initial weights, and a
noisy release of G is also used in G'.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn import methods
from dpgnn.accountants.plan import Ledger, Plan
from dpgnn.audits.canary import AuditGraph
from dpgnn.core.randomness import FreshSecrets, Randomness
from dpgnn.core.storage import Store
from dpgnn.methods.base import Entry, Facts, Fitted, Performance, PlannedRun, SilentContext

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.methods.releases import Release


class CannotAudit(Exception):
    """A mechanism cannot be audited; the message says why. It does not count as passed."""


class Caught(Exception):
    """Stops a fit with the captured value."""

    def __init__(self, value: Any) -> None:
        super().__init__("caught")
        self.value = value


@dataclass(frozen=True, kw_only=True, eq=False)
class Training:
    """The arguments of `dp_sgd.train` in one world; as sensitive as the graph.

    Attributes:
        spec, network, gradients, initial, before_step: as `train` gets them.
        randomness: of the streams that `train` gets.
    """

    spec: Any
    network: Any
    gradients: Any
    initial: Tensor
    before_step: Callable[[int], None] | None
    randomness: Randomness


@dataclass(kw_only=True, eq=False)
class Case:
    """An entry under audit in its two worlds.

    Attributes:
        entry: the entry.
        recipe: the two worlds.
        plan: made once, from public facts.
        root_seed: of all streams.
        kept: releases of world G, by call, which are also used in G'.
        opposite_rows: aggregations start from unit rows chosen by the auditor, with the canary's opposite to
            its leaves'. A claim about hops holds for any initial unit rows.
        randomness: draws as in a study, or as in a release from seeded bits.
    """

    entry: Entry
    recipe: AuditGraph
    plan: Plan
    root_seed: int
    kept: dict[str, Any] = field(default_factory=dict)
    opposite_rows: bool = False
    randomness: Randomness = "study"

    def prepared(self, inside: np.ndarray | bool, seed: int = 0) -> tuple[Any, Any, Any]:
        """Graph, split and prepared sample of a world; the sampler's key is the same in both."""
        graph, split = self.recipe.world(inside)
        method = methods.get(self.entry.method)
        spec = method.sampler(self.entry)
        sample = None
        if spec is not None:
            assert method.prepare is not None
            sample = method.prepare(
                graph, split, spec, np.random.default_rng([self.root_seed % 2**32, seed])
            )
        return graph, split, sample

    def fit(self, world: tuple[Any, Any, Any], seed: int, plan: Plan | None = None) -> Fitted:
        """The method's own fit in a world, on its own streams."""
        graph, split, sample = world
        chosen = plan or self.plan
        context = SilentContext(
            ledger=Ledger(chosen),
            streams=FreshSecrets(
                root_seed=self.root_seed,
                axes={"audit": self.entry.name},
                secret_seed=seed,
                randomness=self.randomness,
            ),
            store=Store(None),
            performance=Performance(),
            label="audit",
        )
        return methods.get(self.entry.method).fit(PlannedRun(
            entry=self.entry, graph=graph, split=split, prepared=sample, plan=chosen, context=context,
        ))  # fmt: skip

    def training(self, inside: np.ndarray | bool, mechanism: str) -> Training:
        """The arguments of the training that executes a mechanism.

        Raises:
            CannotAudit: the fit ended without reaching it.
        """

        def caught(training: Training, stage: str) -> None:
            if stage == mechanism:
                raise Caught(training)

        with contextlib.ExitStack() as stack:
            stack.enter_context(skipped_trainings(caught))
            for release in self.releases_read():
                stack.enter_context(release.answered_by(self.replayed(release)))
            return self._caught(self.prepared(inside), f"mechanism {mechanism}")

    def release(
        self, world: tuple[Any, Any, Any], seed: int, plan: Plan | None = None
    ) -> np.ndarray:
        """One noisy release in a world, flat; without rows of canaries that at most their own root reads.

        Raises:
            CannotAudit: the fit released nothing that is audited.
        """

        def catching(release: Release[..., Any]) -> Callable[..., Any]:
            signature = inspect.signature(release.function)

            def stand_in(*arguments: Any, **named: Any) -> Any:
                called = signature.bind(*arguments, **named).arguments
                if self.opposite_rows and "x0" in called:
                    called["x0"] = self._opposite(world[0], called["x0"])
                raise Caught(release.function(**called))

            return stand_in

        with contextlib.ExitStack() as stack:
            stack.enter_context(skipped_trainings())
            for release in self.releases_read():
                stack.enter_context(release.answered_by(catching(release)))
            value = self._caught(world, "a noisy release", seed, plan)
        return self._flat(value)

    def _opposite(self, graph: Any, x0: np.ndarray) -> np.ndarray:
        """Unit rows: the canary's along one axis with its features' sign, its leaves' opposite."""
        rows = np.zeros_like(x0)
        rows[:, 1] = 1.0
        for canary in self.recipe.canaries.tolist():
            rows[canary : canary + self.recipe.star_size] = -np.eye(1, x0.shape[1])
            rows[canary] = np.sign(graph.x[canary].sum()) * np.eye(1, x0.shape[1])
        return rows

    def releases_read(self) -> list[Release[..., Any]]:
        """The method's releases whose value the rest of the run reads."""
        return [r for r in methods.get(self.entry.method).releases() if r.is_read]

    def replayed(self, release: Release[..., Any]) -> Callable[..., Any]:
        """Replays the release of the first world in the second, call by call."""
        calls = itertools.count()

        def stand_in(*arguments: Any, **named: Any) -> Any:
            place = f"{release.name}/{next(calls)}"
            if place not in self.kept:
                self.kept[place] = release.function(*arguments, **named)
            return self.kept[place]

        return stand_in

    def _caught(self, world: Any, what: str, seed: int | None = None, plan: Any = None) -> Any:  # fmt: skip
        try:
            self.fit(world, self.root_seed if seed is None else seed, plan)
        except Caught as caught:
            return caught.value
        raise CannotAudit(f"{self.entry.name}: the fit ended without reaching {what}")

    def _flat(self, value: Any) -> np.ndarray:
        parts = value if isinstance(value, list) else [value]
        return np.concatenate([self._flat_part(part) for part in parts])

    def _flat_part(self, part: Any) -> np.ndarray:
        size = self.recipe.num_nodes
        if hasattr(part, "toarray"):
            part = part.toarray()
        elif part.dtype == np.int64 and part.shape[0] == 2:
            cells = np.zeros((size, size))
            cells[part[0], part[1]] = 1.0
            part = cells
        part = np.asarray(part, dtype=np.float64)
        if self.entry.privacy_unit != "edge" and len(part) == size:
            part = np.delete(part, self.recipe.canaries, axis=0)
        return part.ravel()


def caught_plan(entry: Entry, recipe: AuditGraph, facts: Facts | None, budget: Any) -> Plan:
    """The entry's plan from the given public facts, or from those of the audit graph."""
    from dpgnn.methods.base import facts_of

    if facts is None:
        case = Case(entry=entry, recipe=recipe, plan=Plan(), root_seed=0)
        facts = facts_of(*case.prepared(True))
    return methods.get(entry.method).plan(entry, facts, budget)


@contextlib.contextmanager
def skipped_trainings(
    told: Callable[[Training, str], None] = lambda training, stage: None,
) -> Iterator[None]:
    """Let every training return its initial weights.

    Args:
        told: called with the arguments and mechanism of each private training before it is skipped.
    """
    from dpgnn.training import dp_sgd, nonprivate

    def private(
        spec: Any, network: Any, gradients: Any, initial: Tensor, *rest: Any, **named: Any
    ) -> Any:
        training = Training(
            spec=spec,
            network=network,
            gradients=gradients,
            initial=initial,
            before_step=named.get("before_step"),
            randomness=named["streams"].randomness,
        )
        told(training, named.get("stage", "train"))
        return network.named(initial), []

    def plain(model: Any, *rest: Any, **named: Any) -> Any:
        return dict(model.state_dict()), []

    with contextlib.ExitStack() as stack:
        stack.enter_context(dp_sgd.train.answered_by(private))
        stack.enter_context(nonprivate.train_full_batch.answered_by(plain))
        stack.enter_context(nonprivate.train_on_rows.answered_by(plain))
        yield
