"""Dropout masks of torch; large ones are drawn with the same bits by a compiled generator."""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch import Tensor

# importing the compiler takes as long as this many draws; if it is already imported, it is used at once
COMPILE_AFTER = 50_000_000


class Masks:
    """Masks from a stream, bit for bit those of `torch.rand(shape).ge(rate).div(1 - rate)`.

    Args:
        generator: an unused CPU generator; only its seed is read.
    """

    def __init__(self, generator: torch.Generator) -> None:
        self._seed = generator.initial_seed()
        self._generator = torch.Generator().manual_seed(self._seed)
        self._drawn = 0
        self._state: np.ndarray | None = None
        self._place = 0

    def draw(self, shape: tuple[int, ...], rate: float) -> Tensor:
        """float32 of this shape: 0 with probability `rate` (in [0, 1)), else 1 / (1 - rate)."""
        if self._state is None and (self._drawn >= COMPILE_AFTER or "numba" in sys.modules):
            self._compile()
        if self._state is None:
            mask = torch.rand(shape, generator=self._generator).ge_(rate).div_(1 - rate)
            self._drawn += mask.numel()
            return mask
        from dpgnn.models._twister import fill

        mask = torch.empty(shape)
        kept = torch.ones(()).div_(1 - rate).numpy()[()]
        flat = mask.numpy().reshape(-1)
        self._place = fill(flat, self._state, self._place, np.float32(rate), kept)
        return mask

    def _compile(self) -> None:
        """Continue from the state of torch's generator."""
        from dpgnn.models._twister import WORDS, skip, start

        self._state = np.empty(WORDS, np.uint32)
        start(self._state, np.uint64(self._seed % 2**32))
        self._place = skip(self._state, self._drawn)
