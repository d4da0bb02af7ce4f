"""Releases other than clipped sums: where noise is added, and their change between neighbours.

A release is a function declared with `release`, which states the planned mechanisms that it executes, how the
change between neighbouring graphs is measured for each, and whether the run reads its result. The method
lists its releases (`Method.releases`), and audits use only these: they observe the calls, run the same
function with its noisy values fixed, and compare with the mechanism's event. Gaussian noise is added by
`noised`, where audits can read the value before noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from dpgnn.accountants.events import parts
from dpgnn.accountants.plan import Ledger, Mechanism
from dpgnn.core.doors import Door
from dpgnn.core.rounded_noise import add_rounded
from dpgnn.samplers.batches import ROOM

if TYPE_CHECKING:
    from dpgnn.core.randomness import Streams

P = ParamSpec("P")
R = TypeVar("R")
Arguments = Mapping[str, Any]
# terms that exact sums of a release make room for, so that their grid does not tell how many there are
MOST_ROWS = 2**27


@dataclass(frozen=True, kw_only=True)
class RoundedDraw:
    """Noise of a release, which gives only the noisy value on a public grid, never the noise itself.

    Attributes:
        streams: of the run; secret.
        ledger: of the run; knows the sensitivity.
        stage: of the stream `noise`, and the mechanism's name.
    """

    streams: Streams
    ledger: Ledger
    stage: str

    def add_to(self, value: np.ndarray, noise_stddev: float, step: int) -> np.ndarray:
        """value + noise of a step, on the grid; see `core.rounded_noise.add_rounded`.

        The deviation is increased by the share of the sensitivity for rounding, see `rounding_of`.

        Guarantee: exact noise, rounded to a public grid: post-processing of the planned release. Deviation
        and grid are the same for all graphs with at most `ROOM` times the nodes that the plan counts on.

        Args:
            value: before noise, float64; sensitive.
            noise_stddev: absolute, on the value; public.
            step: of the mechanism; names the stream.
        """
        rng = self.streams.numpy("noise", stage=self.stage, step=step)
        nodes = self.ledger.fact("num_nodes")
        room = MOST_ROWS if nodes is None else math.ceil(ROOM * nodes)
        shape = (max(value.shape[0], room), *value.shape[1:])
        share = rounding_of(shape) / self.ledger.planned(self.stage).sensitivity
        return add_rounded(
            value, noise_stddev * (1.0 + 2.0 ** math.ceil(math.log2(share))), rng=rng
        )


# noise of a release, or in a study: (step, shape) -> standard normal noise of that shape, float64
Draw = RoundedDraw | Callable[[int, tuple[int, int]], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Where:
    """Facts of a pair of neighbours for a measure.

    Attributes:
        own: int64: ignored rows: the changed node's own, if its rows stay in the run.
        relation: how the neighbours differ.
        absent: whether the changed node has no record, or an emptied one, in G'.
    """

    own: np.ndarray
    relation: str
    absent: bool


@dataclass(frozen=True, kw_only=True)
class Move:
    """The change of a value in the units of the mechanism's event, and the allowed change."""

    moved: float
    allowed: float


@dataclass(frozen=True, kw_only=True)
class Calls:
    """Calls of a release in two neighbouring graphs.

    Attributes:
        release: the function.
        first, second: arguments of its calls in G, and in G'.
        mechanism: of the plan.
        where: facts of the pair of neighbours.
    """

    release: Release[..., Any]
    first: Sequence[Arguments]
    second: Sequence[Arguments]
    mechanism: Mechanism
    where: Where

    @property
    def only(self) -> tuple[Arguments, Arguments]:
        """Arguments of the only call in G, and in G'."""
        (a,), (b,) = self.first, self.second
        return a, b


# how far the value before noise moved
Measure = Callable[[Calls], Move]
# (arguments in G, in G', where) -> pairs of arguments to be tried: the run's own, and harmful ones
Trials = Callable[[Arguments, Arguments, Where], Iterable[tuple[Arguments, Arguments]]]


class Release(Door[P, R]):
    """A function that makes noisy values of private ones.

    Attributes:
        name: module and function, for messages.
        measures: mechanism -> measure; a name that ends with "/" matches all names with this prefix.
        is_read: whether the rest of the run reads its result; False for an intermediate step.
    """

    def __init__(
        self, function: Callable[P, R], *, measures: Mapping[str, Measure], is_read: bool
    ) -> None:
        super().__init__(function)
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.measures, self.is_read = measures, is_read

    def measure_of(self, mechanism: str) -> Measure | None:
        """The measure for a planned mechanism; None if this function does not execute it."""
        for name, measure in self.measures.items():
            if mechanism == name or (name.endswith("/") and mechanism.startswith(name)):
                return measure
        return None


def release(
    measures: Mapping[str, Measure], *, is_read: bool = True
) -> Callable[[Callable[P, R]], Release[P, R]]:
    """Declare a function as a release; see `Release`.

    Args:
        measures: mechanism -> change of the value before noise between neighbours.
        is_read: whether the run reads the noisy value.
    """

    def declare(function: Callable[P, R]) -> Release[P, R]:
        return Release(function, measures=measures, is_read=is_read)

    return declare


@Door
def noised(value: np.ndarray, noise_stddev: float, draw: Draw, step: int = 1) -> np.ndarray:
    """value + noise_stddev * draw(step): the one place where Gaussian noise is added to rows.

    Guarantee: a Gaussian release of `value`, whose sensitivity the caller must prove; exact with a
    `RoundedDraw`, else over real numbers.

    Args:
        value: float64, shape (num_rows, width).
        noise_stddev: > 0, per coordinate.
        draw: standard normal noise of a step; secret.
        step: names the draw; a step is drawn once.
    """
    if isinstance(draw, RoundedDraw):
        return draw.add_to(value, noise_stddev, step)
    return value + noise_stddev * draw(step, value.shape)


def rows_with_room(num_rows: int) -> int:
    """A number of rows that bounds the graph's own and is the same for all graphs of up to `MOST_ROWS` nodes.

    Args:
        num_rows: of the graph; may be private up to `MOST_ROWS`.
    """
    return max(num_rows, MOST_ROWS)


def rounding_of(shape: tuple[int, ...]) -> float:
    """Bound on the float64 rounding of a difference of two products with operators of norm at most 1.

    n rows of norm at most 1, width w, an operator A >= 0 of norm at most 1, its entries wrong by a few units:
    an entry sums at most n terms, so the value is wrong by at most (n + 8) u |A||X| in every entry, of norm
    at most (n + 8) u sqrt(n). Projections, residual and mean over rows add less than w + 56 more units. (Sums
    of `summable` rows are exact and need none of it.)
    """
    num_rows, width = shape
    return float(2.0 * (num_rows + width + 64) * math.sqrt(max(num_rows, 1)) * 2.0**-53)


def summable(rows: np.ndarray, num_terms: int, norm: float = 1.0) -> np.ndarray:
    """Rows whose sums are exact in float64, for releases, so that rounding reveals nothing about the terms.

    Entries are rounded towards zero to multiples of a power of two that is small enough relative to the rows'
    norm that any sum of `num_terms` rows has fewer than 2^53 of them. Before, each row is shortened by 2^-29,
    which exceeds float64's rounding of a norm of up to 2^20 columns, so that rows of computed norm `norm`
    have at most that norm exactly.

    Args:
        rows: float64, shape (num_rows, width), norms at most `norm` up to rounding.
        num_terms: public bound on the rows in a sum, each with weight 1; see `rows_with_room`.
        norm: public bound on the norm of a row.

    Source: docs/accounting.md, theorem 16.
    """
    unit = 2.0 ** (math.ceil(math.log2(norm)) + math.ceil(math.log2(num_terms + 1)) - 52)
    return np.asarray(np.trunc(rows * (1.0 - 2.0**-29) / unit) * unit)


def event_of(mechanism: Mechanism) -> Any:
    """The event of one run of a mechanism."""
    (event, _), *_ = parts(mechanism.event)
    return event


def allowed_by(mechanism: Mechanism) -> float:
    """The sensitivity in the plan; a published plan's event may already have the true value."""
    return min(float(event_of(mechanism).sensitivity), mechanism.sensitivity)


def distance(first: np.ndarray, second: np.ndarray, where: Where) -> float:
    """L2 distance without ignored rows; infinite for values of different shape."""
    if first.shape != second.shape:
        return math.inf
    difference = np.asarray(first - second, dtype=np.float64)
    return float(np.linalg.norm(np.delete(difference, where.own, axis=0)))


def common_rows(shape: tuple[int, int], where: Where, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows that are equal in both worlds except the changed node's own, whose sign is flipped in G'.

    With seed 0 all rows have one direction, so that their sums are as long as possible.
    """
    if seed == 0:
        rows = np.broadcast_to(np.eye(1, shape[1])[0], shape).astype(np.float64)
    else:
        rows = np.random.default_rng(seed).standard_normal(shape)
    other = rows.copy()
    other[where.own] *= -1.0
    return rows, other


def gaussian(trials: Trials) -> Measure:
    """Measure of a function that adds noise by `noised`: the change of every value before noise.

    The function runs in both worlds as in a fit. Noisy values are fixed to rows far outside the unit ball,
    equal in both worlds except the changed node's own, because a mechanism is measured given earlier
    releases. So a missing projection to the ball shows as too large a change at the next hop.

    Args:
        trials: arguments to try.

    Source: docs/accounting.md, theorem 5.
    """

    def measure(seen: Calls) -> Move:
        moved, where, allowed = 0.0, seen.where, allowed_by(seen.mechanism)
        for sides in trials(*seen.only, where):
            for seed in (0, 1):
                values = [_entering(seen.release, sides[i], where, i, seed) for i in (0, 1)]
                if len(values[0]) != len(values[1]):
                    return Move(moved=math.inf, allowed=allowed)
                moved = max([moved, *(distance(x, y, where) for x, y in zip(*values))])
        return Move(moved=moved, allowed=allowed)

    return measure


def as_called(
    first: Arguments, second: Arguments, where: Where
) -> Iterable[tuple[Arguments, Arguments]]:
    """Only the run's own arguments."""
    yield first, second


def _entering(
    release: Release[..., Any], arguments: Arguments, where: Where, side: int, seed: int
) -> list[np.ndarray]:
    """The values before noise of one call."""
    seen: list[np.ndarray] = []

    def fixed(value: np.ndarray, noise_stddev: float, draw: Draw, step: int = 1) -> np.ndarray:
        seen.append(np.array(value, dtype=np.float64))
        shape = (value.shape[0], value.shape[1])
        return 10.0 * common_rows(shape, where, seed and len(seen))[side]

    with noised.answered_by(fixed):
        release.function(**arguments)
    return seen
