"""Compiled products: bits that hang on the row alone."""

import numpy as np
import pytest
import scipy.sparse as sp

from dpgnn.training import products


@pytest.mark.parametrize("width", [1, 5, products.NARROW])
def test_products_of_few_columns_have_the_bits_of_those_columns_among_many(width: int) -> None:
    rng = np.random.default_rng(width)
    x = sp.random(31, 12, 0.4, format="csr", dtype=np.float32, rng=rng)
    weight = rng.standard_normal((12, 20)).astype(np.float32)
    bias = rng.standard_normal(20).astype(np.float32)
    csr = (np.arange(31), x.indptr.astype(np.int64), x.indices.astype(np.int64), x.data)
    many, few = np.empty((31, 20), np.float32), np.empty((31, width), np.float32)
    products.sparse_linear(*csr, weight, bias, many)
    products.sparse_linear(*csr, weight[:, :width].copy(), bias[:width], few)
    np.testing.assert_array_equal(few, many[:, :width])
    rows = rng.standard_normal((31, 12))
    many, few = np.ones((31, 20)), np.ones((31, width))
    products.row_products(rows, weight.astype(np.float64), many)
    products.row_products(rows, weight[:, :width].astype(np.float64), few)
    np.testing.assert_array_equal(few, many[:, :width])
