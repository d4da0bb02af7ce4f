"""Exact Gaussian accounting: closed forms, inverse pairs, the contraction's K_eff, the printed tables."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import norm

from dpgnn.accountants import calibration, gdp, published
from dpgnn.accountants.events import ContractiveIteration, GaussianRelease, compose


@given(st.floats(0.01, 20), st.floats(-3, 30))
def test_delta_is_the_textbook_formula(mu, epsilon):
    plain = norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
    assert gdp.delta(epsilon, mu) == pytest.approx(plain, abs=1e-12, rel=1e-7)


@given(st.floats(0.01, 50), st.floats(1e-12, 0.3))
def test_epsilon_and_delta_are_inverse_and_epsilon_errs_upwards(mu, delta):
    epsilon = gdp.epsilon(mu, delta)
    assert gdp.delta(epsilon, mu) <= delta
    if epsilon > 0:
        assert gdp.delta(epsilon * (1 - 1e-9), mu) >= delta * (1 - 1e-6)


@given(st.floats(0.01, 40), st.floats(1e-12, 0.3))
def test_mu_and_epsilon_are_inverse_and_mu_errs_downwards(epsilon, delta):
    mu = gdp.mu(epsilon, delta)
    assert gdp.delta(epsilon, mu) <= delta
    assert gdp.epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-6, abs=1e-9)


def test_extremes_are_answers():
    assert gdp.epsilon(0.0, 1e-6) == 0.0
    assert gdp.epsilon(math.inf, 1e-6) == math.inf
    assert gdp.delta(1.0, math.inf) == 1.0
    assert gdp.epsilon(1e200, 1e-6) == math.inf
    assert gdp.mu(1e300, 1e-6) == gdp.mu(gdp.LARGEST_BUDGET, 1e-6)
    assert 0 < gdp.mu(0.0, 1e-15) < 1e-14
    assert gdp.delta(0.0, gdp.mu(0.0, 1e-15)) <= 1e-15


@pytest.mark.parametrize("contraction", [0.3, 0.6, 0.9, 0.99])
@pytest.mark.parametrize("num_hops", [1, 2, 3, 5, 8])
def test_effective_hops_is_the_smallest_sum_of_squares_of_shifts(contraction, num_hops):
    # Shifted interpolation: z_t = c z_{t-1} + 1 - a_t >= 0, z_K = 0; mu^2 = sum a_t^2.
    powers = contraction ** np.arange(num_hops - 1, -1, -1.0)
    found = minimize(
        lambda a: float(a @ a),
        np.full(num_hops, 1.0),
        jac=lambda a: 2 * a,
        constraints={"type": "eq", "fun": lambda a: float(powers @ (a - 1.0))},
        bounds=[(0, None)] * num_hops,
        options={"ftol": 1e-15, "maxiter": 500},
    )
    assert gdp.effective_hops(num_hops, contraction) == pytest.approx(found.fun, rel=1e-7)
    shifts, state = found.x, 0.0
    for shift in shifts:  # the optimum is feasible: no state falls below zero
        state = contraction * state + 1 - shift
        assert state >= -1e-6


@pytest.mark.parametrize("contraction", [0.3, 0.9])
def test_effective_hops_is_attained_by_a_linear_map(contraction):
    # phi(x) = c x and phi'(x) = c x + s: the last states are Gaussians that can be told apart exactly.
    num_hops, sensitivity, noise = 7, 0.7, 2.0
    mean = sensitivity * sum(contraction**t for t in range(num_hops))
    stddev = noise * math.sqrt(sum(contraction ** (2 * t) for t in range(num_hops)))
    event = ContractiveIteration(
        relation="add-remove", noise_stddev=noise, sensitivity=sensitivity,
        num_hops=num_hops, contraction=contraction,
    )  # fmt: skip
    assert gdp.event_mu(event) == pytest.approx(mean / stddev, rel=1e-12)


@given(st.integers(1, 60), st.floats(0, 1))
def test_effective_hops_lies_between_one_and_all_hops(num_hops, contraction):
    value = gdp.effective_hops(num_hops, contraction)
    assert 1 - 1e-12 <= value <= num_hops * (1 + 1e-9)


def test_effective_hops_is_continuous_at_full_contraction_one():
    assert gdp.effective_hops(8, 1.0) == 8.0
    assert gdp.effective_hops(8, 1 - 1e-7) == pytest.approx(8.0, rel=1e-6)
    assert gdp.effective_hops(8, 0.0) == 1.0


def test_gaussian_releases_add_their_squares():
    first = GaussianRelease(relation="null-one", noise_stddev=2.0, sensitivity=3.0)
    assert gdp.total_mu(compose(first, 4)) == pytest.approx(3.0)


def test_effective_hops_table(vectors):
    for row in vectors["gdp"]["effective_hops"]:
        value = gdp.effective_hops(row["num_hops"], row["contraction"])
        assert value == pytest.approx(row["spec"], abs=6e-4)
        assert value == pytest.approx(row["value"], rel=1e-6)


def test_caribou_noise_table(vectors):
    for row in vectors["gdp"]["caribou_noise"]:
        hops = gdp.effective_hops(row["num_hops"], row["contraction"])
        by_rdp = 1 / calibration.smallest_meeting(
            lambda z, d=row["delta"]: published.gaussian_epsilon_by_rdp(1 / z, d),
            row["epsilon"], start=1.0, tolerance=1e-7,
        )  # fmt: skip
        exact = gdp.mu(row["epsilon"], row["delta"])
        ours = {
            "linear_rdp": math.sqrt(row["num_hops"]) / by_rdp,
            "linear_exact": math.sqrt(row["num_hops"]) / exact,
            "convergent_rdp": math.sqrt(hops) / by_rdp,
            "convergent_exact": math.sqrt(hops) / exact,
        }
        for name, value in ours.items():
            assert value == pytest.approx(row["spec"][name], abs=6e-4), (row, name)
            assert value == pytest.approx(row["value"][name], rel=1e-5), (row, name)


@pytest.mark.parametrize(
    ("num_hops", "contraction", "epsilon", "delta", "multiplier"),
    [(20, 0.9, 1.0, 1e-7, 18.048), (20, 0.9, 1.0, 1e-5, 14.391)],
)
def test_caribou_logged_multipliers(num_hops, contraction, epsilon, delta, multiplier):
    z = math.sqrt(gdp.effective_hops(num_hops, contraction)) / gdp.mu(epsilon, delta)
    assert z == pytest.approx(multiplier, abs=2e-3)
