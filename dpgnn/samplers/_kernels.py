"""Compiled loops of the edge samplers: one pass over the arcs, one slot array of K ids per node.

A worker takes a range of groups and reads all arcs; what it writes depends only on its own groups, so
any number of workers gives the same bytes, and memory does not grow with the number of arcs.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from dpgnn.samplers._hashing import pair_hash, uniform


@njit(cache=True, nogil=True, inline="always")
def _priority(key, g, i, order):  # type: ignore[no-untyped-def]
    """Priority of an arc: of (group, item), of (item, group), or of both without order."""
    if order == 0 or (order == 2 and g < i):
        return pair_hash(key, g, i)
    return pair_hash(key, i, g)


@njit(cache=True, nogil=True)
def offer_top_k(  # type: ignore[no-untyped-def]
    group, item, group_ok, item_ok, key, order, low, high, slots, counts, worst
):
    """Offer arcs to the K smallest priorities of each group in low..high-1.

    slots (int32, (num_nodes, K)), counts (int32) and worst (uint64, largest priority of a full group)
    are updated. Priorities are recomputed instead of stored. An arc seen twice counts once.
    """
    bound = slots.shape[1]
    for arc in range(len(group)):
        g = group[arc]
        i = item[arc]
        if g < low or g >= high or g == i or not group_ok[g] or not item_ok[i]:
            continue
        priority = _priority(key, g, i, order)
        count = counts[g]
        if count == bound and priority >= worst[g]:
            continue
        _insert(g, i, priority, count, key, order, slots, counts, worst)


@njit(cache=True, nogil=True)
def _insert(g, i, priority, count, key, order, slots, counts, worst):  # type: ignore[no-untyped-def]
    """Put an item in its group's slots; the largest priority leaves a full group."""
    bound = slots.shape[1]
    for place in range(count):
        if slots[g, place] == i:
            return
    if count < bound:
        slots[g, count] = i
        counts[g] = count + 1
        if priority > worst[g]:
            worst[g] = priority
        return
    leaving, largest, second = 0, uint64(0), uint64(0)
    for place in range(bound):
        other = slots[g, place]
        value = _priority(key, g, other, order)
        if value >= largest:
            leaving, largest, second = place, value, largest
        elif value > second:
            second = value
    slots[g, leaving] = i
    worst[g] = max(second, priority)


@njit(cache=True, nogil=True)
def mutual_entries(slots, counts):  # type: ignore[no-untyped-def]
    """For each filled slot (u, v), in order, whether v's slots hold u."""
    mutual = np.zeros(counts.sum(), np.bool_)
    entry = 0
    for u in range(len(counts)):
        for place in range(counts[u]):
            v = slots[u, place]
            for other in range(counts[v]):
                mutual[entry] |= slots[v, other] == u
            entry += 1
    return mutual


@njit(cache=True, nogil=True)
def count_arcs(source, target, source_ok, target_ok, low, high, lengths):  # type: ignore[no-untyped-def]
    """Add to lengths[u] the arcs u -> w with both ends allowed, for u in low..high-1."""
    for arc in range(len(source)):
        u = source[arc]
        w = target[arc]
        if u >= low and u < high and u != w and source_ok[u] and target_ok[w]:
            lengths[u] += 1


@njit(cache=True, nogil=True)
def thin_lists(  # type: ignore[no-untyped-def]
    source, target, source_ok, target_ok, key, coins, low, high, lengths, seen, slots, counts
):
    """SAMPLE-EDGELISTS: keep each reader of u with probability K / (2 length), count distinct ones.

    coins: 0 keyed by the pair (u, w); 1 by u and the position in its list; 2 by u, the position and the
    length of the list. counts[u] goes up to K + 1, which means "more than K": the caller drops the list.
    """
    bound = slots.shape[1]
    for arc in range(len(source)):
        u = source[arc]
        w = target[arc]
        if u < low or u >= high or u == w or not source_ok[u] or not target_ok[w]:
            continue
        position = seen[u]
        seen[u] = position + 1
        if coins == 0:
            coin = pair_hash(key, u, w)
        elif coins == 1:
            coin = pair_hash(key, u, position)
        else:
            coin = pair_hash(key, u, position + (np.int64(lengths[u]) << 32))
        if uniform(coin) > bound / (2.0 * lengths[u]) or counts[u] > bound:
            continue
        known = False
        for place in range(counts[u]):
            known = known or slots[u, place] == w
        if not known:
            if counts[u] < bound:
                slots[u, counts[u]] = w
            counts[u] += 1


@njit(cache=True, nogil=True)
def pull_lists(slots, counts):  # type: ignore[no-untyped-def]
    """Turn 'u sends to slots[u]' into 'v reads sources[pointer[v]:pointer[v+1]]', sources ascending."""
    num_nodes = len(counts)
    pointer = np.zeros(num_nodes + 1, np.int64)
    for u in range(num_nodes):
        for place in range(counts[u]):
            pointer[slots[u, place] + 1] += 1
    for v in range(num_nodes):
        pointer[v + 1] += pointer[v]
    sources = np.empty(pointer[num_nodes], np.int32)
    for u in range(num_nodes):
        for place in range(counts[u]):
            v = slots[u, place]
            sources[pointer[v]] = u
            pointer[v] += 1
    for v in range(num_nodes, 0, -1):
        pointer[v] = pointer[v - 1]
    pointer[0] = 0
    return pointer, sources


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
