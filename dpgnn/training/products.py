"""Compiled products of rows and weights, and activations; the bits of a row depend on that row alone.

With `FAST`, the compiler may reassociate sums, but may not assume that NaN and infinity do not occur.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import njit

FAST = {"reassoc", "contract", "nsz", "arcp"}
NARROW = 8  # rows of at most this many outputs are summed in registers


@njit(cache=True, nogil=True)
def _widened(values):
    """Rows padded with zeros to NARROW numbers, so that a processor handles a row at once."""
    wide = np.zeros((len(values), NARROW), values.dtype)
    wide[:, : values.shape[1]] = values
    return wide


@njit(cache=True, nogil=True, fastmath=FAST)
def _narrow_linear(node, indptr, indices, data, weight, bias, out):
    """As `sparse_linear`, bitwise."""
    wide, start = _widened(weight), _widened(bias.reshape(1, -1))[0]
    sums = np.empty(NARROW, out.dtype)
    for t in range(len(node)):
        for j in range(NARROW):
            sums[j] = start[j]
        for e in range(indptr[node[t]], indptr[node[t] + 1]):
            value, column = data[e], indices[e]
            for j in range(NARROW):
                sums[j] += value * wide[column, j]
        for j in range(len(bias)):
            out[t, j] = sums[j]


@njit(cache=True, nogil=True, fastmath=FAST)
def sparse_linear(node, indptr, indices, data, weight, bias, out):
    """out[t] = x[node[t]] W + b for a CSR x."""
    if len(bias) <= NARROW:
        _narrow_linear(node, indptr, indices, data, weight, bias, out)
        return
    for t in range(len(node)):
        row = out[t]
        row[:] = bias
        for e in range(indptr[node[t]], indptr[node[t] + 1]):
            value, column = data[e], weight[indices[e]]
            for j in range(len(row)):
                row[j] += value * column[j]


@njit(cache=True, nogil=True, fastmath=FAST)
def sparse_outer(node, indptr, indices, data, g, ptr, bad, weight_sum):
    """weight_sum += sum_t x[node[t]]^T g_t for a CSR x; rows of bad roots are left out."""
    for i in range(len(ptr) - 1):
        if bad[i]:
            continue
        for t in range(ptr[i], ptr[i + 1]):
            for e in range(indptr[node[t]], indptr[node[t] + 1]):
                value, row = data[e], weight_sum[indices[e]]
                for j in range(g.shape[1]):
                    row[j] += value * g[t, j]


@njit(cache=True, nogil=True)
def _narrow_products(a, wide, out):
    """As `row_products`, bitwise, for a W of NARROW columns; `out` has the first of them."""
    one, two = np.zeros(NARROW, out.dtype), np.zeros(NARROW, out.dtype)
    width = out.shape[1]
    for i in range(0, len(a), 2):
        other = min(i + 1, len(a) - 1)
        for j in range(width):
            one[j], two[j] = out[i, j], out[other, j]
        for k in range(a.shape[1]):
            r, s = a[i, k], a[other, k]
            for j in range(NARROW):
                one[j] += r * wide[k, j]
                two[j] += s * wide[k, j]
        for j in range(width):
            out[i, j], out[other, j] = one[j], two[j]


# no fast math, so that compiled code multiplies and adds as written
@njit(cache=True, nogil=True)
def row_products(a, weight, out):
    """out += a W; the bits of a row depend only on its own entries and W.

    An entry is ((out + a_1 w_1) + a_2 w_2) + ..., each operation rounded once, in this order. Two rows are
    processed at a time to share reads of W. A library's product may change its order of additions with the
    number of rows.
    """
    num_rows, num_in = a.shape
    if out.shape[1] <= NARROW:
        _narrow_products(a, _widened(weight), out)
        return
    whole = num_in - num_in % 4
    for i in range(0, num_rows, 2):
        other = min(i + 1, num_rows - 1)
        is_alone = other == i
        one, two = out[i], out[other]
        r, s = a[i], a[other]
        for k in range(0, whole, 4):
            w0, w1, w2, w3 = weight[k], weight[k + 1], weight[k + 2], weight[k + 3]
            for j in range(len(one)):
                x0, x1, x2, x3 = w0[j], w1[j], w2[j], w3[j]
                one[j] = (((one[j] + r[k] * x0) + r[k + 1] * x1) + r[k + 2] * x2) + r[k + 3] * x3
                if not is_alone:
                    two[j] = (((two[j] + s[k] * x0) + s[k + 1] * x1) + s[k + 2] * x2) + s[
                        k + 3
                    ] * x3
        for k in range(whole, num_in):
            for j in range(len(one)):
                one[j] += r[k] * weight[k, j]
                if not is_alone:
                    two[j] += s[k] * weight[k, j]


@njit(cache=True, nogil=True, error_model="numpy")
def apply_by_rows(code, scale, alpha, h):
    """1 tanh, 2 selu, 3 sigmoid, in place; a library's loop may treat its last entries differently."""
    one = h.dtype.type(1)
    for t in range(h.shape[0]):
        row = h[t]
        for j in range(len(row)):
            if code == 1:
                row[j] = np.tanh(row[j])
            elif code == 2:
                row[j] = scale * (row[j] if row[j] > 0 else alpha * np.expm1(row[j]))
            else:
                row[j] = one / (one + np.exp(-row[j]))


@njit(cache=True, nogil=True, error_model="numpy")
def standardize_rows(h, epsilon):
    """Each row minus its mean, over the root of its variance plus epsilon, in place; sums in float64."""
    for t in range(h.shape[0]):
        row = h[t]
        mean, square = 0.0, 0.0
        for j in range(len(row)):
            mean += row[j]
        mean /= len(row)
        for j in range(len(row)):
            square += (row[j] - mean) ** 2
        scale = np.sqrt(square / len(row) + epsilon)
        for j in range(len(row)):
            row[j] = (row[j] - mean) / scale


@njit(cache=True, nogil=True)
def add_rows(values, source, target, out):
    """out[target[i]] += values[source[i]] for each i in turn; rows."""
    for i in range(len(source)):
        for j in range(out.shape[1]):
            out[target[i], j] += values[source[i], j]


@njit(cache=True, nogil=True)
def through_relu(g, mask, hidden, is_masked, out):
    """out = g times the mask, and 0 where ReLU and mask give 0; three axes."""
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            for j in range(out.shape[2]):
                value = g[i, k, j] * mask[i, k, j] if is_masked else g[i, k, j]
                out[i, k, j] = value * (hidden[i, k, j] > 0)
