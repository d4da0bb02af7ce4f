"""The joint guarantee of releases of one graph, and budgets for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from dpgnn.accountants import composition
from dpgnn.accountants.claims import Claim
from dpgnn.accountants.events import Event, compose_all
from dpgnn.accountants.implications import Notion, notion, notion_implies
from dpgnn.core import locks
from dpgnn.core.checks import fail, open_probability, positive
from dpgnn.records.schema import event_from
from dpgnn.run.ledger import BUDGETS, GraphLedger, Release, private_folder

if TYPE_CHECKING:
    from pathlib import Path

# relative tolerance of recomputed numbers: another grid, or another order of sums
ROUNDING = 1 + 1e-6


@dataclass(frozen=True, kw_only=True)
class Total:
    """The joint guarantee of several releases.

    Attributes:
        notion: what neighbouring graphs differ in.
        epsilon, delta: of all releases together; epsilon is inf if a release proves nothing for the notion.
        composed: whether it is composed from all events; otherwise it is the sum of the claims.
        unproved: the releases that prove nothing for the notion.
    """

    notion: Notion
    epsilon: float
    delta: float
    composed: bool = False
    unproved: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TotalBudget:
    """A budget for all releases of a graph together."""

    notion: Notion
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        positive("budget", self.epsilon)
        open_probability("delta", self.delta)


def total(releases: Sequence[Release], asked: Notion, delta: float | None = None) -> Total:
    """The joint guarantee of releases.

    Guarantee: every release has its own independent draws, so all releases together are an adaptive
    composition. The sum of the proved claims bounds it (basic composition), and so does one privacy curve
    over all events, in which a node takes part in every mechanism of every release (docs/accounting.md,
    several releases of one graph). The smaller epsilon is returned. As-published claims do not count.

    Args:
        releases: of one graph.
        asked: unit, relation and degree bound.
        delta: at which epsilon is computed; None is the sum of the claims' deltas.
    """
    claims = [_proved(release, asked) for release in releases]
    unproved = tuple(r.name for r, claim in zip(releases, claims, strict=True) if claim is None)
    found = [claim for claim in claims if claim is not None]
    deltas = math.fsum(claim.delta for claim in found)
    at = deltas if delta is None else delta
    if unproved:
        return Total(notion=asked, epsilon=math.inf, delta=at, unproved=unproved)
    added = math.fsum(claim.epsilon for claim in found) if deltas <= at * ROUNDING else math.inf
    composed = _composed(releases, found, asked, at) if added or delta else 0.0
    best = min(added, composed)
    return Total(notion=asked, epsilon=best, delta=at, composed=composed < added)


def notions_of(releases: Sequence[Release]) -> list[Notion]:
    """The notions that the releases were calibrated for, each with its smallest degree bound."""
    found: dict[tuple[str, str], Notion] = {}
    for release in releases:
        if release.claims:
            one = notion(release.claims[0])
            before = found.setdefault((one.privacy_unit, one.relation), one)
            if (one.degree_bound or 0) < (before.degree_bound or 0):
                found[(one.privacy_unit, one.relation)] = one
    return list(found.values())


def declare(ledger: GraphLedger, budget: TotalBudget) -> None:
    """Declare a budget of all releases of a graph, in place of an earlier one of the same notion.

    It holds the lock under which releases are committed, so no budget is lost, and none is passed unseen.
    """
    private_folder(ledger.root, ledger.root)
    with locks.waiting(ledger.root / ".lock"):
        kept = [other for other in budgets(ledger) if other.notion != budget.notion]
        _path(ledger).parent.mkdir(mode=0o700, exist_ok=True)
        ledger.sign(_path(ledger), [asdict(one) for one in (*kept, budget)])


def budgets(ledger: GraphLedger) -> list[TotalBudget]:
    """The declared budgets of a graph."""
    if not (ledger.root / BUDGETS).exists() or not _path(ledger).exists():
        return []
    return [
        TotalBudget(**(values | {"notion": Notion(**values["notion"])}))
        for values in ledger.signed(_path(ledger))
    ]


def check_budgets(ledger: GraphLedger, new: Release) -> None:
    """Refuse a release that would exceed a declared budget of its graph.

    Raises:
        ValueError: names the budget and the epsilon of all releases.
    """
    declared = budgets(ledger)
    earlier = ledger.releases() if declared else []
    for budget in declared:
        after = total([*earlier, new], budget.notion, budget.delta)
        if after.epsilon > budget.epsilon * ROUNDING:
            fail(
                f"all releases of graph {new.dataset} ({budget.notion})",
                f"keep epsilon {budget.epsilon:g} at delta {budget.delta:g}",
                f"{after.epsilon:.6g} with {new.name}, after {len(earlier)} earlier",
                f"ask for less; `dpgnn ledger {new.dataset}` lists them",
            )  # fmt: skip


def _path(ledger: GraphLedger) -> Path:
    return ledger.root / BUDGETS / f"{ledger.graph}.json"


def _proved(release: Release, asked: Notion) -> Claim | None:
    """The release's strongest proved claim of a notion."""
    fitting = [
        claim
        for claim in release.claims
        if claim.status == "proved"
        and math.isfinite(claim.epsilon)
        and notion_implies(notion(claim), asked)
    ]
    # a claim of the notion itself is preferred, because its events can be composed
    return min(fitting, key=lambda c: (notion(c) != asked, c.epsilon), default=None)


def _composed(
    releases: Sequence[Release], claims: Sequence[Claim], asked: Notion, delta: float
) -> float:
    """Epsilon of all events by one privacy curve; inf if an event is unknown or of another relation."""
    if delta <= 0:
        return math.inf
    try:
        events = [_events(r, claim) for r, claim in zip(releases, claims, strict=True)]
        joined: Event[Any] = compose_all(*(event for of_one in events for event in of_one))
        return composition.epsilon(joined, delta=delta, relation=asked.relation)
    except (TypeError, ValueError):
        return math.inf


def _events(release: Release, claim: Claim) -> list[Event[Any]]:
    """The events of a release, if its claim counts exactly these.

    Raises:
        ValueError, TypeError: an event has a type or relation that is not counted, they exceed the claim, or
            they are another one's: a published plan has the publication's events beside what is proved.
    """
    if claim != release.claims[0]:
        raise ValueError(f"events of {release.name} are those of its first claim")
    known = [(event_from(m["event"]), m["population"]) for m in release.mechanisms]
    found = {population for _, population in known}
    named: list[str | None] = [name for name in ("train", "others") if name in found]
    for name in named or [None]:
        part = compose_all(*(event for event, whose in known if whose in (None, name)))
        # a pure claim holds at every delta; a curve on a grid approaches it from above
        at, slack = (claim.delta, ROUNDING) if claim.delta else (1e-9, 1 + 1e-3)
        counted = composition.epsilon(part, delta=at, relation=claim.relation)
        if counted > claim.epsilon * slack:
            raise ValueError(f"events of {release.name} must come to its claim, got {counted}")
    return [event for event, _ in known]
