"""Compiled loops of the disjoint random walks."""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from dpgnn.samplers._hashing import pair_hash


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


@njit(cache=True, nogil=True)
def disjoint_walks(  # type: ignore[no-untyped-def]
    pointer, neighbours, order, length, num_walks, key, used, node_pointer, nodes, parent
):
    """Cut the nodes of `order` into walks; returns the number of subgraphs.

    The next node is the free neighbour of smallest priority hash(key, current, neighbour): uniform among
    the free ones, because a node is current in one subgraph only, so its priorities are not used before;
    the second walk of a root takes the next in the same random order.
    """
    count, end = 0, 0
    for index in range(len(order)):
        root = order[index]
        if used[root]:
            continue
        used[root] = 1
        first = end
        node_pointer[count] = first
        nodes[end] = root
        parent[end] = -1
        end += 1
        for _ in range(num_walks):
            current, position = root, 0
            for _ in range(length):
                best, smallest = np.int64(-1), uint64(0)
                for entry in range(pointer[current], pointer[current + 1]):
                    candidate = neighbours[entry]
                    if used[candidate]:
                        continue
                    priority = pair_hash(key, current, candidate)
                    if best < 0 or priority < smallest:
                        best, smallest = np.int64(candidate), priority
                if best < 0:
                    break
                used[best] = 1
                nodes[end] = best
                parent[end] = position
                position = end - first
                current = best
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
