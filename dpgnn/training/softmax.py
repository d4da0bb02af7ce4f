"""Softmax over few classes, rounded as by torch on a CPU with AVX-512.

torch works row by row with registers of 16 numbers, which short rows do not fill. Here 64 rows are processed
side by side, in a sixth of the time. If torch rounds differently on a machine, torch is used.
"""

# mypy: disable-error-code="no-untyped-def, call-arg, var-annotated"

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from numba import njit
from torch import Tensor

from dpgnn.training._adam import _fma

# rows with this many classes fill torch's registers
WIDE = 16
AT_ONCE = 64
# exp of the library Sleef to one unit in the last place: 2^q exp(s), q the nearest integer to d / log 2
ONE, HALF, LEAST = np.float32(1), np.float32(0.5), np.float32(-104)
PER_LOG2, LOG2, LOG2_REST = (
    np.float32(c) for c in (1.442695040888963, 0.693145751953125, 1.428606765330187e-06)
)
C6, C5, C4, C3, C2 = (
    np.float32(c)
    for c in (
        0.000198527617612853646,
        0.00139304355252534151,
        0.00833336077630519867,
        0.0416664853692054748,
        0.166666671633720398,
    )
)


def softmax(logits: Tensor) -> Tensor:
    """Bitwise equal to `torch.softmax(logits, dim=-1)`.

    Args:
        logits: any shape and dtype.
    """
    classes = logits.shape[-1]
    if logits.dtype != torch.float32 or not 0 < classes < WIDE:
        return torch.softmax(logits, dim=-1)
    if logits.device.type != "cpu" or logits.requires_grad or not _rounds_alike(classes):
        return torch.softmax(logits, dim=-1)
    logits = logits.contiguous()
    found = torch.empty_like(logits)
    by_rows(logits.numpy().reshape(-1, classes), found.numpy().reshape(-1, classes))
    return found


@cache
def _rounds_alike(classes: int) -> bool:
    """Whether torch gives the same bits on this machine, for numbers of all magnitudes."""
    sizes = torch.logspace(-3, 2, 512)[:, None]
    rows = torch.randn(512, classes, generator=torch.Generator().manual_seed(0)) * sizes
    found = torch.empty_like(rows)
    by_rows(rows.numpy(), found.numpy())
    return torch.equal(found, torch.softmax(rows, dim=1))


@njit(cache=True, nogil=True, error_model="numpy")
def by_rows(x, out):
    """out = softmax of each row of x; both float32, shape (num_rows, num_classes)."""
    count, classes = x.shape
    block = np.empty((classes, AT_ONCE), np.float32)
    top, total = np.empty(AT_ONCE, np.float32), np.empty(AT_ONCE, np.float32)
    first, second = np.empty(AT_ONCE, np.int32), np.empty(AT_ONCE, np.int32)
    power1, power2 = first.view(np.float32), second.view(np.float32)
    block[:] = np.float32(0)
    for start in range(0, count, AT_ONCE):
        here = min(AT_ONCE, count - start)
        for i in range(here):
            for j in range(classes):
                block[j, i] = x[start + i, j]
        for i in range(AT_ONCE):
            top[i] = block[0, i]
            total[i] = 0
        for j in range(1, classes):
            for i in range(AT_ONCE):
                top[i] = max(top[i], block[j, i])
        for j in range(classes):
            for i in range(AT_ONCE):
                d = block[j, i] - top[i]
                q = np.rint(d * PER_LOG2)
                s = _fma(q, -LOG2_REST, _fma(q, -LOG2, d))
                u = _fma(_fma(_fma(_fma(C6, s, C5), s, C4), s, C3), s, C2)
                u = ONE + _fma(s * s, _fma(u, s, HALF), s)
                # 2^q in two factors, as q may be below the least exponent
                whole = np.int32(q)
                half = whole >> np.int32(1)
                first[i] = (half + np.int32(127)) << np.int32(23)
                second[i] = (whole - half + np.int32(127)) << np.int32(23)
                grown = u * power1[i] * power2[i]
                block[j, i] = np.float32(0) if d < LEAST else grown
                total[i] += block[j, i]
        for i in range(AT_ONCE):
            total[i] = ONE / total[i]
        for i in range(here):
            for j in range(classes):
                out[start + i, j] = block[j, i] * total[i]
