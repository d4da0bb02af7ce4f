"""Requests of audits, for small entries."""

from __future__ import annotations

from typing import Any

from dpgnn import methods
from dpgnn.accountants.plan import Budget
from dpgnn.audits.request import AuditRequest
from dpgnn.core import config as strict
from dpgnn.methods.base import Entry, Facts

FACTS = Facts(num_nodes=1000, num_train=600, num_features=50, num_classes=7, task="multiclass")
# every root in every batch: a step is one Gaussian release
FULL = {"width": 8, "training": {"num_steps": 4, "expected_batch_size": "full"}}


def request(
    method: str = "dp_mlp",
    unit: str | None = "node",
    relation: str | None = "add-remove",
    options: Any = None,
    mode: Any = "sound",
    **changes: Any,
) -> AuditRequest:
    """An audit of 8 runs of 2 steps at epsilon 4; `changes` are fields of the request."""
    chosen = methods.get(method)
    entry = Entry(
        name=method, method=method, mode=mode, privacy_unit=unit, relation=relation,
        options=strict.read(chosen.config, options if options is not None else chosen.example),
    )  # fmt: skip
    values = {"num_runs": 8, "max_steps": 2, "budget": Budget(epsilon=4.0, delta=1e-4)}
    return AuditRequest(entry=entry, **(values | changes))
