"""In a release of ProGAP at node level a node's embedding reads its own row alone, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpgnn.accountants.plan import Ledger, Plan
from dpgnn.core.randomness import Randomness, Streams
from dpgnn.core.storage import Store
from dpgnn.data.graph import Graph
from dpgnn.methods.base import Context
from dpgnn.methods.progap import node_model
from dpgnn.methods.progap.options import ProgapConfig
from dpgnn.methods.progap.stages import NodeStages
from dpgnn.methods.shared.aggregate import unit_rows


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def stages_of(x: np.ndarray, layers: int, randomness: Randomness) -> NodeStages:
    """Stages with one trained base module, of a run with this kind of randomness."""
    config = ProgapConfig(base_layers=layers, num_hops=1)
    rng, state = np.random.default_rng(4), {}
    for op in node_model.base_layers(config, 0, x.shape[1]):
        state[f"sent.0.{op.name}.weight"] = torch.from_numpy(
            0.1 * normal(rng, op.num_in, op.num_out)
        )
        state[f"sent.0.{op.name}.bias"] = torch.from_numpy(0.1 * normal(rng, op.num_out))
    streams = Streams(root_seed=0, axes={}, randomness=randomness)
    context = Context(ledger=Ledger(Plan()), streams=streams, store=Store(None))
    empty = np.zeros((2, 0), np.int64)
    graph = Graph(name="g", x=x, edge_index=empty, y=np.zeros(len(x), np.int64), num_classes=2)
    return NodeStages(config, graph, state=state, context=context)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("num_features", [64, 100, 500, 745])
def test_the_rows_of_other_nodes_do_not_move_when_a_node_is_removed(
    layers: int, num_features: int
) -> None:
    rng = np.random.default_rng(0)
    for size in (2, 3, 5, 1000, 1001, 2709):
        x = normal(rng, size, num_features)
        whole = unit_rows(stages_of(x, layers, "release").embed(0, x))
        study = unit_rows(stages_of(x, layers, "study").embed(0, x))
        np.testing.assert_allclose(whole, study, rtol=0, atol=2e-5)
        for gone in {0, size // 2, size - 1}:
            rest = np.delete(x, gone, axis=0)
            found = unit_rows(stages_of(rest, layers, "release").embed(0, rest))
            assert np.array_equal(found, np.delete(whole, gone, axis=0))
