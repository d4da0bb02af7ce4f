import math

import numpy as np
import pytest
from scipy import stats

from dpgnn.samplers.batches import FixedSizeBatches, PoissonBatches


def test_every_root_is_in_a_poisson_batch_at_the_stated_rate():
    batches, draws, rng = PoissonBatches(400, 0.13), 4000, np.random.default_rng(1)
    counts = np.zeros(400)
    for _ in range(draws):
        counts[batches.draw(rng=rng)] += 1
    # all roots together at 1e-6, and each root at 1e-6 / 400
    low, high = stats.binom.ppf([5e-7, 1 - 5e-7], 400 * draws, 0.13)
    assert low <= counts.sum() <= high
    low, high = stats.binom.ppf([5e-7 / 400, 1 - 5e-7 / 400], draws, 0.13)
    assert low <= counts.min()
    assert counts.max() <= high


def test_poisson_coins_of_two_roots_are_independent_within_and_between_batches():
    batches, rng = PoissonBatches(2, 0.3), np.random.default_rng(2)
    table = np.zeros((2, 2))
    follow = np.zeros((2, 2))
    before = 0
    for _ in range(20_000):
        roots = batches.draw(rng=rng)
        first, second = int(0 in roots), int(1 in roots)
        table[first, second] += 1
        follow[before, first] += 1
        before = first
    assert stats.chi2_contingency(table).pvalue > 1e-6
    assert stats.chi2_contingency(follow).pvalue > 1e-6


def test_the_size_of_a_poisson_batch_is_binomial_and_may_be_zero():
    batches, rng = PoissonBatches(30, 0.05), np.random.default_rng(3)
    sizes = np.array([len(batches.draw(rng=rng)) for _ in range(5000)])
    assert (sizes == 0).any()
    top = 6
    observed = np.bincount(np.minimum(sizes, top), minlength=top + 1)
    expected = 5000 * np.append(
        stats.binom.pmf(np.arange(top), 30, 0.05), stats.binom.sf(top - 1, 30, 0.05)
    )
    assert stats.chisquare(observed, expected).pvalue > 1e-6


def test_rates_zero_and_one_take_no_root_and_every_root():
    rng = np.random.default_rng(0)
    assert len(PoissonBatches(10, 0.0).draw(rng=rng)) == 0
    assert list(PoissonBatches(4, 1.0).draw(rng=rng)) == [0, 1, 2, 3]
    assert len(PoissonBatches(0, 0.5).draw(rng=rng)) == 0


def test_every_subset_of_the_fixed_size_is_equally_likely():
    batches, rng = FixedSizeBatches(5, 2), np.random.default_rng(4)
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(20_000):
        roots = tuple(batches.draw(rng=rng).tolist())
        counts[roots] = counts.get(roots, 0) + 1
    assert len(counts) == math.comb(5, 2)
    assert stats.chisquare(list(counts.values())).pvalue > 1e-6


def test_a_fixed_size_batch_has_that_many_different_roots():
    roots = FixedSizeBatches(1000, 300).draw(rng=np.random.default_rng(5))
    assert roots.dtype == np.int64
    assert len(np.unique(roots)) == 300
    assert (np.diff(roots) > 0).all()


def test_expected_batch_sizes_are_those_of_the_law():
    assert PoissonBatches(50, 0.2).expected_batch_size == 10.0
    assert FixedSizeBatches(50, 7).expected_batch_size == 7.0


def test_the_same_stream_gives_the_same_batch():
    batches = PoissonBatches(100, 0.4)
    first = batches.draw(rng=np.random.default_rng(9))
    assert np.array_equal(first, batches.draw(rng=np.random.default_rng(9)))


def test_impossible_batches_are_named():
    with pytest.raises(ValueError, match="batch_size must be <= the number of roots, 5"):
        FixedSizeBatches(5, 6)
    with pytest.raises(ValueError, match=r"sampling_probability must be in \[0, 1\]"):
        PoissonBatches(5, 1.2)
