"""The detectable difference is the one that the real test decides in four of five trials."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import nct, t

from dpgnn.report.statistics.power import detectable
from dpgnn.report.statistics.statistics import LEVEL, PairedTest, holm, paired_test


def spread(std: float, n: int) -> PairedTest:
    """A test with this spread."""
    half = t.ppf(0.975, n - 1) * std / math.sqrt(n)
    return PairedTest(mean=0.0, std=std, low=-half, high=half, n=n, p=1.0)


@pytest.mark.parametrize(("n", "comparisons"), [(3, 1), (5, 4), (10, 1), (10, 36)])
def test_four_of_five_trials_decide_it(n: int, comparisons: int) -> None:
    size = detectable(spread(0.02, n), comparisons)
    assert size is not None
    rng = np.random.default_rng(0)
    trials = [paired_test(rng.normal(size, 0.02, n), np.zeros(n)) for _ in range(4000)]
    # the smallest p value of a family, whose others are far from decided
    decided = [holm([test.p] + [1.0] * (comparisons - 1))[0] for test in trials]
    share = np.mean([p is not None and p < LEVEL for p in decided])
    assert share == pytest.approx(0.8, abs=4 * math.sqrt(0.8 * 0.2 / 4000))


def test_it_is_the_noncentrality_of_students_t() -> None:
    size = detectable(spread(1.0, 10), 36)
    critical = t.ppf(1 - 0.025 / 36, 9)
    assert nct.sf(critical, 9, size * math.sqrt(10)) == pytest.approx(0.8, abs=1e-5)
    # below the negative critical value: what the function leaves out
    assert nct.cdf(-critical, 9, size * math.sqrt(10)) < 1e-4


def test_it_grows_with_the_family_and_falls_with_repeats() -> None:
    sizes = [detectable(spread(1.0, 5), m) for m in (1, 2, 10, 100)]
    assert sizes == sorted(sizes)
    repeats = [detectable(spread(1.0, n), 10) for n in (2, 3, 5, 10, 30)]
    assert repeats == sorted(repeats, reverse=True)


def test_one_repeat_detects_nothing() -> None:
    assert detectable(paired_test([0.5], [0.4]), 1) is None


def test_no_comparison_is_refused() -> None:
    with pytest.raises(ValueError, match="comparisons must be >= 1"):
        detectable(spread(1.0, 5), 0)
