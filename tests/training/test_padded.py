"""Padded trees with vmap give the clipped sum of the plain loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.padded import level_sizes, pad, vmap_sum
from benchmarks.reference import plain_sum
from dpgnn.training.clipping import uniform_clipping


@pytest.mark.parametrize("conv", ["gcn", "gin", "sage", "gat"])
@pytest.mark.parametrize("per", ["global", "group"])
def test_the_sum_is_that_of_the_plain_loop(
    make_problem: Callable[..., Any], conv: str, per: Any
) -> None:
    problem = make_problem(4, conv=conv, num_hops=2)
    network, trees, roots = problem.network, problem.trees, problem.roots
    clipping = uniform_clipping(network, per, 0.3)
    sizes = level_sizes(trees, roots)
    node, adjacency = pad(trees, roots, sizes[0])
    found = vmap_sum(
        network, problem.parameters, torch.from_numpy(problem.x[node]).double(),
        adjacency.double(), torch.from_numpy(trees.y[roots]), clipping, sizes,
    )  # fmt: skip
    wanted = plain_sum(network, problem.parameters, problem.x, trees, roots, clipping)
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-9)


def test_padding_repeats_the_root_and_reads_nothing(make_problem: Callable[..., Any]) -> None:
    problem = make_problem(5, num_hops=1)
    trees, roots = problem.trees, problem.roots
    node, adjacency = pad(trees, roots, 12)
    rows = np.diff(trees.row_ptr)[roots]
    for i, root in enumerate(roots):
        assert (node[i, rows[i] :] == trees.node[trees.row_ptr[root]]).all()
        assert not adjacency[i, rows[i] :].any()
        assert not adjacency[i, :, rows[i] :].any()
