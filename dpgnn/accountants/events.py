"""Events: what is done to private data, in a form that accountants count.

The type of an event contains its neighbouring relation: mypy refuses `PoissonRoots[Literal["add-remove"]]`
where replace-one is expected, and at run time a `TypeError` names both relations. For the same reason each
sampling scheme is a class.

Units: `noise_stddev` is absolute, for the sum that is released; `clipping_norm` and `sensitivity` are L2
norms in the same unit. Noise multipliers occur only in configuration and tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Generic, Literal, TypeVar, get_args

from dpgnn.core import checks

Relation = Literal["add-remove", "replace-one", "null-one"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)

R = TypeVar("R", bound=Relation)
# the distribution of the number of changed roots in a batch is an array; this fits 100 neighbours, 3 hops
MAX_CHANGED_ROOTS = 2_000_000
# of one mechanism: beyond it the rounding of a power has no finite bound
MOST_RUNS = 10**12
# a parameter's rule, in every event that has it
RULES: dict[str, Callable[[str, Any], Any]] = {
    "noise_stddev": checks.non_negative,
    "sensitivity": checks.non_negative,
    "score_sensitivity": checks.non_negative,
    "clipping_norm": checks.positive,
    "scale": checks.positive,
    "sampling_probability": checks.probability,
    "contraction": checks.probability,
    "one_if_one": checks.probability,
    "one_if_zero": checks.probability,
    "gamma": checks.open_probability,
    **dict.fromkeys(("d_plus", "d_minus", "changed_roots"), partial(checks.at_least, minimum=0)),
    **dict.fromkeys(
        ("population", "batch_size", "num_hops", "num_selected"),
        partial(checks.at_least, minimum=1),
    ),
}
# relations under which both graphs have the same number of records
Same = TypeVar("Same", bound=Literal["replace-one", "null-one"])


@dataclass(frozen=True, kw_only=True)
class Event(Generic[R]):
    """A mechanism that is run once on private data.

    Args:
        relation: `add-remove` (one element is present in G and absent in G'), `replace-one` (same ids,
            one element has another value) or `null-one` (same ids, one element is emptied).

    Raises:
        ValueError: the relation is unknown or a parameter is out of range.
        TypeError: the event is not defined under the relation.
    """

    relation: R

    def __post_init__(self) -> None:
        checks.one_of("relation", self.relation, RELATIONS)
        for item in fields(self):
            if item.name in RULES:
                RULES[item.name](item.name, getattr(self, item.name))


@dataclass(frozen=True, kw_only=True)
class PoissonRoots(Event[R]):
    """One noisy sum of clipped gradients over a Poisson batch of roots.

    Each root is in the batch independently with probability q. The release is sum clip_C(g_v) + N(0,
    noise_stddev^2 I), divided by a public constant.

    Args:
        noise_stddev: sigma, absolute, on the sum; >= 0 (0: no privacy).
        clipping_norm: C, the L2 bound on one root's gradient; > 0.
        sampling_probability: q in [0, 1].
        d_plus: roots whose example in G is absent from G' or different there (d+ in the docs).
        d_minus: roots whose example in G' is absent from G or different there (d-). Under `add-remove`, G is
            the graph with the element, so d_minus <= d_plus; otherwise both are equal.

    Source: docs/accounting.md, theorem 1.
    """

    noise_stddev: float
    clipping_norm: float
    sampling_probability: float
    d_plus: int
    d_minus: int

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.require(
            self.d_plus <= MAX_CHANGED_ROOTS, "d_plus", f"be <= {MAX_CHANGED_ROOTS}", self.d_plus,
            "fewer roots change with a smaller max_degree or fewer hops",
        )  # fmt: skip
        if self.relation == "add-remove":
            remedy = "G is the graph with the element, so its number is the larger one"
            checks.require(
                self.d_minus <= self.d_plus, "d_minus", "be <= d_plus", self.d_minus, remedy
            )
        else:
            rule = f"equal d_plus = {self.d_plus} under {self.relation}"
            checks.require(self.d_minus == self.d_plus, "d_minus", rule, self.d_minus)


@dataclass(frozen=True, kw_only=True)
class FixedSizeRoots(Event[Same]):
    """One noisy sum of clipped gradients over a uniform batch of fixed size, without replacement.

    The number of roots is public and the same in both graphs, so `add-remove` is a TypeError.

    Args:
        noise_stddev: sigma, absolute, on the sum; >= 0.
        clipping_norm: C; > 0.
        population: number of roots N; public.
        batch_size: roots drawn, m <= N.
        changed_roots: roots whose example differs between the two graphs, d <= N; each changes the sum by at
            most 2C.
    """

    noise_stddev: float
    clipping_norm: float
    population: int
    batch_size: int
    changed_roots: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.relation == "add-remove":
            raise TypeError(
                "FixedSizeRoots (a fixed-size batch of a public number of roots) cannot be counted "
                "under the relation 'add-remove', which changes that number; use PoissonRoots, or "
                "the relation 'replace-one' or 'null-one'"
            )
        rule = f"be <= population = {self.population}"
        remedy = "lower the batch size or train on more roots"
        checks.require(
            self.batch_size <= self.population, "batch_size", rule, self.batch_size, remedy
        )
        checks.require(
            self.changed_roots <= self.population, "changed_roots", rule, self.changed_roots
        )


@dataclass(frozen=True, kw_only=True)
class GaussianRelease(Event[R]):
    """A value that is released once with Gaussian noise.

    Args:
        noise_stddev: sigma per coordinate; >= 0.
        sensitivity: largest L2 change of the value between neighbours; >= 0.
    """

    noise_stddev: float
    sensitivity: float


@dataclass(frozen=True, kw_only=True)
class ContractiveIteration(Event[R]):
    """`num_hops` noisy contractive hops; only the last state is released.

    X_{t+1} = Proj(phi(X_t) + N(0, noise_stddev^2 I)), phi c-Lipschitz on the projected set, the same start in
    both graphs, sup ||phi(X) - phi'(X)|| <= sensitivity. No earlier state may be released.

    Args:
        noise_stddev: sigma per coordinate and hop; >= 0.
        sensitivity: s, for one hop; >= 0.
        num_hops: K >= 1.
        contraction: c in [0, 1]; 1 is the plain composition of K hops.

    Source: CARIBOU, Theorems 2 and 3; docs/accounting.md, theorem 5.
    """

    noise_stddev: float
    sensitivity: float
    num_hops: int
    contraction: float


@dataclass(frozen=True, kw_only=True)
class GumbelTopK(Event[R]):
    """The indices of the `num_selected` largest scores with Gumbel noise.

    The candidates are the same in both graphs, and every score changes by at most `score_sensitivity`.

    Args:
        scale: Gumbel scale b; > 0.
        score_sensitivity: largest change of one score; >= 0.
        num_selected: K >= 1.
    """

    scale: float
    score_sensitivity: float
    num_selected: int


@dataclass(frozen=True, kw_only=True)
class LaplaceRelease(Event[R]):
    """A value that is released once with Laplace noise on every coordinate.

    Args:
        scale: Laplace scale b; > 0.
        sensitivity: largest L1 change of the value between neighbours; >= 0.
    """

    scale: float
    sensitivity: float


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(Event[R]):
    """Randomised response on one private bit.

    An undirected edge stored as two bits is `compose(event, 2)`.

    Args:
        one_if_one: probability of the answer 1 when the bit is 1 (in the graph with the element).
        one_if_zero: probability of the answer 1 when the bit is 0.
    """

    one_if_one: float
    one_if_zero: float


@dataclass(frozen=True, kw_only=True)
class Composed(Event[R]):
    """Adaptive composition of events with counts; equal events are merged.

    Args:
        parts: (event, count) pairs, all under this relation; nested compositions are flattened.

    Raises:
        TypeError: a part has another relation.
        ValueError: a count is not an integer, negative, or above `MOST_RUNS`.
    """

    parts: tuple[tuple[Event[R], int], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        merged: dict[Event[R], int] = {}
        for event, count in self.parts:
            checks.at_least("count", count, 0)
            require_relation(event, self.relation)
            inner = event.parts if isinstance(event, Composed) else ((event, 1),)
            for part, times in inner:
                # counts are multiplied here and nowhere else
                merged[part] = merged.get(part, 0) + count * times
        most, rule = max(merged.values(), default=0), f"be <= {MOST_RUNS}"
        checks.require(most <= MOST_RUNS, "number of runs", rule, most, "lower the number of steps")
        kept = tuple((event, count) for event, count in merged.items() if count > 0)
        object.__setattr__(self, "parts", kept)


@dataclass(frozen=True, kw_only=True)
class BestOf(Event[R]):
    """The best of K runs: each trains and scores one of the candidates, drawn uniformly; one run is released.

    K >= 1 follows the truncated negative binomial law of eta and gamma, whatever the data. A run's output
    holds its candidate's place and its score, and the largest score is released with its run.

    Args:
        runs: for each candidate what one run of it does, its score counted.
        eta: > -1; 0 is the logarithmic law, 1 the geometric one.
        gamma: in (0, 1); the smaller, the more runs.

    Source: Papernot and Steinke (2022), arXiv:2110.03620; docs/accounting.md, theorem 19.
    """

    runs: tuple[Event[R], ...]
    eta: float
    gamma: float

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.require(len(self.runs) > 0, "runs", "hold at least one candidate", self.runs)
        for run in self.runs:
            require_relation(run, self.relation)
        finite = -1 < self.eta < math.inf
        checks.require(finite, "eta", "be > -1 and finite", self.eta)


def compose(event: Event[R], count: int) -> Composed[R]:
    """`count` adaptive runs of one event.

    Args:
        event: what is run; may be a composition.
        count: number of runs, >= 0.

    Raises:
        ValueError: count is not an integer >= 0, or is above `MOST_RUNS`.
    """
    return Composed(relation=event.relation, parts=((event, count),))


def compose_all(*events: Event[R]) -> Composed[R]:
    """One adaptive run of each event.

    Args:
        events: under one relation; may be compositions.

    Raises:
        ValueError: no event is given.
        TypeError: two events have different relations.
    """
    checks.require(len(events) > 0, "events", "hold at least one event", events)
    return Composed(relation=events[0].relation, parts=tuple((event, 1) for event in events))


def parts(event: Event[R]) -> tuple[tuple[Event[R], int], ...]:
    """The (event, count) pairs of a composition; a single event has count 1.

    Args:
        event: one event or a composition.
    """
    return event.parts if isinstance(event, Composed) else ((event, 1),)


def require_relation(event: Event[Any], relation: str) -> None:
    """Refuse an event that has another relation.

    Args:
        event: what was done.
        relation: of the guarantee asked for.

    Raises:
        TypeError: the relations differ; names both.
    """
    if not isinstance(event, Event):
        raise TypeError(f"event must be an Event, got {type(event).__name__}")
    if event.relation != relation:
        raise TypeError(
            f"{type(event).__name__} under the relation {event.relation!r} cannot be counted under "
            f"{relation!r}; build the event for that relation (its numbers differ)"
        )


def require_scheme(event: Event[Any], *schemes: type[Event[Any]], accountant: str) -> None:
    """Refuse an event whose sampling scheme the accountant does not know.

    Args:
        event: what was done.
        scheme: the class of events that the accountant counts.
        accountant: its name, for the message.

    Raises:
        TypeError: the event is of another class; names the class and those that the accountant counts.
    """
    if not isinstance(event, schemes):
        known = " or ".join(scheme.__name__ for scheme in schemes)
        raise TypeError(f"{accountant} counts {known}, not {type(event).__name__}")
