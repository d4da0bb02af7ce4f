"""Compiled approximate personalised PageRank: only nodes that mass reaches are touched."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def ista_rows(  # type: ignore[no-untyped-def]
    pointer, neighbours, loop, roots, alpha, rho, gamma, max_iterations, counts
):
    """Proximal gradient of the l1 problem for every root, on p = D^1/2 x; loop is 1 with self-loops.

    counts[i] becomes the number of entries of row i, or -1 when the tolerance was not reached.
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
            worst = 0.0
            for place in range(num_touched):
                v = touched[place]
                slope = half_stay * p[v] - inflow[v] - (alpha if v == root else 0.0)
                degree = pointer[v + 1] - pointer[v] + loop
                worst = max(worst, abs(slope) / degree)
                inflow[v] = slope
            reached = worst <= (1 + gamma) * rho * alpha
            for place in range(num_touched):
                v = touched[place]
                if not reached:
                    degree = pointer[v + 1] - pointer[v] + loop
                    p[v] = max(p[v] - inflow[v] - rho * alpha * degree, 0.0)
                inflow[v] = 0.0
            if reached:
                break
        columns, values, written = _write_row(touched, num_touched, p, seen, columns, values, end)
        counts[index] = written - end if reached else -1
        end = written
    return columns[:end].copy(), values[:end].copy()


@njit(cache=True, nogil=True)
def push_rows(pointer, neighbours, loop, roots, alpha, rho, gamma, exact, max_pushes, counts):  # type: ignore[no-untyped-def]
    """Forward push for every root: all of a residual, or (exact) what exceeds the threshold rho d.

    Pushing `a` at u: p_u += alpha a, r_u -= (1 + alpha) a / 2, r_v += (1 - alpha) a / (2 d_u).
    counts as in `ista_rows`.
    """
    size = len(pointer) - 1
    p, r = np.zeros(size), np.zeros(size)
    seen, waiting = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    touched, queue = np.empty(size, np.int64), np.empty(size, np.int64)
    columns, values, end = np.empty(1024, np.int32), np.empty(1024, np.float64), 0
    half_stay, half_move = (1 + alpha) / 2, (1 - alpha) / 2
    slack = 1 + gamma if exact else 1.0
    for index in range(len(roots)):
        root = roots[index]
        touched[0] = root
        seen[root] = True
        num_touched, first, length, pushes = 1, 0, 0, 0
        r[root] = 1.0
        if slack * rho * (pointer[root + 1] - pointer[root] + loop) < 1.0:
            queue[0] = root
            waiting[root] = True
            length = 1
        while length > 0 and pushes < max_pushes:
            u = queue[first]
            first = first + 1 if first + 1 < size else 0
            length -= 1
            waiting[u] = False
            degree = pointer[u + 1] - pointer[u] + loop
            if r[u] <= slack * rho * degree:
                continue
            pushes += 1
            stay = half_stay - (half_move * loop / degree if loop else 0.0)
            amount = (r[u] - rho * degree) / stay if exact else r[u]
            p[u] += alpha * amount
            r[u] = rho * degree if exact else r[u] - stay * amount
            share = half_move * amount / degree
            for entry in range(pointer[u], pointer[u + 1]):
                v = neighbours[entry]
                if not seen[v]:
                    seen[v] = True
                    touched[num_touched] = v
                    num_touched += 1
                r[v] += share
                if not waiting[v] and r[v] > slack * rho * (pointer[v + 1] - pointer[v] + loop):
                    last = first + length
                    queue[last if last < size else last - size] = v
                    waiting[v] = True
                    length += 1
            if not waiting[u] and r[u] > slack * rho * degree:
                last = first + length
                queue[last if last < size else last - size] = u
                waiting[u] = True
                length += 1
        reached = length == 0
        for place in range(num_touched):
            r[touched[place]] = 0.0
            waiting[touched[place]] = False
        columns, values, written = _write_row(touched, num_touched, p, seen, columns, values, end)
        counts[index] = written - end if reached else -1
        end = written
    return columns[:end].copy(), values[:end].copy()


@njit(cache=True, nogil=True)
def _write_row(touched, num_touched, p, seen, columns, values, end):  # type: ignore[no-untyped-def]
    """Append the positive entries of p by ascending id and clear what was touched."""
    nodes = np.sort(touched[:num_touched])
    if end + num_touched > len(columns):
        room = max(2 * len(columns), end + num_touched)
        more_columns, more_values = np.empty(room, np.int32), np.empty(room, np.float64)
        more_columns[:end], more_values[:end] = columns[:end], values[:end]
        columns, values = more_columns, more_values
    for node in nodes:
        if p[node] > 0.0:
            columns[end], values[end] = node, p[node]
            end += 1
        p[node] = 0.0
        seen[node] = False
    return columns, values, end
