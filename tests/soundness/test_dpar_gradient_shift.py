"""Caveat: DPAR's training claims that one node moves the clipped sum by tau C; it moves it by many C.

The proof counts a node by its weight in the rows (L1 norm of its column, tau = 1). But the gradient of each
root whose row holds the node is clipped on its own and may turn around whatever the weight: with ten rows
of weight 0.1 the bound is 2C for each of them, 20 C. The sound mode counts rows, not weights.
"""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dpgnn.models.network import Network, NetworkConfig
from dpgnn.models.trees import weighted_rows
from dpgnn.training.clipping import global_clipping
from dpgnn.training.gradients import Execution, RootGradients

NUM_ROWS, NUM_FEATURES, NUM_CLASSES, CLIPPING_NORM = 10, 20, 5, 1.0


def rows_that_share_a_node():
    """Ten roots that read node 0 with weight 0.1 and themselves with 0.9; node 0's column has norm 1."""
    dense = np.zeros((NUM_ROWS, NUM_ROWS + 1))
    dense[:, 0] = 0.1
    dense[np.arange(NUM_ROWS), np.arange(NUM_ROWS) + 1] = 0.9
    return sp.csr_array(dense)


def largest_shift(feature_scale, *, num_tries=300, seed=0):
    """The largest ||sum - sum'|| / C over random networks and replacements of node 0's features."""
    rng = np.random.default_rng(seed)
    network = Network(NetworkConfig(
        num_features=NUM_FEATURES, num_outputs=NUM_CLASSES, width=32, encoder_layers=1, num_hops=1,
        decoder_layers=1, conv="weighted", bias=False, activation="relu",
    ))  # fmt: skip
    weights, worst = rows_that_share_a_node(), 0.0
    for _ in range(num_tries):
        # alike roots (equal labels, equal features of their own): their gradients turn together
        y = np.full(NUM_ROWS, rng.integers(NUM_CLASSES))
        x = np.tile(rng.normal(0, 1, NUM_FEATURES), (NUM_ROWS + 1, 1))
        other = x.copy()
        x[0] = rng.normal(0, feature_scale, NUM_FEATURES)
        other[0] = rng.normal(0, feature_scale, NUM_FEATURES)
        flat = network.initial(rng=rng, dtype=torch.float64) * rng.choice([1.0, 3.0])
        sums = [
            RootGradients(
                network, features, weighted_rows(weights, y),
                clipping=global_clipping(CLIPPING_NORM), execution=Execution(dtype="float64"),
            )(flat, np.arange(NUM_ROWS)).numpy().copy()
            for features in (x, other)
        ]  # fmt: skip
        worst = max(worst, float(np.linalg.norm(sums[0] - sums[1])) / CLIPPING_NORM)
    return worst


# a wider search finds more; what matters is how far above the claim of 1 it is
@pytest.mark.parametrize(("feature_scale", "at_least"), [(1.0, 3.0), (100.0, 10.0)])
def test_a_node_of_column_norm_one_moves_the_sum_by_many_times_the_claim(feature_scale, at_least):
    claimed = np.abs(rows_that_share_a_node().toarray()[:, 0]).sum()
    assert claimed == pytest.approx(1.0)
    found = largest_shift(feature_scale)
    print(f"feature scale {feature_scale:g}: shift {found:.2f} C, claimed {claimed:g} C")
    assert found > at_least
    assert found <= 2 * NUM_ROWS


def test_the_weight_says_nothing_about_the_shift():
    """The same ten rows with a hundredth of the weight: the claim falls to 0.01 C, the shift does not."""
    rng = np.random.default_rng(1)
    network = Network(NetworkConfig(
        num_features=NUM_FEATURES, num_outputs=NUM_CLASSES, width=32, encoder_layers=1, num_hops=1,
        decoder_layers=1, conv="weighted", bias=False, activation="relu",
    ))  # fmt: skip
    weights = rows_that_share_a_node().tolil()
    weights[:, 0] = 0.001
    y, worst = np.full(NUM_ROWS, 2), 0.0
    for _ in range(100):
        x = rng.normal(0, 1, (NUM_ROWS + 1, NUM_FEATURES))
        other = x.copy()
        x[0] = rng.normal(0, 1e4, NUM_FEATURES)
        other[0] = -x[0]
        flat = network.initial(rng=rng, dtype=torch.float64)
        sums = [
            RootGradients(
                network, features, weighted_rows(sp.csr_array(weights), y),
                clipping=global_clipping(CLIPPING_NORM), execution=Execution(dtype="float64"),
            )(flat, np.arange(NUM_ROWS)).numpy().copy()
            for features in (x, other)
        ]  # fmt: skip
        worst = max(worst, float(np.linalg.norm(sums[0] - sums[1])))
    assert worst > 10 * CLIPPING_NORM
