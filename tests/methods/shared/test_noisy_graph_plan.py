"""Randomised response as doubles: within its epsilon, and never certain."""

from __future__ import annotations

import math

import pytest

from dpgnn.methods.shared.noisy_graph_plan import truthful


@pytest.mark.parametrize(
    "epsilon", [1e-9, 0.1, 1.0, 8.0, 30.0, 36.0, 37.0, 100.0, 745.0, 800.0, 1e6]
)
def test_answers_spend_at_most_epsilon_and_are_never_certain(epsilon: float) -> None:
    truth, lie = truthful(epsilon)
    assert 2.0**-53 <= lie <= 0.5 <= truth < 1.0
    assert truth + lie == 1.0
    assert math.log(truth / lie) <= epsilon * (1 + 1e-15)
