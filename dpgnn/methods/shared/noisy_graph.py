"""Private graphs with noise on the edges: every pair of nodes is answered, then post-processed.

All functions work on undirected pairs u < v, so one undirected edge is one cell. Time and memory grow with
the number of resulting edges, not of pairs. Graphs are returned as int64 (2, num_pairs), u < v.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from dpgnn.core.checks import non_negative, positive, probability, require
from dpgnn.methods.releases import release
from dpgnn.methods.shared import exact_cells
from dpgnn.methods.shared import noisy_graph_moves as moves


def num_cells(num_nodes: int) -> int:
    """Unordered pairs of different nodes."""
    return num_nodes * (num_nodes - 1) // 2


@release({"edges": moves.answered_pairs})
def randomized_response(
    pairs: np.ndarray,
    num_nodes: int,
    *,
    one_if_one: float,
    one_if_zero: float,
    keep: float = 1.0,
    rng: np.random.Generator,
    exactly: bool = False,
) -> np.ndarray:
    """Answer every pair: an edge becomes a one with probability one_if_one, a non-edge with one_if_zero.

    Guarantee: pairs are answered independently, so one undirected edge is one randomised response (event
    RandomizedResponse); with p = one_if_one = 1 - one_if_zero it is log(p/(1-p))-DP. Draws from the stream
    `response`.

    Args:
        pairs: int64, shape (2, num_pairs), u < v, each once.
        num_nodes: public.
        one_if_one, one_if_zero: in [0, 1]; one_if_one is a multiple of 2^-53 if `exactly`.
        keep: probability with which a pair answered with one is kept.
        rng: secret in a release.
        exactly: exact probabilities, see `exact_cells`; for releases.

    Returns:
        int64, the resulting pairs, ascending.
    """
    probability("one_if_one", one_if_one)
    probability("one_if_zero", one_if_zero)
    gaps = num_cells(num_nodes) - pairs.shape[1]
    if exactly:
        kept, count = exact_cells.answers(
            pairs.shape[1], gaps, one_if_one=one_if_one, one_if_zero=one_if_zero, keep=keep, rng=rng
        )
    else:
        kept = np.less(rng.random(pairs.shape[1]), one_if_one * keep)
        count = int(rng.binomial(gaps, one_if_zero * keep))
    added = random_gaps(pairs, num_nodes, count, rng=rng)
    return _sorted(np.concatenate([pairs[:, kept], added], axis=1), num_nodes)


def random_gaps(
    pairs: np.ndarray, num_nodes: int, count: int, *, rng: np.random.Generator
) -> np.ndarray:
    """A uniform set of `count` pairs that are not edges, shape (2, count).

    Raises:
        ValueError: there are fewer.
    """
    gaps = num_cells(num_nodes) - pairs.shape[1]
    require(0 <= count <= gaps, "count", f"be in 0..{gaps}", count)
    edges = np.sort(pairs[0] * num_nodes + pairs[1])
    if count > gaps // 4:
        high, low = np.tril_indices(num_nodes, -1)
        free = np.setdiff1d(low * num_nodes + high, edges, assume_unique=True)
        keys = rng.choice(free, count, replace=False, shuffle=False)
        return np.stack(np.divmod(keys, num_nodes)).astype(np.int64)
    # the first `count` distinct non-edges of a sequence of uniform pairs are a uniform set of non-edges
    keys = np.zeros(0, dtype=np.int64)
    while len(keys) < count:
        ends = rng.integers(0, num_nodes, size=(2, 4 * (count - len(keys)) + 64))
        ends = ends[:, ends[0] < ends[1]]
        fresh = ends[0] * num_nodes + ends[1]
        keys = np.concatenate([keys, fresh[~_among(fresh, edges)]])
        _, first = np.unique(keys, return_index=True)
        keys = keys[np.sort(first)]
    return np.stack(np.divmod(keys[:count], num_nodes)).astype(np.int64)


@release({"count": moves.edge_counts, "cells": moves.laplace_cells})
def laplace_top_cells(
    pairs: np.ndarray,
    num_nodes: int,
    *,
    epsilon_count: float,
    epsilon_cells: float,
    rng: np.random.Generator,
    exactly: bool = False,
) -> np.ndarray:
    """LapGraph: Laplace noise on every cell, and the largest cells kept; their number is a noisy count.

    Guarantee: (epsilon_count + epsilon_cells)-DP for one undirected edge: the number of edges changes by 1
    (Laplace, scale 1/epsilon_count), one cell changes by 1 (Laplace, scale 1/epsilon_cells), the rest is
    post-processing. This is exact although the noise of smaller non-edges is never drawn: the largest of n
    Laplace draws are generated in descending order from uniform order statistics, and assigned to uniformly
    random non-edges.

    Args:
        pairs: int64, shape (2, num_pairs), u < v, each once.
        num_nodes: public.
        epsilon_count, epsilon_cells: > 0.
        rng: secret in a release.
        exactly: exact noise, rounded to a public grid, with ties broken uniformly, see `exact_cells`; for
            releases.

    Returns:
        int64, the pairs that come out, ascending.

    Source: Wu et al. (2022), LinkTeller, arXiv:2108.06504.
    """
    positive("epsilon_count", epsilon_count)
    positive("epsilon_cells", epsilon_cells)
    cells, edges = num_cells(num_nodes), pairs.shape[1]
    count_of = exact_cells.noisy_count if exactly else _noisy_count
    wanted = min(max(count_of(edges, 1 / epsilon_count, rng=rng), 0), cells)
    largest = exact_cells.largest_cells if exactly else _largest_cells
    kept, count = largest(edges, cells - edges, wanted, 1 / epsilon_cells, rng=rng)
    added = random_gaps(pairs, num_nodes, count, rng=rng)
    return _sorted(np.concatenate([pairs[:, kept], added], axis=1), num_nodes)


def _noisy_count(count: int, scale: float, *, rng: np.random.Generator) -> int:
    """count + Laplace noise in floating point, rounded to an integer."""
    return round(count + rng.laplace(0, scale))


def _largest_cells(
    edges: int, gaps: int, wanted: int, scale: float, *, rng: np.random.Generator
) -> tuple[np.ndarray, int]:
    """`exact_cells.largest_cells` in floating point."""
    of_edges = 1 + rng.laplace(0, scale, size=edges)
    of_gaps = largest_laplace(gaps, min(wanted, gaps), scale, rng=rng)
    values = np.concatenate([of_edges, of_gaps])
    chosen = np.zeros(len(values), dtype=bool)
    if wanted:
        chosen[np.argpartition(-values, wanted - 1)[:wanted]] = True
    return chosen[:edges], int(chosen[edges:].sum())


def largest_laplace(
    count: int, num_largest: int, scale: float, *, rng: np.random.Generator
) -> np.ndarray:
    """The `num_largest` largest of `count` independent Laplace(0, scale) draws, descending.

    The k-th smallest of n uniforms is V_k with log(1 - V_k) = -sum_{i<=k} E_i/(n - i + 1), E exponential;
    the k-th largest Laplace value is the point whose upper tail has mass V_k.
    """
    non_negative("scale", scale)
    spacings = rng.exponential(size=num_largest) / (count - np.arange(num_largest))
    log_rest = -np.cumsum(spacings)
    tail = -np.expm1(log_rest)
    with np.errstate(divide="ignore"):
        upper = -np.log(2 * tail)
    return scale * np.where(tail < 0.5, upper, np.log(2.0) + log_rest)


def noisy_density(
    ones: int, cells: int, scale: float, *, rng: np.random.Generator, exactly: bool
) -> float:
    """The share of cells that are 1, with Laplace noise.

    Args:
        ones, cells: number of ones, and of all cells, >= 1.
        scale: of the noise on the share.
        rng: the stream `laplace`.
        exactly: exact noise on an integer count, see `exact_cells`; for releases.
    """
    if exactly:
        return exact_cells.noisy_count(ones, scale * cells, rng=rng) / cells
    return ones / cells + rng.laplace(0, scale)


@release({"density": moves.densities}, is_read=False)
def keep_density(density: float, keep: float) -> float:
    """The rate of keeping answered ones at which the expected number of edges is unchanged.

    Answered ones are d p + (1 - d)(1 - p) of all cells; q is d over that, at most 1.

    Args:
        density: d, a released value; clipped to (0, 1).
        keep: p, the probability of a true answer.
    """
    density = float(np.clip(density, 1e-12, 1.0))
    return min(1.0, density / (2 * keep * density - keep - density + 1))


def _sorted(pairs: np.ndarray, num_nodes: int) -> np.ndarray:
    """Ascending, so that the order reveals nothing."""
    keys = np.sort(pairs[0] * num_nodes + pairs[1])
    return np.stack(np.divmod(keys, num_nodes)).astype(np.int64)


@release({"edges": moves.answered_cells})
def block_response(
    adjacency: sp.csr_array,
    *,
    scale: float,
    truth: float,
    block_rows: int,
    noise_rng: np.random.Generator,
    rng: np.random.Generator,
    exactly: bool = False,
) -> sp.csr_array:
    """PertGraph as published: every directed cell is answered, then thinned by its block's noisy density.

    An undirected edge is two cells, so the cost is `pertgraph.published_spends`, not epsilon.

    Args:
        adjacency: symmetric 0/1, zero diagonal, float64.
        scale: of the Laplace noise on each block's density.
        truth: probability of a true answer.
        block_rows: rows of a block.
        noise_rng, rng: streams of densities and answers.
        exactly: as for `randomized_response` and `noisy_density`.
    """
    num_nodes = adjacency.shape[0]
    blocks = []
    for first in range(0, num_nodes, block_rows):
        block = adjacency[first : first + block_rows]
        cells = block.shape[0] * num_nodes
        density = noisy_density(block.nnz, cells, scale, rng=noise_rng, exactly=exactly)
        keep = keep_density(density, truth)
        blocks.append(_answered_block(block, truth, keep, rng=rng, exactly=exactly))
    return sp.csr_array(sp.vstack(blocks))


def _answered_block(
    block: sp.csr_array, truth: float, keep: float, *, rng: np.random.Generator, exactly: bool
) -> sp.csr_array:
    """Randomised response on every cell of a block; each answered one is kept with probability keep."""
    num_nodes = block.shape[1]
    cells = block.shape[0] * num_nodes
    if exactly:
        kept, count = exact_cells.answers(
            block.nnz, cells - block.nnz,
            one_if_one=truth, one_if_zero=1 - truth, keep=keep, rng=rng,
        )  # fmt: skip
    else:
        count = int(rng.binomial(cells - block.nnz, (1 - truth) * keep))
        kept = np.less(rng.random(block.nnz), truth * keep)
    rows, columns = block.nonzero()
    ones = rows * num_nodes + columns
    added = _random_cells(ones, cells, count, rng=rng)
    keys = np.concatenate([ones[kept], added])
    rows, columns = np.divmod(keys, num_nodes)
    return sp.csr_array((np.ones(len(keys)), (rows, columns)), shape=block.shape)


def _random_cells(
    taken: np.ndarray, cells: int, count: int, *, rng: np.random.Generator
) -> np.ndarray:
    """A uniform set of `count` cells of 0..cells-1 that are not taken."""
    if count > (cells - len(taken)) // 4:
        free = np.setdiff1d(np.arange(cells), taken, assume_unique=True)
        return rng.choice(free, count, replace=False, shuffle=False)
    keys, taken = np.zeros(0, dtype=np.int64), np.sort(taken)
    while len(keys) < count:
        fresh = rng.integers(0, cells, size=2 * (count - len(keys)) + 64)
        keys = np.concatenate([keys, fresh[~_among(fresh, taken)]])
        _, first = np.unique(keys, return_index=True)
        keys = keys[np.sort(first)]
    return keys[:count]


def _among(keys: np.ndarray, ascending: np.ndarray) -> np.ndarray:
    """Whether each key is in a sorted array; bool, shape of `keys`."""
    if len(ascending) == 0:
        return np.zeros(len(keys), dtype=bool)
    places = np.minimum(np.searchsorted(ascending, keys), len(ascending) - 1)
    found: np.ndarray = ascending[places] == keys
    return found
