"""Amplification by an outer subsample: the rule, its inverse, and brute force on a small mechanism."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgnn.accountants import amplification


@given(st.floats(0, 200), st.floats(1e-9, 0.05), st.floats(0.06, 1))
def test_before_inverts_amplified(epsilon, delta, rate):
    inner = amplification.before(epsilon, delta, rate)
    back = amplification.amplified(*inner, rate)
    assert back == (pytest.approx(epsilon, rel=1e-9, abs=1e-12), pytest.approx(delta))


def test_the_values_of_the_critique():
    assert amplification.amplified(100 / 9, 0.0, 0.09)[0] == pytest.approx(8.70332, rel=1e-5)
    assert amplification.amplified(800 / 9, 0.0, 0.09)[0] == pytest.approx(86.4809, rel=1e-5)
    assert amplification.amplified(1e6, 0.0, 0.5)[0] == pytest.approx(1e6 - math.log(2))
    assert amplification.amplified(math.inf, 0.1, 0.5) == (math.inf, 0.05)
    assert amplification.amplified(3.0, 0.1, 0.0) == (0.0, 0.0)


def test_a_response_on_a_sampled_bit_meets_the_rule_with_equality():
    # one record, kept with probability q, answered by randomised response; absent records answer a coin
    epsilon, rate = 1.3, 0.2
    kept = math.exp(epsilon) / (1 + math.exp(epsilon))
    one = rate * kept + (1 - rate) * (1 - kept)
    # worst case: the mechanism without the record is the other end of the range
    found = max(abs(math.log(one / (1 - kept))), abs(math.log((1 - one) / kept)))
    assert found == pytest.approx(amplification.amplified(epsilon, 0.0, rate)[0])


def test_multiplying_epsilon_by_the_rate_understates_every_large_budget():
    for epsilon in np.linspace(1.0, 50, 20):
        assert amplification.amplified(epsilon, 0.0, 0.09)[0] > 0.09 * epsilon


def test_bad_values_are_refused():
    with pytest.raises(ValueError, match="rate must be > 0"):
        amplification.before(1.0, 1e-5, 0.0)
    with pytest.raises(ValueError, match="delta / rate must be < 1"):
        amplification.before(1.0, 0.5, 0.1)
    with pytest.raises(ValueError, match="epsilon must be >= 0"):
        amplification.amplified(-1.0, 0.0, 0.1)
