from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath.ctx_iv import MPIntervalContext
from scipy import stats

from dpgnn.core import rounded_noise
from dpgnn.core.rounded_noise import GAUSSIAN, LAPLACE, Uniform, add_rounded, grid_of, nearest_step

LAWS = {"gaussian": (GAUSSIAN, stats.norm), "laplace": (LAPLACE, stats.laplace)}


def exact_quantile(p: mpmath.mpf, law: str) -> mpmath.mpf:
    """z with P(Z < z) = p, at mpmath's precision."""
    if law == "gaussian":
        return mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)
    return mpmath.log(2 * p) if 2 * p < 1 else -mpmath.log(2 * (1 - p))


@pytest.mark.parametrize("law", LAWS)
def test_a_fine_grid_shows_the_real_law(law):
    noise, reference = LAWS[law]
    values = add_rounded(np.full(50_000, 0.1), 3.7, rng=np.random.default_rng(1), law=noise)
    assert stats.kstest((values - 0.1) / 3.7, reference.cdf).pvalue > 1e-6
    assert np.array_equal(values / grid_of(3.7), np.rint(values / grid_of(3.7)))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("total", [0.0, 0.3, -7.5])
def test_cells_of_a_coarse_grid_have_their_closed_form_probabilities(law, total):
    noise, reference = LAWS[law]
    size, scale = 20_000, 2.0
    rng = np.random.default_rng(2)
    values = add_rounded(np.full(size, total), scale, rng=rng, law=noise, grid=1.0)
    edges = np.concatenate([[-math.inf], round(total) + np.arange(-7, 8) + 0.5, [math.inf]])
    expected = size * np.diff(reference.cdf((edges - total) / scale))
    seen, _ = np.histogram(values, edges)
    assert stats.chisquare(seen, expected).pvalue > 1e-6


@pytest.mark.parametrize("law", LAWS)
def test_the_inverse_in_float64_is_within_its_bound_of_the_real_one(law):
    half = np.random.default_rng(3).integers(2**31, 2**63, 300)
    low = (2.0 ** np.linspace(30.001, 62.999, 600)).astype(np.int64)
    # both sides of the places where a rational function takes over from another
    edges = (np.array([0.075, 0.499999]) * 2.0**64).astype(np.int64)
    half = np.concatenate([half, low, edges, edges - 2**11, edges + 2**11, [2**31, 2**63 - 1]])
    p = (half + 0.5) * 2.0**-64
    found = LAWS[law][0].inverse(p)
    with mpmath.workprec(200):
        for h, floating, z in zip(half.tolist(), p, found):
            # what the first 64 bits leave open, and of that the part of floating point alone
            ends = [exact_quantile(mpmath.mpf(h + end) / 2**64, law) for end in (0, 1)]
            allowed = rounded_noise.INVERSE_ERROR + 2.0**-63 / floating
            assert max(abs(end - z) for end in ends) < allowed
            middle = exact_quantile(mpmath.mpf(2 * h + 1) / 2**65, law)
            assert abs(middle - z) < rounded_noise.INVERSE_ERROR / 8


@pytest.mark.parametrize("law", LAWS)
def test_intervals_hold_the_distribution_function_and_are_narrow(law):
    iv = MPIntervalContext()
    iv.prec = 160
    with mpmath.workprec(400):
        for x in (0, -1e-12, -0.3, -1, -2.5, -6, -14, -40):
            found = LAWS[law][0].below(iv, iv.mpf(x))
            real = mpmath.ncdf(x) if law == "gaussian" else mpmath.exp(x) / 2
            assert found.a <= real <= found.b
            assert found.delta < mpmath.mpf(2) ** -140


@pytest.mark.parametrize("law", LAWS)
def test_the_slow_path_agrees_with_the_fast_one(law, monkeypatch):
    totals, scales = np.linspace(-3, 3, 300), np.geomspace(0.01, 50, 300)

    def drawn() -> np.ndarray:
        rng = np.random.default_rng(4)
        return add_rounded(totals, scales, rng=rng, law=LAWS[law][0])

    fast = drawn()
    monkeypatch.setattr(rounded_noise, "SMALLEST_HALF", 1.0)
    calls = []
    monkeypatch.setattr(
        rounded_noise, "nearest_step", lambda *given: calls.append(given) or nearest_step(*given)
    )
    assert np.array_equal(drawn(), fast)
    assert len(calls) == 300


@settings(max_examples=60, deadline=None)
@given(
    law=st.sampled_from(sorted(LAWS)),
    prefix=st.integers(0, 2**6 - 1),
    rest=st.floats(-0.5, 0.5),
    ratio=st.floats(0.5, 2.0**21),
    guess=st.integers(-3, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_few_bits_are_completed_until_they_decide(law, prefix, rest, ratio, guess, seed):
    uniform = Uniform(prefix, 6, np.random.default_rng(seed))
    found = nearest_step(uniform, rest, ratio, LAWS[law][0], guess)
    while uniform.num_bits < 400:
        uniform.extend()
    with mpmath.workprec(600):
        p = mpmath.mpf(2 * uniform.prefix + 1) / mpmath.mpf(2) ** (uniform.num_bits + 1)
        value = mpmath.mpf(rest) + mpmath.mpf(ratio) * exact_quantile(p, law)
        assert found == int(mpmath.nint(value))


@settings(max_examples=60, deadline=None)
@given(
    total=st.floats(-1e5, 1e5),
    scale=st.floats(1e-3, 1e6),
    law=st.sampled_from(sorted(LAWS)),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_result_is_the_nearest_step_to_the_sum_with_the_real_noise(total, scale, law, seed):
    (found,) = add_rounded(
        np.array([total]), scale, rng=np.random.default_rng(seed), law=LAWS[law][0]
    )
    bits = np.random.default_rng(seed).integers(0, 2**64, size=1, dtype=np.uint64)
    grid = Fraction(float(grid_of(scale)))
    with mpmath.workprec(200):
        p = mpmath.mpf(2 * int(bits[0]) + 1) / mpmath.mpf(2) ** 65
        real = mpmath.mpf(total) + mpmath.mpf(scale) * exact_quantile(p, law)
        # 64 bits leave 2^-65 of p open
        missing = scale * 2.0**-64 / min(p, 1 - p)
        assert abs(found - real) <= float(grid) / 2 + missing
    assert Fraction(found) % grid == 0
    assert 2**20 <= scale / grid < 2**21


def test_more_bits_are_drawn_where_the_first_do_not_decide():
    # U = 1/2 + 0.8 2^-64 or so: whether 0 + 1 Z rounds to the step above 1/2 - 2^-66 needs more than 64 bits
    uniform = Uniform(2**63, 64, np.random.default_rng(5))
    bound = Fraction(1, 2**64)
    below = uniform.is_below(bound, GAUSSIAN)
    assert uniform.num_bits == 128
    with mpmath.workprec(300):
        p = mpmath.mpf(2 * uniform.prefix + 1) / mpmath.mpf(2) ** 129
        assert below == (p < mpmath.ncdf(mpmath.mpf(1) / 2**64))


def test_a_huge_sum_is_clipped_and_a_missing_scale_is_refused():
    rng = np.random.default_rng(6)
    far = add_rounded(np.array([1e300, -1e300]), 1.0, rng=rng)
    assert np.all(np.abs(np.abs(far) - 2.0**31) < 10)
    for total, scale in ((0.0, 0.0), (0.0, -1.0), (math.nan, 1.0), (math.inf, 1.0)):
        with pytest.raises(ValueError, match="must be"):
            add_rounded(np.array([total]), scale, rng=rng)
