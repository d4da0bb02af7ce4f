"""Normalised rows: norm 1 whatever the size of the values, each row by itself, ordinary rows to the byte."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
import scipy.sparse as sp

from dpgnn.data.rows import ROWS_AT_ONCE, normalize_rows

Kind = Literal["l1", "l2"]
ORDERS: dict[Kind, int] = {"l1": 1, "l2": 2}


def plain(x: Any, kind: Kind) -> Any:
    """The sums in float32 that ordinary rows have always had."""
    dense = isinstance(x, np.ndarray)
    values = abs(x) if kind == "l1" else x * x if dense else x.multiply(x)
    sums = np.asarray(values.sum(axis=1), dtype=np.float64).reshape(-1)
    norms = sums if kind == "l1" else np.sqrt(sums)
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0).astype(np.float32)
    return x * scale[:, None] if dense else sp.csr_array(sp.diags_array(scale) @ x)


@pytest.mark.parametrize("kind", ORDERS)
@pytest.mark.parametrize("seed", range(5))
def test_ordinary_rows_keep_their_bytes(kind: Kind, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((80, 33)) * 10.0 ** rng.integers(-6, 7, (80, 1))).astype(np.float32)
    x[rng.random(x.shape) < 0.7] = 0
    x[17] = 0
    np.testing.assert_array_equal(normalize_rows(x, kind), plain(x, kind))
    sparse = normalize_rows(sp.csr_array(x), kind)
    wanted = plain(sp.csr_array(x), kind)
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(sparse, part), getattr(wanted, part))


# the smallest subnormal number of float32, squares that underflow, squares that overflow, the largest number
SIZES = (1e-45, 1e-42, 2.6e-23, 1e-20, 1e-13, 1e13, 1e19, 1e30, 3.4e38)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", ORDERS)
@pytest.mark.parametrize("size", SIZES)
def test_a_row_of_tiny_or_huge_values_has_norm_one(size: float, kind: Kind, sparse: bool) -> None:
    x = np.zeros((4, 5), np.float32)
    x[0], x[2, 1:4], x[3] = 0.5, np.array([1, 0.5, -1]) * size, [1, 2, 0, 0, 3]
    found = normalize_rows(sp.csr_array(x) if sparse else x, kind)
    assert found.dtype == np.float32
    assert isinstance(found, np.ndarray) != sparse
    found = found.toarray() if sparse else found
    norms = np.linalg.norm(found.astype(np.float64), ord=ORDERS[kind], axis=1)
    np.testing.assert_allclose(norms, [1, 0, 1, 1], rtol=1e-6)
    np.testing.assert_array_equal(np.sign(found), np.sign(x))
    np.testing.assert_array_equal(found[[0, 3]], normalize_rows(x[[0, 3]], kind))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ORDERS)
def test_no_warning_tells_of_an_extreme_row(kind: Kind) -> None:
    x = np.array([[1e-44, 0], [3e38, 3e38], [1, 1]], np.float32)
    for features in (x, sp.csr_array(x)):
        normalize_rows(features, kind)


@pytest.mark.parametrize("sparse", [False, True])
def test_centred_rows_lose_their_own_mean_and_nothing_else(sparse: bool) -> None:
    rng = np.random.default_rng(3)
    x = rng.random((70, 9)).astype(np.float32)
    x[rng.random(x.shape) < 0.5] = 0
    x[4], x[5], x[6], x[7] = 0, 0.1, np.float32(3e38), [1e-42, *[0] * 8]
    found = normalize_rows(sp.csr_array(x) if sparse else x, "centred")
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float32
    rest = x.astype(np.float64) - x.astype(np.float64).mean(axis=1, keepdims=True)
    sizes = np.linalg.norm(rest, axis=1)
    plain_rows = [row / size if size else row for row, size in zip(rest, sizes)]
    for at in set(range(70)) - {4, 5, 6}:
        np.testing.assert_allclose(found[at], plain_rows[at], atol=1e-6)
        assert np.linalg.norm(found[at]) == pytest.approx(1, abs=1e-6)
        assert abs(found[at].sum()) < 1e-6
    # equal values leave nothing, also where their mean is rounded
    assert not found[4:7].any()
    # each row is read by itself
    alone = normalize_rows(sp.csr_array(x[9:10]) if sparse else x[9:10], "centred")
    np.testing.assert_array_equal(alone[0], found[9])


def test_centred_rows_do_not_depend_on_where_they_are_cut() -> None:
    x = np.random.default_rng(0).random((ROWS_AT_ONCE + 3, 4)).astype(np.float32)
    found = normalize_rows(x, "centred")
    np.testing.assert_array_equal(found[-5:], normalize_rows(x[-5:], "centred"))
