"""Dropout masks of an own network are dealt by row of x: an absent root leaves every other root its masks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dpgnn.methods.dp_gnn.options import DPGNNConfig, network_of
from dpgnn.methods.dp_gnn.sample import training_input
from dpgnn.models.modules import given, name_of
from dpgnn.training.clipping import global_clipping
from dpgnn.training.gradients import RootGradients
from dpgnn.training.modules.masks import Masks

NODES, FEATURES, CLASSES = 8, 5, 3


class Dropped(nn.Module):
    """Two linear layers with dropout between them."""

    def __init__(self, num_features: int = FEATURES, num_classes: int = CLASSES) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(num_features, 8), nn.Linear(8, num_classes)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.dropout(torch.relu(self.first(x))))


@pytest.mark.parametrize("absent", range(NODES))
def test_an_absent_root_moves_no_other_term(absent: int) -> None:
    """Without hops, where theorem 1 counts one changed root; node ids are rows of x."""
    torch.manual_seed(0)
    module, rng = Dropped(), np.random.default_rng(1)
    config = DPGNNConfig(num_hops=0, module=name_of(module), module_given=given(module))
    x = rng.standard_normal((NODES, FEATURES)).astype(np.float32)
    y = rng.integers(0, CLASSES, NODES)

    def terms(roots: np.ndarray) -> dict[int, np.ndarray]:
        network = network_of(config, num_features=FEATURES, num_classes=CLASSES)
        rows, trees = training_input(config, x, y, roots, None)
        masks = Masks()
        engine = RootGradients(network, rows, trees, clipping=global_clipping(1.0), masks=masks)
        masks.at(7)
        start = network.initial(rng=np.random.default_rng(0))
        return {
            int(root): engine(start, np.array([place])).clone().numpy()
            for place, root in enumerate(roots)
        }

    whole = terms(np.arange(NODES))
    fewer = terms(np.delete(np.arange(NODES), absent))
    assert {root for root in fewer if not np.array_equal(whole[root], fewer[root])} == set()
