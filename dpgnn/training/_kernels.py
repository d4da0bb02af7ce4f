"""Compiled loops of the CPU engine.

The compiler may reassociate sums, but may not assume that NaN and infinity do not occur. Dot products of
float32 rows are accumulated in float64, where a product of two float32 numbers is exact; so the only error is
that of adding, at most (number of terms) 2^-53 relative to sum |a||g|.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import njit

from dpgnn.training.clipping import LARGEST_ROW
from dpgnn.training.products import FAST

_LARGEST_SQUARED = LARGEST_ROW * LARGEST_ROW
_EPS = 2.0**-52


@njit(cache=True, nogil=True, fastmath=FAST, inline="always")
def _dot(a, b):
    total = 0.0
    for j in range(len(a)):
        total += np.float64(a[j]) * np.float64(b[j])
    return total


@njit(cache=True, nogil=True)
def dense_norms(a, g, ptr, limit, squared_w, spread_w, squared_b, spread_b):
    """Upper bounds on the squared norms of each root's sum_t a_t g_t^T and sum_t g_t, and their spreads.

    ||sum_t a_t g_t^T||^2 = sum_tt' (a_t . a_t') (g_t . g_t'): per-root gradients are not formed. For roots
    with more than `limit` rows only the diagonal is computed; the caller forms their gradients one at a time.
    """
    roots, start, known, terms, products = _empty_grams(ptr, limit)
    dense_grams(a, roots, ptr, limit, start, known, terms, products)
    gram_norms(
        roots, limit, start, terms, products, g, ptr, squared_w, spread_w, squared_b, spread_b
    )


@njit(cache=True, nogil=True)
def sparse_norms(node, indptr, indices, data, g, ptr, squared_w, spread_w, squared_b, spread_b):
    """As `dense_norms`, with inputs a_t that are rows `node[t]` of a CSR matrix with sorted indices."""
    limit = len(node)  # all products of every root are kept
    roots, start, known, terms, products = _empty_grams(ptr, limit)
    sparse_grams(node, indptr, indices, data, roots, ptr, limit, start, known, terms, products)
    gram_norms(
        roots, limit, start, terms, products, g, ptr, squared_w, spread_w, squared_b, spread_b
    )


@njit(cache=True, nogil=True)
def _empty_grams(ptr, limit):
    """Arrays that `dense_grams` and `sparse_grams` fill for the roots of one chunk."""
    num_roots = len(ptr) - 1
    start = np.zeros(num_roots + 1, np.int64)
    for i in range(num_roots):
        rows = ptr[i + 1] - ptr[i]
        start[i + 1] = start[i] + (rows if rows > limit else rows * (rows + 1) // 2)
    known, terms = np.zeros(num_roots, np.bool_), np.zeros(num_roots, np.int64)
    return np.arange(num_roots), start, known, terms, np.empty(start[-1])


@njit(cache=True, nogil=True, fastmath=FAST)
def dense_grams(a, roots, ptr, limit, start, known, terms, products):
    """products[start[root] + t (t + 1) / 2 + u] = a_t . a_u of new roots; terms: their length.

    For roots with more than `limit` rows only products[start[root] + t] = a_t . a_t.
    """
    for i in range(len(roots)):
        root = roots[i]
        if known[root]:
            continue
        known[root], terms[root], at = True, a.shape[1], start[root]
        small = ptr[i + 1] - ptr[i] <= limit
        for t in range(ptr[i], ptr[i + 1]):
            for u in range(ptr[i] if small else t, t + 1):
                products[at] = _dot(a[t], a[u])
                at += 1


@njit(cache=True, nogil=True, fastmath=FAST)
def sparse_grams(node, indptr, indices, data, roots, ptr, limit, start, known, terms, products):
    """As `dense_grams`, for rows `node[t]` of a CSR matrix; terms: the most entries of a row."""
    for i in range(len(roots)):
        root = roots[i]
        if known[root]:
            continue
        known[root], at = True, start[root]
        for t in range(ptr[i], ptr[i + 1]):
            row = data[indptr[node[t]] : indptr[node[t] + 1]]
            terms[root] = max(terms[root], len(row))
            for u in range(ptr[i], t):
                products[at] = _sparse_dot(indptr, indices, data, node[t], node[u])
                at += 1
            products[at] = _dot(row, row)
            at += 1


@njit(cache=True, nogil=True, fastmath=FAST)
def gram_norms(
    roots, limit, start, terms, products, g, ptr, squared_w, spread_w, squared_b, spread_b
):
    """The result of `dense_norms`, from the products of the inputs."""
    for i in range(len(roots)):
        weight, bias, reach_w, reach_b, broken = 0.0, 0.0, 0.0, 0.0, False
        rows, at = ptr[i + 1] - ptr[i], start[roots[i]]
        for t in range(rows):
            own = g[ptr[i] + t]
            aa, gg = products[at + t if rows <= limit else at], _dot(own, own)
            broken |= not aa <= _LARGEST_SQUARED
            weight += aa * gg
            bias += gg
            reach_w += np.sqrt(aa * gg)
            reach_b += np.sqrt(gg)
            if rows > limit:
                at += 1
                continue
            for u in range(t):
                both = 2.0 * _dot(own, g[ptr[i] + u])
                weight += both * products[at + u]
                bias += both
            at += t + 1
        gamma = _EPS * (terms[roots[i]] + g.shape[1] + rows * rows + 8)
        # written so that NaN is kept
        weight, bias = 0.0 if weight < 0.0 else weight, 0.0 if bias < 0.0 else bias
        squared_w[i] = np.inf if broken else weight + gamma * reach_w * reach_w
        squared_b[i] = bias + gamma * reach_b * reach_b
        spread_w[i], spread_b[i] = reach_w, reach_b


@njit(cache=True, nogil=True)
def _sparse_dot(indptr, indices, data, first, second):
    i, j, total = indptr[first], indptr[second], 0.0
    while i < indptr[first + 1] and j < indptr[second + 1]:
        if indices[i] == indices[j]:
            total += np.float64(data[i]) * np.float64(data[j])
            i += 1
            j += 1
        elif indices[i] < indices[j]:
            i += 1
        else:
            j += 1
    return total


@njit(cache=True, nogil=True, fastmath=FAST)
def scale_rows(g, ptr, factor_w, factor_b, bias_sum):
    """bias_sum += sum_t factor_b g_t (float64), then g_t *= factor_w, in place."""
    for i in range(len(ptr) - 1):
        w, b = factor_w[i], factor_b[i]
        narrow = g.dtype.type(w)
        for t in range(ptr[i], ptr[i + 1]):
            for j in range(g.shape[1]):
                value = g[t, j]
                bias_sum[j] += b * value
                g[t, j] = narrow * value


@njit(cache=True, nogil=True)
def zero_rows(values, ptr, bad):
    """Set the rows of bad roots to 0, since 0 times infinity is not 0."""
    for i in range(len(ptr) - 1):
        if bad[i]:
            values[ptr[i] : ptr[i + 1]] = 0


@njit(cache=True, nogil=True, fastmath=FAST)
def aggregate(h, out, roots, source_ptr, target_ptr, row_ptr, entry_ptr, entry_row, entry_weight):
    """out[target] = sum over the target's entries of weight * h[source]."""
    for i in range(len(roots)):
        first = row_ptr[roots[i]]
        for t in range(target_ptr[i + 1] - target_ptr[i]):
            target = out[target_ptr[i] + t]
            target[:] = 0
            for e in range(entry_ptr[first + t], entry_ptr[first + t + 1]):
                source, weight = h[source_ptr[i] + entry_row[e]], h.dtype.type(entry_weight[e])
                for j in range(h.shape[1]):
                    target[j] += weight * source[j]


@njit(cache=True, nogil=True, fastmath=FAST)
def aggregate_back(
    g, out, clear, roots, source_ptr, target_ptr, row_ptr, entry_ptr, entry_row, entry_weight
):
    """out[source] += weight * g[target]: the transpose of `aggregate`; `clear` sets out to 0 first."""
    for i in range(len(roots)):
        first = row_ptr[roots[i]]
        if clear:
            out[source_ptr[i] : source_ptr[i + 1]] = 0
        for t in range(target_ptr[i + 1] - target_ptr[i]):
            target = g[target_ptr[i] + t]
            for e in range(entry_ptr[first + t], entry_ptr[first + t + 1]):
                source, weight = out[source_ptr[i] + entry_row[e]], g.dtype.type(entry_weight[e])
                for j in range(g.shape[1]):
                    source[j] += weight * target[j]


@njit(cache=True, nogil=True)
def keep(h, out, source_ptr, target_ptr):
    """Copy the first rows of each root, which are kept."""
    for i in range(len(source_ptr) - 1):
        count = target_ptr[i + 1] - target_ptr[i]
        out[target_ptr[i] : target_ptr[i + 1]] = h[source_ptr[i] : source_ptr[i] + count]


@njit(cache=True, nogil=True)
def keep_back(g, out, clear, source_ptr, target_ptr):
    """Add gradients of kept rows to their places; `clear` sets out to 0 first."""
    for i in range(len(source_ptr) - 1):
        if clear:
            out[source_ptr[i] : source_ptr[i + 1]] = 0
        count = target_ptr[i + 1] - target_ptr[i]
        out[source_ptr[i] : source_ptr[i] + count] += g[target_ptr[i] : target_ptr[i + 1]]


# the Python error model checks every division for zero, which prevents vectorisation
@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def tanh32(h):
    """tanh of a float32 array in place, to 3e-7, by a rational function that vectorises.

    The coefficients are those of Eigen's minimax fit. NaN stays NaN.
    """
    one = np.float32(1.0)
    limit = np.float32(7.90531110763549805)
    for t in range(h.shape[0]):
        row = h[t]
        for j in range(len(row)):
            x = row[j]
            x = limit if x > limit else x
            x = -limit if x < -limit else x
            s = x * x
            p = np.float32(-2.76076847742355e-16)
            p = p * s + np.float32(2.00018790482477e-13)
            p = p * s + np.float32(-8.60467152213735e-11)
            p = p * s + np.float32(5.12229709037114e-08)
            p = p * s + np.float32(1.48572235717979e-05)
            p = p * s + np.float32(6.37261928875436e-04)
            p = p * s + np.float32(4.89352455891786e-03)
            q = np.float32(1.19825839466702e-06)
            q = q * s + np.float32(1.18534705686654e-04)
            q = q * s + np.float32(2.26843463243900e-03)
            q = q * s + np.float32(4.89352518554385e-03)
            value = x * p / q
            # rounding may make the fraction larger than 1, but 1 - h^2 must not be negative
            value = one if value > one else value
            row[j] = -one if value < -one else value


@njit(cache=True, nogil=True, fastmath=FAST)
def activate_back(code, scale, alpha, h, g):
    """g *= derivative of the activation, from its output h; 0 relu, 1 tanh, 2 selu."""
    one = h.dtype.type(1)
    for t in range(h.shape[0]):
        for j in range(h.shape[1]):
            if code == 0:
                g[t, j] = g[t, j] if h[t, j] > 0 else h[t, j] * 0
            elif code == 1:
                g[t, j] *= one - h[t, j] * h[t, j]
            else:
                g[t, j] *= scale if h[t, j] > 0 else h[t, j] + scale * alpha


@njit(cache=True, nogil=True)
def take_one(probability, y):
    """Subtract 1 from each row's entry of its class: the gradient of the cross-entropy."""
    for t in range(len(y)):
        probability[t, y[t]] -= 1
