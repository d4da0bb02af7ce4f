"""Audits of a user's own network: a right one passes; mixing in a hook and broken clipping do not."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from exhaustive.method_neighbours import examine_method
from torch import Tensor

from dpgnn import methods
from dpgnn.accountants.plan import Budget
from dpgnn.audits.entry_audit import audit, forget
from dpgnn.audits.request import AuditRequest
from dpgnn.core import config as strict
from dpgnn.methods.base import Entry
from dpgnn.training.modules import engine

BUDGET = Budget(epsilon=4.0, delta=1e-3)


def entry(module: str, **options: Any) -> Entry:
    stated = {
        "module": f"own_modules:{module}", "max_degree": 2,
        "training": {"num_steps": 4, "expected_batch_size": 5},
    }  # fmt: skip
    return Entry(
        name="own", method="dp_gnn", mode="sound", privacy_unit="node-record",
        relation="add-remove", options=strict.read(methods.get("dp_gnn").config, stated | options),
    )  # fmt: skip


def faults(module: str, **options: Any) -> tuple[str, ...]:
    (report,) = examine_method(entry(module, **options), BUDGET, max_neighbours=6)
    return report.faults


@pytest.mark.parametrize("module", ["GATv2", "RootOnly"])
def test_the_neighbour_test_passes_a_right_module(module: str) -> None:
    assert faults(module) == ()


def test_dropout_of_a_named_stream_passes() -> None:
    assert faults("GATv2", module_options={"dropout": 0.3}) == ()


def test_a_module_that_clips_per_layer_in_its_own_hook_is_caught() -> None:
    """Its hook clips at the median of the norms seen before, so one record moves other roots' gradients."""
    found = " ".join(faults("ClipsItself"))
    assert "a gradient depends on other roots" in found
    assert "not that of its roots one by one" in found or "shift" in found


def test_an_engine_that_clips_a_batch_as_a_whole_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """One factor for all rows of a chunk: each root by itself looks right."""
    real = engine.row_gradients

    def mixing(*given: Any) -> Any:
        gradients, *rest = real(*given)
        for name, each in gradients.items():
            if isinstance(each, Tensor):
                gradients[name] = each * (len(each) / each.norm())
        return gradients, *rest

    monkeypatch.setattr(engine, "row_gradients", mixing)
    assert "not that of its roots one by one" in " ".join(faults("GATv2"))


def test_clipping_each_layer_at_the_whole_bound_fails_the_exact_test_of_clipping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request = AuditRequest(
        entry=entry("GATv2", training={"num_steps": 2, "expected_batch_size": "full"}),
        budget=Budget(epsilon=8.0, delta=1e-4), num_runs=40, max_steps=2, root_seed=3,
    )  # fmt: skip
    forget()
    (right,) = audit(request)
    assert all(check.passed for check in right.checks)
    real = engine.add_clipped

    def per_layer(gradients: Any, num_roots: int, parts: Any, sums: Any, *rest: Any) -> None:
        for name, each in gradients.items():
            alone = (np.zeros(1, dtype=np.int64), parts[1])
            real({name: each}, num_roots, alone, {name: sums[name]}, *rest)

    monkeypatch.setattr(engine, "add_clipped", per_layer)
    forget()
    (wrong,) = audit(dataclasses.replace(request, root_seed=4))
    forget()
    failed = {check.name for check in wrong.checks if not check.passed}
    assert "clipping" in failed
    assert wrong.accuses
    torch.manual_seed(0)
