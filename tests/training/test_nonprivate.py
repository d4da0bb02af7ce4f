"""The two full-batch loops agree where both can train a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dpgnn.models.inputs import as_input
from dpgnn.models.mlp import MLP
from dpgnn.training.nonprivate import train_full_batch, train_on_rows
from dpgnn.training.options import AdamConfig

RNG = np.random.default_rng(0)
X = (RNG.random((60, 12)) * (RNG.random((60, 12)) < 0.4)).astype(np.float32)
Y = torch.from_numpy((X[:, 0] > X[:, 1]).astype(np.int64))
CONFIG = AdamConfig(lr=0.05, num_epochs=30, weight_decay=0.0)


class Quiet:
    def update(self, step: int, **shown: Any) -> None:
        pass


def model() -> MLP:
    return MLP(12, (8,), 2, dropout=0.0, generator=torch.Generator().manual_seed(1))


def shared() -> dict[str, Any]:
    return {
        "task": "multiclass",
        "generator": torch.Generator().manual_seed(2),
        "progress": Quiet(),
    }


def on_rows(layout: Any, num_train: int) -> tuple[Any, Any]:
    rows = [as_input(layout(part)) for part in (X[:num_train], X[num_train:])]
    net = model()
    train, val = (rows[0], Y[:num_train]), (rows[1], Y[num_train:])
    return train_on_rows(net, net, [train], val, CONFIG, **shared())


@pytest.mark.parametrize("layout", [np.array, sp.csr_array])
def test_rows_that_are_scored_alone_are_scored_alike(layout: Any) -> None:
    state, history = on_rows(layout, 40)
    net, whole = model(), as_input(layout(X))
    wanted, rows = train_full_batch(
        net, lambda masks: net(whole, masks), Y, torch.arange(40), torch.arange(40, 60), CONFIG,
        **shared(),
    )  # fmt: skip
    assert [row["step"] for row in history] == [10, 20, 30]
    for mine, theirs in zip(history, rows, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-5)
    for name, value in wanted.items():
        torch.testing.assert_close(state[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", [np.array, sp.csr_array])
def test_without_validation_rows_the_last_weights_are_kept(layout: Any) -> None:
    state, history = on_rows(layout, 60)
    net = model()
    net.load_state_dict(state)
    accuracy = float((net(as_input(X)).argmax(1) == Y).float().mean())
    assert history[-1]["train_accuracy"] == pytest.approx(accuracy)
    assert np.isnan(history[-1]["val_accuracy"])
