"""What a method's real `fit` hands to its private mechanisms, caught in each of two neighbouring worlds.

`prepare` and `fit` run as in any run, with one plan for both worlds (a plan reads public facts). Other
mechanisms on the way are replaced by public stand-ins: training returns its initial weights, and a noisy
release of G is given to G' as well, because a mechanism is audited conditionally on what came before it.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from dpgnn import methods
from dpgnn.accountants.plan import Ledger, Plan
from dpgnn.audits.canary import AuditGraph
from dpgnn.core.code_hash import imported_modules
from dpgnn.core.randomness import FreshSecrets
from dpgnn.core.storage import Store
from dpgnn.methods.base import Context, Entry, Facts, Performance

if TYPE_CHECKING:
    from torch import Tensor

# where noisy releases are read first: module, function, position of the release among its arguments (None:
# it is what the function returns), and whether it is a list of channels whose first is not noisy
CONSUMERS: tuple[tuple[str, str, int | None], ...] = (
    ("dpgnn.methods.shared.head_training", "train_head", 1),
    ("dpgnn.methods.shared.head_private", "private_head", 2),
    ("dpgnn.methods.shared.graph_training", "train_gcn", 1),
    ("dpgnn.methods.pertgraph.method", "undirected_answers", None),
    ("dpgnn.methods.pertgraph.method", "directed_answers", None),
    ("dpgnn.methods.dpar.rows", "vectors", None),
)

# trainings of dpgnn.training.nonprivate: at edge level they read what was released
PLAIN_TRAININGS = ("train_full_batch", "train_on_rows")


class CannotAudit(Exception):
    """A mechanism cannot be audited; says why. What was not run is not passed."""


class Caught(Exception):
    """What was looked for has been reached; carries it."""

    def __init__(self, value: Any) -> None:
        super().__init__("caught")
        self.value = value


@dataclass(frozen=True, kw_only=True, eq=False)
class Training:
    """The arguments of `dp_sgd.train` in one world; as sensitive as the graph.

    Attributes:
        spec, network, gradients, initial, before_step: as `train` gets them.
    """

    spec: Any
    network: Any
    gradients: Any
    initial: Tensor
    before_step: Callable[[int], None] | None


@dataclass(kw_only=True, eq=False)
class Case:
    """An entry under audit in its two worlds.

    Attributes:
        entry: the entry.
        recipe: the two worlds.
        plan: made once, from public facts.
        root_seed: of all streams.
        kept: releases of world G, by place, given to G' too.
    """

    entry: Entry
    recipe: AuditGraph
    plan: Plan
    root_seed: int
    kept: dict[str, Any] = field(default_factory=dict)

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

    def fit(self, world: tuple[Any, Any, Any], seed: int, plan: Plan | None = None) -> None:
        """The method's own fit in a world, on streams of their own."""
        graph, split, sample = world
        chosen = plan or self.plan
        context = Context(
            ledger=Ledger(chosen),
            streams=FreshSecrets(
                root_seed=self.root_seed, axes={"audit": self.entry.name}, secret_seed=seed
            ),
            store=Store(None),
            performance=Performance(),
            label="audit",
        )
        with mock.patch("dpgnn.methods.base.Progress", _Silent):
            methods.get(self.entry.method).fit(self.entry, graph, split, sample, chosen, context)

    def training(self, inside: np.ndarray | bool, mechanism: str) -> Training:
        """The arguments of the training that executes a mechanism.

        Raises:
            CannotAudit: the fit ended without it.
        """

        def train(
            spec: Any, network: Any, gradients: Any, initial: Tensor, *rest: Any, **named: Any
        ) -> Any:
            if named.get("stage", "train") != mechanism:
                return network.named(initial), []
            raise Caught(
                Training(
                    spec=spec,
                    network=network,
                    gradients=gradients,
                    initial=initial,
                    before_step=named.get("before_step"),
                )
            )

        with stand_ins() as replace:
            replace("dpgnn.training.dp_sgd", "train", lambda _: train)
            for module, name, place in CONSUMERS:
                replace(module, name, self._replayed(f"{module}.{name}", place))
            return self._caught(self.prepared(inside), f"mechanism {mechanism}")

    def release(
        self, world: tuple[Any, Any, Any], seed: int, plan: Plan | None = None
    ) -> np.ndarray:
        """One noisy release in a world, flat; rows of canaries are left out where only their own root,
        or nobody, reads them.

        Raises:
            CannotAudit: the fit released nothing that is audited.
        """

        def train(
            spec: Any, network: Any, gradients: Any, initial: Tensor, *rest: Any, **named: Any
        ) -> Any:
            return network.named(initial), []

        def plain(model: Any, *rest: Any, **named: Any) -> Any:
            return dict(model.state_dict()), []

        with stand_ins() as replace:
            replace("dpgnn.training.dp_sgd", "train", lambda _: train)
            for name in PLAIN_TRAININGS:
                replace("dpgnn.training.nonprivate", name, lambda _: plain)
            for module, name, place in CONSUMERS:
                replace(module, name, self._catching(place))
            value = self._caught(world, "a noisy release", seed, plan)
        return self._flat(value)

    def _caught(self, world: Any, what: str, seed: int | None = None, plan: Any = None) -> Any:  # fmt: skip
        try:
            self.fit(world, self.root_seed if seed is None else seed, plan)
        except Caught as caught:
            return caught.value
        raise CannotAudit(f"{self.entry.name}: the fit ended without reaching {what}")

    def _replayed(self, key: str, place: int | None) -> Callable[[Any], Any]:
        """The release of the first world again in the second."""

        def around(real: Any) -> Any:
            @wraps(real)
            def stand_in(*arguments: Any, **named: Any) -> Any:
                if place is None:
                    if key not in self.kept:
                        self.kept[key] = real(*arguments, **named)
                    return self.kept[key]
                given = arguments[place]
                if isinstance(given, (list, tuple)) and len(given) > 1:
                    noisy = self.kept.setdefault(key, list(given[1:]))
                    given = [given[0], *noisy]
                else:
                    given = self.kept.setdefault(key, given)
                return real(*arguments[:place], given, *arguments[place + 1 :], **named)

            return stand_in

        return around

    def _catching(self, place: int | None) -> Callable[[Any], Any]:
        def around(real: Any) -> Any:
            def stand_in(*arguments: Any, **named: Any) -> Any:
                value = real(*arguments, **named) if place is None else arguments[place]
                if isinstance(value, (list, tuple)):
                    value = list(value[1:] if len(value) > 1 else value)
                raise Caught(value)

            return stand_in

        return around

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
    """The entry's plan from public facts: the given ones, or those of the audit graph."""
    from dpgnn.methods.base import facts_of

    if facts is None:
        case = Case(entry=entry, recipe=recipe, plan=Plan(), root_seed=0)
        facts = facts_of(*case.prepared(True))
    return methods.get(entry.method).plan(entry, facts, budget)


@contextlib.contextmanager
def stand_ins() -> Iterator[Callable[[str, str, Callable[[Any], Any]], None]]:
    """Replace functions wherever the package has imported them; all is put back at the end.

    The yielded function takes module, name and what makes the stand-in of the real function.
    """
    _load_methods()
    package = [module for name, module in sys.modules.items() if name.startswith("dpgnn.")]
    with contextlib.ExitStack() as stack:

        def replace(module: str, name: str, around: Callable[[Any], Any]) -> None:
            real = getattr(importlib.import_module(module), name)
            stand_in = around(real)
            for loaded in package:
                if loaded.__dict__.get(name) is real:
                    stack.enter_context(mock.patch.object(loaded, name, stand_in))

        yield replace


@lru_cache(maxsize=1)
def _load_methods() -> None:
    """Import all that methods import when they run: a module loaded later would keep a stand-in."""
    for name in sorted(imported_modules(*methods.TABLE.values())):
        importlib.import_module(name)


class _Silent:
    """A progress line that shows nothing."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        pass

    def update(self, step: int, **shown: Any) -> None:
        """Nothing."""
