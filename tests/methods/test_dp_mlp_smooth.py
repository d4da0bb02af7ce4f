"""The control: DP-MLP's own weights, answers averaged over complete lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from helpers import planned_run, two_community_graph

from dpgnn import methods
from dpgnn.accountants.plan import Budget, Ledger
from dpgnn.core import config as strict
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import Store
from dpgnn.data.splits import Split
from dpgnn.methods.base import Context, Entry, Fitted, facts_of

GRAPH = two_community_graph()
NODES = np.arange(GRAPH.num_nodes)
SPLIT = Split(train_idx=NODES[:30], val_idx=NODES[30:45], test_idx=NODES[45:], inductive=False)
MLP = {"width": 8, "training": {"num_steps": 20, "expected_batch_size": 10}}


def fit(method: str, options: Any, graph: Any = GRAPH) -> tuple[Entry, Fitted]:
    """Plan and fit at epsilon 8."""
    found = methods.get(method)
    entry = Entry(
        name="e", method=method, mode="sound", privacy_unit="node", relation="add-remove",
        options=strict.read(found.config, options),
    )  # fmt: skip
    plan = found.plan(entry, facts_of(graph, SPLIT, None), Budget(epsilon=8.0, delta=1e-3))
    streams = Streams(root_seed=0, axes={"repeat": 0})
    context = Context(ledger=Ledger(plan), streams=streams, store=Store(None, "x"))
    fitted = found.fit(planned_run(entry, graph, SPLIT, None, plan, context))
    context.ledger.close()
    if method == "dp_mlp_smooth":
        has = entry.options.num_averages > 0
        assert ("inference-reads-private-graph" in plan.claims[0].caveats) == has
        assert plan.claims[0].status == "proved"
    return entry, fitted


@pytest.mark.parametrize("num_averages", [0, 1, 2])
@pytest.mark.parametrize("average", ["logits", "probabilities"])
def test_answers_are_dp_mlps_averaged_over_each_node_and_its_neighbours(
    num_averages: int, average: str
) -> None:
    plain_entry, plain = fit("dp_mlp", MLP)
    options = {"mlp": MLP, "num_averages": num_averages, "average": average}
    entry, fitted = fit("dp_mlp_smooth", options)
    assert all(torch.equal(plain.state[name], fitted.state[name]) for name in plain.state)
    values = methods.get("dp_mlp").predict(plain_entry, plain, GRAPH, NODES).logits
    if average == "probabilities" and num_averages:
        values = values.softmax(dim=1)
    adjacency = torch.from_numpy(GRAPH.adjacency().toarray()) + torch.eye(GRAPH.num_nodes)
    mean = adjacency / adjacency.sum(dim=1, keepdim=True)
    for _ in range(num_averages):
        values = mean @ values
    answer = methods.get("dp_mlp_smooth").predict(entry, fitted, GRAPH, SPLIT.test_idx)
    found = answer.logits
    if average == "probabilities" and num_averages:
        found = found.exp()
    torch.testing.assert_close(found, values[SPLIT.test_idx.copy()], atol=1e-5, rtol=1e-4)
    assert answer.answers == ("none" if num_averages else "own-record")


def test_multilabel_probabilities_come_back_as_logits() -> None:
    y = np.stack([GRAPH.y, 1 - GRAPH.y, np.ones_like(GRAPH.y)], axis=1).astype(np.uint8)
    graph = replace(GRAPH, y=y, num_classes=3, task="multilabel")
    entry, fitted = fit("dp_mlp_smooth", {"mlp": MLP, "average": "probabilities"}, graph)
    answer = methods.get("dp_mlp_smooth").predict(entry, fitted, graph, SPLIT.test_idx)
    assert answer.logits.shape == (15, 3)
    assert torch.isfinite(answer.logits).all()
