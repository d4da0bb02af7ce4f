"""Compiled approximate personalised PageRank; only nodes with mass are visited."""

from __future__ import annotations

import numpy as np
from numba import njit

from dpgnn.samplers._prefetch import prefetch

AHEAD = 16  # prefetch distance in neighbours


@njit(cache=True, nogil=True)
def ista_rows(  # type: ignore[no-untyped-def]
    pointer, neighbours, loop, roots, alpha, rho, gamma, max_iterations, counts
):
    """Proximal gradient of the l1 problem for every root, on p = D^1/2 x; loop is 1 with self-loops.

    counts[i] becomes the number of entries of row i, or -1 if the tolerance was not reached.
    """
    size = len(pointer) - 1
    p, inflow = np.zeros(size), np.zeros(size)
    seen = np.zeros(size, np.bool_)
    touched = np.empty(size, np.int64)
    columns, values, end = np.empty(1024, np.int32), np.empty(1024, np.float64), 0
    half_stay, half_move = (1 + alpha) / 2, (1 - alpha) / 2
    for index in range(len(roots)):
        root = roots[index]
        touched[0] = root
        seen[root] = True
        num_touched = 1
        reached = False
        for _ in range(max_iterations):
            num_touched = _spread_mass(
                pointer, neighbours, loop, half_move, p, inflow, seen, touched, num_touched
            )
            reached = _descend(
                pointer, loop, root, alpha, rho, gamma, half_stay, p, inflow, touched[:num_touched]
            )
            if reached:
                break
        columns, values, written = _write_row(touched, num_touched, p, columns, values, end)
        for place in range(num_touched):
            seen[touched[place]] = False
        counts[index] = written - end if reached else -1
        end = written
    return columns[:end].copy(), values[:end].copy()


@njit(cache=True, nogil=True)
def _spread_mass(  # type: ignore[no-untyped-def]
    pointer, neighbours, loop, half_move, p, inflow, seen, touched, num_touched
):
    """Add to `inflow` the mass that each touched node sends; returns the new number of touched nodes."""
    num_sources = num_touched
    for place in range(num_sources):
        u = touched[place]
        if p[u] == 0.0:
            continue
        share = half_move * p[u] / (pointer[u + 1] - pointer[u] + loop)
        if loop:
            inflow[u] += share
        for entry in range(pointer[u], pointer[u + 1]):
            v = neighbours[entry]
            if not seen[v]:
                seen[v] = True
                touched[num_touched] = v
                num_touched += 1
            inflow[v] += share
    return num_touched


@njit(cache=True, nogil=True)
def _descend(  # type: ignore[no-untyped-def]
    pointer, loop, root, alpha, rho, gamma, half_stay, p, inflow, touched
):
    """Take a proximal step on the touched nodes unless the tolerance is reached; returns whether it is."""
    worst = 0.0
    for v in touched:
        slope = half_stay * p[v] - inflow[v] - (alpha if v == root else 0.0)
        degree = pointer[v + 1] - pointer[v] + loop
        worst = max(worst, abs(slope) / degree)
        inflow[v] = slope
    reached = worst <= (1 + gamma) * rho * alpha
    for v in touched:
        if not reached:
            degree = pointer[v + 1] - pointer[v] + loop
            p[v] = max(p[v] - inflow[v] - rho * alpha * degree, 0.0)
        inflow[v] = 0.0
    return reached


@njit(cache=True, nogil=True)
def push_rows(pointer, neighbours, loop, roots, alpha, rho, gamma, exact, max_pushes, counts):  # type: ignore[no-untyped-def]
    """Forward push for every root: all of a residual, or (exact) what exceeds the threshold rho d.

    Pushing `a` at u: p_u += alpha a, r_u -= (1 + alpha) a / 2, r_v += (1 - alpha) a / (2 d_u).
    A node is in the queue exactly while its residual is above the limit. counts as in `ista_rows`.
    """
    size = len(pointer) - 1
    p = np.zeros(size)
    residual = np.zeros(2 * size)  # of node u at 2u and its limit at 2u + 1, side by side in memory
    half_stay, half_move = (1 + alpha) / 2, (1 - alpha) / 2
    for u in range(size):
        degree = pointer[u + 1] - pointer[u] + loop
        residual[2 * u + 1] = rho * degree * ((1 + gamma) if exact else 1.0)
    touched, queue = np.empty(size, np.int64), np.empty(size, np.int64)
    columns, values, end = np.empty(1024, np.int32), np.empty(1024, np.float64), 0
    for index in range(len(roots)):
        root = roots[index]
        touched[0] = root
        num_touched, first, length, pushes = 1, 0, 0, 0
        residual[2 * root] = 1.0
        if residual[2 * root + 1] < 1.0:
            queue[0] = root
            length = 1
        while length > 0 and pushes < max_pushes:
            u = queue[first]
            first = first + 1 if first + 1 < size else 0
            length -= 1
            pushes += 1
            if length > 1:
                prefetch(neighbours, pointer[queue[first]])
            start, stop = pointer[u], pointer[u + 1]
            degree = stop - start + loop
            stay = half_stay - half_move * loop / degree
            amount = residual[2 * u]
            if exact:
                amount = (amount - rho * degree) / stay
                residual[2 * u] = rho * degree
            else:
                residual[2 * u] = amount - stay * amount
            p[u] += alpha * amount
            if residual[2 * u] > residual[2 * u + 1]:
                last = first + length
                queue[last if last < size else last - size] = u
                length += 1
            share = half_move * amount / degree
            for entry in range(start, stop):
                if entry + AHEAD < stop:
                    prefetch(residual, 2 * neighbours[entry + AHEAD])
                v = 2 * np.int64(neighbours[entry])
                old, limit = residual[v], residual[v + 1]
                residual[v] = old + share
                if old == 0.0:
                    touched[num_touched] = v >> 1
                    num_touched += 1
                if old <= limit and old + share > limit:
                    last = first + length
                    queue[last if last < size else last - size] = v >> 1
                    length += 1
        reached = length == 0
        columns, values, written = _write_row(touched, num_touched, p, columns, values, end)
        for place in range(num_touched):
            residual[2 * touched[place]] = 0.0
        counts[index] = written - end if reached else -1
        end = written
    return columns[:end].copy(), values[:end].copy()


@njit(cache=True, nogil=True)
def _write_row(touched, num_touched, p, columns, values, end):  # type: ignore[no-untyped-def]
    """Append the positive entries of p by ascending id, and set p to zero."""
    number = 0
    for place in range(num_touched):
        if p[touched[place]] > 0.0:
            number += 1
    nodes = np.empty(number, np.int64)
    number = 0
    for place in range(num_touched):
        if p[touched[place]] > 0.0:
            nodes[number] = touched[place]
            number += 1
    nodes.sort()
    if end + number > len(columns):
        room = max(2 * len(columns), end + number)
        more_columns, more_values = np.empty(room, np.int32), np.empty(room, np.float64)
        more_columns[:end], more_values[:end] = columns[:end], values[:end]
        columns, values = more_columns, more_values
    for node in nodes:
        columns[end], values[end] = node, p[node]
        p[node] = 0.0
        end += 1
    return columns, values, end


@njit(cache=True, nogil=True)
def largest_entries(pointer, values, k, keep):  # type: ignore[no-untyped-def]
    """Mark the k largest values of every row; among equal values the first ones."""
    for index in range(len(pointer) - 1):
        start, stop = pointer[index], pointer[index + 1]
        if stop - start <= k:
            keep[start:stop] = True
            continue
        if k == 0:
            continue
        row = values[start:stop]
        border = np.partition(row, stop - start - k)[stop - start - k]
        left = k - (row > border).sum()
        for place in range(start, stop):
            if values[place] > border:
                keep[place] = True
            elif values[place] == border and left > 0:
                keep[place] = True
                left -= 1
