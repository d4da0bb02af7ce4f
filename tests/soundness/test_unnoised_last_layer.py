"""Caveat unnoised-last-layer: the released code of CARIBOU shows an edge with certainty, for every noise.

It ends with a layer on the private edges that is followed by no noise. What it releases, less the public
residual, lies in the column space of the operator of the true graph. On a path, an operator without
self-loops can be singular with one edge less, so being outside of that space proves the edge.
"""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from dpgnn.methods.caribou import sensitivity
from dpgnn.methods.shared.aggregate import (
    ContractiveLayer,
    contractive_iteration,
    operator_without_self_loops,
    released_code_iteration,
    symmetric_operator,
    unit_rows,
)
from dpgnn.methods.shared.undirected import symmetric_adjacency

LENGTH, HOPS, RUNS = 8, 10, 100
LAYER = ContractiveLayer(contraction=0.9, alpha1=1.0, beta=10.0)


def path(without=None):
    edges = [(i, i + 1) for i in range(LENGTH - 1) if (i, i + 1) != without]
    return symmetric_adjacency(np.array(edges).T, LENGTH)


def features():
    """A chain's: the first node shows its class."""
    x = np.zeros((LENGTH, 5))
    x[0, 0] = 1.0
    return x


def outside_of_range(released, operator):
    """Norm of the part of released - beta X that the operator cannot have made."""
    dense = operator.toarray()
    rest = released - LAYER.beta * features()
    return float(np.linalg.norm(rest - dense @ (np.linalg.pinv(dense) @ rest)))


def scores(release, candidate):
    """Statistic of `release(adjacency, seed)` in the world with the edge, and in that without it."""
    return [
        [outside_of_range(release(adjacency, [run, world]), candidate) for run in range(RUNS)]
        for world, adjacency in enumerate((path(without=(2, 3)), path()))
    ]


def auc(values):
    without, with_edge = values
    return roc_auc_score([0] * len(without) + [1] * len(with_edge), without + with_edge)


@pytest.mark.parametrize("noise_stddev", [1.0, 10.0, 100.0])
def test_the_released_code_shows_the_edge_for_every_noise(noise_stddev):
    def release(adjacency, seed):
        rng = np.random.default_rng(seed)
        return released_code_iteration(
            LAYER, operator_without_self_loops(adjacency), features(), num_hops=HOPS,
            noise_stddev=noise_stddev, draw=lambda hop, shape: rng.standard_normal(shape),
            noise_free_layer=True,
        )  # fmt: skip

    values = scores(release, operator_without_self_loops(path(without=(2, 3))))
    assert max(values[0]) < 1e-10 < 0.05 < min(values[1])
    assert auc(values) == 1.0


@pytest.mark.parametrize("operator", [operator_without_self_loops, symmetric_operator])
def test_the_sound_iteration_shows_nothing_to_the_same_statistic(operator):
    from dpgnn.accountants import gdp

    size = LAYER.contraction * sensitivity.edge_operator_sensitivity_without_self_loops()
    mu = gdp.mu(1.0, 1e-2)
    noise = size * np.sqrt(gdp.effective_hops(HOPS, LAYER.contraction)) / mu

    def release(adjacency, seed):
        rng = np.random.default_rng(seed)
        return contractive_iteration(
            LAYER, operator(adjacency), unit_rows(features()), num_hops=HOPS, noise_stddev=noise,
            draw=lambda hop, shape: rng.standard_normal(shape),
        )  # fmt: skip

    # a mu-GDP release allows an area of Phi(mu/sqrt 2) = 0.65 at most; 0.06 is two deviations of 100 runs
    found = auc(scores(release, operator(path(without=(2, 3)))))
    assert 0.5 - 0.12 < found < 0.65
