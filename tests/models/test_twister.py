"""The compiled generator gives numpy's Mersenne twister words, from any place on."""

from __future__ import annotations

import numpy as np
import pytest

from dpgnn.models._twister import WORDS, fill, skip, start


def words(seed: int, count: int) -> np.ndarray:
    """The first words of MT19937 with the plain seeding, as numpy's legacy generator draws them."""
    return np.random.RandomState(seed).randint(0, 2**32, count, dtype=np.uint32)


@pytest.mark.parametrize("skipped", [0, 1, 623, 624, 1300])
@pytest.mark.parametrize("rate", [0.25, 0.5])
def test_masks_come_from_the_twisters_words(skipped: int, rate: float) -> None:
    state = np.empty(WORDS, np.uint32)
    start(state, np.uint64(5))
    place = skip(state, skipped)
    out = np.empty(2000, np.float32)
    fill(out, state, place, np.float32(rate), np.float32(4.0))
    drawn = words(5, skipped + 2000)[skipped:] & 0xFFFFFF
    wanted = np.where(drawn * 2.0**-24 >= rate, 4.0, 0.0)
    np.testing.assert_array_equal(out, wanted)


def test_the_place_after_a_draw_continues_the_stream() -> None:
    state = np.empty(WORDS, np.uint32)
    start(state, np.uint64(9))
    place, parts = skip(state, 0), []
    for size in (10, 700, 90):
        part = np.empty(size, np.float32)
        place = fill(part, state, place, np.float32(0.3), np.float32(1.0))
        parts.append(part)
    wanted = (words(9, 800) & 0xFFFFFF) * 2.0**-24 >= np.float32(0.3)
    np.testing.assert_array_equal(np.concatenate(parts), wanted)
