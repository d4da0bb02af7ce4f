"""Dropout masks of a named stream, and a replacement of torch's dropout in a module's forward."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

DROPOUTS = {F.dropout, torch.dropout}


def start_draws() -> None:
    """Global generators start from one state, so that no earlier draw moves a later one.

    Modules that draw from them are refused where tests see it; this is for those that draw on some trees.
    """
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 what others may draw from


@contextmanager
def draws_kept() -> Iterator[None]:
    """Put the global generators back as they were."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    plain = random.getstate()
    arrays = np.random.get_state()  # noqa: NPY002 what others may draw from
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            random.setstate(plain)
            np.random.set_state(arrays)  # noqa: NPY002


class Masks:
    """Dropout masks of a named stream: an entry's mask depends only on the seed, its root and its place.

    Other trees do not change the masks of a root, so masks may be public.

    Args:
        seed: of the next forward; `at` changes it for each step.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed % 2**63

    def at(self, seed: int) -> None:
        """Use this seed from now on."""
        self.seed = seed % 2**63

    def __call__(self, x: Tensor, rate: float, call: int, root: Tensor, place: Tensor) -> Tensor:
        """x with entries set to 0 at this rate and the others divided by 1 - rate.

        Args:
            x: shape (num_rows, ...).
            call: number of the dropout call in a forward.
            root, place: int64, shape (num_rows,): root and place of each row.
        """
        if rate >= 1.0:
            return x * 0.0
        width = max(x[0].numel(), 1) if len(x) else 1
        key = _mixed(_mixed(root + self.seed) + place * 0x9E3779B1 + call * 0x632BE5AB)
        column = torch.arange(width, device=x.device) * 0x9E3779B97F4A7C1
        uniform = (_mixed(key[:, None] + column) & (2**53 - 1)).double() * 2.0**-53
        kept = (uniform >= rate).to(x.dtype) / (1.0 - rate)
        return x * kept.reshape(x.shape)


def _mixed(value: Tensor) -> Tensor:
    """The finaliser of splitmix64 on 64-bit integers with overflow.

    Source: Steele, Lea and Flood (2014), "Fast splittable pseudorandom number generators".
    """
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        value = (value ^ ((value >> shift) & (2 ** (64 - shift) - 1))) * factor
    return value ^ ((value >> 31) & (2**33 - 1))


class Dropout:
    """Replaces torch's dropout in one forward.

    Args:
        masks: None omits dropout.
    """

    def __init__(self, masks: Masks | None) -> None:
        self._masks, self._calls = masks, 0
        self.asked = False

    def __call__(
        self,
        places: Callable[[Tensor], tuple[Tensor, Tensor]],
        input: Tensor,
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,
    ) -> Tensor:
        """As `torch.nn.functional.dropout`, entry by entry; `places`: rows -> root and place of each."""
        self.asked |= training and p > 0.0
        if self._masks is None or not training or p == 0.0:
            return input
        self._calls += 1
        return self._masks(input, p, self._calls, *places(input))


class OneTree(TorchFunctionMode):
    """Dropout of a named stream in a forward over one tree.

    Args:
        masks: None omits dropout.
        root: the root's position in x.
    """

    def __init__(self, masks: Masks | None, root: int = 0) -> None:
        super().__init__()
        self.dropout, self._root = Dropout(masks), root

    def _places(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        place = torch.arange(len(rows), device=rows.device)
        return torch.full_like(place, self._root), place

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """One call of a function of torch."""
        if func in DROPOUTS:
            return self.dropout(self._places, *args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))
