"""The one-run bound: exact for randomised response, never above the truth more often than stated."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from dpgnn.audits.one_run import guess, lower_bound, tail


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_without_delta_the_tail_is_that_of_randomised_response(epsilon):
    rate = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert tail(40, 40, 30, epsilon, 0.0) == pytest.approx(binom.sf(29, 40, rate))


def test_delta_adds_two_m_delta_times_the_steepest_mean_of_the_lower_tail():
    m, r, v, delta = 30, 20, 15, 1e-3
    rate = math.e / (1 + math.e)
    alpha = max(
        (binom.cdf(v - 1, r, rate) - binom.cdf(v - i - 1, r, rate)) / i for i in range(1, v + 1)
    )
    expected = binom.sf(v - 1, r, rate) + 2 * m * delta * alpha
    assert tail(m, r, v, 1.0, delta) == pytest.approx(expected)


def test_the_bound_grows_with_right_guesses_and_saturates():
    bounds = [lower_bound(100, 50, v, delta=1e-5, level=0.05) for v in range(25, 51)]
    assert bounds == sorted(bounds)
    assert bounds[0] == 0.0
    assert 2.0 < bounds[-1] < math.log(50 / 0.05)


@pytest.mark.parametrize("epsilon", [0.3, 1.5])
def test_randomised_response_is_bounded_above_its_epsilon_no_more_often_than_stated(epsilon):
    rng, level, wrong = np.random.default_rng(0), 0.05, 0
    rate = math.exp(epsilon) / (1 + math.exp(epsilon))
    for _ in range(400):
        inside = rng.random(80) < 0.5
        answers = np.where(rng.random(80) < rate, inside, ~inside)
        scores = answers + 1e-6 * rng.random(80)
        found = guess(scores, inside, delta=0.0, level=level, guessed_share=0.5)
        wrong += found.epsilon_lower_bound > epsilon
    assert wrong <= binom.ppf(0.999, 400, level)


def test_more_right_guesses_than_guesses_are_refused():
    with pytest.raises(ValueError, match="num_correct"):
        tail(10, 5, 6, 1.0, 0.0)
