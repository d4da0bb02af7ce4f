"""Limits, claim line, verdicts: exact coverage, and the false-alarm rate of 200 correct systems."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpgnn.accountants.composition import curve
from dpgnn.accountants.events import GaussianRelease, PoissonRoots, compose
from dpgnn.audits.statistics import ClaimLine, judge, rate_bounds

DELTA = 1e-5


def gaussian_line(mu):
    event = GaussianRelease(relation="replace-one", noise_stddev=1.0, sensitivity=mu)
    return ClaimLine.of(curve(event))


@pytest.mark.parametrize("rate", [0.003, 0.1, 0.5, 0.97])
@pytest.mark.parametrize("total", [5, 60])
def test_the_limits_fail_no_more_often_than_stated(rate, total):
    counts = np.arange(total + 1)
    weights = binom.pmf(counts, total, rate)
    limits = [rate_bounds(int(count), total, 0.01) for count in counts]
    assert weights[[low > rate for low, _ in limits]].sum() <= 0.01
    assert weights[[high < rate for _, high in limits]].sum() <= 0.01


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
def test_the_claim_line_of_a_gaussian_is_its_trade_off_curve(mu):
    line = gaussian_line(mu)
    for false_alarms in (1e-3, 0.02, 0.2, 0.7):
        exact = norm.cdf(norm.ppf(false_alarms) + mu)
        assert exact - 1e-9 <= line.highest_rate(false_alarms) <= exact + 2e-3


def test_the_bound_of_a_correct_gaussian_stays_below_its_epsilon_and_comes_near():
    from dpgnn.accountants import gdp

    rng = np.random.default_rng(0)
    scores = (rng.normal(2.0, 1, 20_000), rng.normal(0, 1, 20_000))
    verdict = judge(scores, gaussian_line(2.0), delta=DELTA, level=0.01)
    true = gdp.epsilon(2.0, DELTA)
    assert not verdict.rejected
    assert 3.0 < verdict.epsilon_lower_bound < true
    assert 0.8 * true < verdict.epsilon_gaussian_shape < true


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_false_claim_is_rejected_whichever_way_the_scores_point(swap, sign):
    rng = np.random.default_rng(1)
    scores = [sign * rng.normal(3.0, 1, 400), sign * rng.normal(0, 1, 400)]
    verdict = judge(
        tuple(scores[::-1] if swap else scores), gaussian_line(1.0), delta=0, level=1e-3
    )
    assert verdict.rejected


def step_scores(rng, runs, *, noise=1.0, d=4, q=0.1, steps=100):
    """Sums over steps of log likelihood ratios of the add-remove pair, noise scaled by `noise`."""
    sigma = 4.0
    grid = np.arange(-60, 60, 0.02)
    weights = binom.pmf(np.arange(d + 1), d, q)
    plus = sum(w * norm.pdf(grid, k, sigma) for k, w in enumerate(weights))
    minus = sum(
        w * norm.pdf(grid, -k, sigma) for k, w in enumerate(binom.pmf(np.arange(d), d - 1, q))
    )
    ratio = np.log(plus) - np.log(minus)
    world = [rng.binomial(d, q, (runs, steps)), -rng.binomial(d - 1, q, (runs, steps))]
    return tuple(
        np.interp(side + noise * sigma * rng.standard_normal(side.shape), grid, ratio).sum(axis=1)
        for side in world
    )


def step_line(d=4, q=0.1, steps=100):
    event = PoissonRoots(
        relation="add-remove", noise_stddev=4.0, clipping_norm=1.0, sampling_probability=q,
        d_plus=d, d_minus=d - 1,
    )  # fmt: skip
    return ClaimLine.of(curve(compose(event, steps)))


def test_of_200_audits_of_correct_systems_at_level_a_thousandth_at_most_two_accuse(record_property):
    line, rng = step_line(), np.random.default_rng(2)
    accused = sum(
        judge(step_scores(rng, 100), line, delta=DELTA, level=1e-3).rejected for _ in range(200)
    )
    low, high = rate_bounds(accused, 200, 0.025)
    record_property("false_alarms", f"{accused} of 200, rate in [{low:.4f}, {high:.4f}]")
    assert accused <= 2


def test_the_level_is_kept_and_not_only_by_being_timid():
    # at the edge of the claim (mu exact) and a loose level the limits are conservative, never above it
    line, rng = gaussian_line(1.0), np.random.default_rng(3)
    accused = 0
    for _ in range(150):
        scores = (rng.normal(1.0, 1, 60), rng.normal(0, 1, 60))
        accused += judge(scores, line, delta=DELTA, level=0.2).rejected
    assert accused <= binom.ppf(0.999, 150, 0.2)


def test_halved_noise_is_noticed_from_its_scores_alone():
    line, rng = step_line(), np.random.default_rng(4)
    verdict = judge(step_scores(rng, 3000, noise=0.5), line, delta=DELTA, level=1e-3)
    assert verdict.rejected
    assert not judge(step_scores(rng, 3000), line, delta=DELTA, level=1e-3).rejected


def test_no_run_and_no_bound_without_enough_runs():
    with pytest.raises(ValueError, match="runs must be at least 4 a world"):
        judge((np.zeros(3), np.zeros(3)), gaussian_line(1.0), delta=DELTA, level=0.01)
    verdict = judge((np.zeros(8), np.zeros(8)), gaussian_line(1.0), delta=DELTA, level=0.01)
    assert verdict.epsilon_lower_bound == 0.0
    assert math.isfinite(verdict.allowed_rate)


@pytest.mark.parametrize("level", [0.5, 0.05, 1e-3, 1e-8])
def test_a_claim_is_rejected_exactly_where_its_p_value_is_below_the_level(level):
    rng = np.random.default_rng(3)
    scores = rng.standard_normal(400) + 1.5, rng.standard_normal(400)
    found = judge(scores, gaussian_line(0.5), delta=1e-5, level=level)
    assert found.rejected == (found.p_value <= level)


def test_p_values_of_a_true_claim_are_small_no_more_often_than_stated():
    rng, line, small = np.random.default_rng(4), gaussian_line(1.0), 0
    for _ in range(100):
        scores = rng.standard_normal(60) + 1.0, rng.standard_normal(60)
        small += judge(scores, line, delta=1e-5, level=0.05).p_value <= 0.3
    assert small <= binom.ppf(0.999, 100, 0.3)


def test_what_the_first_half_shows_alone_accuses_nobody_and_bounds_nothing():
    """The half that chooses tells the worlds apart with certainty, the half that is tested not at all."""
    rng = np.random.default_rng(5)
    told = rng.standard_normal(200) + 50.0, rng.standard_normal(200)
    alike = rng.standard_normal(200), rng.standard_normal(200)
    scores = tuple(np.concatenate(pair) for pair in zip(told, alike))
    found = judge(scores, gaussian_line(0.5), delta=DELTA, level=0.01)
    assert not found.rejected
    assert found.epsilon_lower_bound == 0.0


def test_no_half_chooses_and_is_tested():
    """Each half tells the worlds apart, in opposite directions: the cut of one fails on the other."""
    rng = np.random.default_rng(6)
    halves = [
        (rng.standard_normal(200) + sign * 50.0, rng.standard_normal(200)) for sign in (1, -1)
    ]
    scores = tuple(np.concatenate(pair) for pair in zip(*halves))
    found = judge(scores, gaussian_line(0.5), delta=DELTA, level=0.01)
    assert not found.rejected
    assert found.epsilon_lower_bound == 0.0
