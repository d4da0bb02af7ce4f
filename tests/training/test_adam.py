"""Adam's two passes against the formulas of the paper, in float64."""

from __future__ import annotations

import numpy as np

from dpgnn.training._adam import moments, move


def test_two_steps_are_algorithm_1() -> None:
    rng = np.random.default_rng(0)
    x, first, second, quotient = rng.standard_normal(50), *np.zeros((3, 50))
    mine, m, v = x.copy(), np.zeros(50), np.zeros(50)
    for step in (1, 2, 3):
        g = rng.standard_normal(50)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        mine -= 0.01 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
        moments(g, first, second, quotient, 1 - 0.9, 0.999, 1 - 0.999, 1 - 0.999**step)
        move(x, first, np.sqrt(quotient), 1e-8, -0.01 / (1 - 0.9**step))
    np.testing.assert_allclose(first, m, rtol=1e-12)
    np.testing.assert_allclose(second, v, rtol=1e-12)
    np.testing.assert_allclose(x, mine, rtol=1e-12)
