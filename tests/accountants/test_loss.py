"""Discrete losses: connect-the-dots keeps both masses, sums only err upwards, epsilon inverts delta."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

from dpgnn.accountants import loss as losses
from dpgnn.accountants._kernels import discounted_sums
from dpgnn.accountants.loss import DiscreteLoss, everything, from_atoms, from_cells, nothing

probabilities = st.lists(st.floats(1e-6, 1), min_size=2, max_size=12)


def laws(p, q):
    p, q = np.array(p), np.array(q[: len(p)] + [0.5] * (len(p) - len(q)))
    return p / p.sum(), q / q.sum()


def divergence(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@given(probabilities, probabilities, st.sampled_from([0.01, 0.1, 0.7]))
def test_atoms_keep_both_masses_and_never_lower_the_divergence(p, q, step):
    p, q = laws(p, q)
    loss = from_atoms(np.log(p / q), p, step=step)
    assert loss.mass.sum() == pytest.approx(1.0)
    assert loss.mass @ np.exp(-loss.losses) == pytest.approx(1.0)
    for epsilon in (-2.0, -0.3, 0.0, 0.25, 1.0, 3.0):
        exact = divergence(p, q, epsilon)
        assert loss.delta(epsilon) >= exact - 1e-12
        # spreading a loss over one cell adds at most step/4 of mass, roughly
        assert loss.delta(epsilon) <= exact + step / 3


@given(probabilities, probabilities)
def test_at_grid_points_the_divergence_is_exact_when_losses_lie_on_the_grid(p, q):
    p, q = laws(p, q)
    step = 0.05
    ratio = np.round(np.log(p / q) / step) * step
    q = p * np.exp(-ratio)
    loss = from_atoms(ratio, p, step=step)
    for epsilon in (0.0, 0.5, 1.0):
        assert loss.delta(epsilon) == pytest.approx(divergence(p, q, epsilon), abs=1e-9)


def test_cells_keep_both_masses():
    rng = np.random.default_rng(0)
    step, lower = 0.1, -4
    p = rng.random(8)
    p /= p.sum()
    inside = (lower + np.arange(8) + rng.random(8)) * step
    q = p * np.exp(-inside)
    loss = from_cells(p, q, lower=lower, step=step, infinity_mass=0.0)
    assert loss.mass.sum() == pytest.approx(p.sum())
    assert loss.mass @ np.exp(-loss.losses) == pytest.approx(q.sum())
    assert (loss.mass >= 0).all()


@settings(deadline=None)
@given(probabilities, probabilities, st.integers(2, 6))
def test_self_composition_equals_repeated_composition(p, q, count):
    p, q = laws(p, q)
    once = from_atoms(np.log(p / q), p, step=0.05)
    by_hand = once
    for _ in range(count - 1):
        by_hand = by_hand.compose(once)
    fast = once.self_compose(count)
    for epsilon in (0.0, 0.4, 2.0):
        assert fast.delta(epsilon) == pytest.approx(by_hand.delta(epsilon), abs=1e-10)


@given(probabilities, probabilities, st.floats(1e-6, 0.5))
def test_epsilon_is_the_smallest_that_meets_delta(p, q, delta):
    p, q = laws(p, q)
    loss = from_atoms(np.log(p / q), p, step=0.03)
    epsilon = loss.epsilon(delta)
    assert loss.delta(epsilon) <= delta * (1 + 1e-9) + 1e-13
    if epsilon > 0:
        assert loss.delta(epsilon - 1e-6) >= delta * (1 - 1e-9) - 1e-13


def test_composition_agrees_with_the_product_of_the_laws():
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    loss = from_atoms(np.log(p / q), p, step=1e-3).self_compose(4)
    pp, qq = p, q
    for _ in range(3):
        pp, qq = np.outer(pp, p).ravel(), np.outer(qq, q).ravel()
    for epsilon in (0.0, 0.5, 1.7):
        exact = divergence(pp, qq, epsilon)
        assert exact <= loss.delta(epsilon) <= exact + 1e-4


def test_infinite_losses_compose_as_chances():
    once = from_atoms(np.array([0.0]), np.array([0.9]), step=0.1, infinity_mass=0.1)
    assert once.self_compose(3).infinity_mass == pytest.approx(1 - 0.9**3, abs=2e-15)
    assert once.compose(once).infinity_mass == pytest.approx(0.19)
    assert once.self_compose(3).epsilon(0.2) == math.inf
    assert once.delta(math.inf) == pytest.approx(0.1)


def test_large_losses_neither_overflow_nor_lose_mass():
    loss = from_atoms(np.array([-2000.0, 1500.0]), np.array([0.5, 0.5]), step=0.5)
    assert loss.delta(1000.0) == pytest.approx(0.5)
    assert loss.epsilon(0.1) == pytest.approx(1500.0, abs=1.0)


def test_truncation_moves_the_upper_tail_to_infinity_and_the_lower_one_up():
    mass = np.array([1e-21, 0.5, 0.5, 1e-21])
    cut = DiscreteLoss(step=0.1, lower=-1, mass=mass, infinity_mass=0.0).truncated()
    assert cut.infinity_mass == pytest.approx(1e-21)
    assert len(cut.mass) == 2
    assert cut.mass.sum() == pytest.approx(1.0)


def test_a_loss_that_is_infinite_all_but_surely_can_be_composed():
    almost = DiscreteLoss(step=0.1, lower=-3, mass=np.full(4, 1e-30), infinity_mass=1.0)
    both = almost.compose(almost)
    assert both.infinity_mass == 1.0
    assert both.delta(5.0) == 1.0
    assert both.epsilon(1e-5) == np.inf


def test_a_response_that_is_certain_but_for_rounding_tells_everything_in_a_composition():
    """Weakened answers round to certainty on one side and keep a mass of 5e-32 on the other."""
    from dpgnn.accountants.composition import curve
    from dpgnn.accountants.events import LaplaceRelease, RandomizedResponse, compose_all

    answers = RandomizedResponse(relation="add-remove", one_if_one=1.0, one_if_zero=5e-32)
    density = LaplaceRelease(relation="add-remove", scale=0.125, sensitivity=1.0)
    both = curve(compose_all(density, answers))
    assert both.delta(20.0) == pytest.approx(1.0)
    assert both.epsilon(0.5) == math.inf


def test_nothing_and_everything():
    assert nothing(0.1).epsilon(1e-9) == 0.0
    assert everything(0.1).epsilon(0.5) == math.inf
    assert everything(0.1).self_compose(5).infinity_mass == 1.0


def test_two_grids_do_not_mix():
    with pytest.raises(ValueError, match=r"step must equal 0\.1, got 0\.2"):
        nothing(0.1).compose(nothing(0.2))


def test_the_window_of_a_sum_holds_all_but_the_tails():
    rng = np.random.default_rng(1)
    p = rng.random(40)
    once = DiscreteLoss(step=0.01, lower=-15, mass=p / p.sum(), infinity_mass=0.0)
    total = once.self_compose(500)
    assert total.mass.sum() == pytest.approx(1.0, abs=1e-9)
    mean = 500 * float(once.mass @ once.losses)
    assert float(total.mass @ total.losses) == pytest.approx(mean, abs=1e-7)
    assert losses.TAIL_MASS <= 1e-18


@settings(max_examples=50, deadline=None)
@given(
    values=st.lists(st.floats(0, 1), min_size=1, max_size=200),
    factor=st.one_of(st.just(0.0), st.floats(0.5, 1.0)),
)
def test_the_compiled_recursion_has_the_bits_of_scipys_filter(values, factor):
    mass = np.array(values)
    expected = lfilter([1.0], [1.0, -factor], mass[::-1])
    assert discounted_sums(mass[::-1], factor).tobytes() == expected.tobytes()
