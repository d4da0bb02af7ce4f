import numpy as np
import pytest
import scipy.sparse as sp

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


@pytest.mark.parametrize("width", [1, 5, kernels.NARROW])
def test_products_of_few_columns_have_the_bits_of_those_columns_among_many(width: int) -> None:
    rng = np.random.default_rng(width)
    x = sp.random(31, 12, 0.4, format="csr", dtype=np.float32, rng=rng)
    weight = rng.standard_normal((12, 20)).astype(np.float32)
    bias = rng.standard_normal(20).astype(np.float32)
    csr = (np.arange(31), x.indptr.astype(np.int64), x.indices.astype(np.int64), x.data)
    many, few = np.empty((31, 20), np.float32), np.empty((31, width), np.float32)
    kernels.sparse_linear(*csr, weight, bias, many)
    kernels.sparse_linear(*csr, weight[:, :width].copy(), bias[:width], few)
    np.testing.assert_array_equal(few, many[:, :width])
    rows = rng.standard_normal((31, 12))
    many, few = np.ones((31, 20)), np.ones((31, width))
    kernels.row_products(rows, weight.astype(np.float64), many)
    kernels.row_products(rows, weight[:, :width].astype(np.float64), few)
    np.testing.assert_array_equal(few, many[:, :width])
