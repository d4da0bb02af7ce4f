"""Compiled loops over the arcs of one range of nodes."""

from __future__ import annotations

import numpy as np
from numba import njit, uint32, uint64

from dpgnn.samplers.hashing import pair_hash

BYTE, BIT = np.uint32(3), np.uint32(7)


@njit(cache=True, nogil=True)
def offered(group, item, group_bits, item_bits, codes, rule, groups, items):  # type: ignore[no-untyped-def]
    """Write the arcs that may be offered to a list, in their order; loops are left out.

    Args:
        group, item: int32, ends of the arcs.
        group_bits, item_bits: masks, eight nodes a byte: arcs with an end outside are not offered.
        codes: int8 by node, for `rule`.
        rule: 0 keeps all arcs, 1 arcs inside a part, 2 arcs whose ends are not removed (-2).
        groups, items: int32, at least as long; receive the arcs.

    Returns:
        number of arcs that the rule keeps, and number of offered arcs.
    """
    allowed, count = uint64(0), uint64(0)
    for arc in range(uint64(len(group))):
        g, i = uint32(group[arc]), uint32(item[arc])
        fits = g != i
        if rule == 1:
            fits &= (codes[g] == codes[i]) & (codes[g] >= 0)
        elif rule == 2:
            fits &= (codes[g] > -2) & (codes[i] > -2)
        allowed += uint64(fits)
        groups[count], items[count] = g, i
        fits &= ((item_bits[i >> BYTE] >> (i & BIT)) & 1) != 0
        fits &= ((group_bits[g >> BYTE] >> (g & BIT)) & 1) != 0
        count += uint64(fits)
    return allowed, count


@njit(cache=True, nogil=True)
def group_arcs(group, item, first, size):  # type: ignore[no-untyped-def]
    """Items of the groups first..first+size-1, each group's in the order of the arcs: pointer and items."""
    pointer = np.zeros(size + 1, np.int64)
    for arc in range(len(group)):
        pointer[group[arc] - first + 1] += 1
    for g in range(size):
        pointer[g + 1] += pointer[g]
    place, items = pointer[:-1].copy(), np.empty(len(group), np.int32)
    for arc in range(len(group)):
        g = group[arc] - first
        items[place[g]] = item[arc]
        place[g] += 1
    return pointer, items


@njit(cache=True, nogil=True)
def smallest(pointer, items, first, bound, key, by_item):  # type: ignore[no-untyped-def]
    """The `bound` items of smallest keyed priority of each group, each once.

    The priority is that of (group, item), by_item: of (item, group). It is injective in the pair, so equal
    priorities mean a repeated arc.

    Returns:
        groups and items kept, int32, ascending by group, then item.
    """
    longest = np.int64(0)
    for g in range(len(pointer) - 1):
        longest = max(longest, pointer[g + 1] - pointer[g])
    bound = min(np.int64(bound), longest)
    groups, kept = np.empty(len(items), np.int32), np.empty(len(items), np.int32)
    best, ranks = np.empty(bound + 1, np.int32), np.empty(bound + 1, np.uint64)
    end = 0
    for g in range(len(pointer) - 1 if bound > 0 else 0):
        count = 0
        if pointer[g] == pointer[g + 1]:
            continue
        for place in range(pointer[g], pointer[g + 1]):
            item = items[place]
            rank = pair_hash(key, item, first + g) if by_item else pair_hash(key, first + g, item)
            if count == bound and rank >= ranks[count - 1]:
                continue
            at = count
            while at > 0 and ranks[at - 1] > rank:
                at -= 1
            if at > 0 and ranks[at - 1] == uint64(rank):
                continue
            count = min(count + 1, bound)
            for later in range(count - 1, at, -1):
                ranks[later], best[later] = ranks[later - 1], best[later - 1]
            ranks[at], best[at] = rank, item
        for item in np.sort(best[:count]):
            groups[end] = first + g
            kept[end] = item
            end += 1
    return groups[:end].copy(), kept[:end].copy()
