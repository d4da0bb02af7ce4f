from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpgnn.core import exact_coins
from dpgnn.core.exact_coins import (
    UNIT,
    coins,
    hazard_of,
    interval,
    multiple_below,
    number_on,
    waiting_times,
)


class Given:
    """A generator that gives the bits it was made with, then real ones."""

    def __init__(self, bits: np.ndarray) -> None:
        self.bits, self.rng, self.more = bits, np.random.default_rng(0), []

    def random(self, size: int) -> np.ndarray:
        return (self.bits >> np.uint64(11)).astype(np.float64) * UNIT

    def integers(self, low: int, high: int, size=None, dtype=None):
        if size is not None:
            assert size == len(self.bits)
            return self.bits
        self.more.append(self.rng.integers(low, high, dtype=dtype))
        return self.more[-1]


@pytest.mark.parametrize("steps", [0, 1, 2, 2**52, 2**53 - 1, 2**53])
def test_a_coin_is_on_for_as_many_of_its_equally_likely_values_as_its_rate_says(steps):
    """The decision is a comparison, so the values on both sides of the rate settle all 2^53 of them."""
    around = [k for k in (steps - 2, steps - 1, steps, steps + 1) if 0 <= k < 2**53]
    source = Given(np.array(around, dtype=np.uint64) << np.uint64(11))
    found = coins(len(around), steps * UNIT, rng=source)  # type: ignore[arg-type]
    assert found.tolist() == [k < steps for k in around]
    # what both generators of the package give for random(): 53 bits of their 64, uniform
    from dpgnn.core.randomness import Streams

    secret = Streams(root_seed=0, axes={}, randomness="release").numpy("response")
    state = secret.bit_generator.state
    values = secret.random(1000)
    secret.bit_generator.state = state
    assert np.array_equal(
        values, (secret.integers(0, 2**64, 1000, dtype=np.uint64) >> np.uint64(11)) * UNIT
    )


@pytest.mark.parametrize("rate", [0.1, 2.0**-54, 1.5 * UNIT])
def test_a_rate_between_two_multiples_is_refused_and_may_be_cut(rate):
    with pytest.raises(ValueError, match=r"rate must be a multiple of 2\^-53"):
        coins(1, rate, rng=np.random.default_rng(0))
    cut = multiple_below(rate)
    assert Fraction(cut) / Fraction(UNIT) == math.floor(Fraction(rate) / Fraction(UNIT))
    coins(1, cut, rng=np.random.default_rng(0))


def exact_wait(prefix: int, num_bits: int, h: mpmath.mpf) -> int:
    """floor(-log U / h) of a U known to hundreds of bits."""
    return int(
        mpmath.floor(-mpmath.log(mpmath.mpf(2 * prefix + 1) / mpmath.mpf(2) ** (num_bits + 1)) / h)
    )


@pytest.mark.parametrize(
    "rate", [Fraction(1, 2), Fraction(3, 10), Fraction(1, 10**6), Fraction(1, 2**60)]
)
def test_waits_are_those_of_real_numbers_on_both_sides_of_every_boundary(rate):
    hazard, bits = hazard_of(rate), []
    with mpmath.workprec(800):
        h = -mpmath.log(1 - mpmath.mpf(rate.numerator) / rate.denominator)
        for k in (1, 2, 5, 17, 1000, 10**6, int(20 / h)):
            at = int(mpmath.floor(mpmath.exp(-h * k) * 2**64))
            bits += [at + d for d in (-(2**13), -2048, -1, 0, 1, 2048, 2**13) if 0 < at + d < 2**64]
        bits += [0, 1, 2, 3, 2**29, 2**64 - 1, 2**64 - 2**11]
        for one in bits:
            source = Given(np.array([one], dtype=np.uint64))
            (found,) = waiting_times(hazard, 1, rng=source)  # type: ignore[arg-type]
            whole, num_bits = one, 64
            while num_bits < 600:
                more = source.more.pop(0) if source.more else 2**63
                whole, num_bits = (whole << 64) | int(more), num_bits + 64
            assert found == min(exact_wait(whole, num_bits, h), 2**60)


def test_bits_that_set_no_bound_are_completed():
    source = Given(np.array([0], dtype=np.uint64))
    hazard = hazard_of(
        1 - Fraction(1, 2**53)
    )  # 36.7: by 64 bits it is over 1.2 waits, who knows how many
    source.rng = SimpleNamespace(integers=lambda low, high, dtype: np.uint64(1))  # type: ignore[assignment]
    assert waiting_times(hazard, 1, rng=source).tolist() == [2]  # type: ignore[arg-type]
    assert source.more == [1]


@settings(max_examples=60, deadline=None)
@given(
    prefix=st.integers(0, 2**6 - 1),
    h=st.fractions(Fraction(1, 10**9), 20),
    seed=st.integers(0, 2**32 - 1),
)
def test_few_bits_are_completed_until_they_decide(prefix, h, seed):
    if h == 0:
        return
    found = exact_coins._whole(prefix, 6, lambda iv: interval(iv, h), np.random.default_rng(seed))
    again, num_bits = np.random.default_rng(seed), 6
    while num_bits < 400:
        fresh = int(again.integers(0, 2**64, dtype=np.uint64))
        prefix, num_bits = (prefix << 64) | fresh, num_bits + 64
    with mpmath.workprec(600):
        assert found == exact_wait(prefix, num_bits, mpmath.mpf(h.numerator) / h.denominator)


@pytest.mark.parametrize("h", [0.05, 0.7, 3.0])
def test_waits_are_geometric(h):
    rng, size = np.random.default_rng(3), 20_000
    found = waiting_times(lambda iv: iv.mpf(h), size, most=40, rng=rng)
    tail = np.append(np.exp(-h * np.arange(41)), 0.0)
    expected = -size * np.diff(tail)
    kept = np.append(expected[expected >= 5], expected[expected < 5].sum())
    seen = np.bincount(found, minlength=41)
    seen = np.append(seen[expected >= 5], seen[expected < 5].sum())
    assert stats.chisquare(seen[kept > 0], kept[kept > 0]).pvalue > 1e-6


@pytest.mark.parametrize(("count", "rate"), [(6, 0.3), (6, 0.5), (1, 0.01), (30, 0.02), (4, 0.9)])
def test_the_number_of_coins_that_are_on_is_binomial(count, rate):
    rng, runs = np.random.default_rng(4), 10_000
    hazard = hazard_of(Fraction(rate))
    seen = np.bincount(
        [number_on(count, hazard, rng=rng) for _ in range(runs)], minlength=count + 1
    )
    expected = runs * stats.binom.pmf(np.arange(count + 1), count, rate)
    common = expected >= 5
    both = [np.append(x[common], x[~common].sum()) for x in (seen, expected)]
    both = [x[both[1] > 0] for x in both]
    assert stats.chisquare(*both).pvalue > 1e-6


def test_many_coins_are_counted_over_several_draws():
    rng, count, rate = np.random.default_rng(5), 200_000, 0.3
    found = [number_on(count, hazard_of(Fraction(rate)), rng=rng) for _ in range(200)]
    assert stats.kstest(found, stats.binom(count, rate).cdf).pvalue > 1e-6


def test_rates_at_the_end_of_their_range_are_neither_lost_nor_certain():
    rng = np.random.default_rng(6)
    count = 2**46
    hazard = hazard_of(Fraction(1, 2**53))
    found = [number_on(count, hazard, rng=rng) for _ in range(400)]
    # 2^-7 are expected of one run, 3.125 of all
    assert 0 < sum(found) < 14
    assert number_on(0, hazard, rng=rng) == 0
    assert number_on(count, hazard_of(Fraction(1, 2**106)), rng=rng) == 0
    assert number_on(50, hazard_of(1 - Fraction(1, 2**53)), rng=rng) == 50
    with pytest.raises(ValueError, match=r"count must be in 0\.\.2\^47 - 1"):
        number_on(2**47, hazard, rng=rng)
