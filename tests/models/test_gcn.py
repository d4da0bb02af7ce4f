from __future__ import annotations

import numpy as np
import pytest
import torch

from dpgnn.models import gcn
from dpgnn.models._sparse import product
from dpgnn.models.gcn import normalized_adjacency, propagate


def test_a_path_of_three_nodes() -> None:
    edges = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    dense = normalized_adjacency(edges, 3).matrix.to_dense()
    degree = np.array([2.0, 3.0, 2.0])
    adjacency = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]])
    expected = adjacency / np.sqrt(np.outer(degree, degree))
    np.testing.assert_allclose(dense.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_the_same_bits_as_torch_geometric(seed: int) -> None:
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    rng = np.random.default_rng(seed)
    num_nodes = int(rng.integers(1, 500))
    # directed, with self-loops and edges that stand twice
    edges = rng.integers(0, num_nodes, (2, int(rng.integers(0, 10 * num_nodes))))
    ends, weight = gcn_norm(torch.from_numpy(edges), None, num_nodes, add_self_loops=True)
    theirs = torch.sparse_coo_tensor(ends.flip(0), weight, (num_nodes, num_nodes)).coalesce()
    ours = normalized_adjacency(edges, num_nodes)
    for mine, other in ((ours.matrix, theirs), (ours.transposed, theirs.t().coalesce())):
        assert torch.equal(mine.values(), other.to_sparse_csr().values())
        assert torch.equal(mine.col_indices(), other.to_sparse_csr().col_indices())
        assert torch.equal(mine.crow_indices(), other.to_sparse_csr().crow_indices())


@pytest.mark.parametrize("width", [1, 5, 16, 64])
@pytest.mark.parametrize("num_arcs", [0, 1, 700])
def test_the_compiled_product_is_that_of_the_dense_matrix(width: int, num_arcs: int) -> None:
    rng = np.random.default_rng(width + num_arcs)
    adjacency = normalized_adjacency(rng.integers(0, 60, (2, num_arcs)), 60)
    h = torch.from_numpy(rng.normal(size=(width, 60)).astype(np.float32)).T  # not contiguous
    torch.testing.assert_close(product(adjacency.matrix, h), adjacency.matrix.to_dense() @ h)


@pytest.mark.parametrize("compiled_from", [0, 2**60])
def test_the_gradient_reads_the_transposed_operator(
    compiled_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gcn, "COMPILED_PRODUCTS", compiled_from)
    rng = np.random.default_rng(0)
    adjacency = normalized_adjacency(rng.integers(0, 30, (2, 90)), 30)
    h = torch.from_numpy(rng.normal(size=(30, 16)).astype(np.float32)).requires_grad_()
    weight = torch.from_numpy(rng.normal(size=(30, 16)).astype(np.float32))
    (propagate(adjacency, h) * weight).sum().backward()
    assert h.grad is not None
    torch.testing.assert_close(h.grad, adjacency.matrix.to_dense().T @ weight)
