"""Compiled loops of the disjoint random walks."""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from dpgnn.samplers._hashing import pair_hash
from dpgnn.samplers._prefetch import prefetch

AHEAD = 8  # roots between asking for a list and reading it


@njit(cache=True, nogil=True)
def count_ends(source, target, allowed, pointer):  # type: ignore[no-untyped-def]
    """pointer[v + 1] += arcs into v with both ends allowed."""
    for arc in range(len(source)):
        if allowed[source[arc]] and allowed[target[arc]] and source[arc] != target[arc]:
            pointer[target[arc] + 1] += 1


@njit(cache=True, nogil=True)
def fill_ends(source, target, allowed, place, neighbours):  # type: ignore[no-untyped-def]
    """Write the sources of arcs into v from place[v] on; `place` moves on."""
    for arc in range(len(source)):
        if allowed[source[arc]] and allowed[target[arc]] and source[arc] != target[arc]:
            neighbours[place[target[arc]]] = source[arc]
            place[target[arc]] += 1


@njit(cache=True, nogil=True, inline="always")
def _free_neighbour(pointer, neighbours, current, walk, tries, key, used):  # type: ignore[no-untyped-def]
    """A uniform neighbour of `current` that is not used, or -1.

    A few random entries are tried (given that one is free, it is uniform among the free ones); then the
    free neighbour of smallest priority is taken. A node is current in one subgraph only, and tries have
    a counter of their own for each walk, so no draw is used twice; the second walk of a root takes the
    next free neighbour in the same random order.
    """
    start = pointer[current]
    degree = uint64(pointer[current + 1] - start)
    if degree == 0:
        return np.int64(-1)
    # a long list is dear to scan: it is worth more tries
    number = tries + np.int64(degree >> uint64(3)) if tries > 0 else 0
    for attempt in range(walk * number, (walk + 1) * number):
        # the counter stands where no pair (node, neighbour) of the scan below can
        draw = pair_hash(key, attempt + (1 << 31), current)
        product = (draw >> uint64(32)) * degree
        low = product & uint64(0xFFFFFFFF)
        if low < degree and low < (uint64(0x100000000) - degree) % degree:
            continue  # Lemire (2019): without these the entry is exactly uniform
        candidate = np.int64(neighbours[start + np.int64(product >> uint64(32))])
        if not used[candidate]:
            return candidate
    best, smallest = np.int64(-1), uint64(0)
    for entry in range(start, pointer[current + 1]):
        candidate = np.int64(neighbours[entry])
        if not used[candidate]:
            priority = pair_hash(key, current, candidate)
            if best < 0 or priority < smallest:
                best, smallest = candidate, priority
    return best


@njit(cache=True, nogil=True)
def disjoint_walks(  # type: ignore[no-untyped-def]
    pointer, neighbours, order, length, num_walks, tries, key, used, node_pointer, nodes, parent
):
    """Cut the nodes of `order` into walks; returns the number of subgraphs."""
    count, end = 0, 0
    for index in range(len(order)):
        root = order[index]
        if index + 2 * AHEAD < len(order):
            prefetch(pointer, order[index + 2 * AHEAD])
            prefetch(used, order[index + 2 * AHEAD])
            prefetch(neighbours, pointer[order[index + AHEAD]])
        if used[root]:
            continue
        used[root] = 1
        first = end
        node_pointer[count] = first
        nodes[end] = root
        parent[end] = -1
        end += 1
        for walk in range(num_walks):
            current, position = root, 0
            for _ in range(length):
                chosen = _free_neighbour(pointer, neighbours, current, walk, tries, key, used)
                if chosen < 0:
                    break
                used[chosen] = 1
                nodes[end] = chosen
                parent[end] = position
                position = end - first
                current = chosen
                end += 1
        count += 1
    node_pointer[count] = end
    return count


@njit(cache=True, nogil=True)
def induced_edges(  # type: ignore[no-untyped-def]
    pointer, neighbours, node_pointer, nodes, block, local, edge_pointer, heads, tails
):
    """Arcs among the nodes of each block; counts them when `heads` is empty, writes them otherwise."""
    write = len(heads) > 0
    arc = 0
    for index in range(len(node_pointer) - 1):
        for place in range(node_pointer[index], node_pointer[index + 1]):
            node = nodes[place]
            for entry in range(pointer[node], pointer[node + 1]):
                other = neighbours[entry]
                if block[other] == index:
                    if write:
                        heads[arc] = local[other]
                        tails[arc] = place - node_pointer[index]
                    arc += 1
        edge_pointer[index + 1] = arc
