"""Repeated attacks: ranges over repeats, and claims that are contradicted among all tests of a study."""

from __future__ import annotations

from typing import Any

import pytest

from dpgnn.audits import one_run
from dpgnn.audits.statistics import ClaimLine
from dpgnn.records.attacks import AttackedClaim, AttackResult, Line, OneRun
from dpgnn.report.tables.attack_repeats import blind_attacks, blocks, contradicted
from dpgnn.report.tables.attack_verdicts import p_value


def released(
    entry: str, repeat: int, right: int, *, epsilon: float = 1.0, **fields: Any
) -> AttackResult:
    """A release's held-out edges: 250 guesses among 1000 coins, `right` of them right."""
    counts = {"num_canaries": 1000, "num_guesses": 250}
    stated = {
        "mode": "sound", "attack": "released-state", "status": "ok", "covered": True, "auc": right / 250,
        "claim": AttackedClaim(epsilon=epsilon, delta=1e-6), "claimed_epsilon": epsilon, "delta": 1e-6,
        "line": Line(epsilon=epsilon, delta=1e-6, level=0.001, epsilon_lower_bound=0.0),
        "one_run": OneRun(
            **counts, num_correct=right, delta=1e-6, confidence=0.999,
            epsilon_lower_bound=one_run.lower_bound(1000, 250, right, delta=1e-6, level=0.001),
        ),
    }  # fmt: skip
    return AttackResult(
        dataset="toy", setting="fixed", entry=entry, epsilon=f"{epsilon:g}", repeat=repeat,
        title=entry.upper(), **(stated | fields),
    )  # fmt: skip


def rows(found: list[AttackResult]) -> dict[str, dict[str, str]]:
    """Entry -> column -> cell of the only table."""
    (table,) = blocks(found).values()
    head, _, *lines = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in table.splitlines()
        if line.startswith("|")
    ]
    return {line[1].strip("`"): dict(zip(head, line)) for line in lines}


def test_a_row_has_the_range_of_all_repeats_and_how_many_contradict_the_claim() -> None:
    found = [released("leaky", 0, 245), released("leaky", 1, 150), released("leaky", 2, 248)]
    found += [released("tight", k, 125 + k) for k in range(3)]
    found += [released("once", 0, 245)]
    shown = rows(found)
    assert list(shown) == ["leaky", "tight"]
    assert shown["leaky"]["repeats"] == "3"
    assert shown["leaky"]["the release"] == "0.600 to 0.992"
    assert shown["leaky"]["contradicted"] == "**2** of 3"
    assert shown["tight"]["the release"] == "0.500 to 0.508"
    assert (shown["tight"]["contradicted"], shown["tight"]["ε ≥"]) == ("0 of 3", "0.00")
    assert shown["tight"]["LinkTeller"] == "–"


def test_a_repeat_without_a_test_does_not_count_as_passed() -> None:
    found = [released("a", 0, 130), released("a", 1, 130, covered=False), released("a", 2, 130)]
    assert rows(found)["a"]["contradicted"] == "0 of 2"


def test_an_attack_that_finds_nothing_at_any_budget_tests_nothing() -> None:
    at_one = [released("a", k, 125) for k in range(2)]
    assert rows(at_one)["a"]["contradicted"] == "0 of 2"
    at_large = released("a", 0, 130, epsilon=32.0)
    assert blind_attacks([*at_one, at_large]) == {("released-state", "a", "toy")}
    assert rows([*at_one, at_large])["a"]["contradicted"] == "cannot say"
    # where it shows anything at any budget, it sees
    assert not blind_attacks([*at_one, released("a", 0, 250, epsilon=32.0)])


def test_an_accusation_must_be_clear_among_all_tests_of_the_study() -> None:
    accused = next(right for right in range(180, 250) if p_of(right) < 0.05 / 20)
    alone = [released("a", 0, accused)]
    assert contradicted(alone) == {id(alone[0])}
    # of a hundred tests, most of other entries and budgets, the same count is no evidence
    others = [released(f"e{k}", 0, 125) for k in range(99)]
    assert not contradicted([*alone, *others])


def p_of(right: int) -> float:
    return one_run.tail_of_line(1000, 250, right, ClaimLine.of_pair(1.0, 1e-6))


@pytest.mark.parametrize("right", [120, 180, 200, 230])
def test_p_is_that_of_the_claim_and_of_two_changes_where_nodes_are_exchanged(right: int) -> None:
    p = p_value(released("a", 0, right))
    quick = one_run.tail(1000, 250, right, 1.0, 1e-6)
    assert p == (quick if quick > 0.05 else p_of(right))
    paired = p_value(released("a", 0, right, one_run_allowed_epsilon=2.0))
    assert paired is not None
    assert p is not None
    assert paired >= p
    assert p_value(released("a", 0, right, covered=False)) is None
    assert p_value(released("a", 0, right, untested="too few")) is None


def test_a_test_that_cannot_fail_says_so_and_a_constant_score_is_a_dot() -> None:
    found = [released("large", k, 240, epsilon=16.0) for k in range(2)]
    constant = {"attack": "gmia", "variant": "original", "scorer": "constant", "covered": False}
    found += [
        released("large", k, 125, epsilon=16.0, one_run=None, line=None, **constant)
        for k in range(2)
    ]
    cannot = {
        "attack": "linkteller",
        "pair_set": "held-out",
        "noise": "frozen",
        "status": "not-available",
    }
    found += [
        released("large", k, 125, epsilon=16.0, one_run=None, line=None, **cannot) for k in range(2)
    ]
    (shown,) = rows(found).values()
    assert (shown["contradicted"], shown["G-MIA"], shown["held-out"]) == ("cannot say", "·", "n/a")


def test_without_repeats_there_is_no_table() -> None:
    assert blocks([released("a", 0, 125)]) == {}
