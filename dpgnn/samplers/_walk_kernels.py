"""Compiled loops of the disjoint random walks."""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from dpgnn.samplers._prefetch import prefetch
from dpgnn.samplers.hashing import pair_hash

# roots between asking memory for something and using it: where a root's list stands, the list, where the list
# of its next node stands, and that list
STAND, LIST, NEXT_STAND, NEXT_LIST = (np.uint64(roots) for roots in (24, 18, 12, 6))
BLOCK = np.uint64(4096)  # nodes of the order that are searched at once for free ones
NOBODY = np.uint64(1) << np.uint64(32)  # above every node
# the counter of tries starts where no pair (node, neighbour) of a scan can
FIRST_TRY = np.uint64(1) << np.uint64(31)


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
def _entry(key, attempt, current, degree):  # type: ignore[no-untyped-def]
    """A random entry of a list and the remainder of the draw, which decides whether to redraw."""
    product = (pair_hash(key, attempt, current) >> uint64(32)) * degree
    return product >> uint64(32), product & uint64(0xFFFFFFFF)


@njit(cache=True, nogil=True, inline="always")
def _ask(pointer, neighbours, current, key):  # type: ignore[no-untyped-def]
    """Prefetch the head of a list and the entry of its first try."""
    start = uint64(pointer[current])
    degree = uint64(pointer[current + uint64(1)]) - start
    prefetch(neighbours, start)
    prefetch(neighbours, start + _entry(key, FIRST_TRY, current, degree)[0])


@njit(cache=True, nogil=True, inline="always")
def _try(pointer, neighbours, current, walk, tries, key, used, skip):  # type: ignore[no-untyped-def]
    """Try a few random neighbours of `current`: returns a free one or NOBODY, and the number of tries.

    A free neighbour is uniform among the free ones. A node is current in only one subgraph, and each walk has
    its own counter of tries, so no draw is used twice. A node never becomes free again, so earlier failed
    tries may be skipped.
    """
    start = uint64(pointer[current])
    degree = uint64(pointer[current + uint64(1)]) - start
    # long lists are expensive to scan, so they get more tries
    number = tries + (degree >> uint64(3)) if tries > 0 and degree > 0 else uint64(0)
    first = FIRST_TRY + walk * number
    for attempt in range(skip, number):
        entry, low = _entry(key, first + attempt, current, degree)
        if low < degree and low < (uint64(0x100000000) - degree) % degree:
            continue  # Lemire (2019): without these the entry is exactly uniform
        candidate = uint64(neighbours[start + entry])
        if not used[candidate]:
            return candidate, attempt
    return NOBODY, number


@njit(cache=True, nogil=True, inline="always")
def _scan(pointer, neighbours, current, key, used):  # type: ignore[no-untyped-def]
    """The free neighbour of smallest priority, uniform among the free ones; NOBODY if there is none.

    The second walk of a root takes the next free neighbour in the same random order.
    """
    best, smallest = NOBODY, uint64(0)
    for place in range(uint64(pointer[current]), uint64(pointer[current + uint64(1)])):
        candidate = uint64(neighbours[place])
        if not used[candidate]:
            priority = pair_hash(key, current, candidate)
            if best == NOBODY or priority < smallest:
                best, smallest = candidate, priority
    return best


@njit(cache=True, nogil=True)
def disjoint_walks(  # type: ignore[no-untyped-def]
    pointer, neighbours, order, length, num_walks, tries, key, used, node_pointer, nodes, parent
):
    """Cut the nodes of `order` into walks; returns the number of subgraphs.

    Data of later roots is prefetched, and a root's tries are made some roots before its turn: they are hashes
    of (key, node), so only the used nodes can change, which are checked again. Positions are unsigned,
    because signed indices would be checked for negative values.
    """
    one, tries = uint64(1), uint64(tries)
    roots, guesses, failed = np.empty((3, BLOCK), np.uint64)
    count, end, num_nodes = uint64(0), uint64(0), uint64(len(order))
    for begin in range(uint64(0), num_nodes, BLOCK):
        waiting = uint64(0)
        for index in range(begin, min(begin + BLOCK, num_nodes)):
            roots[waiting] = order[index]
            waiting += one - uint64(used[roots[waiting]])
        guesses[:waiting] = NOBODY
        failed[:waiting] = 0
        for turn in range(waiting):
            if turn + STAND < waiting:
                prefetch(pointer, roots[turn + STAND])
                _ask(pointer, neighbours, roots[turn + LIST], key)
            if turn + NEXT_STAND < waiting:
                place = turn + NEXT_STAND
                guesses[place], failed[place] = _try(
                    pointer, neighbours, roots[place], uint64(0), tries, key, used, uint64(0)
                )
                if guesses[place] != NOBODY and length > 1:
                    prefetch(pointer, guesses[place])
                ahead = guesses[turn + NEXT_LIST]
                if ahead != NOBODY and length > 1:
                    _ask(pointer, neighbours, ahead, key)
            root = roots[turn]
            if used[root]:
                continue
            used[root] = 1
            first = end
            node_pointer[count] = first
            nodes[end] = root
            parent[end] = -1
            end += one
            chosen, skip = guesses[turn], failed[turn]
            for walk in range(uint64(num_walks)):
                current, position = root, np.int64(0)
                for _ in range(length):
                    if chosen == NOBODY or used[chosen]:
                        chosen, skip = _try(
                            pointer, neighbours, current, walk, tries, key, used, skip
                        )
                    if chosen == NOBODY:
                        chosen = _scan(pointer, neighbours, current, key, used)
                    if chosen == NOBODY:
                        break
                    used[chosen] = 1
                    nodes[end] = chosen
                    parent[end] = position
                    position = np.int64(end - first)
                    current = chosen
                    end += one
                    chosen, skip = NOBODY, uint64(0)
                chosen, skip = NOBODY, uint64(0)
            count += one
    node_pointer[count] = end
    return np.int64(count)


@njit(cache=True, nogil=True)
def induced_edges(  # type: ignore[no-untyped-def]
    pointer, neighbours, node_pointer, nodes, block, local, edge_pointer, heads, tails
):
    """Arcs among the nodes of each block; counts them if `heads` is empty, else writes them."""
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
