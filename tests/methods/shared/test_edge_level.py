"""Gaussian noise for a budget at edge level."""

from __future__ import annotations

import pytest

from dpgnn.accountants import gdp
from dpgnn.accountants.events import GaussianRelease
from dpgnn.accountants.plan import Budget, Mechanism
from dpgnn.methods.shared.edge_level import gaussian_mechanism

BUDGET = Budget(epsilon=2.0, delta=1e-6)


def mechanism_of(sensitivity: float) -> Mechanism:
    return gaussian_mechanism(
        "sums",
        lambda noise: GaussianRelease(
            relation="add-remove", noise_stddev=noise, sensitivity=sensitivity
        ),
        BUDGET, sensitivity=sensitivity, num_hops=1, details={},
    )  # fmt: skip


@pytest.mark.parametrize("sensitivity", [1e-150, 1.0, 1e3])
def test_the_noise_is_the_least_for_the_budget(sensitivity: float) -> None:
    noise = mechanism_of(sensitivity).noise_stddev
    assert gdp.epsilon(sensitivity / noise, BUDGET.delta) <= BUDGET.epsilon
    assert gdp.epsilon(sensitivity / noise * (1 + 1e-9), BUDGET.delta) > BUDGET.epsilon


def test_a_sensitivity_whose_square_is_zero_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"sensitivity of a hop must have a square > 0, got 1e-300"
    ):
        mechanism_of(1e-300)
