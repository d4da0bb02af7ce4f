from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import optimize

from dpgnn.accountants import gdp
from dpgnn.accountants._brent import brentq


def functions(seed: int) -> list[Callable[[float], float]]:
    a, b, c, d = np.random.default_rng(seed).normal(size=4) * 10.0
    return [
        lambda x: a * x**3 + b * x * x + c * x + d,
        lambda x: math.tanh(a * x) + b / 20,
        lambda x: math.exp(min(a * x, 300)) - abs(b),
        lambda x: abs(a) * (x - c),
        lambda x: math.copysign(
            1.0, x - c
        ),  # flat on both sides: no line through two points is of use
    ]


@pytest.mark.parametrize(("xtol", "rtol"), [(1e-13, 1e-14), (1e-14, 2**-50), (2e-12, 1e-6)])
def test_the_same_bits_as_scipy(xtol: float, rtol: float) -> None:
    rng, compared = np.random.default_rng(1), 0
    for seed in range(200):
        for function in functions(seed):
            low, high = sorted(rng.normal(size=2) * 10)
            if function(low) * function(high) <= 0:
                theirs = optimize.brentq(function, low, high, xtol=xtol, rtol=rtol)
                assert brentq(function, low, high, xtol=xtol, rtol=rtol) == theirs
                compared += 1
    assert compared > 200


def test_a_root_at_an_end_is_found_and_equal_signs_are_an_error() -> None:
    assert brentq(lambda x: x, 0.0, 1.0, xtol=1e-9, rtol=0.0) == 0.0
    assert brentq(lambda x: x - 1, 0.0, 1.0, xtol=1e-9, rtol=0.0) == 1.0
    with pytest.raises(ValueError, match="function must change its sign"):
        brentq(lambda x: 1 + x * x, 0.0, 1.0, xtol=1e-9, rtol=0.0)
    with pytest.raises(ValueError, match="a root must be found in 100 steps"):
        brentq(lambda x: math.copysign(1.0, x - 1e-300), -1e300, 1e300, xtol=0.0, rtol=0.0)


def test_epsilon_and_mu_are_what_they_are_with_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    cases = [(10 ** rng.uniform(-3, 1.5), 10 ** rng.uniform(-9, -1)) for _ in range(200)]
    ours = [(gdp.epsilon(a, delta), gdp.mu(a, delta)) for a, delta in cases]
    monkeypatch.setattr(gdp, "brentq", optimize.brentq)
    assert ours == [(gdp.epsilon(a, delta), gdp.mu(a, delta)) for a, delta in cases]
