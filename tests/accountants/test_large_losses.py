"""Losses of hundreds of nats and of many steps: what floating point cannot hold becomes infinite."""

import math

import numpy as np
import pytest
import zcdp_conversion

from dpgnn.accountants import calibration, composition, events, gdp, pld, rdp
from dpgnn.accountants.events import compose, compose_all
from dpgnn.accountants.loss import DiscreteLoss

DELTA = 1e-5


def top_k(scale, num_selected=1):
    return events.GumbelTopK(
        relation="replace-one", scale=scale, score_sensitivity=1.0, num_selected=num_selected
    )


def epsilon(event, accountant="pld"):
    return composition.epsilon(event, delta=DELTA, relation=event.relation, accountant=accountant)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1 / 800, 1 / 340, 0.02, 0.5])
@pytest.mark.parametrize("count", [1, 70])
def test_selections_cost_at_least_what_two_candidates_tell(scale, count):
    # Scores (1, 0) against (0, 1): the first is chosen with probability 1/(1 + exp(-+1/scale)), so the losses
    # add up to count/scale when it is chosen every time.
    always = math.exp(-count * math.log1p(math.exp(-1 / scale)))
    least = count / scale + math.log1p(-DELTA / always) if always > DELTA else 0.0
    assert epsilon(compose(top_k(scale), count)) >= least


@pytest.mark.parametrize(("scale", "num_selected", "count"), [(0.3, 2, 70), (10.0, 5, 20_000)])
def test_the_curve_of_many_selections_answers_alike_both_ways(scale, num_selected, count):
    event = compose(top_k(scale, num_selected), count)
    curve = composition.curve(event)
    spent = curve.epsilon(DELTA)
    assert spent > 600
    assert math.isinf(spent) or curve.delta(spent) <= DELTA * (1 + 1e-9)
    assert curve.delta(min(spent, 1e3) / 2) > DELTA
    release = events.GaussianRelease(relation="replace-one", noise_stddev=50.0, sensitivity=1.0)
    assert epsilon(compose_all(event, release)) >= spent


def test_noise_is_found_from_a_start_that_is_much_too_small():
    def build(scale):
        return compose(top_k(scale, 2), 70)

    scale = calibration.calibrate_noise(
        build, target_epsilon=4.0, delta=DELTA, relation="replace-one", start=1e-3
    ).value
    assert 3.9 < epsilon(build(scale)) <= 4.0
    assert rdp.epsilon(build(scale), DELTA) <= 4.0 * (1 + 1e-3)


@pytest.mark.parametrize("top", [40.0, 700.0, 800.0, 5000.0])
def test_laplace_noise_far_below_the_sensitivity_costs_its_pure_epsilon(top):
    event = events.LaplaceRelease(relation="null-one", scale=1 / top, sensitivity=1.0)
    # delta(e) = 1 - exp((e - top)/2)
    exact = top + 2 * math.log1p(-DELTA)
    assert exact - 1e-9 <= epsilon(event) <= top + 0.1
    assert epsilon(compose(event, 3)) >= 3 * top - 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1e-9])
def test_a_mass_that_is_no_mass_is_refused(bad):
    with pytest.raises(ValueError, match="mass must be finite and >= 0"):
        DiscreteLoss(step=1e-3, lower=0, mass=np.array([0.5, bad]), infinity_mass=0.0)
    with pytest.raises(ValueError, match="infinity_mass must be finite and >= 0"):
        DiscreteLoss(step=1e-3, lower=0, mass=np.array([0.5]), infinity_mass=bad)


def test_what_the_profile_has_left_at_the_end_of_the_grid_is_infinite():
    loss = pld.top_k_loss(top_k(0.4, 2), 70, 1e-2)
    rho = 70 * 2 * 5.0**2 / 8
    assert (
        zcdp_conversion.delta(700.0, rho) <= loss.infinity_mass <= zcdp_conversion.delta(690.0, rho)
    )
    assert loss.delta(1e4) == loss.infinity_mass


@pytest.mark.parametrize(
    ("mu", "count"),
    [(0.01, 10_000), (0.01, 12_000), (0.01, 30_000), (0.003, 100_000), (0.002, 1_000_000)],
)
def test_long_compositions_are_not_below_their_closed_form(poisson, mu, count):
    # a rate of almost one: the Gaussian, composed by Fourier transforms
    curve = composition.curve(compose(poisson(1 / mu, 1 - 1e-12, 1, 0), count))
    whole = mu * math.sqrt(count)
    for delta in (1e-5, 1e-8, 1e-10, 1e-12, 1e-15):
        exact = gdp.epsilon(whole, delta)
        assert exact <= curve.epsilon(delta) <= exact * (1 + 1e-3)
