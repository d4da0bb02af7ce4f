"""Queries: asking about the fitted features with the run's own noise gives the run's own answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attack_models import fitted

from dpgnn import methods
from dpgnn.methods.queries import FittedRun, Query

SMALL = {"hidden": 8, "encoder_training": {"num_epochs": 5}, "training": {"num_epochs": 5}}


@pytest.mark.parametrize(
    ("name", "mode", "options"),
    [
        ("caribou", "sound", {}),
        ("caribou", "published", {"variant": "as-released", "minimum_degree": 1}),
        ("gap", "sound", {"num_hops": 2}),
    ],
)
def test_a_query_with_the_runs_noise_repeats_the_run(
    name: str, mode: Any, options: dict[str, Any]
) -> None:
    run = fitted(
        name, mode=mode, unit="edge", relation="add-remove", options={"head": SMALL} | options
    )
    again, fresh = (answer(run, frozen=frozen) for frozen in (True, False))
    np.testing.assert_allclose(again, run.state["logits"].numpy(), atol=1e-5)
    assert np.abs(fresh - again).max() > 1e-3


def answer(run: FittedRun, *, frozen: bool) -> np.ndarray:
    """What the method answers about the graph of the fit."""
    queries = methods.get(run.entry.method).queries
    assert queries is not None
    assert queries.answer is not None
    streams = run.streams if frozen else run.fresh(7)
    query = Query(graph=run.graph, streams=streams, frozen=frozen, prepared=None)
    return queries.answer(run, query).numpy()
