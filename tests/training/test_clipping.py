from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgnn.models.network import Network, NetworkConfig
from dpgnn.training import _kernels as kernels
from dpgnn.training.clipping import Clipping, clip_factors, global_clipping, uniform_clipping
from dpgnn.training.ghost import formed_norms, root_norms

UNIT = 2.0**-24


def exact_squared(a, g):
    """||sum_t a_t g_t^T||^2 in exact arithmetic."""
    a = [[Fraction(float(value)) for value in row] for row in a]
    g = [[Fraction(float(value)) for value in row] for row in g]
    total = Fraction(0)
    for j in range(len(a[0])):
        for k in range(len(g[0])):
            entry = sum(a[t][j] * g[t][k] for t in range(len(a)))
            total += entry * entry
    return total


def all_norms(a, g):
    """(squared norm of the weight part, spread) of one root by every way there is."""
    ptr = np.array([0, len(a)])
    found = np.empty((4, 1))
    kernels.dense_norms(a, g, ptr, 10**6, *found)
    yield found[0, 0], found[1, 0]
    indptr = np.arange(len(a) + 1) * a.shape[1]
    indices = np.tile(np.arange(a.shape[1]), len(a))
    kernels.sparse_norms(np.arange(len(a)), indptr, indices, a.ravel(), g, ptr, *found)
    yield found[0, 0], found[1, 0]
    torch_a, torch_g = torch.from_numpy(a), torch.from_numpy(g)
    squared, spread, _, _ = root_norms(torch_a, torch_g, ptr)
    yield float(squared[0]), float(spread[0])
    squared, spread, _, _ = formed_norms(torch_a, torch_g, ptr, np.array([0]))
    yield float(squared[0]), float(spread[0])


def nearly_cancelling(rng, rows, width):
    """Pairs of opposite rows with relative differences near float32's unit."""
    a = rng.standard_normal((rows, width)).astype(np.float32)
    g = rng.standard_normal((rows, width)).astype(np.float32)
    half = rows // 2
    a[half : 2 * half] = a[:half] * np.float32(1 + rng.integers(0, 3) * 2 * UNIT)
    g[half : 2 * half] = -g[:half]
    return a, g


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 6), cancel=st.booleans(),
    scale=st.sampled_from([1e-18, 1.0, 1e15]),
)  # fmt: skip
def test_norms_are_upper_bounds_under_rounding_also_where_rows_cancel(seed, rows, cancel, scale):
    rng = np.random.default_rng(seed)
    a, g = nearly_cancelling(rng, rows, 5)
    if not cancel:
        a = rng.standard_normal((rows, 5)).astype(np.float32)
    a = (a * scale).astype(np.float32)
    exact = exact_squared(a, g)
    for squared, spread in all_norms(a, g):
        # exact arithmetic up to the test's own square: bound^2 against the exact squared norm
        assert Fraction(float(squared)) >= exact * (1 - Fraction(1, 2**50))
        assert float(squared) <= float(exact) + 1e-12 * spread**2 + 1e-300


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 6), bound=st.sampled_from([1e-6, 0.3, 5.0])
)
def test_rounded_and_scaled_rows_stay_within_the_bound_in_exact_arithmetic(seed, rows, bound):
    rng = np.random.default_rng(seed)
    a, g = nearly_cancelling(rng, rows, 4)
    for squared, spread in all_norms(a, g):
        factors, bad = clip_factors(
            np.array([[squared]]), np.array([[spread]]), np.array([0]), np.array([bound]), UNIT
        )
        assert not bad.any()
        scaled = np.float32(factors[0, 0]) * g
        assert exact_squared(a, scaled) <= Fraction(bound) ** 2


def test_rows_that_underflow_stay_within_the_bound():
    a = np.full((2, 4), 4e19, dtype=np.float32)
    g = np.array([[1e-3, 1e-22, 1.0, 0.0]] * 2, dtype=np.float32)
    for squared, spread in all_norms(a, g):
        factors, _ = clip_factors(
            np.array([[squared]]), np.array([[spread]]), np.array([0]), np.array([1e-9]), UNIT
        )
        assert exact_squared(a, np.float32(factors[0, 0]) * g) <= Fraction(1e-9) ** 2


@pytest.mark.parametrize(
    ("length", "bound"), [(7.07e8, 1.0), (1.3e9, 1.0), (1e8, 1e-7), (10.0, 1.0)]
)
def test_a_factor_too_small_to_round_well_clips_to_nothing(length, bound):
    a, g = np.array([[length]], np.float32), np.array([[1e36]], np.float32)
    for squared, spread in all_norms(a, g):
        factors, bad = clip_factors(
            np.array([[squared]]), np.array([[spread]]), np.array([0]), np.array([bound]), UNIT
        )
        assert not bad.any()
        assert exact_squared(a, np.float32(factors[0, 0]) * g) <= Fraction(bound) ** 2
        normal = length * 1e36 < bound / float(np.finfo(np.float32).tiny)
        assert (factors > 0).all() == normal


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2e20])
def test_rows_that_are_not_finite_or_too_long_make_the_root_bad(value):
    for where in ("a", "g"):
        if where == "g" and value == 2e20:
            continue
        for rows in (1, 3):
            a, g = np.ones((rows, 3), np.float32), np.ones((rows, 2), np.float32)
            (a if where == "a" else g)[rows - 1, 0] = value
            if where == "a":
                g[rows - 1] = 0.0
            for squared, spread in all_norms(a, g):
                factors, bad = clip_factors(
                    np.array([[squared]]),
                    np.array([[spread]]),
                    np.array([0]),
                    np.array([1.0]),
                    UNIT,
                )
                assert bad.all(), (where, value, squared)
                assert (factors == 0).all()


def test_gradients_within_the_bound_and_zero_gradients_are_not_changed():
    factors, bad = clip_factors(
        np.array([[0.25, 0.0]]), np.array([[0.5, 0.0]]), np.array([0]), np.array([1.0]), UNIT
    )
    assert (factors == 1.0).all()
    assert not bad.any()


def test_parts_follow_groups_or_tensors():
    network = Network(NetworkConfig(num_features=3, num_outputs=2, width=4))
    part_of, bounds = uniform_clipping(network, "group", 3.0).parts(network)
    assert list(part_of) == [0, 0, 1, 1, 2, 2]
    np.testing.assert_allclose(bounds, np.sqrt(3.0))
    part_of, bounds = uniform_clipping(network, "tensor", 6.0).parts(network)
    assert list(part_of) == list(range(6))
    assert np.sqrt((bounds**2).sum()) == pytest.approx(6.0)
    part_of, bounds = global_clipping(2.0).parts(network)
    assert set(part_of) == {0}
    assert list(bounds) == [2.0]


def test_the_total_norm_is_the_root_of_the_sum_of_squares():
    assert Clipping(per="group", norms={"encoder": 3.0, "decoder": 4.0}).total_norm == 5.0


@pytest.mark.parametrize(
    ("per", "norms", "message"),
    [
        ("layer", {"all": 1.0}, "unknown clipping 'layer'"),
        ("global", {"encoder": 1.0}, "clipping norms must be {'all': C}"),
        ("global", {"all": 0.0}, "clipping norm of all must be > 0"),
        ("global", {"all": float("inf")}, "clipping norm of all must be a finite number > 0"),
    ],
)
def test_impossible_clipping_is_named(per, norms, message):
    with pytest.raises(ValueError, match=message):
        Clipping(per=per, norms=norms)
