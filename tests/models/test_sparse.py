"""Our sparse product is torch's up to rounding."""

from __future__ import annotations

import pytest
import scipy.sparse as sp
import torch

from dpgnn.models._sparse import product


@pytest.mark.parametrize(("rows", "columns", "width"), [(30, 20, 16), (1, 5, 3), (7, 9, 64)])
def test_the_product_is_the_dense_one(rows: int, columns: int, width: int) -> None:
    matrix = sp.random_array((rows, columns), density=0.3, rng=1, format="csr", dtype="float32")
    dense = torch.from_numpy(matrix.toarray())
    h = torch.randn(columns, width, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(product(dense.to_sparse_csr(), h), dense @ h)


def test_a_row_without_entries_is_zero() -> None:
    matrix = torch.tensor([[0.0, 0.0], [2.0, 0.0]]).to_sparse_csr()
    found = product(matrix, torch.tensor([[1.0, 3.0], [5.0, 7.0]]))
    assert found.tolist() == [[0.0, 0.0], [2.0, 6.0]]
