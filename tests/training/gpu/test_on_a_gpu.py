"""Whole runs of every method on a real GPU; skipped where there is none.

All tests that need a GPU: `python -m pytest -m gpu tests/training`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import contract
import pytest
import torch

from dpgnn.methods.base import Performance, Support

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def scores(record: dict[str, Any]) -> dict[str, float]:
    """Accuracies of a run, validation and test."""
    return {part: found["accuracy"] for part, found in record["metrics"].items()}


@pytest.mark.parametrize(("name", "mode", "support"), contract.CASES)
def test_a_run_has_the_claims_the_plan_and_the_accuracy_of_the_cpu(
    tmp_path: Path, name: str, mode: Any, support: Support | None
):
    entry = contract.entry_of(name, mode, support)
    here, there = (
        contract.run(tmp_path / device, entry, performance=Performance(device=device))
        for device in ("cpu", "cuda")
    )
    assert there["claims"] == here["claims"]
    assert there["plan"] == here["plan"]
    # rounding may move a node that is nearly undecided
    one_node = 1 / len(contract.SPLIT.test_idx)
    assert scores(there) == pytest.approx(scores(here), abs=1.01 * one_node)
