"""Mean ranks over graphs: formulas against scipy and the source's table, and what is left out."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import friedmanchisquare

from dpgnn.report.tables import pivots
from dpgnn.report.tables.mean_ranks import mean_rank_rows, mean_ranks, mean_ranks_table
from dpgnn.report.tables.rows import RankingRow
from dpgnn.report.tables.table import to_csv

# Demšar (2006), table 5(a): the factor of the critical difference at 5 % for 2 to 10 classifiers
FACTORS = (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164)


def row(dataset: str, entry: str, mean: float) -> RankingRow:
    return RankingRow(
        dataset=dataset, setting="whole", epsilon="8", guarantee="node, proved", entry=entry,
        label=entry.upper(), mean=mean, answers="own-record", position=1, low=None, high=None, n=1,
        behind=None, behind_low=None, behind_high=None, n_pairs=None, verdict="", bold=(),
    )  # fmt: skip


def grid(num_graphs: int, entries: str = "abc") -> list[RankingRow]:
    """Every graph has the entries in one order: a before b before c."""
    return [
        row(f"graph{i}", entry, 0.9 - place / 10)
        for i in range(num_graphs)
        for place, entry in enumerate(entries)
    ]


@pytest.mark.parametrize(("k", "factor"), list(enumerate(FACTORS, 2)))
def test_the_critical_difference_is_that_of_the_source(k: int, factor: float) -> None:
    scores = np.random.default_rng(k).random((14, k))
    want = factor * np.sqrt(k * (k + 1) / (6 * 14))
    assert mean_ranks(scores).critical == pytest.approx(want, abs=2e-3)


@pytest.mark.parametrize("shape", [(5, 3), (9, 6), (30, 4)])
def test_without_ties_the_statistic_is_friedmans(shape: tuple[int, int]) -> None:
    from scipy.stats import f

    n, k = shape
    scores = np.random.default_rng(3).random(shape)
    chi_square = friedmanchisquare(*scores.T).statistic
    ratio = (n - 1) * chi_square / (n * (k - 1) - chi_square)
    assert mean_ranks(scores).p == pytest.approx(f.sf(ratio, k - 1, (k - 1) * (n - 1)))


@pytest.mark.parametrize(("first", "second", "ties"), [(5, 0, 0), (7, 1, 0), (3, 6, 2), (0, 0, 5)])
def test_two_entries_have_the_sign_tests_p(first: int, second: int, ties: int) -> None:
    from scipy.stats import binom

    scores = np.array([[0.9, 0.8]] * first + [[0.8, 0.9]] * second + [[0.8, 0.8]] * ties)
    # both tails; graphs on which the two are equal say nothing
    want = min(1.0, 2 * binom.cdf(min(first, second), first + second, 0.5))
    assert mean_ranks(scores).p == pytest.approx(want)


def test_two_entries_in_one_order_on_five_graphs_are_not_told_apart_and_on_six_they_are() -> None:
    five, six = (mean_ranks(np.tile([0.9, 0.8], (n, 1))) for n in (5, 6))
    # one order on five graphs has a chance of 1 in 16, though the ranks differ by more than is critical
    assert five.p == pytest.approx(1 / 16)
    assert np.ptp(five.ranks) > five.critical
    assert not five.apart(0, 1)
    assert six.p == pytest.approx(1 / 32)
    assert six.apart(0, 1)


@pytest.mark.parametrize(("n", "k"), [(5, 3), (9, 3), (5, 4)])
def test_one_order_everywhere_has_the_chance_that_graphs_agree(n: int, k: int) -> None:
    scores = np.tile(np.linspace(0.9, 0.5, k), (n, 1))
    assert mean_ranks(scores).p == pytest.approx(math.factorial(k) ** -(n - 1.0))


def test_equal_scores_have_equal_ranks_and_show_nothing() -> None:
    found = mean_ranks(np.ones((6, 3)))
    assert found.ranks.tolist() == [2.0, 2.0, 2.0]
    assert found.p == 1.0


def test_under_no_difference_the_tests_err_as_often_as_they_say() -> None:
    rng = np.random.default_rng(5)
    trials = 2000
    found = [mean_ranks(rng.random((9, 5))) for _ in range(trials)]
    friedman = np.mean([one.p < 0.05 for one in found])
    nemenyi = np.mean([np.ptp(one.ranks) > one.critical for one in found])
    # a binomial share of 2,000 trials at 5 % lies within 3.5 / 6.5 % but for one time in a thousand
    assert 0.03 < friedman < 0.07
    assert nemenyi < 0.07


@pytest.mark.parametrize("scores", [np.ones((1, 3)), np.ones((4, 1)), np.ones(3)])
def test_too_few_graphs_or_entries_are_refused(scores: np.ndarray) -> None:
    with pytest.raises(ValueError, match="two graphs and two entries"):
        mean_ranks(scores)


def test_a_missing_score_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        mean_ranks(np.array([[0.5, np.nan], [0.5, 0.6]]))


def test_the_table_lists_the_best_first_and_bold_is_told_apart_from_all() -> None:
    rows = mean_rank_rows(grid(12))
    assert [(r.entry, r.rank, r.best_on) for r in rows] == [
        ("a", 1.0, 12), ("b", 2.0, 0), ("c", 3.0, 0),
    ]  # fmt: skip
    assert rows[0].bold == ("entry", "rank")
    assert [r.verdict for r in rows] == ["", "told apart", "told apart"]
    (line,) = pivots.mean_rank_lines(rows)[2:]
    assert "| **A 1.0** · B 2.0 · C 3.0 | none | none | 12 |" in line


def test_with_few_graphs_neighbours_are_not_told_apart() -> None:
    rows = mean_rank_rows(grid(5))
    assert [r.verdict for r in rows] == ["", "not told apart", "told apart"]
    assert all(r.bold == () for r in rows)
    (line,) = pivots.mean_rank_lines(rows)[2:]
    assert "| A 1.0 · B 2.0 · C 3.0 | B | none | 5 |" in line


def test_too_few_graphs_make_no_rows() -> None:
    rows = mean_rank_rows(grid(4))
    assert rows == []
    assert pivots.mean_rank_lines(rows) == []
    assert mean_ranks_table(rows).rows == []


def test_stand_ins_do_not_count_and_an_entry_not_on_all_graphs_is_named() -> None:
    rows = [*grid(5), row("synthetic-flickr", "a", 0.1), row("graph0", "d", 0.99)]
    found = mean_rank_rows(rows)
    assert {r.num_graphs for r in found} == {5}
    assert [r.entry for r in found] == ["a", "b", "c"]
    assert {r.left_out for r in found} == {"D"}
    (line,) = pivots.mean_rank_lines(found)[2:]
    assert "| D | 5 |" in line


def test_the_ends_alone_are_the_smallest_and_the_largest_budget() -> None:
    rows = [replace(r, epsilon=budget) for budget in ("1", "2", "16", "8") for r in grid(5)]
    found = mean_rank_rows(rows)
    budgets = [line.split(" | ")[1] for line in pivots.mean_rank_lines(found, ends=True)[2:]]
    assert budgets == ["1", "16"]
    assert len(pivots.mean_rank_lines(found)) == 2 + 4


def test_the_table_has_the_rows_values() -> None:
    rows = mean_rank_rows(grid(12))
    table = mean_ranks_table(rows)
    lines = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert [(r["entry"], float(r["rank"]), int(r["num_graphs"])) for r in lines] == [
        ("a", 1.0, 12), ("b", 2.0, 12), ("c", 3.0, 12),
    ]  # fmt: skip
