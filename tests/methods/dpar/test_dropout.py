"""Dropout of DPAR's training: its masks, the clipping under it, and why sound mode refuses it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers import two_community_graph

from dpgnn.core.randomness import Streams
from dpgnn.methods.dpar.fit import Dropout, network_of
from dpgnn.methods.dpar.options import DPARConfig
from dpgnn.models.trees import weighted_rows
from dpgnn.training.clipping import global_clipping
from dpgnn.training.gradients import Execution, RootGradients

GRAPH = two_community_graph()
CONFIG = DPARConfig(width=4)


def test_dropout_zeroes_at_the_stated_rate_and_repeats_for_a_step() -> None:
    streams = Streams(root_seed=0, axes={"repeat": 0})
    dropout = Dropout(0.25, streams)
    ones = torch.ones(500, 100)
    dropout.before_step(7)
    first = dropout(ones)
    assert float((first == 0).float().mean()) == pytest.approx(0.25, abs=0.01)
    assert float(first.max()) == pytest.approx(1 / 0.75)
    dropout.before_step(7)
    assert torch.equal(dropout(ones), first)
    dropout.before_step(8)
    assert not torch.equal(dropout(ones), first)


def test_dropout_keeps_each_clipped_gradient_within_the_norm() -> None:
    network = network_of(CONFIG, GRAPH, hop=True)
    weights = sp.csr_array(np.eye(60) * 0.5 + np.roll(np.eye(60), 1, axis=1) * 0.5)
    dropout = Dropout(0.5, Streams(root_seed=0, axes={"repeat": 0}))
    flat = network.initial(rng=np.random.default_rng(0), dtype=torch.float64) * 50
    norm = 0.2
    gradients = RootGradients(
        network, GRAPH.x * 30, weighted_rows(weights, GRAPH.y.copy()), clipping=global_clipping(norm),
        execution=Execution(dtype="float64"), dropout=dropout,
    )  # fmt: skip
    dropout.before_step(1)
    lengths = [float(gradients(flat, np.array([root])).norm()) for root in range(60)]
    assert max(lengths) <= norm
    assert max(lengths) > 0.99 * norm


def test_who_is_in_the_batch_decides_the_masks_of_the_others() -> None:
    """Why sound mode refuses dropout: without root 0 the gradient of root 1 is another one."""
    network = network_of(CONFIG, GRAPH, hop=True)
    rows = weighted_rows(sp.csr_array(np.eye(60)), GRAPH.y.copy())
    flat = network.initial(rng=np.random.default_rng(0), dtype=torch.float64)
    dropout = Dropout(0.5, Streams(root_seed=0, axes={"repeat": 0}))
    gradients = RootGradients(
        network, GRAPH.x, rows, clipping=global_clipping(1.0), dropout=dropout,
        execution=Execution(dtype="float64"),
    )  # fmt: skip

    def found(*roots: int) -> torch.Tensor:
        dropout.before_step(1)
        return gradients(flat, np.array(roots)).clone()

    # a sum of two is root 0's term, which has the first masks in both, and root 1's with the second
    assert not torch.allclose(found(0, 1) - found(0), found(1), atol=1e-3)
    dropout.rate = 0.0
    assert torch.allclose(found(0, 1) - found(0), found(1), atol=1e-6)


def test_with_dropout_a_sum_does_not_depend_on_the_chunks_asked_for() -> None:
    network = network_of(CONFIG, GRAPH, hop=True)
    rows = weighted_rows(sp.csr_array(np.eye(60)), GRAPH.y.copy())
    flat, sums = network.initial(rng=np.random.default_rng(0)), []
    for chunk_rows in (None, 8, 1000):
        dropout = Dropout(0.1, Streams(root_seed=0, axes={"repeat": 0}))
        gradients = RootGradients(
            network, GRAPH.x, rows, clipping=global_clipping(1.0), dropout=dropout,
            execution=Execution(chunk_rows=chunk_rows),
        )  # fmt: skip
        dropout.before_step(1)
        sums.append(gradients(flat, np.arange(60)).clone())
    assert torch.equal(sums[0], sums[1])
    assert torch.equal(sums[0], sums[2])
