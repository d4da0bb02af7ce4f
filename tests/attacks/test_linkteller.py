"""Pair sets, held-out edges, and what LinkTeller finds where there is something or nothing."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from attack_models import SHORT, fitted
from helpers import numbers, two_community_graph

from dpgnn import methods
from dpgnn.accountants.plan import Budget
from dpgnn.attacks import linkteller, released_state
from dpgnn.attacks.linkteller import Variant
from dpgnn.attacks.request import AttackRequest, Sizes, run_gmia, run_leak, run_linkteller
from dpgnn.methods.base import PlannedRun
from dpgnn.methods.shared.undirected import undirected_pairs
from dpgnn.records.attacks import result_from
from dpgnn.report.tables import attack_verdicts as verdicts

EVERYONE = np.arange(60)


def edges_of(graph: object) -> set[tuple[int, int]]:
    """Undirected edges."""
    return {tuple(pair) for pair in undirected_pairs(graph.edge_index, 60).T.tolist()}  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["unbalanced", "low", "high", "balanced"])
def test_pairs_know_which_of_them_are_edges(kind: linkteller.PairSet) -> None:
    graph = two_community_graph(60)
    rng = np.random.default_rng(0)
    if kind == "high":
        linkteller_high = pytest.raises(ValueError, match="nodes of set high must be at least 2")
        with linkteller_high:
            linkteller.pairs_of(graph, kind, 20, rng=rng, present=EVERYONE)
        return
    pairs = linkteller.pairs_of(graph, kind, 20, rng=rng, present=EVERYONE)
    edges = edges_of(graph)
    ends = np.sort(np.stack([pairs.perturbed, pairs.looked_at]), axis=0)
    truth = [tuple(pair) in edges for pair in ends.T.tolist()]
    assert pairs.member.tolist() == truth
    assert len({tuple(pair) for pair in ends.T.tolist()}) == len(truth)
    assert len(truth) == (40 if kind == "balanced" else 190)
    if kind == "balanced":
        assert pairs.member.sum() == 20


def test_held_out_edges_are_taken_from_the_graph_by_fair_coins() -> None:
    graph = two_community_graph(60)
    shares = []
    for seed in range(30):
        changed, pairs = linkteller.hold_out(graph, 80, rng=np.random.default_rng(seed))
        before, after = edges_of(graph), edges_of(changed)
        ends = np.sort(np.stack([pairs.perturbed, pairs.looked_at]), axis=0).T.tolist()
        assert [tuple(pair) in after for pair in ends] == pairs.member.tolist()
        gone = {tuple(pair) for pair, kept in zip(ends, pairs.member) if not kept}
        assert before - after == gone
        shares.append(pairs.member.mean())
    assert abs(np.mean(shares) - 0.5) < 4 * 0.5 / np.sqrt(30 * 80)


@pytest.mark.parametrize("kind", ["unbalanced", "balanced"])
@pytest.mark.parametrize("method", ["mlp", "dpdgc"])
def test_a_model_that_reads_no_neighbour_gives_one_half(
    method: str, kind: linkteller.PairSet
) -> None:
    if method == "mlp":
        target = fitted("mlp", options={"training": {"num_epochs": 5}})
    else:
        target = fitted(
            "dpdgc", mode="sound", unit="edge", relation="add-remove",
            options={"head": SHORT, "node": {"encoder": {"batch_size": 10, "num_epochs": 2}}},
        )  # fmt: skip
    rng = np.random.default_rng(0)
    pairs = linkteller.pairs_of(target.graph, kind, 40, rng=rng, present=EVERYONE)
    variant = Variant(pair_set=kind, size=40)
    found = linkteller.attack(target, pairs, variant, level=0.01, rng=rng)
    assert found["auc"] == 0.5


def test_a_plain_gcn_gives_its_edges_away_also_the_held_out_ones() -> None:
    graph = two_community_graph(120)
    rng = np.random.default_rng(0)
    changed, pairs = linkteller.hold_out(graph, 160, rng=rng)
    target = fitted("gcn", options={"hidden": [16], "training": {"num_epochs": 100}}, graph=changed)
    variant = Variant(pair_set="held-out", size=160, direction="mix")
    found = linkteller.attack(target, pairs, variant, level=0.01, rng=rng)
    assert found["auc"] > 0.85
    assert found["one_run"]["epsilon_lower_bound"] > 1.0


EDGE = {"mode": "sound", "unit": "edge", "relation": "add-remove", "epsilon": 0.5}


def test_a_planted_leak_behind_a_claim_is_found_and_the_sound_releases_pass() -> None:
    graph = two_community_graph(60)
    changed, pairs = linkteller.hold_out(graph, 80, rng=np.random.default_rng(1))
    options = {"gcn": {"hidden": [8], "training": {"num_epochs": 5}}}
    honest = fitted("edgerand", **EDGE, graph=changed, options=options)
    # the graph without noise in the place of the perturbed one
    planted = dataclasses.replace(honest)
    planted.__dict__["noisy_edges"] = changed.adjacency().astype(np.float64)
    gap = fitted("gap", **EDGE, graph=changed, options={"num_hops": 1, "head": SHORT})
    verdicts = [
        released_state.attack(target, pairs, level=0.01, rng=np.random.default_rng(2))
        for target in (honest, gap, planted)
    ]
    assert [found["exceeds_claim"] for found in verdicts] == [False, False, True]
    assert verdicts[2]["auc"] == 1.0


def test_noise_that_is_repeated_cancels_and_no_claim_covers_that() -> None:
    graph = two_community_graph(60)
    changed, pairs = linkteller.hold_out(graph, 80, rng=np.random.default_rng(1))
    target = fitted(
        "caribou", **EDGE, graph=changed,
        options={"num_hops": 1, "contraction": 0.8, "head": SHORT},
    )  # fmt: skip
    found = linkteller.attack(
        target, pairs, Variant(pair_set="held-out", size=80, direction="mix"), level=0.01,
        rng=np.random.default_rng(2),
    )  # fmt: skip
    assert found["auc"] > 0.95
    assert (found["claim_covers_answers"], found["exceeds_claim"]) == (False, False)


def gap_request(sets: tuple[Any, ...]) -> AttackRequest:
    """A small request about GAP at edge level."""
    target = fitted(
        "gap", mode="sound", unit="edge", relation="add-remove",
        options={"num_hops": 1, "head": SHORT},
    )  # fmt: skip
    return AttackRequest(
        entry=target.entry, budget=_budget(), graph=target.graph, full_graph=target.graph,
        split=target.split, prepared=None, state=target.state,
        axes={"dataset": "two", "setting": "s", "entry": "gap", "epsilon": "4", "repeat": 0},
        sizes=Sizes(sets=sets, num_nodes=20, num_pairs=40, num_fresh_pairs=6),
    )  # fmt: skip


def test_a_request_runs_every_set_and_says_what_it_cannot() -> None:
    request = gap_request(("unbalanced", "high", "held-out"))
    found = run_linkteller(request)
    kinds = [(r["pair_set"], r["direction"], r["noise"], r["status"]) for r in found]
    assert kinds == [
        ("unbalanced", "scale", "frozen", "ok"),
        ("unbalanced", "mix", "frozen", "ok"),
        ("high", "scale", "frozen", "not-available"),
        ("high", "mix", "frozen", "not-available"),
        ("held-out", "mix", "frozen", "ok"),
        ("balanced", "scale", "fresh", "ok"),
    ]
    again = run_linkteller(request)
    strip = [{k: v for k, v in r.items() if k != "seconds"} for r in found]
    assert strip == [{k: v for k, v in r.items() if k != "seconds"} for r in again]


def test_a_method_that_says_it_reads_no_edge_is_attacked_without_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, seen = methods.get("mlp"), []

    def fit(run: PlannedRun) -> Any:
        seen.append(("fit", run.graph.num_edges))
        return real.fit(run)

    def predict(entry: Any, fit: Any, graph: Any, nodes: Any) -> Any:
        seen.append(("predict", graph.num_edges))
        return real.predict(entry, fit, graph, nodes)

    monkeypatch.setattr(
        methods, "get", lambda name: dataclasses.replace(real, fit=fit, predict=predict)
    )
    target = fitted("mlp", options={"training": {"num_epochs": 2}})
    assert target.graph.num_edges > 0
    request = AttackRequest(
        entry=target.entry, budget=_budget(), graph=target.graph, full_graph=target.graph,
        split=target.split, prepared=None, state=target.state,
        axes={"dataset": "two", "setting": "s", "entry": "mlp", "epsilon": "inf", "repeat": 0},
        sizes=Sizes(sets=("unbalanced", "held-out"), num_nodes=10, num_pairs=10),
    )  # fmt: skip
    seen.clear()
    run_linkteller(request)
    run_gmia(request)
    assert {what for what, _ in seen} == {"fit", "predict"}
    assert {number for _, number in seen} == {0}


def test_one_failure_keeps_what_else_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    request = gap_request(("unbalanced",))
    real = linkteller.pair_scores

    def failing(*args: object, **named: object) -> np.ndarray:
        if named["direction"] == "mix" or named["noise"] == "fresh":
            raise ValueError("scores must be finite")
        return real(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(linkteller, "pair_scores", failing)
    found = run_linkteller(request)
    assert [(r["pair_set"], r["direction"], r["noise"], r["status"]) for r in found] == [
        ("unbalanced", "scale", "frozen", "ok"),
        ("unbalanced", "mix", "frozen", "not-available"),
        ("balanced", "scale", "fresh", "not-available"),
    ]
    monkeypatch.setattr(released_state, "pair_scores", failing_release)
    (leak,) = run_leak(request)
    assert (leak["attack"], leak["status"]) == ("released-state", "not-available")
    assert leak["reason"] == "rows must be finite"


def failing_release(target: object, pairs: object) -> np.ndarray:
    raise ValueError("rows must be finite")


def test_too_few_trials_keep_the_scores_and_say_that_nothing_was_tested() -> None:
    changed, pairs = linkteller.hold_out(two_community_graph(60), 8, rng=np.random.default_rng(3))
    few = dataclasses.replace(pairs, member=np.arange(len(pairs.member)) < 2)
    target = fitted(
        "edgerand", **EDGE, graph=changed,
        options={"gcn": {"hidden": [8], "training": {"num_epochs": 5}}},
    )  # fmt: skip
    found = released_state.attack(target, few, level=0.01, rng=np.random.default_rng(2))
    assert found["status"] == "ok"
    assert "auc" in found
    assert numbers(found["untested"])[:2] == [4, 4]
    key = {"dataset": "toy", "setting": "public", "entry": "edgerand", "epsilon": "0.5"}
    result = result_from(found | {"key": key, "claim": {"epsilon": 0.5}})
    assert verdicts.verdict(result).startswith("not tested: trials must")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_fresh_pairs": 1}, "num_fresh_pairs must be 0 or >= 2, got 1"),
        ({"num_runs": 7}, "num_runs must be >= 8, got 7"),
        ({"num_pairs": 7}, "num_pairs must be >= 8, got 7"),
    ],
)
def test_sizes_that_no_attack_can_use_are_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sizes(**fields)  # type: ignore[arg-type]


def _budget() -> Budget:
    return Budget(epsilon=4.0, delta=1e-3)
