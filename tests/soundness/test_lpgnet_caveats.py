"""LPGNet's caveats, each as something an observer can do with what is released."""

import numpy as np
import pytest

from dpgnn.methods.lpgnet.degrees import cluster_degrees, degrees_with_reused_noise, noisy_degrees
from dpgnn.methods.shared.undirected import symmetric_adjacency

NODES, CLASSES, SCALE, WORKERS = 500, 7, 2.0, 5


def graph(seed=0):
    upper = np.triu(np.random.default_rng(seed).random((NODES, NODES)) < 0.02, 1)
    return symmetric_adjacency(np.argwhere(upper).T, NODES)


def whole_differences(first, second, exact):
    """Share of entries, positive in both, whose noisy values differ by exactly the exact difference."""
    both = (first > 0) & (second > 0)
    wrong = np.abs((first - second) - exact)[both]
    return float((wrong < 1e-9).mean()), int(both.sum())


def test_noise_reused_one_known_row_gives_the_degrees_of_others():
    adjacency, rng = graph(), np.random.default_rng(1)
    clusters = rng.integers(CLASSES, size=NODES)
    exact = cluster_degrees(adjacency, clusters, CLASSES)
    size = NODES // WORKERS
    released = degrees_with_reused_noise(
        adjacency, clusters, CLASSES, scale=SCALE, seed=3, num_workers=WORKERS
    )
    share, number = whole_differences(
        released[:size], released[size : 2 * size], exact[:size] - exact[size : 2 * size]
    )
    assert number > 200
    assert share > 0.9
    # who knows the neighbours of node j reads those of node n/5 + j, with certainty and for every epsilon
    other = clusters.copy()
    other[::3] = (other[::3] + 1) % CLASSES
    again = degrees_with_reused_noise(
        adjacency, other, CLASSES, scale=SCALE, seed=3, num_workers=WORKERS
    )
    hops, _ = whole_differences(released, again, exact - cluster_degrees(adjacency, other, CLASSES))
    assert hops > 0.5
    # independent noise gives none of it
    sound = noisy_degrees(
        adjacency, clusters, CLASSES, scale=SCALE, rng=rng, filler=np.random.default_rng(2)
    )
    share, _ = whole_differences(
        sound[:size], sound[size : 2 * size], exact[:size] - exact[size : 2 * size]
    )
    assert share == 0.0


@pytest.mark.parametrize("edge", [True, False])
def test_noise_reused_tells_two_neighbouring_graphs_apart_without_error(edge):
    """The edge {0, 1} is there or not; the observer knows that node n/5 has one neighbour, the last node."""
    clusters = np.zeros(NODES, dtype=np.int64)
    pairs = [(NODES // WORKERS, NODES - 1), *([(0, 1)] if edge else [])]
    adjacency = symmetric_adjacency(np.array(pairs).T, NODES)
    guesses = []
    for seed in range(60):
        released = degrees_with_reused_noise(
            adjacency, clusters, CLASSES, scale=SCALE, seed=seed, num_workers=WORKERS
        )
        here, there = released[0, 0], released[NODES // WORKERS, 0]
        if here > 0 and there > 0:
            guesses.append(abs(here - there) < 1e-9)
    assert len(guesses) > 20
    assert all(guess == edge for guess in guesses)
