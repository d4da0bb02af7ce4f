"""Composition by FFT: against direct sums, closed forms, and masses far below the rounding of a transform."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from dpgnn.accountants import convolution, gdp, pld
from dpgnn.accountants.loss import DiscreteLoss, everything, nothing
from dpgnn.accountants.mixtures import gaussian_pair

DELTAS = (1e-2, 1e-4, 1e-6, 1e-9, 1e-12, 1e-15)


def a_loss(seed: int, size: int, lower: int, step: float = 0.01) -> DiscreteLoss:
    """Random masses over many orders of magnitude, a tenth of them zero."""
    rng = np.random.default_rng(seed)
    mass = 10 ** rng.uniform(-14, 0, size) * (rng.random(size) > 0.1)
    mass[rng.integers(size)] = 1.0
    infinity = 10 ** rng.uniform(-20, -16)
    return DiscreteLoss(step=step, lower=lower, mass=mass / mass.sum(), infinity_mass=infinity)


def directly(parts: list[tuple[DiscreteLoss, int]]) -> DiscreteLoss:
    """The sum without any transform: every mass is exact to its own rounding."""
    mass, lower, log_kept = np.ones(1), 0, 0.0
    for loss, count in parts:
        for _ in range(count):
            mass, lower = np.convolve(mass, loss.mass), lower + loss.lower
            log_kept += math.log1p(-loss.infinity_mass)
    return DiscreteLoss(
        step=parts[0][0].step, lower=lower, mass=mass, infinity_mass=-math.expm1(log_kept)
    )


def given_back(parts: list[tuple[DiscreteLoss, int]]) -> float:
    """What a transformed sum may exceed the true delta by: docs/accounting.md, "Rounding of compositions".

    Where plain masses meet tilted ones both are off by `error`, and the plain ones get as much back. Masses
    that fall by `fall` a point, `error` / `one` at first, are added from there, and two `error` at the end.
    """
    step = parts[0][0].step
    error, fall = convolution._sum(parts).error, convolution._tilt(parts) * step
    one = 1 / math.expm1(fall) - 1 / math.expm1(fall + step)
    return error * (3 + math.exp(fall) * (2 + 1 / one / -math.expm1(-fall)))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(1, 60),
    lower=st.integers(-40, 20),
    counts=st.tuples(st.integers(1, 6), st.integers(0, 3)),
    transformed=st.booleans(),
)
def test_no_epsilon_is_below_the_direct_sum_and_no_delta_far_above(
    seed: int, size: int, lower: int, counts: tuple[int, int], transformed: bool
) -> None:
    parts = [(a_loss(seed, size, lower), counts[0])]
    if counts[1]:
        parts.append((a_loss(seed + 1, 2 * size, lower - 3), counts[1]))
    with mock.patch.object(convolution, "DIRECT_POINTS", 0 if transformed else 4096):
        found = convolution.convolve(parts)
    assert isinstance(found, DiscreteLoss)
    exact = directly(parts)
    allowed = given_back(parts) if transformed else 1e-20
    for delta in DELTAS:
        assert found.epsilon(delta) >= exact.epsilon(delta) * (1 - 1e-12)
    for epsilon in np.linspace(0.0, float(exact.losses[-1]), 9):
        true, at = exact.delta(float(epsilon)), found.delta(float(epsilon))
        assert true * (1 - 1e-12) <= at <= true * (1 + 1e-9) + allowed


@pytest.mark.parametrize("refined", [1, 4, 16])
@pytest.mark.parametrize("epsilon", [0.0, 5.0, 10.0, 19.0, 20.2])
def test_a_bounded_loss_is_exact_up_to_its_largest_value(refined: int, epsilon: float) -> None:
    one, zero, runs = 0.6, 0.3, 30
    ones = np.arange(runs + 1)
    losses = ones * math.log(one / zero) + (runs - ones) * math.log((1 - one) / (1 - zero))
    exact = float(binom.pmf(ones, runs, one) @ np.maximum(0.0, -np.expm1(epsilon - losses)))
    loss = pld.response_loss(one, zero, 1e-3 / refined).self_compose(runs)
    assert exact <= loss.delta(epsilon) <= exact * (1 + 1e-2 / refined + 1e-3)


@pytest.mark.parametrize("count", [2, 100, 10_000])
@pytest.mark.parametrize("mu", [0.1, 1.0, 5.0])
def test_gaussians_are_bounded_tightly_down_to_the_smallest_deltas(count: int, mu: float) -> None:
    step = min(1e-3, 2e-3 * mu, 0.01 / count**0.5)
    loss = pld.mixture_loss(gaussian_pair(mu / count**0.5), step).self_compose(count)
    for delta in DELTAS:
        exact = gdp.epsilon(mu, delta)
        assert exact <= loss.epsilon(delta) <= exact * (1 + 2e-3)


def test_two_halves_cost_what_the_whole_does() -> None:
    one = a_loss(3, 50, -20)
    whole, halves = one.self_compose(8), one.self_compose(4).compose(one.self_compose(4))
    for delta in DELTAS:
        assert halves.epsilon(delta) == pytest.approx(whole.epsilon(delta), rel=1e-6)


def test_what_tells_nothing_or_everything_composes_as_it_should() -> None:
    one = a_loss(5, 30, -10)
    same = one.compose(nothing(one.step))
    for delta in DELTAS:
        assert same.epsilon(delta) == pytest.approx(one.epsilon(delta), rel=1e-6)
    assert one.compose(everything(one.step)).infinity_mass == 1.0
    assert everything(one.step).compose(one).infinity_mass == 1.0
    assert everything(one.step).self_compose(5).infinity_mass == 1.0


def rare_large(share: float) -> DiscreteLoss:
    """A loss of 0.01 with a small probability, else of 0, and none of infinity."""
    mass = np.array([1 - share, share])
    return DiscreteLoss(step=0.01, lower=0, mass=mass, infinity_mass=0.0)


@pytest.mark.parametrize("share", [1e-9, 1e-8, 1e-7])
def test_what_rounding_may_take_is_given_back_at_every_epsilon(share: float) -> None:
    """Theorem 8, rounding: E_t M exp(-t epsilon), beyond the last mass of the sum as well."""
    parts = [(rare_large(share), 42)]
    with mock.patch.object(convolution, "DIRECT_POINTS", 0):
        found = convolution.convolve(parts)
        tilt = convolution._tilt(parts)
        tilted = convolution._sum([(convolution._tilted(loss, tilt), n) for loss, n in parts])
    last = float(found.losses[-1])
    assert last < float(directly(parts).losses[-1]), "the sum is cut above"
    log_error = math.log(tilted.error)
    log_error += sum(n * convolution._log_mgf(loss, tilt) for loss, n in parts)
    for epsilon in (last - 0.01, last, last + 0.005):
        assert found.delta(epsilon) >= math.exp(log_error - tilt * epsilon)


def test_what_the_window_leaves_out_is_at_infinity() -> None:
    """Theorem 8 (c), where nothing else is: the sum is cut below and ends at its largest loss."""
    mass = np.full(301, 0.1 / 300)
    mass[-1] = 0.9
    parts = [(DiscreteLoss(step=0.01, lower=-150, mass=mass, infinity_mass=0.0), 40)]
    found, exact = convolution.convolve(parts), directly(parts)
    cut = float(exact.mass[: found.lower - exact.lower].sum())
    assert found.losses[-1] == exact.losses[-1]
    assert 0 < cut <= found.infinity_mass <= 1e-18


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.sampled_from([1, 2, 3, 7, 99, 100, 800, 15_625]))
def test_a_power_is_computed_wherever_it_is_not_zero(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    # absolute values from 1 down to where the power has vanished, most of them near that
    logs = rng.choice([-1.0, -700.0, -744.0, -745.2, -755.0, -760.5, -900.0], 400)
    logs = (logs + rng.uniform(-1, 1, 400)) / count
    values = np.exp(logs + 1j * rng.uniform(-math.pi, math.pi, 400))
    lasting = count * logs > convolution.VANISHES
    assert 0 < np.count_nonzero(lasting) < 400
    np.testing.assert_array_equal(convolution._power(values, count, lasting), values**count)
