"""Masks are those of torch, bit for bit, wherever a draw starts or ends in the generator's block."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgnn.models import masks as module
from dpgnn.models.masks import Masks


def of_torch(generator: torch.Generator, shape: tuple[int, ...], rate: float) -> torch.Tensor:
    return torch.rand(shape, generator=generator).ge_(rate).div_(1 - rate)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**63 - 1),
    shapes=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 70)), min_size=1, max_size=5),
    rate=st.sampled_from([0.0, 1e-3, 0.1, 0.25, 1 / 3, 0.5, 0.9, 0.999]),
)
def test_masks_are_torchs(seed: int, shapes: list[tuple[int, int]], rate: float) -> None:
    masks, generator = Masks(torch.Generator().manual_seed(seed)), torch.Generator()
    generator.manual_seed(seed)
    for shape in shapes:
        made, wanted = masks.draw(shape, rate), of_torch(generator, shape, rate)
        assert made.dtype == torch.float32
        assert torch.equal(made.view(torch.int32), wanted.view(torch.int32))


@pytest.mark.parametrize("size", [1, 623, 624, 625, 1248, 100_001])
def test_draws_go_on_at_the_edges_of_a_block(size: int) -> None:
    masks, generator = Masks(torch.Generator().manual_seed(7)), torch.Generator().manual_seed(7)
    for _ in range(3):
        assert torch.equal(masks.draw((size,), 0.1), of_torch(generator, (size,), 0.1))


@pytest.mark.parametrize("size", [1, 623, 624, 625, 3 * 624, 5_000])
def test_the_compiled_generator_goes_on_where_torchs_stands(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COMPILE_AFTER", size)
    modules = {name: found for name, found in module.sys.modules.items() if name != "numba"}
    masks, generator = Masks(torch.Generator().manual_seed(3)), torch.Generator().manual_seed(3)
    with monkeypatch.context() as without_numba:
        without_numba.setattr(module.sys, "modules", modules)
        assert torch.equal(masks.draw((size,), 0.3), of_torch(generator, (size,), 0.3))
        assert masks._state is None
    for _ in range(2):
        assert torch.equal(masks.draw((700,), 0.3), of_torch(generator, (700,), 0.3))
        assert masks._state is not None


def test_a_share_is_dropped_and_the_mean_kept() -> None:
    mask = Masks(torch.Generator().manual_seed(1)).draw((1000, 1000), 0.1)
    assert float((mask == 0).float().mean()) == pytest.approx(0.1, abs=0.001)
    assert float(mask.mean()) == pytest.approx(1.0, abs=0.001)
