"""The plain loop itself: gradients by finite differences, clipping by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.reference import clip, plain_sum, root_gradient
from dpgnn.models.forward import evaluate, per_root_loss
from dpgnn.training.chunks import chunk_layout
from dpgnn.training.clipping import global_clipping, uniform_clipping


def test_a_roots_gradient_is_the_slope_of_its_loss(make_problem: Callable[..., Any]) -> None:
    problem = make_problem(6, num_hops=1)
    network, trees, root = problem.network, problem.trees, int(problem.roots[0])
    gradient = root_gradient(network, problem.parameters, problem.x, trees, root)

    def loss(parameters: torch.Tensor) -> float:
        layout = chunk_layout(trees, np.array([root]))
        rows = torch.from_numpy(problem.x[layout.node.numpy()]).double()
        logits = evaluate(network, network.views(parameters), layout, rows)
        return float(per_root_loss(network, logits, torch.from_numpy(trees.y[[root]])).sum())

    for place in (0, 5, len(gradient) - 1):
        step = torch.zeros_like(problem.parameters)
        step[place] = 1e-6
        slope = (loss(problem.parameters + step) - loss(problem.parameters - step)) / 2e-6
        assert float(gradient[place]) == pytest.approx(slope, rel=1e-5, abs=1e-8)


def test_clipping_scales_each_part_to_its_bound(make_problem: Callable[..., Any]) -> None:
    network = make_problem(7).network
    long = torch.full((network.num_parameters,), 3.0, dtype=torch.float64)
    assert float(clip(network, long, global_clipping(0.5)).norm()) == pytest.approx(0.5)
    assert torch.equal(clip(network, long, global_clipping(1e6)), long)
    groups = uniform_clipping(network, "group", 0.5)
    assert float(clip(network, long, groups).norm()) == pytest.approx(0.5)
    long[3] = torch.nan
    assert not clip(network, long, groups).any()


def test_the_sum_adds_one_clipped_gradient_a_root(make_problem: Callable[..., Any]) -> None:
    problem = make_problem(8)
    given = (problem.network, problem.parameters, problem.x, problem.trees)
    clipping = global_clipping(0.1)
    each = [plain_sum(*given, np.array([root]), clipping) for root in problem.roots]
    assert all(float(term.norm()) <= 0.1 + 1e-12 for term in each)
    torch.testing.assert_close(sum(each), plain_sum(*given, problem.roots, clipping))
