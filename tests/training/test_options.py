"""Options of training loops refuse what no optimiser can use."""

from __future__ import annotations

import pytest

from dpgnn.training.options import AdamConfig, OptimizerConfig


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (AdamConfig, "lr", 0.0),
        (AdamConfig, "weight_decay", -1.0),
        (AdamConfig, "num_epochs", 0),
        (AdamConfig, "patience", -1),
        (OptimizerConfig, "name", "lion"),
        (OptimizerConfig, "lr", float("nan")),
        (OptimizerConfig, "epsilon", 0.0),
        (OptimizerConfig, "momentum", 1.0),
        (OptimizerConfig, "beta2", 1.0),
        (OptimizerConfig, "beta1", -0.1),
        (OptimizerConfig, "average_last", 1.5),
    ],
)
def test_a_value_out_of_range_is_named(kind: type, name: str, value: object) -> None:
    word = "optimizer" if name == "name" else name
    with pytest.raises(ValueError, match=f"{word}.*{value}"):
        kind(**{name: value})


def test_the_ends_of_ranges_are_allowed() -> None:
    assert OptimizerConfig(momentum=0, beta1=0, average_last=1, weight_decay=0).average_last == 1
    assert AdamConfig(patience=0, weight_decay=0, num_epochs=1).num_epochs == 1
