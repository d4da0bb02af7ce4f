"""The perceptron is its layers with ReLU between them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from dpgnn.models.inputs import as_input
from dpgnn.models.masks import Masks
from dpgnn.models.mlp import MLP


def model(*hidden: int) -> MLP:
    return MLP(3, hidden, 2, dropout=0.5, generator=torch.Generator().manual_seed(1))


def test_logits_are_those_written_out() -> None:
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(2))
    net = model(4)
    first, second = net.layers
    wanted = torch.relu(x @ first.weight.T + first.bias) @ second.weight.T + second.bias
    torch.testing.assert_close(net(x), wanted)
    assert net(x).shape == (5, 2)
    only = model()
    torch.testing.assert_close(only(x), x @ only.layers[0].weight.T)


def test_sparse_rows_give_the_logits_of_dense_ones() -> None:
    x = (np.arange(12).reshape(4, 3) % 4 == 1).astype(np.float32)
    net = model(6, 5)
    torch.testing.assert_close(net(as_input(sp.csr_array(x))), net(torch.from_numpy(x)))


def test_dropout_is_drawn_from_the_masks_and_never_without_them() -> None:
    x, net = torch.ones(40, 3), model(8)
    drawn = [net(x, Masks(torch.Generator().manual_seed(seed))) for seed in (4, 4, 5)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    torch.testing.assert_close(net(x), net(x[:1]).expand(40, 2))
