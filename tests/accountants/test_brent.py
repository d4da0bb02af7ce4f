"""The root finder against scipy's, bit by bit."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from dpgnn.accountants import gdp
from dpgnn.accountants.brent import root

FUNCTIONS = {
    "cubic": lambda x, a: x**3 - a,
    "steep": lambda x, a: math.expm1(min(x * 40, 700)) - a,
    "flat": lambda x, a: math.atan(x - a) ** 5,
    "stairs": lambda x, a: math.floor(3 * x) - 3 * a + 0.5,
    "kinked": lambda x, a: abs(x) - 2 * a if x < a else 5 * (x - a) + abs(a) / 3 - a,
    "infinite": lambda x, a: -math.inf if x < a else x - a + 1e-3,
    "numpy": lambda x, a: np.log(np.float64(x) + 200) - math.log(a + 150),
}


def _both(function, low, high, **tolerances):
    """What both do: the root, or the kind of error, and every point tried."""
    found = []
    for finder in (root, brentq):
        tried = []
        try:
            answer = finder(
                lambda x, t=tried: (t.append(x), function(x))[1], low, high, **tolerances
            )
        except (ValueError, RuntimeError) as error:
            answer = type(error)
        found.append((answer, tried))
    return found


@given(
    st.sampled_from(sorted(FUNCTIONS)),
    st.floats(-20, 20),
    st.floats(-100, 100),
    st.floats(-100, 100),
    st.sampled_from([{}, {"xtol": 1e-14}, {"xtol": 1e-13, "rtol": 1e-14}, {"rtol": 1e-13}]),
)
@settings(max_examples=1500, deadline=None)
def test_points_and_roots_are_scipys(name, a, low, high, tolerances):
    ours, scipys = _both(lambda x: FUNCTIONS[name](x, a), low, high, **tolerances)
    assert ours == scipys


@given(st.floats(0.01, 30), st.floats(1e-12, 0.3))
def test_epsilons_of_gaussian_releases_are_those_scipy_gives(mu, delta):
    target = math.log(delta)
    high = mu * mu / 2 + mu * math.sqrt(2 * -target) + 1e-9

    def excess(epsilon):
        value = gdp.delta(epsilon, mu)
        return (math.log(value) if value > 0 else -745.0) - target

    ours, scipys = _both(excess, 0.0, high, xtol=1e-13, rtol=1e-14)
    assert ours == scipys


def test_what_is_no_bracket_or_no_number_is_refused():
    with pytest.raises(ValueError, match="function must be of different signs at both ends"):
        root(lambda x: x * x + 1, -1.0, 1.0)
    with pytest.raises(ValueError, match="function must be a number at"):
        root(lambda x: math.nan if x == 0 else x, -1.0, 1.0)
    assert root(lambda x: x, 0.0, 1.0) == 0.0
    assert root(lambda x: x - 1, 0.0, 1.0) == 1.0
