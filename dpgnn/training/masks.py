"""Dropout masks: torch's uniform numbers on the CPU as numba compiles them, the same bits in far less time.

torch draws one number after the other; here a block of the generator's words is made and compared at once.
Matsumoto and Nishimura (1998), "Mersenne twister", MT19937; torch keeps the 24 low bits of a word.
"""

from __future__ import annotations

import numpy as np
import torch
from numba import float32, int32, njit, uint32, uint64
from torch import Tensor

WORDS, SHIFT = 624, 397


class Masks:
    """Masks from a stream: what `torch.rand(shape).ge(rate).div(1 - rate)` would be, to the bit.

    Args:
        generator: a CPU generator from which nothing was drawn; its seed is taken, it is not used up.
    """

    def __init__(self, generator: torch.Generator) -> None:
        self._state = np.empty(WORDS, np.uint32)
        _start(self._state, np.uint64(generator.initial_seed() % 2**32))
        self._place = WORDS

    def draw(self, shape: tuple[int, ...], rate: float) -> Tensor:
        """float32 of this shape: 0 with probability `rate` (in [0, 1)), else 1 / (1 - rate)."""
        mask = torch.empty(shape)
        kept = torch.ones(()).div_(1 - rate).numpy()[()]
        flat = mask.numpy().reshape(-1)
        self._place = _fill(flat, self._state, self._place, np.float32(rate), kept)
        return mask


@njit(cache=True)
def _start(state, seed):  # type: ignore[no-untyped-def]
    value = uint64(seed)
    state[0] = value
    for place in range(1, WORDS):
        value ^= value >> uint64(30)
        value = (uint64(1812433253) * value + uint64(place)) & uint64(0xFFFFFFFF)
        state[place] = value


# every result is cut to 32 bits again: numba widens it, and wide words halve what a processor does at once


@njit(cache=True, inline="always")
def _next(high, low, far):  # type: ignore[no-untyped-def]
    word = uint32((high & uint32(0x80000000)) | (low & uint32(0x7FFFFFFF)))
    odd = uint32(-int32(word & uint32(1)))
    return uint32(far ^ uint32(word >> uint32(1)) ^ (odd & uint32(0x9908B0DF)))


@njit(cache=True)
def _twist(state):  # type: ignore[no-untyped-def]
    """The next block of words; two loops, so that none reads what it writes."""
    for place in range(WORDS - SHIFT):
        state[place] = _next(state[place], state[place + 1], state[place + SHIFT])
    for place in range(WORDS - SHIFT, WORDS - 1):
        state[place] = _next(state[place], state[place + 1], state[place + SHIFT - WORDS])
    state[WORDS - 1] = _next(state[WORDS - 1], state[0], state[SHIFT - 1])


@njit(cache=True)
def _fill(out, state, place, rate, kept):  # type: ignore[no-untyped-def]
    """Fill `out` from word `place` of the state on; returns the place after it."""
    done = 0
    while done < len(out):
        if place == WORDS:
            _twist(state)
            place = 0
        number = min(WORDS - place, len(out) - done)
        words, part = state[place : place + number], out[done : done + number]
        for index in range(number):
            word = words[index]
            word = uint32(word ^ uint32(word >> uint32(11)))
            word = uint32(word ^ (uint32(word << uint32(7)) & uint32(0x9D2C5680)))
            word = uint32(word ^ (uint32(word << uint32(15)) & uint32(0xEFC60000)))
            word = uint32(word ^ uint32(word >> uint32(18)))
            uniform = float32(int32(word & uint32(0xFFFFFF))) * float32(2.0**-24)
            part[index] = kept if uniform >= rate else float32(0.0)
        done += number
        place += number
    return place
