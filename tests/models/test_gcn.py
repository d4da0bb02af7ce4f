from __future__ import annotations

import numpy as np
import pytest
import torch

from dpgnn.models.gcn import normalized_adjacency


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
