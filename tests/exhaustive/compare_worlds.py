"""Compares the inputs of one mechanism in two neighbouring worlds, byte for byte."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

from dpgnn.accountants.events import FixedSizeRoots, PoissonRoots, parts
from dpgnn.accountants.plan import Mechanism
from dpgnn.audits.capture import Training
from dpgnn.core.checks import require
from dpgnn.methods.releases import Calls, Release, Where

# float32 sums of a few clipped rows
_ROUNDING = 1e-4


@dataclass(kw_only=True, eq=False)
class Observed:
    """The inputs that one world's fit gave to its mechanisms; sensitive.

    Attributes:
        trainings: mechanism -> arguments of the training loop.
        calls: name of a release -> arguments of each call.
        samplers: configured samplers that were used.
        measured: mechanism -> what its training gave, once it was asked for.
    """

    trainings: dict[str, Training] = field(default_factory=dict)
    calls: dict[str, list[Mapping[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    samplers: list[Any] = field(default_factory=list)
    measured: dict[str, Any] = field(default_factory=dict)

    def keep(self, training: Training, mechanism: str) -> None:
        """Record a training under its mechanism."""
        self.trainings[mechanism] = training


@contextlib.contextmanager
def engines_keep_features() -> Iterator[None]:
    """A context in which engines keep their features as `given_x`, for `examples_of`."""
    from dpgnn.training.gradients import RootGradients

    build = RootGradients.__init__

    def keeping(this: Any, network: Any, x: Any, trees: Any, **named: Any) -> None:
        build(this, network, x, trees, **named)
        this.given_x = x

    with mock.patch.object(RootGradients, "__init__", keeping):
        yield


def engine_of(training: Training) -> Any:
    """The engine of the first step, without a method's wrapper."""
    from dpgnn.training.gradients import RootGradients

    if training.before_step is not None:
        training.before_step(1)
    engine: Any = training.gradients
    while not isinstance(engine, RootGradients):
        rule = "be RootGradients or hold them as `current`"
        require(
            hasattr(engine, "current"),
            f"clipped sums {type(engine).__name__}",
            rule,
            sorted(vars(engine)),
        )
        engine = engine.current
    return engine


def examples_of(training: Training) -> list[bytes]:
    """Each root's example: features and structure of its tree, and its label."""
    engine = engine_of(training)
    trees, x = engine.trees, engine.given_x
    dense = x if isinstance(x, np.ndarray) else x.toarray()
    found = []
    for root in range(trees.num_roots):
        first, last = trees.row_ptr[root], trees.row_ptr[root + 1]
        entries = slice(trees.entry_ptr[first], trees.entry_ptr[last])
        pieces = (
            np.ascontiguousarray(dense[trees.node[first:last]], dtype=np.float32),
            trees.entry_ptr[first : last + 1] - trees.entry_ptr[first],
            trees.entry_row[entries], trees.entry_weight[entries],
            trees.level_rows[root], trees.y[root],
        )  # fmt: skip
        found.append(b"|".join(np.ascontiguousarray(piece).tobytes() for piece in pieces))
    return found


def compare_sums(
    mechanism: Mechanism, first: Observed, second: Observed
) -> tuple[float, str, list[str]]:
    """Changed roots and the shift of the clipped sum, against the event."""
    if any(mechanism.name not in seen.trainings for seen in (first, second)):
        return 0.0, "", []
    sides = [seen.trainings[mechanism.name] for seen in (first, second)]
    broken = []
    measured = [_measured(seen, mechanism.name) for seen in (first, second)]
    examples = [side.examples for side in measured]
    counts = [Counter(side) for side in examples]
    changed = ((counts[0] - counts[1]).total(), (counts[1] - counts[0]).total())
    allowed, population = _roots_of(mechanism)
    if population is not None and {len(side) for side in examples} != {population}:
        broken.append("number of roots")
    if changed[0] > allowed[0] or changed[1] > allowed[1]:
        broken.append("changed roots")
    norms = [side.spec.clipping.total_norm for side in sides]
    if norms[0] != norms[1] or sides[0].spec.divisor != sides[1].spec.divisor:
        broken.append("clipping norm or divisor depends on the data")
    shift, leaks, apart = _moved(measured)
    bound = max(norms) * sum(allowed)
    if shift > bound * (1 + _ROUNDING):
        broken.append("shift of the clipped sum")
    if apart > _ROUNDING * max(norms) * max(len(side) for side in examples):
        broken.append("the sum over a batch is not that of its roots one by one")
    if leaks and getattr(engine_of(sides[0]), "dropout", None) is None:
        broken.append("a gradient depends on other roots")
    shares = (c / max(a, 1e-9) for c, a in zip(changed, allowed) if c or a)
    share = max(shares, default=0.0)
    return share, f"{changed} of {allowed} roots, shift {shift:.4g} of {bound:.4g}", broken


def _roots_of(mechanism: Mechanism) -> tuple[tuple[int, int], int | None]:
    """Number of roots that may change on each side, and required number of roots; None if unrestricted."""
    event: Any = parts(mechanism.event)[0][0]
    assert isinstance(event, (PoissonRoots, FixedSizeRoots))
    if isinstance(event, PoissonRoots):
        return (event.d_plus, event.d_minus), None
    return (event.changed_roots,) * 2, event.population


@dataclass(frozen=True, kw_only=True, eq=False)
class _Measured:
    """A training's examples, and at small and large weights its roots' rows and the sum over all of them."""

    examples: list[bytes]
    rows: list[np.ndarray]
    wholes: list[np.ndarray]


def _measured(seen: Observed, name: str) -> _Measured:
    """What a training of a world gives, computed once: the base world stands against every neighbour."""
    from dpgnn.audits.training_audit import noise_free_sum, root_rows

    if name not in seen.measured:
        side = seen.trainings[name]
        weights = [side.initial * scale for scale in (1.0, 25.0)]
        seen.measured[name] = _Measured(
            examples=examples_of(side), rows=[root_rows(side, at) for at in weights],
            wholes=[noise_free_sum(side, at) for at in weights],
        )  # fmt: skip
    found: _Measured = seen.measured[name]
    return found


def _moved(sides: list[_Measured]) -> tuple[float, bool, float]:
    """At small and large weights: largest shift of the sum between the worlds, whether equal examples have
    different gradients, and the error of a sum against its roots one by one."""
    shift, leaks, apart = 0.0, False, 0.0
    for rows, wholes in zip(zip(*(s.rows for s in sides)), zip(*(s.wholes for s in sides))):
        shift = max(shift, float(np.linalg.norm(rows[0].sum(axis=0) - rows[1].sum(axis=0))))
        alone = [side.sum(axis=0) for side in rows]
        apart = max(apart, *(float(np.linalg.norm(w - a)) for w, a in zip(wholes, alone)))
        owners = [dict(zip(s.examples, (row.tobytes() for row in r))) for s, r in zip(sides, rows)]
        leaks |= any(owners[0][key] != owners[1][key] for key in owners[0].keys() & owners[1])
    return shift, leaks, apart


def compare_release(
    releases: Sequence[Release[..., Any]],
    mechanism: Mechanism,
    first: Observed,
    second: Observed,
    where: Where,
) -> tuple[float, str, list[str]]:
    """The measure of every release that executed the mechanism."""
    worst, found, broken = 0.0, "", []
    for release in releases:
        measure = release.measure_of(mechanism.name)
        calls = [seen.calls[release.name] for seen in (first, second)]
        if measure is None or not any(calls):
            continue
        move = measure(
            Calls(
                release=release, first=calls[0], second=calls[1], mechanism=mechanism, where=where
            )
        )
        share = move.moved / move.allowed if move.allowed > 0 else float(move.moved > 0) * np.inf
        if share >= worst:
            worst, found = (
                share,
                f"{release.name.rpartition('.')[2]} moves {move.moved:.6g} of {move.allowed:.6g}",
            )
        if move.moved > move.allowed * (1 + 1e-9):
            broken.append("shift of the release")
    return worst, found, broken
