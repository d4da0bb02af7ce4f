from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpgnn.core import exact_selection
from dpgnn.core.exact_selection import _exactly, largest_with_gumbel


def test_the_order_has_its_closed_form_probabilities():
    scores, scale, draws = np.array([0.0, 0.4, 1.0, 1.7]), 0.8, 8000
    rng = np.random.default_rng(1)
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(draws):
        chosen = tuple(largest_with_gumbel(scores, scale, 2, rng=rng).tolist())
        seen[chosen] = seen.get(chosen, 0) + 1
    # one after the other in proportion to exp(score / scale)
    weight = np.exp(scores / scale)
    pairs = list(itertools.permutations(range(4), 2))
    total = weight.sum()
    expected = [weight[i] / total * weight[j] / (total - weight[i]) for i, j in pairs]
    observed = [seen.get(pair, 0) for pair in pairs]
    assert stats.chisquare(observed, draws * np.array(expected)).pvalue > 1e-6


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(1, 6),
    bits=st.sampled_from([3, 64]),
    scale=st.floats(0.01, 100),
)
def test_few_bits_are_completed_until_they_decide(seed, size, bits, scale):
    source = np.random.default_rng(seed)
    scores = source.standard_normal(size)
    prefixes = source.integers(0, 2**bits, size, dtype=np.uint64).tolist()
    count = int(source.integers(1, size + 1))
    found = _exactly(scores, scale, count, prefixes, bits, np.random.default_rng(seed))
    again, whole, num_bits = np.random.default_rng(seed), prefixes, bits
    while num_bits < 400:
        more = again.integers(0, 2**64, size=size, dtype=np.uint64).tolist()
        whole, num_bits = [(w << 64) | m for w, m in zip(whole, more)], num_bits + 64
    with mpmath.workprec(600):
        noisy = [
            mpmath.mpf(score)
            - mpmath.mpf(scale)
            * mpmath.log(-mpmath.log(1 - mpmath.mpf(2 * w + 1) / mpmath.mpf(2) ** (num_bits + 1)))
            for score, w in zip(scores.tolist(), whole)
        ]
    expected = sorted(range(size), key=lambda i: noisy[i], reverse=True)[:count]
    assert found.tolist() == expected


def test_the_slow_path_agrees_with_the_fast_one(monkeypatch):
    scores = np.linspace(0, 2, 30)

    def drawn() -> list[list[int]]:
        return [
            largest_with_gumbel(scores, 0.5, 5, rng=np.random.default_rng(seed)).tolist()
            for seed in range(10)
        ]

    fast = drawn()
    monkeypatch.setattr(exact_selection, "_is_settled", lambda *given: False)
    assert drawn() == fast


def test_equal_noisy_scores_are_never_taken_for_settled():
    low = high = np.array([1.0, 1.0, 0.0])
    assert not exact_selection._is_settled(low, high, np.array([0, 1, 2]), 1)
    assert exact_selection._is_settled(low, high, np.array([0, 1, 2])[[2]], 1)


@pytest.mark.parametrize("extreme", [0, 2**64 - 1])
def test_bits_that_say_too_little_are_completed(monkeypatch, extreme):
    class Bits:
        """The given bits first, then real ones."""

        def __init__(self) -> None:
            self.given, self.rng = np.array([extreme, 2**63, 2**62], dtype=np.uint64), None

        def integers(self, low, high, size, dtype):
            first, self.rng = self.rng is None, self.rng or np.random.default_rng(0)
            return self.given if first else self.rng.integers(low, high, size, dtype)

    calls = []
    monkeypatch.setattr(
        exact_selection, "_exactly", lambda *given: calls.append(1) or _exactly(*given)
    )
    # G of no bit set is above 44, who knows how far: it could pass 60
    scores = np.array([0.0, 60.0 if extreme == 0 else 0.0, 0.0])
    chosen = largest_with_gumbel(scores, 1.0, 3, rng=Bits())  # type: ignore[arg-type]
    assert chosen.tolist() == ([1, 0, 2] if extreme == 0 else [2, 1, 0])
    assert calls == [1]


@pytest.mark.parametrize(("scale", "count"), [(0.0, 1), (math.nan, 1), (1.0, 0), (1.0, 4)])
def test_a_scale_or_count_out_of_range_is_refused(scale, count):
    with pytest.raises(ValueError, match="must be"):
        largest_with_gumbel(np.zeros(3), scale, count, rng=np.random.default_rng(0))
