"""Small models made by `dpgnn.fit`, for the tests of `dpgnn/release` and its commands."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from helpers import two_community_graph
from torch_geometric.data import Data

import dpgnn

GRAPH = two_community_graph()
SMALL: dict[str, Any] = {"training": {"num_steps": 5, "expected_batch_size": 10}}


def data_of(graph: Any = GRAPH, train: Any = None) -> Data:
    mask = np.zeros(graph.num_nodes, bool)
    mask[np.arange(0, graph.num_nodes, 3) if train is None else train] = True
    return Data(
        x=torch.from_numpy(np.array(graph.x)),
        edge_index=torch.from_numpy(np.array(graph.edge_index)),
        y=torch.from_numpy(np.array(graph.y)),
        train_mask=torch.from_numpy(mask),
    )


def small(**named: Any) -> dpgnn.Model:
    stated = {"method": "DP-MLP", "unit": "node", "num_classes": 2, "seed": 1, "delta": 1e-3}
    own = {} if named.get("method") == "GAP" else SMALL
    return dpgnn.fit(data_of(), **{**stated, **own, **named})
