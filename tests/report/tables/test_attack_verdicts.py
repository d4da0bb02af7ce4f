"""What a result says about its claim: what is covered, for how many changes, and if scores are guesses."""

from __future__ import annotations

from typing import Any

import pytest

from dpgnn.audits import one_run
from dpgnn.records.attacks import AttackedClaim, AttackResult, Line, OneRun
from dpgnn.report.tables import attack_verdicts as verdicts
from dpgnn.report.tables.attacks import as_audits

TIED = ((0.0, 0.0), (1.0, 1.0))
SMOOTH = tuple((step / 10, step / 10) for step in range(11))


def of_runs(what: str, *, tested: float, bound: float, covered: bool = True) -> AttackResult:
    """A game of 200 runs of each world about a claim of epsilon 1."""
    return AttackResult(
        dataset="toy", setting="whole", entry="votes", epsilon="1", attack="board", what=what, status="ok",
        claim=AttackedClaim(epsilon=1.0, delta=1e-6), claimed_epsilon=tested, covered=covered, auc=0.7,
        num_members=200, num_others=200, delta=1e-6, detects=2.54,
        line=Line(level=0.001, epsilon=tested, delta=1e-6, epsilon_lower_bound=bound),
    )  # fmt: skip


def of_one_run(attack: str, curve: Any, right: int = 125, **fields: Any) -> AttackResult:
    """250 guesses among 1000 coins about a claim of epsilon 1."""
    counts: dict[str, Any] = {"num_canaries": 1000, "num_guesses": 250, "num_correct": right}
    bound = one_run.lower_bound(1000, 250, right, delta=1e-6, level=0.001)
    return AttackResult(
        dataset="toy", setting="whole", entry="a", epsilon="1", attack=attack, status="ok", auc=0.5,
        claim=AttackedClaim(epsilon=1.0, delta=1e-6), claimed_epsilon=1.0, covered=True, delta=1e-6,
        num_members=500, num_others=500, curve=curve, line=Line(level=0.001),
        one_run=OneRun(**counts, delta=1e-6, confidence=0.999, epsilon_lower_bound=bound), **fields,
    )  # fmt: skip


def test_a_game_that_no_claim_covers_gives_no_bound_on_the_claim() -> None:
    result = of_runs("mentions", tested=1.0, bound=2.54, covered=False)
    assert (verdicts.lower_bound(result), verdicts.detects(result)) == (None, None)
    assert verdicts.verdict(result) == "not about the claim"
    assert as_audits([result]) == []


def test_a_bound_on_two_changes_is_halved_beside_the_claim_of_one() -> None:
    two = of_runs("label", tested=2.0, bound=1.8)
    assert (verdicts.claimed_epsilon(two), verdicts.lower_bound(two)) == (1.0, 0.9)
    assert verdicts.detects(two) == pytest.approx(1.27)
    assert verdicts.line_of(two) == (2.0, 1e-6)
    assert verdicts.verdict(two) == "within the claim"
    one = of_runs("label", tested=1.0, bound=0.9)
    assert (verdicts.claimed_epsilon(one), verdicts.lower_bound(one)) == (1.0, 0.9)


@pytest.mark.parametrize(
    ("attack", "curve", "expected"),
    [
        ("linkteller", TIED, "cannot say (nearly all scores are equal)"),
        ("linkteller", ((0.0, 0.0), (0.4, 0.4), (1.0, 1.0)), "within the claim"),
        ("linkteller", SMOOTH, "within the claim"),
        ("gmia", ((0.0, 0.0), (0.0, 0.02), (1.0, 1.0)), "cannot say (nearly all scores are equal)"),
        # equal scores of what is released once are what its noise does
        ("released-state", TIED, "within the claim"),
    ],
)
def test_a_test_whose_guesses_are_coins_says_nothing(
    attack: str, curve: Any, expected: str
) -> None:
    assert verdicts.verdict(of_one_run(attack, curve)) == expected


def test_a_test_counts_among_many_only_if_right_guesses_would_stand() -> None:
    result = of_one_run("released-state", SMOOTH)
    perfect = verdicts.p_value(of_one_run("released-state", SMOOTH, right=250))
    assert perfect is not None
    assert 0 < perfect < 1e-5
    assert verdicts.can_stand(result, 890)
    assert not verdicts.can_stand(result, int(0.05 / perfect) + 1)
    assert not verdicts.can_stand(of_one_run("linkteller", TIED), 1)
    assert not verdicts.can_stand(of_runs("record", tested=1.0, bound=0.5), 1)
