"""Applies a sparse operator to the changed rows of many queries."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def spread(key, value, ptr, readers, weights, keep):
    """operator @ rows, query by query.

    Args:
        key: int64, shape (num_rows,), ascending: query * num_nodes + node.
        value: float64, shape (num_rows, width).
        ptr, readers, weights: the operator's columns: readers[ptr[v]:ptr[v + 1]] read v.
        keep: bool, shape (num_queries, num_nodes): needed rows.

    Returns:
        The keys of the rows that read a changed one, ascending, and their values.
    """
    num_nodes, width = keep.shape[1], value.shape[1]
    rows = _num_reached(key, ptr, readers, keep)
    keys, moved = np.empty(rows, np.int64), np.zeros((rows, width))
    place = np.empty(num_nodes, np.int64)  # the row that a node has in the result
    reached = np.zeros(num_nodes, np.bool_)
    rows, first = np.int64(0), 0
    while first < len(key):
        query = key[first] // num_nodes
        last = first
        while last < len(key) and key[last] // num_nodes == query:
            node = key[last] % num_nodes
            for entry in range(ptr[node], ptr[node + 1]):
                if keep[query, readers[entry]]:
                    reached[readers[entry]] = True
            last += 1
        rows = _give_places(reached, place, keys, query * num_nodes, rows)
        for row in range(first, last):
            node, read = key[row] - query * num_nodes, value[row]
            for entry in range(ptr[node], ptr[node + 1]):
                if keep[query, readers[entry]]:
                    total, weight = moved[place[readers[entry]]], weights[entry]
                    for column in range(width):
                        total[column] += weight * read[column]
        first = last
    return keys, moved


@njit(cache=True, nogil=True)
def _give_places(reached, place, keys, first_key, rows):
    """The next rows of the result to the nodes that are reached, which are forgotten."""
    for node in range(len(reached)):
        if reached[node]:
            reached[node] = False
            place[node] = rows
            keys[rows] = first_key + node
            rows += 1
    return rows


@njit(cache=True, nogil=True)
def _num_reached(key, ptr, readers, keep):
    """Rows of the result: nodes in `keep` that read a changed row, query by query."""
    num_nodes = keep.shape[1]
    last = np.full(num_nodes, np.int64(-1))  # the query that reached a node last
    rows = np.int64(0)
    for row in range(len(key)):
        query, node = divmod(key[row], num_nodes)
        for entry in range(ptr[node], ptr[node + 1]):
            reader = readers[entry]
            if keep[query, reader] and last[reader] != query:
                last[reader] = query
                rows += 1
    return rows


@njit(cache=True, nogil=True)
def read_by(keep, ptr, columns):
    """For each query, the nodes in `keep` and the nodes that they read.

    Args:
        keep: bool, shape (num_queries, num_nodes).
        ptr, columns: the operator's rows: v reads columns[ptr[v]:ptr[v + 1]].
    """
    wider = keep.copy()
    for query in range(keep.shape[0]):
        for node in range(keep.shape[1]):
            if keep[query, node]:
                for entry in range(ptr[node], ptr[node + 1]):
                    wider[query, columns[entry]] = True
    return wider


@njit(cache=True, nogil=True)
def merged(left, right):
    """The union of two ascending lists of keys, and where each entry of the two lies in it."""
    keys = np.empty(len(left) + len(right), np.int64)
    of_left, of_right = np.empty(len(left), np.int64), np.empty(len(right), np.int64)
    i = j = rows = 0
    while i < len(left) or j < len(right):
        from_left = i < len(left) and (j == len(right) or left[i] <= right[j])
        from_right = j < len(right) and (i == len(left) or right[j] <= left[i])
        if from_left:
            keys[rows], of_left[i] = left[i], rows
            i += 1
        if from_right:
            keys[rows], of_right[j] = right[j], rows
            j += 1
        rows += 1
    return keys[:rows].copy(), of_left, of_right
