"""DPDGC: changed rows and the release against brute force, one budget, the defect of the released code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers import two_community_graph

from dpgnn import config as strict
from dpgnn import methods
from dpgnn.accountants.plan import Budget, Plan
from dpgnn.methods import dpdgc
from dpgnn.methods._perturb_edges import adjacency_of
from dpgnn.methods.base import Entry, Facts
from dpgnn.methods.dpdgc_fit import _sums
from dpgnn.methods.gap import node_sensitivity

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
    whole = _sums(config, sp.csr_array(adjacency), weights)
    for u, v in np.argwhere(np.triu(adjacency)):
        smaller = adjacency.copy()
        smaller[u, v] = smaller[v, u] = 0
        assert (adjacency != smaller).any(axis=1).sum() == 2
        change = np.linalg.norm(whole - _sums(config, sp.csr_array(smaller), weights))
        assert change == pytest.approx(0.5 * math.sqrt(2))


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
        whole, without = (_sums(config, sp.csr_array(a), weights) for a in (adjacency, smaller))
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
        _sums(config, sp.csr_array(adjacency), weights)
        - _sums(config, sp.csr_array(smaller), weights)
    )
    assert change > 1e6 * plan.mechanism("aggregate").noise_stddev


def test_published_quirks_are_refused_in_sound_mode() -> None:
    with pytest.raises(ValueError, match="normalized must be true in sound mode"):
        plan_of("sound", "edge", "add-remove", normalized=False)
    with pytest.raises(ValueError, match=r"node.bounding must be declared in sound mode"):
        plan_of("sound", "node-bounded", "null-one", node=NODE | {"bounding": "sampled"})
