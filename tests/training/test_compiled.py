"""The compiled engine alone: sums of chunks against the torch path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from dpgnn.training import ghost
from dpgnn.training.chunks import chunk_layout
from dpgnn.training.clipping import uniform_clipping
from dpgnn.training.compiled import CompiledEngine, supports


@pytest.mark.parametrize("conv", ["gcn", "gin", "sage", "symmetric"])
@pytest.mark.parametrize("per", ["global", "group", "tensor", None])
def test_a_chunk_adds_what_the_torch_path_adds(
    make_problem: Callable[..., Any], conv: str, per: Any
) -> None:
    problem = make_problem(11, conv=conv, num_hops=2)
    network, x = problem.network, torch.from_numpy(problem.x).double()
    parts = None if per is None else uniform_clipping(network, per, 0.2).parts(network)
    named = network.views(problem.parameters)
    found, wanted = torch.zeros(2, network.num_parameters, dtype=torch.float64)
    engine = CompiledEngine(network, x, problem.trees, torch.float64)
    layout = chunk_layout(problem.trees, problem.roots)
    y = torch.from_numpy(problem.trees.y)[problem.roots]
    with torch.no_grad():
        loss = engine.add_clipped_sum(
            named, problem.roots, parts, network.views(found), with_loss=True
        )
    other = ghost.add_clipped_sum(
        network, named, layout, x[layout.node], y, parts, network.views(wanted)
    )
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)
    assert float(loss) == pytest.approx(float(other))


def test_attention_has_no_compiled_form(make_problem: Callable[..., Any]) -> None:
    assert supports(make_problem(1, conv="sage").network)
    assert not supports(make_problem(1, conv="gat").network)
