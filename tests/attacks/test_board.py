"""Attacks on the board of votes: within what is claimed of a record, beyond it for mentions by others."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from contract import SPLIT, entry_of
from helpers import two_community_graph

from dpgnn.accountants.plan import Budget
from dpgnn.attacks import board
from dpgnn.attacks.queries import fitted_run
from dpgnn.core.randomness import Streams
from dpgnn.data.graph import Graph
from dpgnn.methods.base import Support
from dpgnn.methods.queries import FittedRun

HUB = 59


def hub_graph() -> Graph:
    """The lists of one class name one node and nobody else; that node's own list is empty."""
    graph = two_community_graph()
    fans = np.setdiff1d(np.flatnonzero(graph.y == 0), HUB)
    source, end = graph.edge_index
    rest = graph.edge_index[:, ~np.isin(source, fans) & (source != HUB) & (end != HUB)]
    edges = np.concatenate([rest, np.stack([fans, np.full(len(fans), HUB)])], axis=1)
    return dataclasses.replace(graph, edge_index=edges, directed=True)


def target(relation: str = "add-remove", *, epsilon: float = 1.0) -> FittedRun:
    entry = entry_of("votes", "sound", Support(privacy_unit="node-record", relation=relation))
    return fitted_run(
        entry, hub_graph(), SPLIT, None, Budget(epsilon=epsilon, delta=1e-3),
        Streams(root_seed=0, axes={}), state={},
    )  # fmt: skip


def played(relation: str = "add-remove", **changes: float) -> dict[str, dict[str, float]]:
    found = board.attack(
        target(relation, **changes), num_runs=400, level=0.001, rng=np.random.default_rng(1)
    )
    return {str(result["what"]): result for result in found}


def test_a_record_is_within_its_claim_and_mentions_are_beyond_it() -> None:
    found = played()
    record, label, mentions = (found[name] for name in board.GAMES)
    for game in (record, label):
        assert game["claim_covers_answers"]
        assert not game["exceeds_claim"]
    assert mentions["num_mentions"] == (hub_graph().edge_index[1] == HUB).sum() > 20
    assert mentions["list_length"] == 0
    assert not mentions["claim_covers_answers"]
    assert not mentions["exceeds_claim"]
    assert mentions["exceeds_what_is_not_claimed"]
    assert mentions["auc"] > 0.9
    # the law of one projection: unit shift over the board's noise
    mu = 1 / target().plan.mechanism("board").noise_stddev
    from scipy.stats import norm

    assert record["auc"] == pytest.approx(norm.cdf(mu / 2**0.5), abs=0.08)
    assert label["auc"] == pytest.approx(norm.cdf(2 * mu / 2**0.5), abs=0.08)


def test_a_changed_label_is_one_replacement_and_two_changes_otherwise() -> None:
    claim = target("replace-one").plan.claims[0]
    assert board.claim_about(claim, "label") == (True, claim)
    # a record taken out is no replacement
    assert board.claim_about(claim, "record") == (False, claim)
    claim = target().plan.claims[0]
    covered, twice = board.claim_about(claim, "label")
    assert covered
    assert twice.epsilon == 2 * claim.epsilon
    assert twice.delta == pytest.approx((1 + np.exp(claim.epsilon)) * claim.delta)
    assert board.claim_about(claim, "mentions") == (False, claim)


def test_a_run_without_a_board_is_not_attacked() -> None:
    run = target()
    support = Support(privacy_unit="node-record", relation="add-remove")
    mlp = entry_of("dp_mlp", "sound", support).options
    options = dataclasses.replace(run.entry.options, least_signal=1e9, mlp=mlp)
    poor = fitted_run(
        dataclasses.replace(run.entry, options=options), run.graph, SPLIT, None,
        Budget(epsilon=1.0, delta=1e-3), run.streams, state={},
    )  # fmt: skip
    (found,) = board.attack(poor, num_runs=8, level=0.01, rng=np.random.default_rng(0))
    assert found["status"] == "not-available"


def test_at_edge_level_the_games_do_not_apply() -> None:
    edge = entry_of("votes", "sound", Support(privacy_unit="edge", relation="add-remove"))
    assert "about edges" in board.why_not(edge)
    assert not board.why_not(target().entry)
