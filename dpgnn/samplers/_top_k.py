"""Compiled loops of the K arcs of smallest keyed priority of each node: one pass over the arcs.

A worker takes a range of groups and reads all arcs; what it writes depends only on its own groups, so
any number of workers gives the same bytes, and memory does not grow with the number of arcs.

Row g of `rows` (flat, EIGHT entries longer than all rows) holds the ids of group g. While it holds fewer
than K, its last entry is ~count. When it is full, its last entry is the id of largest priority, and limits[g]
is the upper half of that priority; until then limits[g] is OPEN. Priorities are recomputed instead of stored.
An arc seen twice counts once: for one key priorities are injective in the pair.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint32, uint64

from dpgnn.samplers._prefetch import prefetch
from dpgnn.samplers.hashing import pair_hash

# positions are unsigned: signed indices would be checked for negative values at each use
ZERO, ONE, HALF = np.uint64(0), np.uint64(1), np.uint64(32)
EIGHT = np.uint64(8)  # ids whose priorities are computed together by vector instructions
BLOCK = np.uint64(8192)  # arcs processed together; their data fits into the L2 cache
AHEAD = np.uint64(16)  # prefetch distance in arcs
OPEN = np.uint32(0xFFFFFFFF)
BYTE, BIT = np.uint32(3), np.uint32(7)


@njit(cache=True, nogil=True)
def offer(group, item, group_bits, item_bits, key, by_item, low, high, rows, bound, limits):  # type: ignore[no-untyped-def]
    """Offer arcs to the rows of the groups low..high-1.

    Args:
        group, item: integers of one length: ends of the arcs.
        group_bits, item_bits: masks, eight nodes a byte; arcs with an end outside are not offered.
        key: uint64, shape (2,).
        by_item: the priority is that of (item, group).
        rows, limits: as the module says; changed.
        bound: K >= 1.
    """
    words, bound = (key[0], key[1]), uint64(bound)
    few = np.empty((4, BLOCK + ONE), np.uint32)
    filling, full = (few[0], few[1]), (few[2], few[3])
    ranks, own = np.empty(BLOCK + ONE, np.uint64), np.empty(bound + EIGHT, np.uint64)
    for start in range(ZERO, uint64(len(group)), BLOCK):
        stop = min(start + BLOCK, uint64(len(group)))
        number = _usable(group, item, group_bits, item_bits, low, high, start, stop, full)
        open_, closed = _fresh(full, number, words, by_item, limits, filling, ranks)
        for place in range(open_):
            _ask(rows, filling[0], place, open_, bound)
            _fill(filling[0][place], filling[1][place], words, by_item, rows, bound, limits, own)
        for place in range(closed):
            _ask(rows, full[0], place, closed, bound)
            g, i = full[0][place], full[1][place]
            _replace(g, i, ranks[place], words, by_item, rows, bound, limits, own)


@njit(cache=True, nogil=True, inline="always")
def _usable(group, item, group_bits, item_bits, low, high, start, stop, found):  # type: ignore[no-untyped-def]
    """Write the usable arcs among start..stop-1; branch-free, so loads overlap."""
    groups, items, count = found[0], found[1], ZERO
    low, size = uint32(low), uint32(high - low)
    for arc in range(start, stop):
        g, i = uint32(group[arc]), uint32(item[arc])
        groups[count], items[count] = g, i
        usable = (uint32(g - low) < size) & (g != i)
        usable &= ((group_bits[g >> BYTE] >> (g & BIT)) & 1) != 0
        usable &= ((item_bits[i >> BYTE] >> (i & BIT)) & 1) != 0
        count += uint64(usable)
    return count


@njit(cache=True, nogil=True, inline="always")
def _fresh(arcs, number, key, by_item, limits, filling, ranks):  # type: ignore[no-untyped-def]
    """Separate arcs whose group is not full from those (in place) that pass the group's limit.

    Limits only decrease, so an outdated limit passes too many arcs, never too few.
    """
    groups, items, open_, closed = arcs[0], arcs[1], ZERO, ZERO
    for place in range(number):
        if place + AHEAD < number:
            prefetch(limits, np.int64(groups[place + AHEAD]))
        g, i = groups[place], items[place]
        rank, limit = _rank(key, g, i, by_item), limits[g]
        filling[0][open_], filling[1][open_] = g, i
        open_ += uint64(limit == OPEN)
        groups[closed], items[closed], ranks[closed] = g, i, rank
        closed += uint64((uint32(rank >> HALF) <= limit) & (limit != OPEN))
    return open_, closed


@njit(cache=True, nogil=True, inline="always")
def _rank(key, g, i, by_item):  # type: ignore[no-untyped-def]
    """Priority of an arc: of (group, item), or of (item, group)."""
    first, second = (i, g) if by_item else (g, i)
    return pair_hash(key, first, second)


@njit(cache=True, nogil=True, inline="always")
def _ask(rows, groups, place, number, bound):  # type: ignore[no-untyped-def]
    """Prefetch a row, which may span two cache lines."""
    if place + AHEAD < number:
        first = uint64(groups[place + AHEAD]) * bound
        prefetch(rows, np.int64(first))
        prefetch(rows, np.int64(first + bound - ONE))


@njit(cache=True, nogil=True, inline="always")
def _ranks_of(key, g, by_item, rows, first, bound, own):  # type: ignore[no-untyped-def]
    """Priorities of a row's ids, padded to a multiple of eight."""
    for block in range(ZERO, bound, EIGHT):
        for place in range(EIGHT):
            at = block + place
            own[at] = _rank(key, g, uint32(rows[first + at]), by_item)


@njit(cache=True, nogil=True, inline="always")
def _replace(g, i, rank, key, by_item, rows, bound, limits, own):  # type: ignore[no-untyped-def]
    """Replace the id of largest priority in a full row; an id that is already in the row changes nothing."""
    first, last = uint64(g) * bound, bound - ONE
    _ranks_of(key, g, by_item, rows, first, bound, own)
    known, at, largest = False, last, rank
    for place in range(last):
        known |= own[place] == rank
        larger = own[place] > largest
        at = place if larger else at
        largest = own[place] if larger else largest
    if (rank < own[last]) & (not known):
        rows[first + last] = rows[first + at]
        rows[first + at] = np.int32(i)
        limits[g] = uint32(largest >> HALF)


@njit(cache=True, nogil=True, inline="always")
def _fill(g, i, key, by_item, rows, bound, limits, own):  # type: ignore[no-untyped-def]
    """Add an id to a row that was not full; it may have become full in the meantime."""
    first, last = uint64(g) * bound, bound - ONE
    end = rows[first + last]
    if end >= 0:
        _replace(g, i, _rank(key, g, i, by_item), key, by_item, rows, bound, limits, own)
        return
    count, known = uint64(~end), False
    for block in range(ZERO, count, EIGHT):
        for place in range(EIGHT):
            known |= (rows[first + block + place] == np.int32(i)) & (block + place < count)
    if known:
        return
    if count < last:
        rows[first + count] = np.int32(i)
        rows[first + last] = ~np.int32(count + ONE)
        return
    rows[first + last] = np.int32(i)
    _ranks_of(key, g, by_item, rows, first, bound, own)
    at, largest = ZERO, ZERO
    for place in range(bound):
        larger = own[place] >= largest
        at = place if larger else at  # type: ignore[assignment]
        largest = own[place] if larger else largest
    rows[first + last] = rows[first + at]
    rows[first + at] = np.int32(i)
    limits[g] = uint32(largest >> HALF)


@njit(cache=True, nogil=True)
def count_rows(rows, bound, limits, counts):  # type: ignore[no-untyped-def]
    """Number of ids in each row; `counts` (int32) may share the memory of `limits`."""
    for g in range(len(limits)):
        end = rows[(g + 1) * bound - 1]
        counts[g] = ~end if end < 0 else bound
