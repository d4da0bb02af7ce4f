"""Compiled loops of the disjoint random walks."""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from dpgnn.samplers._hashing import pair_hash
from dpgnn.samplers._prefetch import prefetch

# roots between asking for a list, or for where it stands, and reading it
NEAR, FAR = np.uint64(8), np.uint64(16)


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
    """Whether `current` has a neighbour that is not used, and a uniform one of these.

    A few random entries are tried (given that one is free, it is uniform among the free ones); then the
    free neighbour of smallest priority is taken. A node is current in one subgraph only, and tries have
    a counter of their own for each walk, so no draw is used twice; the second walk of a root takes the
    next free neighbour in the same random order.
    """
    start, stop = uint64(pointer[current]), uint64(pointer[current + uint64(1)])
    degree = stop - start
    # a long list is dear to scan: it is worth more tries
    number = tries + (degree >> uint64(3)) if tries > 0 and degree > 0 else uint64(0)
    # the counter stands where no pair (node, neighbour) of the scan below can
    first = (uint64(1) << uint64(31)) + walk * number
    for attempt in range(first, first + number):
        draw = pair_hash(key, attempt, current)
        product = (draw >> uint64(32)) * degree
        low = product & uint64(0xFFFFFFFF)
        if low < degree and low < (uint64(0x100000000) - degree) % degree:
            continue  # Lemire (2019): without these the entry is exactly uniform
        candidate = uint64(neighbours[start + (product >> uint64(32))])
        if not used[candidate]:
            return True, candidate
    found, best, smallest = False, uint64(0), uint64(0)
    for entry in range(start, stop):
        candidate = uint64(neighbours[entry])
        if not used[candidate]:
            priority = pair_hash(key, current, candidate)
            if not found or priority < smallest:
                found, best, smallest = True, candidate, priority
    return found, best


@njit(cache=True, nogil=True)
def disjoint_walks(  # type: ignore[no-untyped-def]
    pointer, neighbours, order, length, num_walks, tries, key, used, node_pointer, nodes, parent
):
    """Cut the nodes of `order` into walks; returns the number of subgraphs.

    Positions are unsigned: an index that may be negative is tested at each use, which made this 1.7 times
    slower.
    """
    one, tries = uint64(1), uint64(tries)
    count, end, num_nodes = uint64(0), uint64(0), uint64(len(order))
    for index in range(num_nodes):
        root = uint64(order[index])
        if index + FAR < num_nodes:
            far = order[index + FAR]
            prefetch(pointer, far)
            prefetch(used, far)
            prefetch(neighbours, pointer[uint64(order[index + NEAR])])
        if used[root]:
            continue
        used[root] = 1
        first = end
        node_pointer[count] = first
        nodes[end] = root
        parent[end] = -1
        end += one
        for walk in range(uint64(num_walks)):
            current, position = root, np.int64(0)
            for _ in range(length):
                found, chosen = _free_neighbour(
                    pointer, neighbours, current, walk, tries, key, used
                )
                if not found:
                    break
                used[chosen] = 1
                nodes[end] = chosen
                parent[end] = position
                position = np.int64(end - first)
                current = chosen
                end += one
        count += one
    node_pointer[count] = end
    return np.int64(count)


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
