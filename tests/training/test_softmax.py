"""The compiled softmax gives torch's bits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dpgnn.training import softmax as softmax_module
from dpgnn.training.softmax import WIDE, softmax


def same(rows: torch.Tensor) -> bool:
    """Bit by bit; NaN equals NaN."""
    found, expected = softmax(rows), torch.softmax(rows, dim=-1)
    return found.dtype == expected.dtype and torch.equal(
        torch.nan_to_num(found, nan=-1.0), torch.nan_to_num(expected, nan=-1.0)
    )


@pytest.mark.parametrize("classes", [*range(1, 18), 47])
def test_bits_are_those_of_torch_on_numbers_of_every_size(classes: int) -> None:
    rows = torch.randn(3001, classes, generator=torch.Generator().manual_seed(classes))
    for size in (1e-6, 0.1, 3.0, 40.0, 1e30):
        assert same(rows * size)
    assert same(rows.double())
    assert same(rows[:, None].expand(-1, 3, -1))
    assert same(rows[:3000].reshape(50, 60, classes))


def test_rows_that_are_not_finite_are_as_torch_has_them() -> None:
    rows = torch.randn(200, 5, generator=torch.Generator().manual_seed(0))
    rows[0, 2], rows[70, 1], rows[130], rows[131, 3] = math.nan, math.inf, -math.inf, -math.inf
    rows[199, :] = torch.tensor([0.0, -87.0, -103.5, -104.5, -1e5])
    assert same(rows)


def test_no_rows() -> None:
    assert softmax(torch.zeros(0, 3)).shape == (0, 3)


def test_a_torch_that_rounds_otherwise_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def another(x: np.ndarray, out: np.ndarray) -> None:
        asked.append(len(x))
        out.fill(0.5)

    monkeypatch.setattr(softmax_module, "by_rows", another)
    softmax_module._rounds_alike.cache_clear()
    rows = torch.randn(10, WIDE - 1, generator=torch.Generator().manual_seed(0))
    assert same(rows)
    assert asked == [512]
    softmax_module._rounds_alike.cache_clear()


def test_this_machine_uses_the_compiled_one() -> None:
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        pytest.skip("torch sums a row's exponentials in another order on this processor")
    assert all(softmax_module._rounds_alike(classes) for classes in range(2, WIDE))
