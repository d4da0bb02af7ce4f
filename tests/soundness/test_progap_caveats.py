"""ProGAP's caveats with its own functions: each as a distance that is attained, or rows that change."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpgnn.accountants import gdp
from dpgnn.methods.progap.aggregate import noisy_sum
from dpgnn.methods.shared.aggregate_bounds import sampled_edges
from dpgnn.methods.shared.undirected import symmetric_adjacency


def sums(edges, rows, num_nodes):
    graph = symmetric_adjacency(np.array(edges, dtype=np.int64).reshape(-1, 2).T, num_nodes)
    return noisy_sum(graph, rows, hop=1, noise_stddev=0.0, draw=lambda step, shape: 0)


def excess(distance, noise, epsilon, delta):
    """Largest TPR - e^epsilon FPR - delta of tests between two Gaussians this far apart."""
    threshold = np.linspace(-8, 8, 8001)
    mu = distance / noise
    return float((norm.sf(threshold - mu) - math.exp(epsilon) * norm.sf(threshold) - delta).max())


def test_the_published_edge_noise_breaks_the_stated_epsilon():
    rows = np.array([(0.6, 0.8), (0.0, 1.0), (1.0, 0.0)])
    moved = np.linalg.norm(sums([(0, 1), (1, 2)], rows, 3) - sums([(0, 1)], rows, 3))
    assert moved == pytest.approx(math.sqrt(2))
    published = 4.9768  # stated epsilon 1 at delta 1e-7, one hop
    assert excess(1.0, published, 1.0, 1e-7) <= 0
    assert excess(moved, published, 1.0, 1e-7) > 1e-7
    assert gdp.epsilon(moved / published, 1e-7) == pytest.approx(1.355, abs=1e-3)


def test_removing_a_hub_lets_other_rows_into_the_draw_of_its_neighbours():
    """A hub joined to nodes of degree 11, D = 10: each neighbour's freed slot is drawn anew."""
    blocks, size, bound = 40, 11, 10
    edges = [(0, 1 + size * b) for b in range(blocks)]
    edges += [(1 + size * b, 1 + size * b + k) for b in range(blocks) for k in range(1, size)]
    num_nodes = 1 + blocks * size
    pairs = np.array(edges).T
    both = np.concatenate([pairs, pairs[::-1]], axis=1)
    without = both[:, (both != 0).all(axis=0)]
    changed: list[int] = []

    def drawn(edges, seed):
        found = sampled_edges(edges, num_nodes, bound, rng=np.random.default_rng(seed))
        return {tuple(edge) for edge in found.T.tolist() if 0 not in edge}

    for seed in range(5):
        kept = [drawn(edges_of, seed) for edges_of in (both, without)]
        changed.append(len({target for _, target in kept[0] ^ kept[1]}))
    # at least one more row for each neighbour that had drawn the hub: D/deg of them in expectation
    assert np.mean(changed) > 0.8 * blocks * bound / size
    assert min(changed) > bound


def test_the_own_row_moves_by_the_degree_and_not_by_its_root():
    degree, bound = 50, 10
    rows = np.tile([[1.0, 0.0]], (degree + 1, 1))
    star = [(0, leaf) for leaf in range(1, degree + 1)]
    own = np.linalg.norm(sums(star, rows, degree + 1)[0] - sums([], rows, degree + 1)[0])
    assert own == degree
    noise = math.sqrt(bound) / gdp.mu(1.0, 1e-5)
    assert excess(own, noise, 1.0, 1e-5) > 0.9
