"""Queries: asking about the fitted features with the run's own noise gives the run's own answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import two_community_graph

from dpgnn import methods
from dpgnn.accountants.plan import Budget, Ledger
from dpgnn.core import config as strict
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import Store
from dpgnn.data.splits import SplitConfig, make_split
from dpgnn.methods.base import Context, Entry, facts_of
from dpgnn.methods.shared.aggregate_queries import query_logits
from dpgnn.methods.shared.edge_level import normal_draw

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
    graph, method = two_community_graph(), methods.get(name)
    split = make_split(graph, SplitConfig(kind="random"), rng=np.random.default_rng(0))
    entry = Entry(
        name=name, method=name, mode=mode, privacy_unit="edge", relation="add-remove",
        options=strict.read(method.config, {"head": SMALL} | options),
    )  # fmt: skip
    plan = method.plan(entry, facts_of(graph, split, None), Budget(epsilon=4.0, delta=1e-3))
    context = Context(
        ledger=Ledger(plan), streams=Streams(root_seed=0, axes={"r": 0}), store=Store(None)
    )
    fitted = method.fit(entry, graph, split, None, plan, context)
    noise = plan.mechanism("aggregate").noise_stddev
    again = query_logits(
        entry, fitted.state, graph, noise_stddev=noise, draw=normal_draw(context, "aggregate")
    )
    np.testing.assert_allclose(again.numpy(), fitted.state["logits"].numpy(), atol=1e-5)
    fresh = query_logits(
        entry, fitted.state, graph, noise_stddev=noise,
        draw=lambda hop, shape: np.random.default_rng(hop).standard_normal(shape),
    )  # fmt: skip
    assert np.abs(fresh.numpy() - again.numpy()).max() > 1e-3
