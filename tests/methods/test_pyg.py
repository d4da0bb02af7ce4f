"""PyG's networks without privacy: repeatable, and answered by the graph that is asked."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models_in_memory import data_of

import dpgnn


def fit(**named: Any) -> dpgnn.Model:
    stated = {"num_classes": 2, "seed": 1, "mode": "nonprivate", "training": {"num_epochs": 40}}
    return dpgnn.fit(data_of(), method="pyg", **{**stated, **named})


@pytest.mark.parametrize("network", ["sage", "gatv2", "gin", "gcn"])
def test_the_same_seed_gives_the_same_model_and_it_learns(network: str) -> None:
    before = torch.get_rng_state()
    first, second = fit(network=network), fit(network=network)
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(first.state[name], second.state[name]) for name in first.state)
    data = data_of()
    assert (first.predict(data).classes == data.y.numpy()).mean() > 0.8


def test_heads_share_the_hidden_units() -> None:
    with pytest.raises(ValueError, match="hidden must be a multiple of 8 heads, got 12"):
        fit(network="gatv2", hidden=12)
