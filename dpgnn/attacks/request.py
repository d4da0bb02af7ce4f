"""All attacks on one run, from its inputs and results."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn import methods
from dpgnn.accountants.plan import Budget
from dpgnn.attacks import board, hub, linkteller, membership, noise_free_layer, released_state
from dpgnn.attacks.influence import DIRECTIONS, Direction
from dpgnn.attacks.linkteller import SETS, PairSet, Variant
from dpgnn.attacks.queries import fitted_run, has_noise, prepared_for
from dpgnn.core import seeds
from dpgnn.core.checks import at_least, one_of, open_probability, require
from dpgnn.core.randomness import Streams
from dpgnn.methods.base import Entry, Prepared, Progress
from dpgnn.methods.queries import FittedRun

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.accountants.population import PublicPopulation
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split

Results = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of the attacks.

    Attributes:
        sets: LinkTeller's pair sets.
        directions: how LinkTeller perturbs features.
        num_nodes: nodes of the sets of nodes.
        num_pairs: edges (and non-edges) of "balanced", edges of "held-out"; a test needs 4 of each kind.
        num_fresh_pairs: edges of "balanced" with fresh noise, one full pass for each query; 0 skips it.
        num_runs: of each world, for attacks that repeat a mechanism, at least 8 (half of them for the test);
            None takes 200, or 40 if one run of the mechanism is large.
        num_steps: largest number of training steps that such a run observes.
        hubs: numbers of nodes that the hub reads, one game for each.
        level: of the tests of a claim.
    """

    sets: tuple[PairSet, ...] = ("unbalanced", "balanced", "held-out")
    directions: tuple[Direction, ...] = DIRECTIONS
    num_nodes: int = 500
    num_pairs: int = 1000
    num_fresh_pairs: int = 40
    num_runs: int | None = None
    num_steps: int = 16
    hubs: tuple[int, ...] = (1000,)
    level: float = 0.001

    def __post_init__(self) -> None:
        for name in self.sets:
            one_of("set", name, SETS)
        for direction in self.directions:
            one_of("direction", direction, DIRECTIONS)
        at_least("num_nodes", self.num_nodes, 2)
        at_least("num_pairs", self.num_pairs, 8)
        at_least("num_fresh_pairs", self.num_fresh_pairs, 0)
        require(self.num_fresh_pairs != 1, "num_fresh_pairs", "be 0 or >= 2", 1)
        if self.num_runs is not None:
            at_least("num_runs", self.num_runs, 8)
        at_least("num_steps", self.num_steps, 1)
        for degree in self.hubs:
            at_least("hubs", degree, 1)
        open_probability("level", self.level)


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackRequest:
    """One run under attack.

    Attributes:
        entry: the entry for its data set.
        budget: epsilon and delta asked for.
        graph: the graph with the edges of the setting.
        full_graph: the graph with all edges, from which G-MIA draws its subgraphs.
        split: of the run.
        prepared: the prepared sample, or None.
        state: tensors of the run's `model.safetensors`; None fits the entry again, with the same result.
        axes: dataset, setting, entry, epsilon, repeat.
        root_seed, randomness: of the study.
        sizes: of the attacks.
    """

    entry: Entry
    budget: Budget
    graph: Graph
    full_graph: Graph
    split: Split
    prepared: Prepared | None
    state: Mapping[str, Tensor] | None
    axes: Mapping[str, str | int]
    root_seed: int = 0
    randomness: Any = "study"
    sizes: Sizes = Sizes()
    population: PublicPopulation | None = None

    @cached_property
    def streams(self) -> Streams:
        """The streams of the run."""
        return Streams(root_seed=self.root_seed, axes=self.axes, randomness=self.randomness)

    @property
    def label(self) -> str:
        """Prefix of progress lines."""
        return "/".join(str(self.axes[name]) for name in ("dataset", "entry", "epsilon", "repeat"))

    def rng(self, what: str, *, paired: bool = True, **axes: str | int) -> np.random.Generator:
        """A generator of the attack; paired generators are equal for all entries and budgets."""
        names = ("dataset", "setting", "repeat") if paired else tuple(self.axes)
        named = {name: self.axes[name] for name in names}
        return seeds.child(self.root_seed, f"attack/{what}", **named, **axes)

    @cached_property
    def target(self) -> FittedRun:
        """The run's model."""
        return self._target(self.graph, self.prepared, self.state, self.streams)

    @cached_property
    def held_out(self) -> tuple[FittedRun, linkteller.Pairs]:
        """The entry fitted without some edges, and the edges that the coins decided on."""
        return self.without_edges()

    def without_edges(self, *, fit: bool = True) -> tuple[FittedRun, linkteller.Pairs]:
        """The same, made anew; without a fit for attacks on a release that precedes the fit."""
        graph, pairs = linkteller.hold_out(
            self.graph, self.sizes.num_pairs, rng=self.rng("held-out")
        )
        streams = dataclasses.replace(self.streams, axes={**self.axes, "attack": "held-out"})
        prepared = prepared_for(self.entry, graph, self.split, streams)
        return self._target(graph, prepared, None if fit else {}, streams), pairs

    @property
    def unfitted(self) -> FittedRun:
        """The run's plan and draws without a model, for attacks that read none."""
        return self._target(self.graph, self.prepared, {}, self.streams)

    def _target(
        self, graph: Graph, prepared: Prepared | None, state: Any, streams: Streams
    ) -> FittedRun:
        return fitted_run(
            self.entry, graph, self.split, prepared, self.budget, streams, state=state,
            label=self.label, population=self.population,
        )  # fmt: skip


def run_linkteller(request: AttackRequest) -> Results:
    """LinkTeller on every set and direction; impossible ones state the reason."""
    sizes, found = request.sizes, []
    present = np.concatenate(
        [request.split.train_idx, request.split.val_idx, request.split.test_idx]
    )
    for kind in sizes.sets:
        size = sizes.num_pairs if kind in ("balanced", "held-out") else sizes.num_nodes
        found += _set(request, kind, size, present)
    if sizes.num_fresh_pairs:
        fresh = Variant(pair_set="balanced", size=sizes.num_fresh_pairs, noise="fresh")
        found += _kept(
            {"attack": "linkteller", **dataclasses.asdict(fresh)},
            lambda: _fresh(request, fresh, present),
        )
    return found


def _fresh(request: AttackRequest, variant: Variant, present: np.ndarray) -> Results:
    """Fresh noise for every query, if there is noise."""
    if not has_noise(request.target):
        return []
    pairs = linkteller.pairs_of(
        request.graph, "balanced", variant.size, rng=request.rng("fresh"), present=present
    )
    return _variant(request, request.target, pairs, variant)


def _kept(base: dict[str, Any], make: Callable[[], Results]) -> Results:
    """The results of an attack, or one result with the reason why there is none."""
    try:
        return make()
    except ValueError as error:
        return [base | {"status": "not-available", "reason": str(error)}]


def run_gmia(request: AttackRequest, *, numbering: membership.Numbering = "own") -> Results:
    """G-MIA with its own target and shadow."""
    streams = [
        dataclasses.replace(request.streams, axes={**request.axes, "attack": side})
        for side in ("gmia-target", "gmia-shadow")
    ]
    result = membership.attack(
        request.entry, request.full_graph, request.budget, (streams[0], streams[1]),
        rng=request.rng("gmia"), level=request.sizes.level, label=request.label,
        numbering=numbering,
        scorer_rng=lambda variant, attempt: request.rng(
            "gmia-scorer", variant=variant, attempt=attempt
        ),
    )  # fmt: skip
    return [result]


def run_leak(request: AttackRequest) -> Results:
    """The attacks for specific leaks that apply to the entry; none affects another."""
    sizes, entry = request.sizes, request.entry
    found: Results = []
    if not hub.why_not(entry):
        for degree in sizes.hubs:
            found += _kept({"attack": "hub", "hub_degree": degree}, partial(_hub, request, degree))
    if not noise_free_layer.why_not(entry):
        found += _kept({"attack": "noise-free-layer"}, lambda: _noise_free_layer(request))
    if not released_state.why_not(entry):
        found += _kept({"attack": "released-state"}, lambda: _released_state(request))
    if not board.why_not(entry):
        found += _kept({"attack": "board"}, lambda: _board(request))
    return found or [
        {"attack": "leak", "status": "not-applicable", "reason": "no attack is made for this entry"}
    ]


def _hub(request: AttackRequest, degree: int) -> Results:
    sizes = request.sizes
    result = hub.attack(
        request.entry, request.budget, num_runs=sizes.num_runs, num_steps=sizes.num_steps,
        level=sizes.level, rng=request.rng("hub", paired=False, degree=degree),
        worlds=hub.HubWorlds(num_lists=degree),
    )  # fmt: skip
    return [result]


def _noise_free_layer(request: AttackRequest) -> Results:
    result = noise_free_layer.attack(
        request.unfitted, num_runs=request.sizes.num_runs, level=request.sizes.level,
        rng=request.rng("noise-free-layer", paired=False),
    )  # fmt: skip
    return [result]


def _released_state(request: AttackRequest) -> Results:
    # a perturbed graph is released before anything is fitted
    rows = methods.get(request.entry.method).leaks.noisy_rows
    target, pairs = request.without_edges(fit=False) if rows is None else request.held_out
    result = released_state.attack(
        target, pairs, level=request.sizes.level, rng=request.rng("released-state", paired=False)
    )
    return [result]


def _board(request: AttackRequest) -> Results:
    return board.attack(
        request.unfitted, num_runs=request.sizes.num_runs, level=request.sizes.level,
        rng=request.rng("board", paired=False),
    )  # fmt: skip


def claim_of(request: AttackRequest) -> dict[str, Any]:
    """The run's claim, for the attack's results."""
    claims = request.unfitted.plan.claims
    if not claims:
        return {}
    epsilon = claims[0].epsilon
    return {
        "privacy_unit": claims[0].privacy_unit,
        "relation": claims[0].relation,
        "epsilon": epsilon if math.isfinite(epsilon) else None,
        "delta": claims[0].delta,
        "status": claims[0].status,
    }


def _set(request: AttackRequest, kind: PairSet, size: int, present: np.ndarray) -> Results:
    variants = [Variant(pair_set=kind, size=size, direction=d) for d in request.sizes.directions]
    if kind == "held-out":
        variants = variants[-1:]
    bases = [{"attack": "linkteller", **dataclasses.asdict(variant)} for variant in variants]
    try:
        if kind == "held-out":
            target, pairs = request.held_out
        else:
            target = request.target
            pairs = linkteller.pairs_of(
                request.graph, kind, size, rng=request.rng(kind), present=present
            )
    except ValueError as error:
        # there are no pairs to query, in any direction
        return [base | {"status": "not-available", "reason": str(error)} for base in bases]
    found: Results = []
    for base, variant in zip(bases, variants):
        found += _kept(base, partial(_variant, request, target, pairs, variant))
    return found


def _variant(
    request: AttackRequest, target: FittedRun, pairs: linkteller.Pairs, variant: Variant
) -> Results:
    name = f"{request.label} linkteller {variant.pair_set} {variant.direction} {variant.noise}"
    lines: list[Progress] = []

    def report(done: int, total: int) -> None:
        if not lines:
            lines.append(Progress(name, total))
        lines[0].update(done)

    result = linkteller.attack(
        target, pairs, variant, level=request.sizes.level, report=report,
        rng=request.rng("queries", paired=False, set=variant.pair_set, direction=variant.direction,
                        noise=variant.noise),
    )  # fmt: skip
    return [result]


ATTACKS: Mapping[str, Callable[[AttackRequest], Results]] = {
    "linkteller": run_linkteller,
    "gmia": run_gmia,
    "leak": run_leak,
}
# only made if requested by name
ON_REQUEST: Mapping[str, Callable[[AttackRequest], Results]] = {
    "gmia-script": partial(run_gmia, numbering="script")
}
