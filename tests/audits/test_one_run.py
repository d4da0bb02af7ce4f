"""The one-run bound: exact for randomised response, never above the truth more often than stated."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom

from dpgnn.accountants import gdp
from dpgnn.accountants.composition import PrivacyCurve
from dpgnn.audits.one_run import guess, lower_bound, tail, tail_of_line
from dpgnn.audits.statistics import ClaimLine


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


@pytest.mark.parametrize(("m", "r", "c"), [(6, 4, 3), (9, 9, 7), (12, 6, 6), (20, 12, 8)])
@pytest.mark.parametrize("pair", [(0.5, 0.0), (1.0, 0.01), (0.2, 0.05)])
def test_the_tail_of_a_line_is_the_largest_that_all_its_constraints_admit(m, r, c, pair):
    """The same maximum by linear programming over the probabilities of 0..r right guesses."""
    line = ClaimLine.of_pair(*pair)
    rows, limits = [], []
    counts = np.arange(r + 1)
    for v in range(1, c + 1):
        right = np.where(counts >= v, counts / m, 0.0)
        wrong = np.where(counts >= v - 1, (r - counts) / m, 0.0)
        for factor, delta in zip(line.factors, line.deltas):
            rows.append(right - factor * wrong)
            limits.append(delta)
    objective = -(counts >= c).astype(float)
    found = linprog(objective, A_ub=rows, b_ub=limits, A_eq=[np.ones(r + 1)], b_eq=[1.0])
    assert tail_of_line(m, r, c, line) == pytest.approx(-found.fun, abs=1e-6)


def _gaussian_guesses(mu, m, rng):
    inside = rng.random(m) < 0.5
    return mu * inside + rng.standard_normal(m), inside


def test_a_true_gaussian_claim_has_a_small_p_value_no_more_often_than_stated():
    rng, level, low = np.random.default_rng(1), 0.2, 0
    line = ClaimLine.of(PrivacyCurve(mu=2.0))
    for _ in range(150):
        scores, inside = _gaussian_guesses(2.0, 40, rng)
        low += guess(scores, inside, delta=1e-5, level=0.05, line=line).p_value <= level
    assert low <= binom.ppf(0.999, 150, level)


def test_a_claim_curve_sees_noise_that_a_single_pair_of_epsilon_and_delta_does_not():
    scores, inside = _gaussian_guesses(1.0, 1000, np.random.default_rng(0))
    line = ClaimLine.of(PrivacyCurve(mu=0.5))
    found = guess(scores, inside, delta=1e-5, level=0.05, line=line)
    assert found.p_value < 0.05
    assert tail(1000, found.num_guesses, found.num_correct, gdp.epsilon(0.5, 1e-5), 1e-5) > 0.5


def test_the_analysis_that_gives_the_larger_bound_is_chosen_without_the_coins():
    scores, inside = _gaussian_guesses(3.0, 1000, np.random.default_rng(2))
    found = guess(scores, inside, delta=1e-3, level=0.05, guessed_share=0.1)
    assert found.analysis == "f-DP"
    other = lower_bound(1000, found.num_guesses, found.num_correct, delta=1e-3, level=0.05)
    assert found.epsilon_lower_bound > other
