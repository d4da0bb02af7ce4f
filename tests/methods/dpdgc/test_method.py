"""DPDGC: changed rows and the release against brute force, one budget, the defect of the released code."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from helpers import planned_run, two_community_graph
from torch import Tensor

from dpgnn import methods
from dpgnn.accountants.plan import Budget, Ledger, Plan
from dpgnn.core import config as strict
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import Store
from dpgnn.data.splits import SplitConfig, make_split
from dpgnn.methods.base import Context, Entry, Facts, facts_of
from dpgnn.methods.dpdgc import embedding as dpdgc_embedding
from dpgnn.methods.dpdgc import node_plan as dpdgc
from dpgnn.methods.dpdgc import plan as dpdgc_plan
from dpgnn.methods.dpdgc.embedding import NormalizedGradients
from dpgnn.methods.dpdgc.fit import embedding_sums
from dpgnn.methods.gap.plan import node_sensitivity
from dpgnn.methods.shared.undirected import adjacency_of
from dpgnn.models.network import Network, NetworkConfig
from dpgnn.models.trees import lone_roots
from dpgnn.training.clipping import global_clipping
from dpgnn.training.gradients import Execution, RootGradients

METHOD = methods.get("dpdgc")
STAGE = {"batch_size": 256, "num_epochs": 10}
NODE = {"encoder": STAGE, "head": STAGE, "rule": "shared-multiplier"}


def plan_of(mode: Any, unit: str, relation: str, **options: Any) -> Plan:
    entry = Entry(
        name="dpdgc", method="dpdgc", mode=mode, privacy_unit=unit, relation=relation,
        options=strict.read(METHOD.config, {"node": NODE} | options),
    )  # fmt: skip
    facts = Facts(
        num_nodes=2708, num_train=1895, num_features=1433, num_classes=7, task="multiclass"
    )
    return METHOD.plan(entry, facts, Budget(epsilon=8.0, delta=1e-5))


def test_one_edge_changes_two_rows_and_moves_the_release_by_root_two() -> None:
    config = strict.read(METHOD.config, {"norm_scale": 0.5})
    adjacency = adjacency_of(two_community_graph(20)).toarray()
    weights = torch.from_numpy(np.random.default_rng(0).normal(size=(20, 4)))
    whole = embedding_sums(config, sp.csr_array(adjacency), weights)
    for u, v in np.argwhere(np.triu(adjacency)):
        smaller = adjacency.copy()
        smaller[u, v] = smaller[v, u] = 0
        assert (adjacency != smaller).any(axis=1).sum() == 2
        change = np.linalg.norm(whole - embedding_sums(config, sp.csr_array(smaller), weights))
        assert change == pytest.approx(0.5 * math.sqrt(2))


def embedding_gradients(
    adjacency: np.ndarray, labels: np.ndarray, clipping_norm: float, norm_scale: float
) -> tuple[Network, NormalizedGradients]:
    network = Network(
        NetworkConfig(num_features=len(adjacency), num_outputs=2, width=4, encoder_layers=1,
                      num_hops=0, decoder_layers=1, activation="selu")
    )  # fmt: skip
    inner = RootGradients(
        network, sp.csr_array(adjacency.astype(np.float32)),
        lone_roots(np.arange(len(adjacency)), labels),
        clipping=global_clipping(clipping_norm), execution=Execution(dtype="float64"),
    )  # fmt: skip
    return network, NormalizedGradients(inner, norm_scale)


def plain_loss(
    network: Network, flat: Tensor, row: Tensor, label: int, norm_scale: float
) -> Tensor:
    named = network.views(flat)
    weight = named["encoder.0.weight"]
    unit = weight / weight.norm(dim=1, keepdim=True)
    h = F.selu(row @ (norm_scale * unit) + named["encoder.0.bias"])
    logits = h @ named["decoder.0.weight"] + named["decoder.0.bias"]
    return F.cross_entropy(logits[None], torch.tensor([label]))


@pytest.mark.parametrize("norm_scale", [0.5, 2.0])
def test_the_gradient_is_the_chain_rule_through_the_normalisation(norm_scale: float) -> None:
    graph = two_community_graph(20)
    adjacency = adjacency_of(graph).toarray()
    network, gradients = embedding_gradients(adjacency, graph.y, 1e6, norm_scale)
    flat = network.initial(rng=np.random.default_rng(3), dtype=torch.float64)
    rows = network.views(flat)["encoder.0.weight"]
    rows.copy_(norm_scale * F.normalize(rows, dim=1))  # at norm s the factor left out is 1
    wanted = flat.clone().requires_grad_()
    sum(
        plain_loss(network, wanted, torch.from_numpy(adjacency[i]), int(graph.y[i]), norm_scale)
        for i in range(20)
    ).backward()  # type: ignore[union-attr]
    assert torch.allclose(gradients(flat, np.arange(20)), wanted.grad, atol=1e-9)


def test_the_compiled_rows_are_those_of_torch_and_a_zero_row_stays_zero() -> None:
    weight = torch.from_numpy(np.random.default_rng(5).normal(size=(50, 7)).astype(np.float32))
    weight[3] = 0
    unit, scaled, rows = torch.empty(50, 7), torch.empty(50, 7), weight.flip(0).clone()
    dpdgc_embedding._scale_rows(weight.numpy(), 2.5, unit.numpy(), scaled.numpy())
    torch.testing.assert_close(unit, F.normalize(weight, dim=1))
    torch.testing.assert_close(scaled, dpdgc_embedding.scaled_rows(weight, 2.5))
    assert not scaled[3].any()
    wanted = rows - (rows * unit).sum(dim=1, keepdim=True) * unit
    dpdgc_embedding._project_rows(rows.numpy(), unit.numpy())
    torch.testing.assert_close(rows, wanted)


def test_every_root_stays_in_the_clipping_norm_and_one_edge_moves_two_of_them() -> None:
    graph, norm = two_community_graph(20), 0.3
    adjacency = adjacency_of(graph).toarray()
    network, gradients = embedding_gradients(adjacency, graph.y, norm, 1.0)
    flat = 3 * network.initial(rng=np.random.default_rng(4), dtype=torch.float64)
    everyone = np.arange(20)
    alone = [gradients(flat, np.array([i])).clone() for i in everyone]
    sizes = np.array([float(term.norm()) for term in alone])
    assert sizes.max() <= norm
    assert sizes.max() > 0.9 * norm  # the bound is nearly attained
    whole = gradients(flat, everyone).clone()
    assert torch.allclose(whole, torch.stack(alone).sum(0))
    for u, v in np.argwhere(np.triu(adjacency)):
        smaller = adjacency.copy()
        smaller[u, v] = smaller[v, u] = 0
        _, without = embedding_gradients(smaller, graph.y, norm, 1.0)
        changed = [
            i for i in everyone if not torch.allclose(without(flat, np.array([i])), alone[i])
        ]
        assert set(changed) <= {u, v}
        assert float((whole - without(flat, everyone)).norm()) <= sum(dpdgc_plan.EDGE_ROWS) * norm


@pytest.mark.parametrize("norm_scale", [1.0, 4.0])
def test_an_embedding_trained_with_little_noise_tells_the_communities(norm_scale: float) -> None:
    graph = two_community_graph(60)
    graph = dataclasses.replace(
        graph, x=np.ones_like(graph.x)
    )  # edges are all there is to learn from
    split = make_split(graph, SplitConfig(), rng=np.random.default_rng(0))
    stage = {"batch_size": 20, "num_epochs": 30, "optimizer": {"lr": 0.05}}
    options = {"norm_scale": norm_scale, "node": {"encoder": stage}}
    entry = Entry(
        name="dpdgc", method="dpdgc", mode="sound", privacy_unit="edge", relation="add-remove",
        options=strict.read(METHOD.config, options),
    )  # fmt: skip
    plan = METHOD.plan(entry, facts_of(graph, split, None), Budget(epsilon=1e4, delta=1e-3))
    context = Context(
        ledger=Ledger(plan), streams=Streams(root_seed=0, axes={"r": 0}), store=Store(None)
    )
    fitted = METHOD.fit(planned_run(entry, graph, split, None, plan, context))
    logits = METHOD.predict(entry, fitted, graph, split.test_idx).logits
    assert (logits.argmax(1).numpy() == graph.y[split.test_idx]).mean() > 0.8


def test_one_node_changes_its_row_and_those_that_read_it() -> None:
    config = strict.read(METHOD.config, {})
    adjacency = adjacency_of(two_community_graph(30)).toarray()
    bound = int(adjacency.sum(axis=0).max())
    weights = torch.from_numpy(np.random.default_rng(1).normal(size=(30, 4)))
    reached = 0
    for u in range(30):
        smaller = adjacency.copy()
        smaller[u, :] = smaller[:, u] = 0
        rows = int((adjacency != smaller).any(axis=1).sum())
        assert rows <= dpdgc.changed_rows(bound, "null-one")[0]
        reached = max(reached, rows)
        whole, without = (
            embedding_sums(config, sp.csr_array(a), weights) for a in (adjacency, smaller)
        )
        change = np.linalg.norm(np.delete(whole - without, u, axis=0))
        assert change <= node_sensitivity(bound, "null-one") + 1e-9
    assert reached == dpdgc.changed_rows(bound, "null-one")[0]


@pytest.mark.parametrize(
    ("relation", "expected"),
    [("add-remove", (21, 20)), ("null-one", (21, 21)), ("replace-one", (41, 41))],
)
def test_the_embedding_counts_every_changed_row(relation: str, expected: tuple[int, int]) -> None:
    assert dpdgc.changed_rows(20, relation) == expected
    plan = plan_of("sound", "node-record", relation)
    ((event, _),) = plan.mechanism("encoder").event.parts  # type: ignore[attr-defined]
    assert (event.d_plus, event.d_minus) == expected
    assert plan.claims[0].epsilon <= 8.0


def test_edge_level_shares_the_budget_between_training_and_release() -> None:
    plan = plan_of("sound", "edge", "add-remove", norm_scale=2.0)
    assert [m.name for m in plan.mechanisms] == ["encoder", "aggregate"]
    assert plan.mechanism("aggregate").sensitivity == pytest.approx(2 * math.sqrt(2))
    assert plan.claims[0].status == "proved"
    assert 7.9 < plan.claims[0].epsilon <= 8.0


def test_published_counts_one_row_and_the_release_without_scaling_proves_nothing() -> None:
    stated, proved = plan_of("published", "edge", "add-remove").claims
    assert stated.caveats == ("directed-sensitivity",)
    assert stated.epsilon <= 8.0 < 10.0 < proved.epsilon < math.inf
    stated, proved = plan_of(
        "published", "edge", "add-remove", norm_scale=1e-8, normalized=False
    ).claims
    assert "normalization-not-applied" in stated.caveats
    assert proved.epsilon == math.inf


@pytest.mark.parametrize("mode", ["published", "sound"])
def test_only_published_node_claims_leave_the_own_row_uncounted(mode: str) -> None:
    first, *rest = plan_of(mode, "node-bounded", "null-one").claims
    assert ("own-row-uncounted" in first.caveats) == (mode == "published")
    assert first.released == ("weights+predictions" if mode == "published" else "weights")
    assert all(claim.released == "weights" for claim in rest)


def test_the_unscaled_release_moves_far_more_than_its_noise() -> None:
    """Caveat normalization-not-applied: columns of norm about 0.2 under noise made for norm 1e-8."""
    options = {"norm_scale": 1e-8, "normalized": False}
    config = strict.read(METHOD.config, options)
    plan = plan_of("published", "edge", "add-remove", **options)
    adjacency = adjacency_of(two_community_graph(20)).toarray()
    weights = torch.from_numpy(np.random.default_rng(2).normal(0, 0.025, size=(20, 64)))
    u, v = np.argwhere(np.triu(adjacency))[0]
    smaller = adjacency.copy()
    smaller[u, v] = smaller[v, u] = 0
    change = np.linalg.norm(
        embedding_sums(config, sp.csr_array(adjacency), weights)
        - embedding_sums(config, sp.csr_array(smaller), weights)
    )
    assert change > 1e6 * plan.mechanism("aggregate").noise_stddev


def test_published_quirks_are_refused_in_sound_mode() -> None:
    with pytest.raises(ValueError, match="normalized must be true in sound mode"):
        plan_of("sound", "edge", "add-remove", normalized=False)
    with pytest.raises(ValueError, match=r"node.bounding must be declared in sound mode"):
        plan_of("sound", "node-bounded", "null-one", node=NODE | {"bounding": "sampled"})
