"""PyG's networks: ours give their numbers, and their dropout comes from the stream."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpgnn.models.gcn import GCN, normalized_adjacency
from dpgnn.models.masks import Masks
from dpgnn.models.pyg import NETWORKS, DrawnDropout, OneHopGATv2, OneHopSAGE


def graph(seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((30, 30)) < 0.15, 1)
    edges = np.argwhere(upper | upper.T).T.copy()
    return torch.from_numpy(rng.standard_normal((30, 7)).astype(np.float32)), edges


def test_our_gcn_gives_the_numbers_of_pygs_gcnconv() -> None:
    x, edges = graph()
    ours = GCN(7, (5,), 3, dropout=0.0, generator=torch.Generator().manual_seed(0))
    theirs = NETWORKS["gcn"](7, 3, 5, 0.0)
    with torch.no_grad():
        for mine, other in zip(ours.layers, (theirs.first, theirs.second)):
            other.lin.weight.copy_(mine.weight)
            other.bias.copy_(mine.bias)
    found = ours(x, normalized_adjacency(edges, 30), None)
    expected = theirs.eval()(x, torch.from_numpy(edges))
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", list(NETWORKS))
def test_dropout_comes_from_the_stream_and_from_nowhere_else(name: str) -> None:
    x, edges = graph()
    network = NETWORKS[name](7, 3, 16, 0.5).train()
    before = torch.get_rng_state()
    found = []
    for seed in (1, 1, 2):
        with DrawnDropout(Masks(torch.Generator().manual_seed(seed))):
            found.append(network(x, torch.from_numpy(edges)))
    with DrawnDropout(None):
        plain = network(x, torch.from_numpy(edges))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(found[0], found[1])
    assert not torch.allclose(found[0], found[2])
    assert torch.allclose(plain, network.eval()(x, torch.from_numpy(edges)))


@pytest.mark.parametrize("kind", [OneHopSAGE, OneHopGATv2])
def test_one_hop_networks_read_the_root_and_its_list_alone(kind: type) -> None:
    network = kind(7, 3, 8).eval()
    x, _ = graph()
    star = torch.tensor([[1, 2, 4], [0, 0, 3]])
    with torch.no_grad():
        first = network(x[:5], star)[0]
        x[3:] += 1.0
        assert torch.equal(network(x[:5], star)[0], first)
        x[2] += 1.0
        assert not torch.allclose(network(x[:5], star)[0], first)
