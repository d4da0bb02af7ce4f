from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from contract import PRIVATE, entry_of, inputs_of

from dpgnn.accountants import gdp
from dpgnn.accountants.claims import Claim
from dpgnn.accountants.events import GaussianRelease, LaplaceRelease
from dpgnn.accountants.implications import Notion, notion
from dpgnn.accountants.plan import Mechanism, Plan
from dpgnn.core import locks
from dpgnn.methods.base import facts_of
from dpgnn.run.ledger import GraphLedger, Release, release_of
from dpgnn.run.plan import propose, with_caveats
from dpgnn.run.specification import specify
from dpgnn.run.totals import (
    TotalBudget,
    budgets,
    check_budgets,
    declare,
    notions_of,
    total,
)

DELTA = 1e-3
EVENT = GaussianRelease(relation="add-remove", noise_stddev=2.0, sensitivity=1.0)
EPSILON = gdp.epsilon(0.5, DELTA)
NODE = Notion(privacy_unit="node", relation="add-remove")


def gaussian(stddev: float = 2.0, name: str = "a", **changes: Any) -> Release:
    event = GaussianRelease(relation="add-remove", noise_stddev=stddev, sensitivity=1.0)
    epsilon = gdp.epsilon(1 / stddev, DELTA)
    return made(name, [(event, None)], epsilon=epsilon, **changes)


def made(name: str, events: Sequence[tuple[Any, Any]], **changes: Any) -> Release:
    stated: dict[str, Any] = {
        "privacy_unit": "node", "relation": "add-remove", "delta": DELTA, "accountant": "gdp",
        "status": "proved",
    }  # fmt: skip
    mechanisms = tuple(
        Mechanism(name=str(n), event=event, noise_stddev=1.0, sensitivity=1.0, population=whose)
        for n, (event, whose) in enumerate(events)
    )
    plan = Plan(mechanisms=mechanisms, claims=(Claim(**(stated | changes)),))
    return release_of(name, "two", "dp_mlp", plan)


def test_gaussian_releases_compose_to_their_closed_form() -> None:
    releases = [gaussian(2.0), gaussian(1.5), gaussian(3.0)]
    mu = math.sqrt(1 / 4 + 1 / 2.25 + 1 / 9)
    found = total(releases, NODE)
    assert found.composed
    assert found.delta == pytest.approx(3 * DELTA)
    assert found.epsilon == pytest.approx(gdp.epsilon(mu, 3 * DELTA), rel=1e-9)
    at = total(releases, NODE, DELTA)
    assert at.epsilon == pytest.approx(gdp.epsilon(mu, DELTA), rel=1e-9)
    assert at.epsilon > found.epsilon


def test_one_release_has_its_own_claim() -> None:
    assert total([gaussian()], NODE).epsilon == pytest.approx(EPSILON, rel=1e-6)


def test_where_an_event_is_not_known_claims_are_added_and_a_smaller_delta_has_no_epsilon() -> None:
    unknown = replace(gaussian(), mechanisms=({"event": {"type": "Other"}, "population": None},))
    found = total([gaussian(), unknown], NODE)
    assert (found.composed, found.epsilon) == (False, 2 * EPSILON)
    assert total([gaussian(), unknown], NODE, DELTA).epsilon == math.inf


def test_events_that_come_to_more_than_their_claim_are_not_believed() -> None:
    loud = replace(gaussian(0.5), claims=gaussian(2.0).claims)
    assert not total([gaussian(), loud], NODE).composed


def test_a_node_counts_in_mechanisms_of_both_populations_of_different_splits() -> None:
    both = [
        made(name, [(EVENT, "train"), (EVENT, "others")], epsilon=EPSILON) for name in "abcdefgh"
    ]
    counted = gdp.epsilon(math.sqrt(2 * 8) / 2, 8 * DELTA)
    assert counted < 8 * EPSILON
    found = total(both, NODE)
    assert (found.composed, found.epsilon) == (True, pytest.approx(counted))
    # of few releases the sum is less than a curve that counts both
    few = total(both[:2], NODE)
    assert (few.composed, few.epsilon) == (False, 2 * EPSILON)


def test_pure_claims_are_added_at_delta_zero() -> None:
    event = LaplaceRelease(relation="add-remove", scale=2.0, sensitivity=1.0)
    pure = [made(name, [(event, None)], epsilon=0.5, delta=0.0) for name in "abc"]
    found = total(pure, NODE)
    assert (found.epsilon, found.delta, found.composed) == (1.5, 0.0, False)
    assert total([*pure, gaussian()], NODE).composed
    assert 0 < total(pure, NODE, 1e-2).epsilon < 1.5


def test_only_what_is_proved_of_the_notion_counts() -> None:
    published = gaussian(name="b", status="as-published")
    found = total([gaussian(), published], NODE)
    assert (found.epsilon, found.unproved) == (math.inf, ("b",))
    edge = made("c", [], privacy_unit="edge", epsilon=1.0)
    assert total([gaussian(), edge], NODE).unproved == ("c",)
    # a node that joins or leaves is the stronger notion of one relation: one curve counts both
    record = made("r", [(EVENT, None)], privacy_unit="node-record", epsilon=EPSILON)
    asked = Notion(privacy_unit="node-record", relation="add-remove")
    found = total([gaussian(), record], asked)
    assert (found.composed, found.epsilon) == (True, gdp.epsilon(math.sqrt(2) / 2, 2 * DELTA))
    node = gaussian(relation="replace-one")
    asked = Notion(privacy_unit="edge", relation="add-remove")
    found = total([node, edge], asked)
    assert (found.epsilon, found.composed) == (EPSILON + 1.0, False)


def test_the_smallest_degree_bound_is_what_all_releases_share() -> None:
    bounded = [
        gaussian(name=str(k), privacy_unit="node-bounded", degree_bound=k) for k in (9, 4, 6)
    ]
    (asked,) = notions_of(bounded)
    assert asked.degree_bound == 4
    assert total(bounded, asked).unproved == ()
    assert total(bounded, replace(asked, degree_bound=5)).unproved == ("4",)


def test_a_budget_is_declared_under_the_lock_of_the_releases(tmp_path: Path) -> None:
    ledger = GraphLedger(tmp_path, "one")
    declare(ledger, TotalBudget(notion=NODE, epsilon=1.0, delta=DELTA))
    edge = TotalBudget(notion=replace(NODE, privacy_unit="edge"), epsilon=2.0, delta=DELTA)
    other = Thread(target=declare, args=(GraphLedger(tmp_path, "one"), edge))
    with locks.waiting(tmp_path / ".lock"):
        other.start()
        other.join(timeout=0.3)
        assert other.is_alive()
        assert [one.epsilon for one in budgets(ledger)] == [1.0]
    other.join()
    assert [one.epsilon for one in budgets(ledger)] == [1.0, 2.0]


def test_a_budget_holds_for_all_releases_of_the_graph_and_is_declared_once(tmp_path: Path) -> None:
    ledger, other = GraphLedger(tmp_path, "one"), GraphLedger(tmp_path, "other")
    exact = gdp.epsilon(math.sqrt(2) / 2, DELTA)
    declare(ledger, TotalBudget(notion=NODE, epsilon=exact - 0.01, delta=DELTA))
    check_budgets(ledger, gaussian())
    ledger.write(tmp_path / "a", gaussian())
    with pytest.raises(ValueError, match=r"must keep epsilon .* with b, after 1 earlier"):
        check_budgets(ledger, gaussian(name="b"))
    check_budgets(other, gaussian(name="b"))
    declare(ledger, TotalBudget(notion=NODE, epsilon=exact, delta=DELTA))
    assert [one.epsilon for one in budgets(ledger)] == [exact]
    check_budgets(ledger, gaussian(name="b"))
    assert budgets(other) == []


PUBLISHED = [case for case in PRIVATE if case.values[1] == "published"]


@pytest.mark.parametrize(("name", "mode", "support"), PUBLISHED)
def test_a_published_release_costs_what_is_proved_of_it(name: str, mode: Any, support: Any) -> None:
    """Its events are the publication's, which may come to far less; two cost twice that."""
    entry = entry_of(name, mode, support)
    run = specify(inputs_of(entry, randomness="release"))
    facts = facts_of(run.inputs.graph, run.inputs.split, run.inputs.prepared, None)
    plan = with_caveats(propose(run, facts), run, facts)
    release = release_of("a", "two", name, plan)
    for asked in {notion(claim) for claim in plan.claims}:
        proved = [c.epsilon for c in plan.claims if c.status == "proved" and notion(c) == asked]
        least = min(proved, default=math.inf)
        if plan.claims[0].status != "proved":
            assert total([release], asked).epsilon >= least * (1 - 1e-9)
            assert total([release, release], asked).epsilon >= 2 * least * (1 - 1e-9)
