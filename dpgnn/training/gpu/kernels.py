"""Fused Triton kernels: norms of ragged trees, factors, scaled rows, weighted sums of rows.

A step also works with torch's own operations (`norms` has the same functions), which need many passes over
the rows and dozens of launches instead of one. A kernel is used on a device only if it agrees there with
torch's operations (`trusted`), since the guarantee depends on the norms.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from functools import cache

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from dpgnn.training.clipping import LARGEST_ROW
from dpgnn.training.ghost import one_row_norms, root_norms
from dpgnn.training.gpu import norms as plain
from dpgnn.training.gpu.norms import Bounds
from dpgnn.training.gpu.shapes import Shape

__all__ = ["clip_factors", "scaled", "slot_norms", "sum_rows", "trusted"]

# the fastest of some on an H200: columns of a Gram matrix's tile, rows and columns of other programs
FEW, TILE, BLOCK = 4, 8, 32
ROWS, WIDE, PIECE = 4, 128, 256


@triton.jit
def _gram(h, row, other, is_row, is_other, width, TILE: tl.constexpr, BLOCK: tl.constexpr):
    """Inner products of two tiles of rows, in float64."""
    column = tl.arange(0, BLOCK)
    products = tl.zeros((TILE, TILE, BLOCK), tl.float64)
    for f in range(0, width, BLOCK):
        inside = (f + column < width)[None, None, :]
        at = row[:, None, None] * width + f + column[None, None, :]
        x = tl.load(h + at, mask=is_row[:, None, None] & inside, other=0.0).to(tl.float64)
        at = other[None, :, None] * width + f + column[None, None, :]
        y = tl.load(h + at, mask=is_other[None, :, None] & inside, other=0.0).to(tl.float64)
        products += x * y
    return tl.sum(products, axis=2)


@triton.jit
def _root(
    a, g, out, first, count, num_slots, num_in, num_out, largest,
    TILE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Norms of one root: Gram matrices tile by tile in float64, never stored."""
    tile = tl.arange(0, TILE)
    squared_w = tl.zeros((TILE, TILE), tl.float64)
    squared_b = tl.zeros((TILE, TILE), tl.float64)
    spread_w = tl.zeros((TILE,), tl.float64)
    spread_b = tl.zeros((TILE,), tl.float64)
    for s in range(0, count, TILE):
        is_row, row = s + tile < count, first + s + tile
        length_a = tl.zeros((TILE,), tl.float64)
        length_g = tl.zeros((TILE,), tl.float64)
        for t in range(0, count, TILE):
            is_other, other = t + tile < count, first + t + tile
            gram_a = _gram(a, row, other, is_row, is_other, num_in, TILE, BLOCK)
            gram_g = _gram(g, row, other, is_row, is_other, num_out, TILE, BLOCK)
            same = row[:, None] == other[None, :]
            length_a += tl.sum(tl.where(same, gram_a, 0.0), axis=1)
            length_g += tl.sum(tl.where(same, gram_g, 0.0), axis=1)
            squared_w += gram_a * gram_g
            squared_b += gram_g
        length_a, length_g = tl.sqrt(length_a), tl.sqrt(length_g)
        # false for NaN too
        length_a = tl.where(length_a <= largest, length_a, float("inf"))
        spread_w += tl.where(is_row, length_a * length_g, 0.0)
        spread_b += tl.where(is_row, length_g, 0.0)
    total_w, total_b = tl.sum(spread_w, axis=0), tl.sum(spread_b, axis=0)
    # each entry of a Gram matrix is a sum of num_in or num_out products; a root has count^2 of them, added
    # tile by tile, with a few operations more; a power of two stays what it is in float32
    terms = (num_in + num_out + count * count + 2 * TILE + 8).to(tl.float64)
    gamma = terms * (1.0 / 4503599627370496.0)
    square_w = tl.sum(tl.sum(squared_w, axis=1), axis=0)
    square_b = tl.sum(tl.sum(squared_b, axis=1), axis=0)
    # false for NaN, which stays
    square_w = tl.where(square_w < 0.0, 0.0, square_w) + gamma * total_w * total_w
    square_b = tl.where(square_b < 0.0, 0.0, square_b) + gamma * total_b * total_b
    tl.store(out, square_w)
    tl.store(out + num_slots, total_w)
    tl.store(out + 2 * num_slots, square_b)
    tl.store(out + 3 * num_slots, total_b)


@triton.jit
def _norms(
    a, g, ptr, out, num_slots, num_in, num_out, largest,
    FEW: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One root for each program; a root of few rows takes a smaller tile."""
    slot = tl.program_id(0).to(tl.int64)
    first = tl.load(ptr + slot)
    count = tl.load(ptr + slot + 1) - first
    if count <= FEW:
        _root(a, g, out + slot, first, count, num_slots, num_in, num_out, largest, FEW, BLOCK)
    else:
        _root(a, g, out + slot, first, count, num_slots, num_in, num_out, largest, TILE, BLOCK)


@triton.jit
def _length(h, row, is_row, width, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Lengths of rows, in float64."""
    column = tl.arange(0, BLOCK)
    squares = tl.zeros((ROWS, BLOCK), tl.float64)
    for f in range(0, width, BLOCK):
        mask = is_row[:, None] & (f + column < width)[None, :]
        at = row[:, None] * width + f + column[None, :]
        x = tl.load(h + at, mask=mask, other=0.0).to(tl.float64)
        squares += x * x
    return tl.sqrt(tl.sum(squares, axis=1))


@triton.jit
def _one_row(
    a, g, out, num_slots, num_in, num_out, largest, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Some slots for each program, each with one row: |a||g| and |g|, as `ghost.one_row_norms`."""
    slot = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    is_row = slot < num_slots
    length_a = _length(a, slot, is_row, num_in, ROWS, BLOCK)
    length_g = _length(g, slot, is_row, num_out, ROWS, BLOCK)
    # false for NaN too
    total = tl.where(length_a <= largest, length_a, float("inf")) * length_g
    grow = 1.0 + (0 * slot + num_in + num_out + 9).to(tl.float64) * (1.0 / 4503599627370496.0)
    tl.store(out + slot, total * total * grow, mask=is_row)
    tl.store(out + num_slots + slot, total, mask=is_row)
    tl.store(out + 2 * num_slots + slot, length_g * length_g * grow, mask=is_row)
    tl.store(out + 3 * num_slots + slot, length_g, mask=is_row)


@torch.library.custom_op("dpgnn::gram_norms", mutates_args=())
def gram_norms(a: Tensor, g: Tensor, ptr: Tensor, one_row: bool) -> Tensor:
    """float64 (4, num_slots): what `norms.slot_norms` returns; `one_row` if each slot has one row."""
    a, g, num_slots = a.contiguous(), g.contiguous(), len(ptr) - 1
    out = torch.empty(4, num_slots, dtype=torch.float64, device=a.device)
    sizes = num_slots, a.shape[1], g.shape[1], LARGEST_ROW
    if one_row:
        _one_row[(triton.cdiv(num_slots, ROWS),)](a, g, out, *sizes, ROWS=ROWS, BLOCK=WIDE)
    else:
        tiles = {"FEW": FEW, "TILE": TILE, "BLOCK": BLOCK}
        _norms[(num_slots,)](a, g, ptr, out, *sizes, **tiles, num_warps=1)
    return out


def slot_norms(
    a: Tensor, g: Tensor, ptr: Tensor, shape: Shape, packed: Tensor, level: int
) -> Tensor:
    """As `norms.slot_norms`, by one kernel and without classes of roots."""
    found: Tensor = gram_norms(a, g, ptr, level == len(shape.rows) - 1)
    return found


@triton.jit
def _factors(
    squared, spread, part_of, numbers, out, bad_out, num_slots, num_tensors, num_parts,
    WIDE: tl.constexpr,
):  # fmt: skip
    """Some slots for each program, and one more at the end that adds nothing."""
    slot = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    inside = slot < num_slots
    # numbers from the host would be passed as float32
    share = tl.load(numbers + num_parts)
    smallest = tl.load(numbers + num_parts + 1)
    grow = tl.load(numbers + num_parts + 2)
    bad = slot >= num_slots
    for part in range(0, num_parts):
        total = tl.zeros((WIDE,), tl.float64)
        for tensor in range(0, num_tensors):
            at = tensor * num_slots + slot
            upper = tl.sqrt(tl.load(squared + at, mask=inside, other=0.0))
            upper += share * tl.load(spread + at, mask=inside, other=0.0)
            is_part = tl.load(part_of + tensor) + 0 * slot == part
            total += tl.where(is_part, upper * upper, 0.0)
        norm = tl.sqrt(total) * grow
        # neither NaN nor infinity
        bad = bad | ~(norm < float("inf"))
    for part in range(0, num_parts):
        total = tl.zeros((WIDE,), tl.float64)
        for tensor in range(0, num_tensors):
            at = tensor * num_slots + slot
            upper = tl.sqrt(tl.load(squared + at, mask=inside, other=0.0))
            upper += share * tl.load(spread + at, mask=inside, other=0.0)
            is_part = tl.load(part_of + tensor) + 0 * slot == part
            total += tl.where(is_part, upper * upper, 0.0)
        factor = tl.load(numbers + part) / (tl.sqrt(total) * grow)
        factor = tl.where(factor < 1.0, factor, 1.0)
        factor = tl.where(bad | (factor < smallest), 0.0, factor)
        for tensor in range(0, num_tensors):
            at = tensor * (num_slots + 1) + slot
            is_part = tl.load(part_of + tensor) + 0 * slot == part
            rounded = factor.to(out.dtype.element_ty)
            tl.store(out + at, rounded, mask=(slot <= num_slots) & is_part)
    tl.store(bad_out + slot, bad, mask=slot <= num_slots)


@torch.library.custom_op("dpgnn::clip_factors", mutates_args=())
def slot_factors(
    squared: Tensor, spread: Tensor, part_of: Tensor, numbers: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Factors, and which slots are bad: the result of `norms.clip_factors`."""
    num_tensors, num_slots = squared.shape
    out = torch.empty(num_tensors, num_slots + 1, dtype=dtype, device=squared.device)
    bad = torch.empty(num_slots + 1, dtype=torch.bool, device=squared.device)
    _factors[(triton.cdiv(num_slots + 1, WIDE),)](
        squared, spread, part_of, numbers, out, bad, num_slots, num_tensors, len(numbers) - 3,
        WIDE=WIDE,
    )  # fmt: skip
    return out, bad


def clip_factors(
    squared: Tensor, spread: Tensor, bounds: Bounds, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """As `norms.clip_factors`, by one kernel."""
    factors, bad = slot_factors(squared, spread, *bounds.there, dtype)
    return factors, bad


@triton.jit
def _scale(
    a, g, owner, factor, bad, num_rows, num_in, num_out, ROWS: tl.constexpr, WIDE: tl.constexpr
):
    """Some rows for each program: g times its factor; a is written only if its root is bad."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    is_row = row < num_rows
    slot = tl.load(owner + row, mask=is_row, other=0)
    share = tl.load(factor + slot, mask=is_row, other=0.0)
    is_bad = tl.load(bad + slot, mask=is_row, other=0) != 0
    for f in range(0, num_out, WIDE):
        column = f + tl.arange(0, WIDE)
        mask = is_row[:, None] & (column < num_out)[None, :]
        at = g + row[:, None] * num_out + column[None, :]
        value = tl.load(at, mask=mask, other=0.0) * share[:, None]
        tl.store(at, tl.where(is_bad[:, None], 0.0, value), mask=mask)
    if tl.max(is_bad.to(tl.int32), axis=0) > 0:
        for f in range(0, num_in, WIDE):
            column = f + tl.arange(0, WIDE)
            mask = is_bad[:, None] & (column < num_in)[None, :]
            at = a + row[:, None] * num_in + column[None, :]
            tl.store(at, tl.zeros((ROWS, WIDE), a.dtype.element_ty), mask=mask)


@torch.library.custom_op("dpgnn::scale_rows", mutates_args={"a", "g"})
def scale_rows(a: Tensor, g: Tensor, owner: Tensor, factor: Tensor, bad: Tensor) -> None:
    """Scale g and set bad rows of a and g to 0, in place; both are contiguous."""
    sizes = len(g), a.shape[1], g.shape[1]
    _scale[(triton.cdiv(len(g), ROWS),)](a, g, owner, factor, bad, *sizes, ROWS=ROWS, WIDE=WIDE)


def scaled(
    a: Tensor, g: Tensor, owner: Tensor, factor: Tensor, bad: Tensor
) -> tuple[Tensor, Tensor]:
    """As `norms.scaled`, by one kernel in the memory of a and g."""
    a, g = a.contiguous(), g.contiguous()
    scale_rows(a, g, owner, factor, bad)
    return a, g


@triton.jit
def _sums(h, offsets, source, weight, out, width, WIDE: tl.constexpr):
    """One target and one piece of its row for each program; entries are added in order."""
    target = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    inside = column < width
    total = tl.zeros((WIDE,), out.dtype.element_ty)
    for entry in range(tl.load(offsets + target), tl.load(offsets + target + 1)):
        row = tl.load(source + entry)
        share = tl.load(weight + entry).to(out.dtype.element_ty)
        total += share * tl.load(h + row * width + column, mask=inside, other=0.0)
    tl.store(out + target * width + column, total, mask=inside)


@torch.library.custom_op("dpgnn::sum_rows", mutates_args=())
def sum_rows(h: Tensor, offsets: Tensor, source: Tensor, weight: Tensor) -> Tensor:
    """As `layout.sum_rows`, in one pass and without a copy of the rows that are read."""
    h = h.contiguous()
    num_targets, width = len(offsets) - 1, h.shape[1]
    out = torch.empty(num_targets, width, dtype=h.dtype, device=h.device)
    _sums[(num_targets, triton.cdiv(width, PIECE))](
        h, offsets, source, weight, out, width, WIDE=PIECE, num_warps=1
    )
    return out


@cache
def trusted(device: torch.device) -> bool:
    """Whether the kernels agree with torch's operations on this device, for random rows.

    Only random numbers are read. A kernel that does not compile is not trusted either.
    """
    try:
        return _agree(device)
    except Exception:  # on any error of compiler or driver, torch's operations are used
        return False


def _agree(device: torch.device) -> bool:
    # these random numbers only decide whether the kernels are used
    drawn = torch.Generator().manual_seed(20)
    counts = torch.tensor([1, 0, 8, 3, 9, 33, 0, 17])
    ptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    rows = int(ptr[-1])
    for num_in, num_out in ((5, 3), (64, 40), (130, 17)):
        a, g = (
            torch.randn(rows, num_in, generator=drawn),
            torch.randn(rows, num_out, generator=drawn),
        )
        a[3, 0], g[11, 0] = torch.inf, torch.nan
        a[20] *= 1e21
        if not _norms_agree(a, g, ptr, counts, device):
            return False
    return _sums_agree(ptr, drawn, device)


def _norms_agree(a: Tensor, g: Tensor, ptr: Tensor, counts: Tensor, device: torch.device) -> bool:
    """Norms, factors, and scaled rows."""
    filled = counts > 0
    expected = torch.stack(root_norms(a, g, torch.cat([ptr[:1], ptr[1:][filled]]).numpy()))
    there = ptr.to(device)
    shape = Shape(len(counts), (len(a), len(counts)), (), ())
    found = slot_norms(a.to(device), g.to(device), there, shape, there, 0).cpu()[:, filled]
    one_a, one_g = a[: len(counts)], g[: len(counts)]
    alone = slot_norms(one_a.to(device), one_g.to(device), there, shape, there, 1).cpu()
    if not _close(found, expected) or not _close(alone, torch.stack(one_row_norms(one_a, one_g))):
        return False
    given = (np.array([0, 1]), np.array([0.7, 1e-3]))
    here, away = (Bounds(given, 2.0**-24, 0.0, torch.device(d)) for d in ("cpu", device))
    norms = torch.zeros(4, len(counts), dtype=torch.float64)
    norms[:, filled] = expected
    both = norms[[0, 2]], norms[[1, 3]]
    factors, bad = plain.clip_factors(*both, here, torch.float32)
    moved = clip_factors(both[0].to(device), both[1].to(device), away, torch.float32)
    same = torch.allclose(moved[0].cpu(), factors, rtol=1e-6) and torch.equal(moved[1].cpu(), bad)
    owner = torch.repeat_interleave(torch.arange(len(counts)), counts)
    owner[-2:] = len(counts)
    expected_rows = plain.scaled(a, g, owner, factors[1], bad)
    found_rows = scaled(
        a.to(device), g.to(device), owner.to(device), moved[0][1].contiguous(), moved[1]
    )
    pairs = zip(found_rows, expected_rows)
    return same and all(torch.allclose(one.cpu(), other, rtol=1e-6) for one, other in pairs)


def _close(found: Tensor, expected: Tensor) -> bool:
    """Equal up to rounding; NaN and infinity both mark a bad root."""
    finite = expected.isfinite()
    same = torch.equal(found.isfinite(), finite)
    return same and torch.allclose(found[finite], expected[finite], rtol=1e-9)


def _sums_agree(ptr: Tensor, drawn: torch.Generator, device: torch.device) -> bool:
    rows = int(ptr[-1])
    for width, dtype in ((3, torch.float32), (200, torch.float32), (200, torch.float64)):
        h = torch.randn(31, width, generator=drawn, dtype=dtype)
        source = torch.randint(31, (rows,), generator=drawn)
        weight = torch.rand(rows, generator=drawn)
        expected = plain.sum_rows(h, ptr, source, weight)
        found = sum_rows(*(tensor.to(device) for tensor in (h, ptr, source, weight))).cpu()
        if not torch.allclose(found, expected, rtol=1e-5, atol=1e-5):
            return False
    return True
