"""Paired tests and their correction against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpgnn.report.statistics.statistics import holm, paired_test, verdict


def test_a_paired_test_has_the_interval_computed_by_hand() -> None:
    # differences 0.01, 0.02, 0.03: mean 0.02, std 0.01, t(0.975, 2) = 4.30265, half width 0.02484
    test = paired_test([0.51, 0.62, 0.73], [0.50, 0.60, 0.70])
    assert test.mean == pytest.approx(0.02)
    assert test.std == pytest.approx(0.01)
    assert test.low == pytest.approx(0.02 - 4.302653 * 0.01 / math.sqrt(3), abs=1e-8)
    assert test.high == pytest.approx(0.02 + 4.302653 * 0.01 / math.sqrt(3), abs=1e-8)


def test_with_overlap_the_variance_of_the_mean_is_that_of_nadeau_and_bengio() -> None:
    # the same differences, 1/3 + 1/3 in place of 1/3: the error is sqrt(2) as large
    ours, theirs = [0.51, 0.62, 0.73], [0.50, 0.60, 0.70]
    plain, wide = paired_test(ours, theirs), paired_test(ours, theirs, overlap=1 / 3)
    assert (wide.mean, wide.std, wide.n) == (plain.mean, plain.std, plain.n)
    assert wide.high is not None
    assert plain.high is not None
    assert wide.high - wide.mean == pytest.approx(math.sqrt(2) * (plain.high - plain.mean))
    t = 0.02 / (0.01 * math.sqrt(2 / 3))
    assert wide.p == pytest.approx(2 * stats.t.sf(t, 2))
    with pytest.raises(ValueError, match="overlap"):
        paired_test(ours, theirs, overlap=-0.1)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=12))
def test_the_p_value_is_that_of_scipy(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = (np.asarray(column) for column in zip(*pairs))
    if np.std(ours - theirs) < 1e-6:
        return
    assert paired_test(ours, theirs).p == pytest.approx(
        stats.ttest_rel(ours, theirs).pvalue, abs=1e-9
    )


def test_one_pair_says_nothing() -> None:
    test = paired_test([0.9], [0.1])
    assert (test.n, test.std, test.low, test.p) == (1, None, None, None)
    assert verdict(test, None) == "one repeat"


def test_equal_differences_are_no_proof_where_the_test_set_is_small() -> None:
    # one test node more in each of three repeats with 20 test nodes: the spread is at least one node
    assert paired_test([0.55, 0.65, 0.75], [0.5, 0.6, 0.7], resolution=1 / 20).p > 0.05
    assert paired_test([0.95, 0.85, 0.75], [0.5, 0.4, 0.3], resolution=1 / 20).p < 0.05


def test_no_difference_at_all_is_inside_the_noise() -> None:
    test = paired_test([0.5, 0.6], [0.5, 0.6])
    assert test.p == 1.0
    assert verdict(test, 1.0) == "inside the noise"


def test_holm_gives_the_values_computed_by_hand() -> None:
    # sorted 0.01, 0.02, 0.04 -> 3*0.01, 2*0.02, 1*0.04; then each at least the one before
    assert holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.5, None, 0.9]) == [1.0, None, 1.0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_never_lowers_a_p_value_nor_exceeds_bonferroni(p_values: list[float]) -> None:
    for p, corrected in zip(p_values, holm(p_values)):
        assert corrected is not None
        assert p <= corrected <= min(1.0, len(p_values) * p) + 1e-12


def test_many_comparisons_turn_a_clear_difference_into_an_unclear_one() -> None:
    test = paired_test([0.51, 0.62, 0.73, 0.84], [0.50, 0.60, 0.70, 0.80])
    assert test.p is not None
    assert verdict(test, holm([test.p])[0]) == "larger than the noise"
    assert verdict(test, holm([test.p] * 20)[0]) == "unclear"


def test_values_that_cannot_be_paired_are_refused() -> None:
    with pytest.raises(ValueError, match="equal length"):
        paired_test([0.1], [0.1, 0.2])
    with pytest.raises(ValueError, match="at least one pair"):
        paired_test([], [])
