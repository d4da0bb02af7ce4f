"""Plans of noisy gradient descent: a full batch by its name, and batches that are too large."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from dpgnn import methods
from dpgnn.accountants.plan import Budget, Plan
from dpgnn.core import config as strict
from dpgnn.methods.base import Entry, Facts
from dpgnn.methods.shared.planning import DPSGDConfig

FACTS = Facts(num_nodes=60, num_train=40, num_features=5, num_classes=2, task="multiclass")
PLANS = [
    ("dp_mlp", "sound", "node", "add-remove", {}),
    ("dp_mlp", "published", "node", "replace-one", {}),
    ("dp_mlp_smooth", "sound", "node", "add-remove", {}),
    ("dp_gnn", "sound", "node-record", "add-remove", {}),
    ("dp_gnn", "sound", "node-record", "replace-one", {"counting": "theorem-1"}),
    ("dp_gnn", "published", "node-record", "replace-one", {"thresholds": "public"}),
]


def plan_of(method: str, mode: Any, unit: str, relation: str, options: dict, batch: Any) -> Plan:
    training = {"num_steps": 3, "expected_batch_size": batch}
    loop = {"mlp": {"training": training}} if method == "dp_mlp_smooth" else {"training": training}
    chosen = methods.get(method)
    entry = Entry(
        name="e", method=method, mode=mode, privacy_unit=unit, relation=relation,
        options=strict.read(chosen.config, options | loop),
    )  # fmt: skip
    return chosen.plan(entry, FACTS, Budget(epsilon=8.0, delta=1e-3))


@pytest.mark.parametrize("case", PLANS, ids=lambda case: " ".join(map(str, case[:2])))
def test_full_is_the_plan_of_a_batch_of_all_training_nodes(case: tuple) -> None:
    assert plan_of(*case, batch="full") == plan_of(*case, batch=FACTS.num_train)


@pytest.mark.parametrize("case", PLANS, ids=lambda case: " ".join(map(str, case[:2])))
def test_a_batch_above_the_training_nodes_is_refused(case: tuple) -> None:
    with pytest.raises(
        ValueError, match=r"must be <= the number of training nodes, 40, got 41; .*full"
    ):
        plan_of(*case, batch=41)


def test_full_takes_every_root_at_every_step() -> None:
    (mechanism,) = plan_of(*PLANS[0], batch="full").mechanisms
    assert mechanism.details["sampling_probability"] == 1.0
    assert mechanism.divisor == 40.0
    assert DPSGDConfig(expected_batch_size="full").batch_size(7) == 7
    with pytest.raises(ValueError, match="unknown expected_batch_size 'all'; known: full"):
        dataclasses.replace(DPSGDConfig(), expected_batch_size="all")  # type: ignore[arg-type]
