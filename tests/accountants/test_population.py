"""A declared population: what claims say of sizes, and when delta is too large."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from dpgnn.accountants.claims import UNIT_RELATIONS, Claim
from dpgnn.accountants.population import (
    CHANGES,
    DECLARED,
    PublicPopulation,
    changes_nodes,
    check_delta,
    reads_population,
    with_sizes,
)

CLAIM = Claim(
    privacy_unit="node", relation="add-remove", epsilon=1.0, delta=1e-5, accountant="pld",
    status="proved", assumed_public=("number of training nodes", "all options"),
)  # fmt: skip
SIZES = ("number of nodes", "number of features", "number of classes")


def test_only_add_remove_of_nodes_changes_their_number() -> None:
    found = {
        (u, r) for u, relations in UNIT_RELATIONS.items() for r in relations if changes_nodes(u, r)
    }
    assert found == {(unit, "add-remove") for unit in ("node", "node-bounded", "node-record")}
    assert not changes_nodes(None, None)
    for mode, reads in (("sound", True), ("published", False), ("nonprivate", False)):
        assert reads_population(mode, "node", "add-remove") == reads
        assert not reads_population(mode, "edge", "add-remove")
        assert not reads_population(mode, "node", "null-one")


def test_a_claim_names_the_sizes_it_takes_as_public_and_says_that_one_of_them_changes() -> None:
    (counted,) = with_sizes((CLAIM,), declared=False)
    assert counted.assumed_public == (*CLAIM.assumed_public, *SIZES)
    assert counted.caveats == (CHANGES,)
    (declared,) = with_sizes((CLAIM,), declared=True)
    assert declared.assumed_public == ("all options", DECLARED, *SIZES[1:])
    assert declared.caveats == ()
    # what is released has a row for every node: its shape tells their number all the same
    (shown,) = with_sizes((CLAIM,), declared=True, shows_nodes=True)
    assert shown.caveats == (CHANGES,)
    # where the number of nodes stays, it is read as it is
    (same,) = with_sizes((replace(CLAIM, relation="null-one"),), declared=True)
    assert same.assumed_public == counted.assumed_public
    for again, is_declared in ((counted, False), (declared, True)):
        assert with_sizes((again,), declared=is_declared) == (again,)


@pytest.mark.parametrize(
    ("changes", "has_caveat"),
    [
        ({"relation": "null-one"}, False),
        ({"privacy_unit": "edge"}, False),
        ({"privacy_unit": "node-bounded", "degree_bound": 3}, True),
        ({"status": "as-published"}, False),
    ],
)
def test_what_keeps_the_number_of_nodes_or_is_not_proved_has_no_such_caveat(
    changes: dict[str, object], has_caveat: bool
) -> None:
    (found,) = with_sizes((replace(CLAIM, **changes),), declared=False)  # type: ignore[arg-type]
    assert (CHANGES in found.caveats) == has_caveat
    assert set(SIZES) <= set(found.assumed_public)


def test_an_infinite_epsilon_takes_nothing_as_public() -> None:
    nothing = replace(CLAIM, epsilon=math.inf)
    assert with_sizes((nothing,), declared=False) == (nothing,)


@pytest.mark.parametrize(
    ("nodes", "training", "message"),
    [
        (0, 1, "nodes must be >= 1, got 0"),
        (100, 0, "training must be >= 1, got 0"),
        (100, 101, "training must be <= nodes = 100, got 101"),
        (100.0, 10, "nodes must be an integer, got 100.0"),
        (10**400, 10, "nodes must be <= 9007199254740992"),
        (-5, -6, "nodes must be >= 1, got -5"),
    ],
)
def test_numbers_that_no_graph_has_are_refused(nodes: int, training: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PublicPopulation(nodes=nodes, training=training)


@pytest.mark.parametrize("delta", [0.01, 0.0100001, 0.9])
def test_a_delta_at_which_a_whole_record_may_be_published_is_refused(delta: float) -> None:
    with pytest.raises(ValueError, match=r"delta must be < 0\.01, one over the 100 nodes, got "):
        check_delta(delta, 100)
    check_delta(0.0099, 100)
