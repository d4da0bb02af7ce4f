"""HeterPoisson's own figures, and what multivariate Laplace noise really hides."""

import math

import numpy as np
import pytest
from scipy import stats

from dpgnn.accountants.published_heterpoisson import (
    stated_epsilon,
    stated_stddev,
    step_rdp,
)

# training nodes, steps counted, M -> deviation at epsilon 2 and 8; batches of 4,096, delta n^-1.1
STATED = [
    (15773, 34, 1, 9.794, 2.812), (15773, 34, 3, 17.979, 5.155), (15773, 34, 5, 25.541, 7.316),
    (17976, 39, 1, 9.953, 2.854), (7598, 16, 1, 8.604, 2.476), (11001, 24, 1, 9.416, 2.708),
    (186372, 182, 1, 8.103, 2.281),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "steps", "degree", "at_two", "at_eight"), STATED)
def test_the_stated_deviation_is_that_of_the_code(nodes, steps, degree, at_two, at_eight):
    words = {"rate": 4096 / nodes, "max_degree": degree, "population": nodes}
    for target, deviation in ((2.0, at_two), (8.0, at_eight)):
        found = stated_stddev(target, steps, nodes**-1.1, **words)
        assert found == pytest.approx(deviation, abs=0.01)
        assert stated_epsilon(found, steps, nodes**-1.1, **words) <= target


def test_a_step_that_nobody_enters_but_the_root_is_one_laplace_release():
    deviation, orders = 2.0, np.array([2.0, 5.0])
    found = step_rdp(deviation, rate=1.0, max_degree=1, population=100, orders=orders)
    scale = deviation / math.sqrt(2)
    for order, value in zip(orders, found):
        ratio = 0.5 / scale
        inside = order / (2 * order - 1) * math.exp((order - 1) * ratio)
        inside += (order - 1) / (2 * order - 1) * math.exp(-order * ratio)
        assert value == pytest.approx(math.log(inside) / (order - 1), rel=1e-9)


@pytest.mark.parametrize(("nodes", "counted", "run", "true"), [
    (15773, 34, 36, 8.25), (17976, 39, 45, 8.64), (7598, 16, 18, 8.48), (11001, 24, 27, 8.50),
])  # fmt: skip
def test_steps_that_are_not_counted_cost_by_the_codes_own_formula(nodes, counted, run, true):
    words = {"rate": 4096 / nodes, "max_degree": 1, "population": nodes}
    deviation = stated_stddev(8.0, counted, nodes**-1.1, **words)
    found = stated_epsilon(deviation, run, nodes**-1.1, **words)
    assert found == pytest.approx(true, abs=0.03)


def hidden_scale_delta(epsilon: float, stddev: float, shift: float = 1.0) -> float:
    """delta of one release in many dimensions, in the limit in which the scale of the noise is seen.

    The noise is sqrt(E) times a Gaussian of deviation `stddev`, E exponential of mean 1; coordinates beside
    the shift reveal E, and then the rest is Gaussian: the mean over E of the Gaussian delta.

    Args:
        epsilon: in nats.
        stddev: of the Gaussian, in units of the shift.
        shift: > 0.

    Returns:
        in [0, 1], by quadrature.
    """
    from scipy.integrate import quad
    from scipy.stats import norm

    def given(scale: float) -> float:
        mu = shift / (stddev * math.sqrt(scale))
        return float(
            norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
        )

    found, _ = quad(
        lambda e: math.exp(-e) * given(e), 0, 60, points=(1e-4, 1e-2, 0.1, 1), limit=200
    )
    return float(found)


def test_in_many_dimensions_the_scale_of_the_noise_is_seen():
    assert hidden_scale_delta(1.0, math.sqrt(2)) == pytest.approx(0.187, abs=1e-3)
    assert hidden_scale_delta(0.236, 6.0) == pytest.approx(0.048, abs=1e-3)
    # one coordinate alone is Laplace noise of scale 1: (1, 0)
    rng, number, epsilon = np.random.default_rng(0), 100_000, 1.0
    scale = np.sqrt(rng.exponential(size=number))
    one = scale * rng.standard_normal(number) * math.sqrt(2)
    assert stats.kstest(one, "laplace").pvalue > 1e-3
    # who sees 49 more reads the scale, and then tests a shift of 1 in a Gaussian
    others = scale[:, None] * rng.standard_normal((number, 49)) * math.sqrt(2)
    seen = others.std(axis=1)
    threshold = 0.5 + seen**2 * epsilon  # of the likelihood ratio e^epsilon
    rates = [float((shift + one > threshold).mean()) for shift in (1.0, 0.0)]
    assert rates[0] - math.exp(epsilon) * rates[1] > 0.16
