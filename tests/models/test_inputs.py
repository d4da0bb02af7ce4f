"""A linear layer on dense and on sparse rows: one value, one gradient."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dpgnn.models.inputs import SparseRows, as_input, dropped, input_linear, linear_stack
from dpgnn.models.masks import Masks

X = np.array([[0, 2, 0], [1, 0, 0], [0, 0, 0], [3, 0, 4]], dtype=np.float32)


def masks() -> Masks:
    return Masks(torch.Generator().manual_seed(3))


@pytest.mark.parametrize("bias", [False, True])
def test_dense_and_sparse_rows_give_one_value_and_one_gradient(bias: bool) -> None:
    found = []
    for x in (X, sp.csr_array(X)):
        weight = torch.arange(6.0).reshape(2, 3).requires_grad_()
        shift = torch.tensor([1.0, -1.0]) if bias else None
        out = input_linear(as_input(x), weight, shift)
        assert out.tolist() == (X @ weight.detach().numpy().T + ([1, -1] if bias else 0)).tolist()
        (out * torch.arange(8.0).reshape(4, 2)).sum().backward()
        found.append(weight.grad)
    assert found[0] is not None
    assert torch.equal(found[0], found[1])


def test_dropout_keeps_stored_values_scaled_or_drops_them() -> None:
    rows = as_input(sp.csr_array(X))
    assert isinstance(rows, SparseRows)
    values = rows.dropout(0.5, masks())
    kept = values != 0
    assert torch.equal(values[kept], 2 * rows.values[kept])
    weight = torch.eye(3)
    wanted = torch.from_numpy(X).clone()
    wanted[wanted != 0] = values
    assert torch.equal(input_linear(rows, weight, None, dropout=0.5, masks=masks()), wanted)
    assert torch.equal(input_linear(rows, weight, None, dropout=0.5), torch.from_numpy(X))


def test_dropped_is_the_product_with_the_mask_with_and_without_a_gradient() -> None:
    x = torch.randn(50, 4)
    wanted = x * masks().draw((50, 4), 0.3)
    assert torch.equal(dropped(x, 0.3, masks()), wanted)
    assert torch.equal(dropped(x.clone().requires_grad_(), 0.3, masks()), wanted)


def test_layers_are_glorot_uniform_without_bias() -> None:
    layers = linear_stack((200, 100, 5), torch.Generator().manual_seed(0))
    assert [tuple(layer.weight.shape) for layer in layers] == [(100, 200), (5, 100)]
    for layer, (before, after) in zip(layers, ((200, 100), (100, 5))):
        bound = (6 / (before + after)) ** 0.5
        assert float(layer.weight.detach().abs().max()) <= bound
        assert float(layer.weight.detach().std()) == pytest.approx(bound / 3**0.5, rel=0.1)
        assert not layer.bias.any()
