"""Norms and clipping factors on the device, without waiting for it; the same bounds as on the host.

This module uses torch's own operations; `kernels` has the same four functions fused.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from dpgnn.training.clipping import LARGEST_ROW
from dpgnn.training.ghost import one_row_norms
from dpgnn.training.gpu.layout import sum_rows
from dpgnn.training.gpu.shapes import Shape

__all__ = ["Bounds", "Operations", "clip_factors", "scaled", "slot_norms", "sum_rows"]


def slot_norms(
    a: Tensor, g: Tensor, ptr: Tensor, shape: Shape, packed: Tensor, level: int
) -> Tensor:
    """Upper bounds on squared norms, and spreads, of every slot, by Gram matrices in float64.

    Guarantee: as `ghost.root_norms`, for every slot with a root.

    Args:
        a: (rows of the level, num_in); g: (rows of the level, num_out).
        ptr: int64 (num_slots + 1,): where each slot's rows start.
        shape, packed: the batch, see `Shapes.pack`. level: of the rows.

    Returns:
        float64 (4, num_slots); sensitive.

    Source: as `ghost.root_norms`.
    """
    classes = shape.members[level]
    if not classes:
        return torch.stack(one_row_norms(a, g))
    out = torch.zeros(4, shape.num_slots, dtype=torch.float64, device=a.device)
    at = shape.num_slots + sum(n for level_ in shape.members[:level] for _, n in level_)
    for size, places in classes:
        members = packed[at : at + places]
        out[:, members] = _gram_norms(a, g, ptr, members, size)
        at += places
    return out


def _gram_norms(a: Tensor, g: Tensor, ptr: Tensor, members: Tensor, size: int) -> Tensor:
    """`ghost._gram_norms` with pointers on the device."""
    first = ptr[members]
    counts = ptr[members + 1] - first
    step = torch.arange(size, device=a.device)
    inside = step < counts[:, None]
    # padding repeats the root's own first row: the row of another root could bring in NaN
    rows = (first[:, None] + step.masked_fill(~inside, 0)).clamp(max=len(a) - 1)
    wide_a = a[rows].double()
    wide_g = g[rows].mul_(inside[:, :, None]).double()
    gram_a, gram_g = wide_a @ wide_a.mT, wide_g @ wide_g.mT
    aa, gg = (gram.diagonal(dim1=1, dim2=2).clamp(min=0.0).sqrt() for gram in (gram_a, gram_g))
    aa = aa.masked_fill(~(aa <= LARGEST_ROW), torch.inf)
    spread_w, spread_b = (aa * gg).sum(dim=1), gg.sum(dim=1)
    gamma = 2.0**-52 * (a.shape[1] + g.shape[1] + size * size + 8)
    squared_w = (gram_g * gram_a).sum(dim=(1, 2)).clamp(min=0.0) + gamma * spread_w**2
    squared_b = gram_g.sum(dim=(1, 2)).clamp(min=0.0) + gamma * spread_b**2
    return torch.stack([squared_w, spread_w, squared_b, spread_b])


class Bounds:
    """Clipping bounds on the device.

    Args:
        parts: from `Clipping.parts`.
        unit: the rounding unit of the rows.
        spread_share: as in `clipping.clip_factors`.
        device: of the step.

    Attributes:
        part_of: part of each tensor, on the host; bounds: of each part, a little below its norm.
        share: multiple of the spread that is added to a norm.
        smallest: smaller factors become 0.
        there: `part_of` and (bounds, share, smallest) as tensors on the device, for kernels.
    """

    def __init__(
        self,
        parts: tuple[np.ndarray, np.ndarray],
        unit: float,
        spread_share: float,
        device: torch.device,
    ) -> None:
        self.part_of: list[int] = parts[0].tolist()
        self.bounds = [bound * (1.0 - unit / 64.0) for bound in parts[1].tolist()]
        self.share = max(4.0 * unit, spread_share)
        self.smallest = float(torch.finfo(torch.float32 if unit > 2.0**-53 else torch.float64).tiny)
        numbers = np.array([*self.bounds, self.share, self.smallest, 1.0 + 2.0**-50])
        self.there = tuple(torch.from_numpy(a).to(device) for a in (parts[0], numbers))


def clip_factors(
    squared: Tensor, spread: Tensor, bounds: Bounds, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """`clipping.clip_factors` on the device: the same operations in the same order, in float64.

    Guarantee: that of `clipping.clip_factors`.

    Args:
        squared, spread: float64 (num_tensors, num_slots); sensitive.
        bounds: of every part.
        dtype: of the rows; factors are rounded to it.

    Returns:
        factors (num_tensors, num_slots + 1), bad bool (num_slots + 1,), both with one more slot at the end
        for padding, which adds nothing; sensitive.
    """
    upper = squared.sqrt() + bounds.share * spread
    bad = ~upper.isfinite().all(dim=0)
    factors: list[Tensor] = []
    for part, bound in enumerate(bounds.bounds):
        total = torch.zeros_like(upper[0])
        for tensor, owner in enumerate(bounds.part_of):
            if owner == part:
                total = total + upper[tensor] * upper[tensor]
        norm = total.sqrt() * (1.0 + 2.0**-50)
        bad = bad | ~norm.isfinite()
        factors.append((bound / norm).clamp(max=1.0))
    chosen = torch.stack([factors[owner] for owner in bounds.part_of])
    chosen = chosen.masked_fill(bad | ~(chosen >= bounds.smallest), 0.0)
    padded = torch.cat([chosen, chosen.new_zeros(len(chosen), 1)], dim=1)
    return padded.to(dtype), torch.cat([bad, bad.new_ones(1)])


def scaled(
    a: Tensor, g: Tensor, owner: Tensor, factor: Tensor, bad: Tensor
) -> tuple[Tensor, Tensor]:
    """Rows a, and g times the factor of its root; both are zero for bad roots and padding.

    Args:
        a: (num_rows, num_in); g: (num_rows, num_out), in its own memory, which may be overwritten.
        owner: int64 (num_rows,), slots.
        factor: (num_slots + 1,); bad: bool (num_slots + 1,).
    """
    zero = bad[owner][:, None]
    return a.masked_fill(zero, 0.0), (g * factor[owner][:, None]).masked_fill(zero, 0.0)


class Operations(Protocol):
    """Operations of a step that can be fused: this module or `kernels`."""

    def slot_norms(
        self, a: Tensor, g: Tensor, ptr: Tensor, shape: Shape, packed: Tensor, level: int
    ) -> Tensor:
        """Norms and spreads."""

    def clip_factors(
        self, squared: Tensor, spread: Tensor, bounds: Bounds, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Factors and which slots are bad."""

    def scaled(
        self, a: Tensor, g: Tensor, owner: Tensor, factor: Tensor, bad: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rows and their scaled gradients."""

    def sum_rows(self, h: Tensor, offsets: Tensor, source: Tensor, weight: Tensor) -> Tensor:
        """Weighted sums of rows."""
