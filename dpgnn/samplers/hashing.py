"""Counter-based random numbers: a keyed hash of a pair of integers, the same for any number of workers.

The bounds on changed roots hold for every key, so the hash needs statistical quality but no secrecy; it is
never used for noise, batch coins or other draws that a proof needs secret.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
SILVER = np.uint64(0xD1B54A32D192ED03)


def draw_key(rng: np.random.Generator) -> np.ndarray:
    """A key of 128 bits: uint64, shape (2,)."""
    return rng.integers(0, 2**64, size=2, dtype=np.uint64)


@njit(cache=True, nogil=True, inline="always")
def mix(x):  # type: ignore[no-untyped-def]
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection of 64 bits."""
    x = uint64(x)
    x = (x ^ (x >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> uint64(27))) * uint64(0x94D049BB133111EB)
    return x ^ (x >> uint64(31))


@njit(cache=True, nogil=True, inline="always")
def pair_hash(key, first, second):  # type: ignore[no-untyped-def]
    """64 bits for (key, first, second), both integers in 0..2^32-1; for one key, injective in the pair.

    Splitmix64 with the pair as its counter, and one more keyed multiplication round.
    """
    pair = (uint64(first) << uint64(32)) | uint64(second)
    bits = (mix(pair * GOLDEN + uint64(key[0])) ^ uint64(key[1])) * SILVER
    return bits ^ (bits >> uint64(32))


@njit(cache=True, nogil=True)
def pair_hashes(key, first, second):  # type: ignore[no-untyped-def]
    """`pair_hash` of two integer arrays: uint64, of their length."""
    out = np.empty(len(first), np.uint64)
    for place in range(len(first)):
        out[place] = pair_hash(key, first[place], second[place])
    return out
