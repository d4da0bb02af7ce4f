"""Compiled loops of the edge samplers: one pass over the arcs, one slot array of K ids per node.

A worker takes a range of groups and reads all arcs; what it writes depends only on its own groups, so
any number of workers gives the same bytes, and memory does not grow with the number of arcs.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint32, uint64

from dpgnn.samplers._prefetch import prefetch
from dpgnn.samplers.hashing import mix, pair_hash

# positions are unsigned: signed indices would be checked for negative values at each use
ZERO, ONE = np.uint64(0), np.uint64(1)
BLOCK = np.uint64(2048)  # arcs processed together; their positions fit into the L1 cache
AHEAD = np.uint64(12)  # prefetch distance in arcs


@njit(cache=True, nogil=True, inline="always")
def _valid(group, item, group_ok, item_ok, low, high, start, stop, places):  # type: ignore[no-untyped-def]
    """Write the positions of usable arcs among start..stop-1; branch-free, so loads overlap."""
    count = uint64(0)
    low, high = uint32(low), uint32(high)
    for arc in range(start, stop):
        g = uint32(group[arc])
        i = uint32(item[arc])
        places[count] = arc
        usable = (g >= low) & (g < high) & (g != i) & (group_ok[g] != 0) & (item_ok[i] != 0)
        count += uint64(usable)
    return count


@njit(cache=True, nogil=True)
def count_arcs(source, target, source_ok, target_ok, low, high, lengths):  # type: ignore[no-untyped-def]
    """Add to lengths[u] the arcs u -> w with both ends allowed, for u in low..high-1."""
    places = np.empty(BLOCK + ONE, np.uint64)
    for start in range(ZERO, uint64(len(source)), BLOCK):
        stop = min(start + BLOCK, uint64(len(source)))
        number = _valid(source, target, source_ok, target_ok, low, high, start, stop, places)
        for place in range(number):
            if place + AHEAD < number:
                prefetch(lengths, source[places[place + AHEAD]])
            lengths[uint32(source[places[place]])] += 1


@njit(cache=True, nogil=True)
def coin_limits(lengths, max_degree):  # type: ignore[no-untyped-def]
    """Turn each list's length (uint32, changed in place) into the limit of a coin of 32 bits.

    A coin is <= limit with probability min(1, K / (2 length)), up to 2^-32.
    """
    for u in range(len(lengths)):
        share = max_degree / (2.0 * max(lengths[u], 1)) * 4294967296.0
        lengths[u] = np.uint32(min(share, 4294967295.0))


@njit(cache=True, nogil=True)
def thin_lists(  # type: ignore[no-untyped-def]
    source, target, source_ok, target_ok, key, by_position, keys_of_lists, low, high, limits, seen,
    slots, counts,
):  # fmt: skip
    """SAMPLE-EDGELISTS: keep each reader w of u if its coin is <= limits[u]; count distinct ones.

    by_position: coins of (u, position in its list) and of keys_of_lists[u] (all 0 to leave it out)
    instead of (u, w). counts[u] goes up to K + 1, "more than K": the caller drops the list.
    """
    bound = slots.shape[1]
    if bound == 0:
        return
    flat = slots.ravel()
    places = np.empty(BLOCK + ONE, np.uint64)
    for start in range(ZERO, uint64(len(source)), BLOCK):
        stop = min(start + BLOCK, uint64(len(source)))
        number = _valid(source, target, source_ok, target_ok, low, high, start, stop, places)
        kept = ZERO
        for place in range(number):
            if place + AHEAD < number:
                prefetch(limits, source[places[place + AHEAD]])
            arc = places[place]
            u = uint32(source[arc])
            if by_position:
                coin = mix(pair_hash(key, u, seen[u]) + keys_of_lists[u])
                seen[u] += 1
            else:
                coin = pair_hash(key, u, target[arc])
            places[kept] = arc
            kept += uint64((coin >> uint64(32)) <= uint64(limits[u]))
        for place in range(kept):
            if place + AHEAD < kept:
                later = np.int64(source[places[place + AHEAD]])
                prefetch(flat, later * bound)
                prefetch(counts, later)
            u = uint32(source[places[place]])
            w = target[places[place]]
            count = counts[u]
            known = count > bound
            for other in range(min(count, bound)):
                known |= slots[u, other] == w
            if not known:
                if count < bound:
                    slots[u, count] = w
                counts[u] = count + 1


@njit(cache=True, nogil=True)
def pack_rows(rows, bound, counts, pointer):  # type: ignore[no-untyped-def]
    """Move the ids of all rows to the front of `rows`, without gaps; find where each reader's list starts.

    pointer (int64, num_nodes + 1 zeros) receives the start of reader v's list at v + 1.

    Returns:
        how many ids there are.
    """
    end = ZERO
    for u in range(uint64(len(counts))):
        first = u * uint64(bound)
        for place in range(first, first + uint64(counts[u])):
            v = rows[place]
            rows[end] = v
            pointer[uint32(v) + ONE] += 1
            end += ONE
    start = np.int64(0)
    for v in range(len(counts)):
        start, pointer[v + 1] = start + pointer[v + 1], start
    return start


@njit(cache=True, nogil=True)
def pull_range(packed, counts, pointer, low, found):  # type: ignore[no-untyped-def]
    """Move the ids >= low out of the packed ones; write their holders, by reader.

    The list of reader v goes to `found` from pointer[v + 1] - pointer[low + 1] on, ascending; pointer[v + 1]
    moves to its end. Ids below `low` move to the front, and counts[u] goes down to what u has there.
    """
    start, kept, base = ZERO, ZERO, pointer[low + 1]
    for u in range(uint64(len(counts))):
        stop, before = start + uint64(counts[u]), kept
        for place in range(start, stop):
            v = packed[place]
            if v < low:
                packed[kept] = v
                kept += ONE
            else:
                reader = uint32(v) + ONE
                found[uint64(pointer[reader] - base)] = u
                pointer[reader] += 1
        start, counts[u] = stop, kept - before


@njit(cache=True, nogil=True)
def shorten_lists(pointer, sources, limit, key, by_priority):  # type: ignore[no-untyped-def]
    """Cut every list to `limit` sources: those of smallest priority pi(u, v), or the first ones."""
    num_nodes = len(pointer) - 1
    new_pointer = np.zeros(num_nodes + 1, np.int64)
    kept = np.empty(len(sources), np.int32)
    end = 0
    for v in range(num_nodes):
        start, stop = pointer[v], pointer[v + 1]
        if stop - start <= limit:
            for place in range(start, stop):
                kept[end] = sources[place]
                end += 1
        elif by_priority:
            priorities = np.empty(stop - start, np.uint64)
            for place in range(start, stop):
                priorities[place - start] = pair_hash(key, sources[place], v)
            threshold = np.partition(priorities, limit)[limit]
            for place in range(start, stop):
                if priorities[place - start] < threshold:
                    kept[end] = sources[place]
                    end += 1
        else:
            for place in range(start, start + limit):
                kept[end] = sources[place]
                end += 1
        new_pointer[v + 1] = end
    return new_pointer, kept[:end].copy()


@njit(cache=True, nogil=True)
def arcs_of(place, source, target, row, other):  # type: ignore[no-untyped-def]
    """Arcs whose source has a place >= 0, without loops; returns their number.

    row[i] is the place of the i-th one's source, other[i] its target; both have the length of `source`.
    """
    count = 0
    for i in range(len(source)):
        own = place[source[i]]
        if own >= 0 and source[i] != target[i]:
            row[count] = own
            other[count] = target[i]
            count += 1
    return count
