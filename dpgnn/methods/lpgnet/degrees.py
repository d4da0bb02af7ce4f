"""Noisy degree vectors: numbers of a node's neighbours in each cluster, with Laplace noise.

A cluster is a predicted class. For given clusters, one undirected edge {i, j} changes two entries by 1: row i
in j's cluster and row j in i's cluster, so the L1 sensitivity is 2 for any clusters.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from dpgnn.core.rounded_noise import LAPLACE, LONGER, add_rounded
from dpgnn.methods.releases import Calls, Move, allowed_by, release
from dpgnn.methods.shared.every_call import every_call

DEGREES = "degrees"


def degree_sensitivity(*, directed: bool) -> float:
    """L1 change of the degree vectors under given clusters: 2 for an undirected edge, 1 for one direction."""
    return 1.0 if directed else 2.0


def cluster_degrees(adjacency: sp.csr_array, clusters: np.ndarray, num_clusters: int) -> np.ndarray:
    """Neighbours of each node in each cluster; sensitive.

    Args:
        adjacency: symmetric 0/1 CSR, zero diagonal.
        clusters: int64, shape (num_nodes,), values in 0..num_clusters - 1.
        num_clusters: C.

    Returns:
        float64, shape (num_nodes, num_clusters), whole numbers.
    """
    num_nodes = len(clusters)
    places = (np.arange(num_nodes), clusters)
    members = sp.csr_array((np.ones(num_nodes), places), shape=(num_nodes, num_clusters))
    return np.asarray((adjacency @ members).toarray())


@every_call
def _moved_counts(seen: Calls) -> Move:
    """L1 distance of the exact degree vectors of a hop; of the worst hop, given the hops before it."""
    sides = seen.only
    a, b = (cluster_degrees(s["adjacency"], s["clusters"], s["num_clusters"]) for s in sides)
    # in units of the actual noise
    unit = seen.mechanism.details["scale"] / sides[0]["scale"]
    moved = float(np.abs(a - b).sum()) * unit
    return Move(moved=moved, allowed=allowed_by(seen.mechanism))


@release({DEGREES: _moved_counts})
def noisy_degrees(
    adjacency: sp.csr_array,
    clusters: np.ndarray,
    num_clusters: int,
    *,
    scale: float,
    rng: np.random.Generator,
    filler: np.random.Generator,
    exactly: bool = False,
) -> np.ndarray:
    """max(0, degrees + Laplace noise), independent in every entry; a row of zeros gets a 1 somewhere.

    Guarantee: unit edge, add-remove, (2/scale)-DP for given clusters: the L1 sensitivity is 2, and the steps
    after the noise are post-processing. Public: node ids and clusters.

    Args:
        adjacency, clusters, num_clusters: as for `cluster_degrees`.
        scale: b > 0 of the noise; 0 adds none.
        rng: stream `laplace`; secret in a release.
        filler: draws the class of a row of zeros; may be public.
        exactly: exact noise, rounded to a public grid (`core.rounded_noise`); for releases.

    Returns:
        float64, shape (num_nodes, num_clusters), >= 0, no row of zeros.

    Source: Kolluri et al. (2022), arXiv:2205.03105, section 4.
    """
    degrees = cluster_degrees(adjacency, clusters, num_clusters)
    if scale > 0:
        degrees = _noisy(degrees, scale, rng, exactly)
    degrees = np.maximum(degrees, 0.0)
    empty = np.flatnonzero(degrees.sum(axis=1) == 0)
    degrees[empty, filler.integers(num_clusters, size=len(empty))] = 1.0
    return degrees


@release({DEGREES: _moved_counts})
def degrees_with_reused_noise(
    adjacency: sp.csr_array,
    clusters: np.ndarray,
    num_clusters: int,
    *,
    scale: float,
    seed: int,
    num_workers: int,
    exactly: bool = False,
) -> np.ndarray:
    """The same as in the released code: every worker's slice of rows has the noise of the first.

    Guarantee: none. Rows at the same position of two slices, and the same row at two hops, have the same
    noise until the first preceding row of zeros (caveat noise-reused; tests/soundness).

    Args:
        seed: of the generator; every worker gets the same state.
        num_workers: number of slices of floor(num_nodes/num_workers) rows; the last also gets the rest.
        adjacency, clusters, num_clusters, scale, exactly: as for `noisy_degrees`.
    """
    degrees = cluster_degrees(adjacency, clusters, num_clusters)
    size = len(degrees) // num_workers
    bounds = [size * worker for worker in range(num_workers)] + [len(degrees)]
    for first, last in zip(bounds, bounds[1:]):
        rng = np.random.default_rng(seed)
        for row in degrees[first:last]:
            np.maximum(_noisy(row, scale, rng, exactly), 0.0, out=row)
            if row.sum() == 0:
                row[rng.integers(num_clusters)] = 1.0
    return degrees


def _noisy(counts: np.ndarray, scale: float, rng: np.random.Generator, exactly: bool) -> np.ndarray:
    """counts + Laplace noise."""
    if exactly:
        return add_rounded(counts, scale * LONGER, rng=rng, law=LAPLACE)
    return counts + rng.laplace(0.0, scale, size=counts.shape)
