"""Neighbour test of a whole method: its own `prepare` and `fit` over all neighbours of a small graph.

For every mechanism of the plan, the noise-free values of neighbouring graphs are compared with the
mechanism's event. A clipped sum: every root's example byte for byte, changed roots on both sides, the shift
of the sum, and gradients that depend on their own example alone. Another release: as the method states
(`Method.releases`). A mechanism without a stated measure fails, so no method can escape the test.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from exhaustive.compare_worlds import (
    Observed,
    compare_release,
    compare_sums,
    engines_keep_features,
    examples_of,
)
from exhaustive.worlds import World, make_world, neighbours

from dpgnn import methods
from dpgnn.accountants.plan import Budget, Mechanism, Plan
from dpgnn.audits.canary import NODE_UNITS
from dpgnn.audits.capture import Case, skipped_trainings
from dpgnn.data.graph import Graph, is_symmetric
from dpgnn.data.splits import Split
from dpgnn.methods.base import Entry, facts_of
from dpgnn.methods.releases import Release, Where
from dpgnn.samplers.own_list import OwnList
from dpgnn.samplers.promise import Owner
from dpgnn.samplers.published import Published
from dpgnn.samplers.stable import Stable

SAMPLERS: tuple[type[Any], ...] = (OwnList, Published, Stable)
NUM_TRAIN, NUM_OTHERS = 10, 2
NUM_FEATURES, NUM_CLASSES = 6, 3
# relative tolerance for rounding
TINY = 1e-9


@dataclass(frozen=True, kw_only=True)
class MechanismReport:
    """The worst case over neighbours for one mechanism. As sensitive as the graph.

    Attributes:
        mechanism: its name in the plan.
        num_neighbours: pairs compared.
        faults: violations, one line for each kind; empty if there are none.
        worst: the largest attained share of the bound, on roots or on a release.
        found: in words and numbers, for the pair with the largest share.
    """

    mechanism: str
    num_neighbours: int
    faults: tuple[str, ...]
    worst: float
    found: str

    @property
    def passed(self) -> bool:
        """Whether every neighbour stayed within the mechanism's event."""
        return not self.faults


def small_world(seed: int = 0) -> World:
    """12 nodes, the first 10 for training: a hub, a clique, a path and random edges; undirected."""
    size = NUM_TRAIN + NUM_OTHERS
    adjacency = np.triu(np.random.default_rng(seed).random((size, size)) < 0.12, 1)
    adjacency[0, 1:8] = True
    adjacency[4, 5] = adjacency[4, 6] = adjacency[5, 6] = True
    adjacency[np.arange(7, size - 1), np.arange(8, size)] = True
    return make_world(np.argwhere(adjacency | adjacency.T).T, size, np.arange(NUM_TRAIN))


def examine_method(
    entry: Entry,
    budget: Budget,
    *,
    world: World | None = None,
    seed: int = 0,
    max_neighbours: int | None = None,
) -> tuple[MechanismReport, ...]:
    """Compare every mechanism of the entry's plan over neighbours under the entry's unit and relation.

    Args:
        entry: a private entry. Runs of other methods that its fit executes are examined too, each as an
            entry of its own under its part of the plan.
        budget: of its plan.
        world: base graph of the neighbours; None takes `small_world`.
        seed: of the sampler's key, the weights, and the neighbours if not all are taken.
        max_neighbours: None takes all (replaced nodes: at most 64 lists each).

    Raises:
        ValueError: the plan cannot be made, or the fit refuses the graph.
    """
    world = small_world() if world is None else world
    runner = _Runner(entry, budget, world, seed)
    parts = runner.method.inner(entry, runner.plan)
    found = [
        report
        for each, plan in parts
        for report in _reports(_Runner(each, budget, world, seed, plan), max_neighbours)
    ]
    return (*_reports(runner, max_neighbours), *found)


def _reports(runner: _Runner, max_neighbours: int | None) -> tuple[MechanismReport, ...]:
    tallies = {mechanism.name: _Tally() for mechanism in runner.plan.mechanisms}
    for name, fault in runner.faults():
        tallies[name].faults[fault] = fault
    count = 0
    for offender, first, second in runner.pairs(runner.world, max_neighbours):
        count += 1
        for name, seen in runner.seen(offender, first, second):
            tallies[name].add(*seen, offender)
    return tuple(
        MechanismReport(
            mechanism=name, num_neighbours=count, faults=tuple(tally.faults.values()),
            worst=tally.worst, found=tally.found,
        )
        for name, tally in tallies.items()
    )  # fmt: skip


class _Tally:
    """Observations of one mechanism: the first fault of each kind, and the largest share of its bound."""

    def __init__(self) -> None:
        self.faults: dict[str, str] = {}
        self.worst, self.found = 0.0, "nothing moved"

    def add(self, share: float, found: str, broken: Sequence[str], offender: Any) -> None:
        """Add the result of one pair of neighbours."""
        if share > self.worst:
            self.worst, self.found = share, f"{found} at {offender}"
        for kind in broken:
            self.faults.setdefault(kind, f"{kind}: {found} at {offender}")


class _Runner:
    """An entry's plan, and its fit in any world."""

    def __init__(
        self, entry: Entry, budget: Budget, world: World, seed: int, plan: Plan | None = None
    ) -> None:
        self.entry, self.world, self.seed = entry, world, seed
        self.method = methods.get(entry.method)
        self.releases = self.method.releases()
        self._kept: dict[str, Any] = {}
        graph, split = self._data(world)
        with self._instrumented(world, Observed()):
            sample = self._prepared(graph, split)
            if plan is None:
                plan = self.method.plan(entry, facts_of(graph, split, sample), budget)
        self.plan = plan
        self.base = self.observe(world)

    def faults(self) -> Iterator[tuple[str, str]]:
        """Faults that need no neighbour."""
        for mechanism in self.plan.mechanisms:
            if mechanism.clipping_norm is not None:
                if mechanism.name not in self.base.trainings:
                    yield mechanism.name, "no clipped sum of this mechanism was seen"
            elif mechanism.population == "train" and self.method.inner(self.entry, self.plan):
                continue  # what it counts is done by runs that are examined by themselves
            elif not any(
                self.base.calls[release.name]
                for release in self.releases
                if release.measure_of(mechanism.name) is not None
            ):
                yield (
                    mechanism.name,
                    f"no release that {self.entry.method} states executed this mechanism; declare the "
                    "function that does with `releases.release` and list it in `Method.releases`",
                )
        if self.entry.privacy_unit == "node-record" and self.owner is None:
            empty = self.world.changed(arcs=self.world.arcs[:, :0])
            bare = self.observe(empty)
            for name, training in self.base.trainings.items():
                if examples_of(training) != examples_of(bare.trainings[name]):
                    yield (
                        name,
                        "edges are read, but neither sampler nor method states whose record holds an edge",
                    )

    @property
    def owner(self) -> Owner | None:
        """The owner of an arc, as the sampler or the method states it."""
        samplers = self.base.samplers
        return samplers[0].promise.owner if samplers else self.method.list_owner

    def pairs(self, world: World, max_neighbours: int | None) -> Iterator[tuple[Any, World, World]]:
        """Neighbours under the entry's unit and relation."""
        unit, relation = str(self.entry.privacy_unit), str(self.entry.relation)
        return neighbours(
            world, unit, relation, owner=self.owner or "source", rng=np.random.default_rng(self.seed),
            max_neighbours=max_neighbours, degree_bound=self.plan.claims[0].degree_bound,
        )  # fmt: skip

    def seen(
        self, offender: Any, first: World, second: World
    ) -> Iterator[tuple[str, tuple[float, str, Sequence[str]]]]:
        """For each mechanism, the share of its bound that a pair attains, in words, and violations."""
        try:
            sides = (self.observe(first), self.observe(second))
        except ValueError as refusal:
            # the base world runs, so a refusal depends on the data
            for mechanism in self.plan.mechanisms:
                yield mechanism.name, (0.0, str(refusal), ["the fit refuses a neighbour"])
            return
        where = self.where(offender, first, second)
        for mechanism in self.plan.mechanisms:
            yield mechanism.name, self.compared(mechanism, sides, where, offender)

    def compared(
        self,
        mechanism: Mechanism,
        sides: tuple[Observed, Observed],
        where: Where,
        offender: tuple[int, ...],
    ) -> tuple[float, str, list[str]]:
        """Share of the bound, the worst case in words, and violations, for one pair of neighbours."""
        if mechanism.clipping_norm is not None:
            share, found, broken = compare_sums(mechanism, *sides)
        else:
            share, found, broken = compare_release(self.releases, mechanism, *sides, where)
        if not self.may_enter(mechanism, offender):
            broken = ["entered by a record of another population"] if share > TINY else []
        return share, found, broken

    def may_enter(self, mechanism: Mechanism, offender: tuple[int, ...]) -> bool:
        """Whether a record of these nodes belongs to the mechanism's population."""
        if mechanism.population is None:
            return True
        training = np.isin(offender, self.world.train_idx)
        return bool(training.any() if mechanism.population == "train" else not training.all())

    def where(self, offender: tuple[int, ...], first: World, second: World) -> Where:
        """The nodes whose rows stay in the run: a changed node's, unless the state is released."""
        inside = self.plan.claims[0].released != "noisy-state"
        is_node = self.entry.privacy_unit in NODE_UNITS
        own = np.array(offender if is_node and inside else (), dtype=np.int64)
        relation = str(self.entry.relation)
        return Where(own=own, relation=relation, absent=relation != "replace-one")

    def observe(self, world: World) -> Observed:
        """Prepare and fit in a world, with every training returning its initial weights."""
        if world is self.world and hasattr(self, "base"):
            return self.base
        seen = Observed()
        graph, split = self._data(world)
        case = Case(
            entry=self.entry, recipe=None, plan=self.plan, root_seed=self.seed, kept=self._kept  # type: ignore[arg-type]
        )  # fmt: skip
        with self._instrumented(world, seen) as stack:
            stack.enter_context(skipped_trainings(seen.keep))
            for release in self.releases:
                stack.enter_context(release.answered_by(_watching(release, case, seen)))
            sample = self._prepared(graph, split)
            train = split.train_idx[world.present[split.train_idx]]
            case.fit((graph, _with_train(split, train), sample), self.seed)
        return seen

    def _prepared(self, graph: Graph, split: Split) -> Any:
        spec = self.method.sampler(self.entry)
        if spec is None:
            return None
        assert self.method.prepare is not None
        return self.method.prepare(graph, split, spec, np.random.default_rng([self.seed, 1]))

    def _data(self, world: World) -> tuple[Graph, Split]:
        """The world as a graph: the training ids stay public, an absent node has no record."""
        size = world.num_nodes
        x = np.stack([_features(node, int(world.values[node])) for node in range(size)])
        y = (np.arange(size) + world.values) % NUM_CLASSES
        emptied = ~world.present
        if self.entry.relation == "null-one":
            emptied = emptied | (world.values != 0)
        x[emptied], y[emptied] = 0.0, 0
        graph = Graph(
            name="small", x=x, edge_index=world.arcs.astype(np.int64), y=y.astype(np.int64),
            num_classes=NUM_CLASSES, directed=not is_symmetric(world.arcs, size),
        )  # fmt: skip
        rest = np.setdiff1d(np.arange(size), world.train_idx)
        return graph, Split(
            train_idx=world.train_idx.astype(np.int64), val_idx=rest[: len(rest) // 2],
            test_idx=rest[len(rest) // 2 :], inductive=False,
        )  # fmt: skip

    @contextlib.contextmanager
    def _instrumented(self, world: World, seen: Observed) -> Iterator[Any]:
        """A context in which samplers know who is absent and engines keep their features."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(engines_keep_features())
            for kind in SAMPLERS:
                for name in ("lists", "sample"):
                    spy = _present(getattr(kind, name), world.present, seen)
                    stack.enter_context(mock.patch.object(kind, name, spy))
            yield stack


def _features(node: int, value: int) -> np.ndarray:
    row = np.random.default_rng([node, value]).standard_normal(NUM_FEATURES)
    return (row / np.linalg.norm(row)).astype(np.float32)


def _with_train(split: Split, train: np.ndarray) -> Split:
    return Split(
        train_idx=train, val_idx=split.val_idx, test_idx=split.test_idx, inductive=split.inductive
    )


def _present(real: Any, present: np.ndarray, seen: Observed) -> Any:
    def stand_in(self: Any, *arguments: Any, **named: Any) -> Any:
        seen.samplers.append(self)
        if named.get("present") is None:
            named["present"] = present
        return real(self, *arguments, **named)

    return stand_in


def _watching(release: Release[..., Any], case: Case, seen: Observed) -> Any:
    """Record a release's arguments; the value from the first world is returned in the second."""
    signature = inspect.signature(release.function)
    replayed = case.replayed(release) if release.is_read else release.function

    def stand_in(*arguments: Any, **named: Any) -> Any:
        seen.calls[release.name].append(dict(signature.bind(*arguments, **named).arguments))
        return replayed(*arguments, **named)

    return stand_in
