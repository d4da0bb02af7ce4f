"""Pairs of entries over places and budgets, and what they say together."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.statistics.pairs import CLEAR, Tally, pairs, tally, with_overlap


def test_pairs_are_counted_over_graphs_and_budgets(documented: tuple[StudyResults, Path]) -> None:
    found = tally(pairs(documented[0].cells, ["dp_gcn"], ["dp_mlp"]))
    # -10 points at 1 and +2 at 8, on both graphs
    assert (found.ahead, found.behind, found.total) == (2, 2, 4)
    assert found.graphs == ("alpha", "beta")
    assert (100 * found.low, 100 * found.high) == pytest.approx((-10.0, 2.0))
    assert found.outcome() == "mixed"
    assert (
        tally(pairs(documented[0].cells, ["dp_gcn"], ["dp_mlp"], epsilons=["8"])).outcome() == "yes"
    )


def test_with_overlap_fewer_differences_are_decided(documented: tuple[StudyResults, Path]) -> None:
    found = pairs(documented[0].cells, ["dp_gcn"], ["dp_mlp"])
    wide = with_overlap(found)
    for pair, other in zip(found, wide, strict=True):
        assert (pair.entry, pair.reference, pair.test.mean) == (
            other.entry, other.reference, other.test.mean,
        )  # fmt: skip
        sizes = pair.entry.runs[0].record
        ratio = sizes.metrics["test"]["num_nodes"] / sizes.facts["num_train"]
        assert pair.test.high is not None
        assert other.test.high is not None
        assert (other.test.high - other.test.mean) / (pair.test.high - pair.test.mean) == (
            pytest.approx((1 + pair.test.n * ratio) ** 0.5)
        )
        assert CLEAR in (pair.verdict, "") or other.verdict != CLEAR


def test_a_lead_that_grows_is_one_difference_a_graph(documented: tuple[StudyResults, Path]) -> None:
    found = pairs(documented[0].cells, ["dp_gcn"], ["dp_mlp"], widens=True)
    assert [round(100 * pair.test.mean, 6) for pair in found] == [12.0, 12.0]


def test_a_difference_less_another_is_of_one_place_and_budget(
    documented: tuple[StudyResults, Path],
) -> None:
    cells = documented[0].cells
    alone = pairs(cells, ["dp_gcn"], ["dp_mlp"])
    twice = pairs(cells, ["dp_gcn"], ["dp_mlp"], less=(["dp_mlp"], ["dp_gcn"]))
    assert [(pair.entry, pair.test.n) for pair in twice] == [
        (pair.entry, pair.test.n) for pair in alone
    ]
    assert [pair.test.mean for pair in twice] == pytest.approx(
        [2 * pair.test.mean for pair in alone]
    )
    none = pairs(cells, ["dp_gcn"], ["dp_mlp"], less=(["dp_gcn"], ["dp_mlp"]))
    assert [pair.test.mean for pair in none] == [0.0] * 4
    assert not pairs(cells, ["dp_gcn"], ["dp_mlp"], less=(["absent"], ["dp_mlp"]))


def test_what_a_star_stands_for_is_the_same_on_both_sides(
    documented: tuple[StudyResults, Path],
) -> None:
    assert not pairs(documented[0].cells, ["dp_g*"], ["dp_m*"])
    assert len(pairs(documented[0].cells, ["dp_g*"], ["dp_mlp"], mode="sound")) == 4


@pytest.mark.parametrize(
    ("counts", "wanted", "said"),
    [
        ((0, 0, 0, 0), "ahead", "no records"),
        ((3, 0, 3, 3), "ahead", "yes"),
        ((1, 0, 3, 1), "ahead", "in part"),
        ((0, 1, 3, 0), "ahead", "no"),
        ((0, 0, 3, 0), "ahead", "undecided"),
        ((0, 0, 3, 3), "not-behind", "yes"),
        ((0, 0, 3, 2), "not-behind", "undecided"),
        ((0, 1, 3, 2), "not-behind", "in part"),
        ((0, 2, 3, 0), "not-behind", "no"),
        ((2, 1, 3, 2), "mostly", "yes"),
        ((2, 0, 4, 2), "mostly", "undecided"),
        ((2, 2, 4, 2), "mostly", "no"),
    ],
)
def test_outcomes(counts: tuple[int, int, int, int], wanted: str, said: str) -> None:
    ahead, behind, total, close = counts
    found = Tally(
        ahead=ahead, behind=behind, total=total, graphs=(), repeats=(2, 2), low=0.0, high=0.0, close=close
    )  # fmt: skip
    assert found.outcome(wanted) == said
