"""Compiled loops over ragged subgraphs: trees of sampled lists, batches, depths."""

from __future__ import annotations

from numba import njit

from dpgnn.samplers._prefetch import prefetch

AHEAD = 8  # prefetch distance in roots


@njit(cache=True, nogil=True)
def measure_trees(pointer, sources, roots, num_hops, mark, queue, nodes_of, edges_of):  # type: ignore[no-untyped-def]
    """Count distinct nodes and arcs within `num_hops` of every root; mark starts as -1 everywhere."""
    if num_hops == 1:  # a list holds each source once and never its own node
        for index in range(len(roots)):
            edges_of[index] = pointer[roots[index] + 1] - pointer[roots[index]]
            nodes_of[index] = edges_of[index] + 1
        return
    for index in range(len(roots)):
        if index + AHEAD < len(roots):
            prefetch(pointer, roots[index + AHEAD])
        queue[0] = roots[index]
        mark[roots[index]] = index
        start, end, arcs = 0, 1, 0
        for hop in range(num_hops):
            level_end = end
            for place in range(start, level_end):
                node = queue[place]
                arcs += pointer[node + 1] - pointer[node]
                for entry in range(pointer[node], pointer[node + 1]):
                    source = sources[entry]
                    if mark[source] != index:
                        mark[source] = index
                        queue[end] = source
                        end += 1
                        if hop + 1 < num_hops:
                            prefetch(pointer, source)
            start = level_end
        nodes_of[index] = end
        edges_of[index] = arcs


@njit(cache=True, nogil=True)
def fill_trees(  # type: ignore[no-untyped-def]
    pointer, sources, roots, num_hops, mark, first_node, first_edge, nodes, depth, heads, tails
):
    """Write the subgraphs measured before: breadth first, root at local position 0.

    heads receives each arc's source, tails its target, both as positions inside the subgraph.
    mark (initially -1) holds a node's last position; it is in this subgraph if not before its base.
    """
    if num_hops == 1:
        tails[first_edge[0] : first_edge[len(roots)]] = 0
        depth[first_node[0] : first_node[len(roots)]] = 1
        for index in range(len(roots)):
            base, arc = first_node[index], first_edge[index]
            nodes[base] = roots[index]
            depth[base] = 0
            start = pointer[roots[index]]
            for place in range(pointer[roots[index] + 1] - start):
                nodes[base + 1 + place] = sources[start + place]
                heads[arc + place] = place + 1
        return
    for index in range(len(roots)):
        if index + AHEAD < len(roots):
            prefetch(pointer, roots[index + AHEAD])
        base, arc = first_node[index], first_edge[index]
        nodes[base] = roots[index]
        depth[base] = 0
        mark[roots[index]] = base
        start, end = base, base + 1
        for hop in range(num_hops):
            level_end = end
            for place in range(start, level_end):
                node = nodes[place]
                for entry in range(pointer[node], pointer[node + 1]):
                    source = sources[entry]
                    if mark[source] < base:
                        mark[source] = end
                        nodes[end] = source
                        depth[end] = hop + 1
                        end += 1
                        if hop + 1 < num_hops:
                            prefetch(pointer, source)
                    heads[arc] = mark[source] - base
                    tails[arc] = place - base
                    arc += 1
            start = level_end


@njit(cache=True, nogil=True)
def take(positions, pointer, values, new_pointer, out):  # type: ignore[no-untyped-def]
    """Copy the ragged rows at `positions` into `out`."""
    for index in range(len(positions)):
        start = pointer[positions[index]]
        target = new_pointer[index]
        for place in range(new_pointer[index + 1] - target):
            out[target + place] = values[start + place]


@njit(cache=True, nogil=True)
def depths(node_pointer, edge_pointer, heads, tails, depth):  # type: ignore[no-untyped-def]
    """Length of the shortest path to the root; passes are repeated until nothing changes (2 for trees)."""
    for index in range(len(node_pointer) - 1):
        base = node_pointer[index]
        for place in range(base, node_pointer[index + 1]):
            depth[place] = -1
        depth[base] = 0
        moving = True
        while moving:
            moving = False
            for arc in range(edge_pointer[index], edge_pointer[index + 1]):
                head, tail = base + heads[arc], base + tails[arc]
                if depth[tail] < 0 or depth[tail] == 127:
                    continue
                if depth[head] < 0 or depth[head] > depth[tail] + 1:
                    depth[head] = depth[tail] + 1
                    moving = True


@njit(cache=True, nogil=True)
def first_broken_row(node_pointer, edge_pointer, nodes, roots, heads, tails, num_nodes, depth):  # type: ignore[no-untyped-def]
    """(row, reason) of the first subgraph that breaks a rule, or (-1, 0)."""
    for index in range(len(roots)):
        base, stop = node_pointer[index], node_pointer[index + 1]
        if stop <= base or nodes[base] != roots[index] or depth[base] != 0:
            return index, 1
        for place in range(base, stop):
            if nodes[place] < 0 or nodes[place] >= num_nodes:
                return index, 2
        for arc in range(edge_pointer[index], edge_pointer[index + 1]):
            if heads[arc] < 0 or heads[arc] >= stop - base:
                return index, 3
            if tails[arc] < 0 or tails[arc] >= stop - base:
                return index, 3
    return -1, 0
