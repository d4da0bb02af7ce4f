import numpy as np

from dpgnn.training import _kernels as kernels


def test_the_fast_tanh_is_right_to_three_units_of_1e_minus_7_and_never_passes_one():
    x = np.concatenate(
        [np.linspace(-12, 12, 200_001), np.logspace(-30, 3, 500), -np.logspace(-30, 3, 500), [0.0]]
    ).astype(np.float32)
    found = x[None].copy()
    kernels.tanh32(found)
    exact = np.tanh(x.astype(np.float64))
    assert np.all(np.abs(found[0] - exact) <= 3e-7 * np.abs(exact))
    assert np.all(np.abs(found) <= 1.0)
    assert found[0, -1] == 0.0


def test_the_fast_tanh_keeps_nan_and_bounds_infinity():
    values = np.array([[np.nan, np.inf, -np.inf, 3e38]], dtype=np.float32)
    kernels.tanh32(values)
    assert np.isnan(values[0, 0])
    np.testing.assert_allclose(values[0, 1:], [1.0, -1.0, 1.0], rtol=3e-7)


def test_rows_of_bad_roots_are_overwritten_and_no_others():
    rows = np.full((5, 2), np.inf)
    kernels.zero_rows(rows, np.array([0, 2, 3, 5]), np.array([True, False, True]))
    assert np.array_equal(np.isinf(rows[:, 0]), [False, False, True, False, False])
    assert (rows[[0, 1, 3, 4]] == 0.0).all()


def test_gathering_backwards_is_the_transpose_of_gathering():
    rng = np.random.default_rng(0)
    # two roots of 3 and 2 rows, one target each
    lists = (
        np.array([0, 3, 5]), np.array([0, 3, 3, 3, 5, 5]), np.array([0, 1, 2, 0, 1], np.int32),
        rng.random(5).astype(np.float32),
    )  # fmt: skip
    roots, source_ptr, target_ptr = np.array([0, 1]), np.array([0, 3, 5]), np.array([0, 1, 2])
    h, g = rng.standard_normal((5, 4)), rng.standard_normal((2, 4))
    out, back = np.empty((2, 4)), np.full((5, 4), np.nan)
    kernels.aggregate(h, out, roots, source_ptr, target_ptr, *lists)
    kernels.aggregate_back(g, back, True, roots, source_ptr, target_ptr, *lists)
    np.testing.assert_allclose((out * g).sum(), (h * back).sum())
    kernels.aggregate_back(g, back, False, roots, source_ptr, target_ptr, *lists)
    np.testing.assert_allclose((out * g).sum() * 2, (h * back).sum())
