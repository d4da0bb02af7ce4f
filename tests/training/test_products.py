"""Compiled products against plain loops in the order that is promised."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dpgnn.training.products import (
    NARROW,
    apply_by_rows,
    row_products,
    sparse_linear,
    sparse_outer,
    standardize_rows,
)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(("num_rows", "num_in"), [(1, 7), (4, 8), (5, 9)])
def test_a_rows_bits_are_those_of_the_row_alone(num_rows: int, num_in: int) -> None:
    a, weight = normal(num_rows, num_in), normal(num_in, 3, seed=1)
    out = np.zeros((num_rows, 3), np.float32)
    row_products(a, weight, out)
    plain = np.zeros_like(out)
    for i in range(num_rows):
        for j in range(3):
            for k in range(num_in):  # each operation rounded once, in this order
                plain[i, j] = np.float32(plain[i, j] + np.float32(a[i, k] * weight[k, j]))
    assert out.tobytes() == plain.tobytes()
    alone = np.zeros((1, 3), np.float32)
    row_products(a[-1:], weight, alone)
    assert alone.tobytes() == out[-1:].tobytes()


@pytest.mark.parametrize("width", [1, NARROW, NARROW + 1])
def test_a_sparse_layer_is_the_dense_one_on_the_rows_asked_for(width: int) -> None:
    x = sp.random_array((6, 5), density=0.5, rng=np.random.default_rng(2), format="csr")
    x = sp.csr_array(x, dtype=np.float32)
    node, weight, bias = np.array([4, 0, 4]), normal(5, width), normal(width, seed=3)
    out = np.empty((3, width), np.float32)
    sparse_linear(node, x.indptr, x.indices, x.data, weight, bias, out)
    np.testing.assert_allclose(out, x.toarray()[node] @ weight + bias, rtol=1e-5, atol=1e-6)


def test_rows_of_bad_roots_are_left_out_of_a_sum() -> None:
    x = sp.csr_array(normal(4, 3))
    node, g = np.array([0, 1, 3]), normal(3, 2, seed=4)
    ptr, bad = np.array([0, 2, 3]), np.array([True, False])  # two roots, of two rows and of one
    total = np.zeros((3, 2), np.float32)
    sparse_outer(node, x.indptr, x.indices, x.data, g, ptr, bad, total)
    np.testing.assert_allclose(total, np.outer(x.toarray()[3], g[2]), rtol=1e-6)


@pytest.mark.parametrize(
    ("code", "function"),
    [
        (1, np.tanh),
        (2, lambda h: 1.05 * np.where(h > 0, h, 1.67 * np.expm1(h))),
        (3, lambda h: 1 / (1 + np.exp(-h))),
    ],
    ids=["tanh", "selu", "sigmoid"],
)
def test_activations_are_applied_in_place(code: int, function) -> None:
    h = normal(4, 5)
    expected = function(h.astype(np.float64))
    apply_by_rows(code, np.float32(1.05), np.float32(1.67), h)
    np.testing.assert_allclose(h, expected, rtol=1e-5, atol=1e-6)


def test_standardized_rows_are_those_of_the_library_and_read_one_row_each() -> None:
    h = normal(5, 16)
    h[2] = 3.0
    found = h.copy()
    standardize_rows(found, 1e-5)
    expected = torch.nn.functional.layer_norm(torch.from_numpy(h), (16,), eps=1e-5)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-6)
    for t in range(5):
        alone = h[t : t + 1].copy()
        standardize_rows(alone, 1e-5)
        assert alone.tobytes() == found[t].tobytes()
