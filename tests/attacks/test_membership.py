"""G-MIA on graphs where membership shows, and where it cannot."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from attack_models import SHORT, allowed_auc, largest_deviation, useless_deviation
from helpers import tells

from dpgnn import methods
from dpgnn.accountants.plan import Budget
from dpgnn.attacks import membership, statistics
from dpgnn.attacks.member_tests import Asked, claim_tests, label_auc
from dpgnn.attacks.scorer import AttackModel, _kept, train_scorer
from dpgnn.cli.attack import words
from dpgnn.core import config as strict
from dpgnn.core.randomness import Streams
from dpgnn.data.graph import Graph
from dpgnn.data.splits import SplitConfig, make_split, membership_splits
from dpgnn.methods.base import Entry, facts_of

SIZES = SplitConfig(kind="membership", inductive=True, num_per_class=60, num_test=120)
# members and non-members that are asked: one training node of each side is left out; in pairs of one class
# there are hardly fewer
ASKED = (110, 110)
QUICK = AttackModel(num_epochs=10)
EDGE = {"unit": "edge", "relation": "add-remove"}
BOUNDED = {"unit": "node-bounded", "relation": "add-remove"}
STAGES = {
    "max_degree": 4,
    "encoder": {"batch_size": 20, "num_epochs": 2},
    "head": {"batch_size": 20, "num_epochs": 2},
}


def noisy_graph(num_nodes: int = 600, width: int = 40) -> Graph:
    """Features say nothing of the class, so a model can only remember its training nodes."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((num_nodes, width)).astype(np.float32)
    pairs = np.stack([np.arange(0, num_nodes, 2), np.arange(1, num_nodes, 2)])
    edges = np.concatenate([pairs, pairs[::-1]], axis=1).astype(np.int64)
    y = rng.integers(0, 2, num_nodes).astype(np.int64)
    return Graph(name="noisy", x=x, edge_index=edges, y=y, num_classes=2)


def scorer_rng(variant: str, attempt: int) -> np.random.Generator:
    """One stream for each training of the attack's classifier."""
    return np.random.default_rng([membership.VARIANTS.index(variant), attempt])  # type: ignore[arg-type]


def attack(method: str, mode: str = "nonprivate", epsilon: float = math.inf, **fields: Any) -> Any:
    known = methods.get(method)
    entry = Entry(
        name=method, method=method, mode=mode, privacy_unit=fields.get("unit"),  # type: ignore[arg-type]
        relation=fields.get("relation"), options=strict.read(known.config, fields.get("options", {})),
    )  # fmt: skip
    streams = tuple(Streams(root_seed=1, axes={"side": side}) for side in (0, 1))
    return membership.attack(
        entry, noisy_graph(), Budget(epsilon=epsilon, delta=1e-4), streams,  # type: ignore[arg-type]
        rng=np.random.default_rng(0), level=0.001, sizes=SIZES, model=QUICK,
        scorer_rng=fields.get("scorer_rng", scorer_rng),
    )  # fmt: skip


def test_a_model_that_remembers_is_caught_in_both_variants() -> None:
    found = attack("mlp", options={"hidden": [64], "dropout": 0.0, "training": {"num_epochs": 60}})
    assert found["status"] == "ok"
    assert found["train_accuracy"] > 0.95
    for name in membership.VARIANTS:
        # guessing gets here once in three million
        assert found["variants"][name]["auc"] > 0.5 + 5 * useless_deviation(*ASKED), name
    assert found["variants"]["same-graph"]["claim_covers_membership"] is False


def test_a_private_model_stays_below_its_line() -> None:
    found = attack(
        "dp_mlp", mode="sound", unit="node", relation="add-remove", epsilon=0.5,
        options={"width": 16, "training": {"num_steps": 30, "expected_batch_size": 40}},
    )  # fmt: skip
    same = found["variants"]["same-graph"]
    assert same["claim_covers_membership"] is True
    # a member and a non-member exchanged are two changes
    assert same["auc"] < allowed_auc(2 * 0.5) + 4 * largest_deviation(*ASKED)
    assert same["exceeds_claim"] is False
    assert same["line"]["crossed"] is False


def test_a_planted_leak_of_membership_crosses_the_line() -> None:
    rng = np.random.default_rng(0)
    claim = dataclasses.replace(dp_mlp_claim(epsilon=0.5, delta=1e-7), relation="add-remove")
    scored = Asked(
        inside=np.arange(119), outside=np.arange(120, 239),
        inside_scores=rng.standard_normal(119) + 4.0, outside_scores=rng.standard_normal(119),
    )  # fmt: skip
    found = claim_tests((claim,), scored, largest_degree=9, rng=rng, level=0.001)
    assert found["exceeds_claim"] is True
    assert found["line"]["crossed"] is True
    # exchanging a member and another is two changes: the line is that of group privacy
    assert found["line"]["epsilon"] == found["one_run_allowed_epsilon"] == 2 * claim.epsilon
    twice = (1 + math.exp(claim.epsilon)) * claim.delta
    assert found["line"]["delta"] == found["one_run"]["delta"] == pytest.approx(twice)
    replaced = dataclasses.replace(claim, relation="replace-one")
    found = claim_tests((replaced,), scored, largest_degree=9, rng=rng, level=0.001)
    assert (found["line"]["epsilon"], found["line"]["delta"]) == (claim.epsilon, claim.delta)


@pytest.mark.parametrize(("largest", "covers"), [(5, True), (6, False)])
def test_a_claim_about_bounded_degrees_is_tested_only_where_every_exchange_keeps_the_bound(
    largest: int, covers: bool
) -> None:
    rng = np.random.default_rng(0)
    plain = dp_mlp_claim(epsilon=0.5, delta=1e-7)
    claim = dataclasses.replace(
        plain, privacy_unit="node-bounded", relation="replace-one", degree_bound=5
    )
    scored = Asked(
        inside=np.arange(119), outside=np.arange(120, 239),
        inside_scores=rng.standard_normal(119) + 4.0, outside_scores=rng.standard_normal(119),
    )  # fmt: skip
    found = claim_tests((claim,), scored, largest_degree=largest, rng=rng, level=0.001)
    assert found["claim_covers_membership"] is covers
    assert found.get("exceeds_claim", False) is covers


def test_parts_of_a_graph_keep_its_degree_bound_and_parts_of_another_need_not() -> None:
    """Every induced part has no larger degrees; an exchange can raise those of a part."""
    rng = np.random.default_rng(1)
    raised = 0
    for _ in range(200):
        adjacency = np.triu(rng.random((10, 10)) < 0.3, 1)
        adjacency = adjacency | adjacency.T
        members = rng.permutation(10)
        part, out, into = members[:5], members[0], members[7]
        exchanged = np.append(np.setdiff1d(part, [out]), into)
        degrees = [adjacency[np.ix_(p, p)].sum(axis=0).max() for p in (part, exchanged)]
        assert max(degrees) <= adjacency.sum(axis=0).max()
        raised += degrees[1] > degrees[0]
    assert raised > 20


def dp_mlp_claim(epsilon: float, delta: float) -> Any:
    """The claim of a small DP-MLP."""
    known = methods.get("dp_mlp")
    options: Any = strict.read(
        known.config, {"width": 16, "training": {"num_steps": 5, "expected_batch_size": 40}}
    )
    entry = Entry(
        name="dp_mlp", method="dp_mlp", mode="sound", privacy_unit="node", relation="add-remove",
        options=options,
    )  # fmt: skip
    graph = noisy_graph()
    split = make_split(graph, SplitConfig(), rng=np.random.default_rng(0))
    return known.plan(
        entry, facts_of(graph, split, None), Budget(epsilon=epsilon, delta=delta)
    ).claims[0]


def test_pairs_of_one_class_hide_the_class_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), (600, 150, 90))
    config = SplitConfig(kind="membership", inductive=True, num_per_class=40, num_test=240)
    graph = Graph(
        name="uneven", x=np.zeros((840, 1), np.float32), y=y, num_classes=3,
        edge_index=np.zeros((2, 0), np.int64),
    )  # fmt: skip
    target, shadow = membership_splits(graph, config, rng=rng)
    nodes = [(half.train_idx, half.test_idx) for half in (shadow, target)]
    of_class = np.array([0.0, 1.0, 3.0])
    for memory in (0.0, 2.0):
        noise = rng.standard_normal(2 * 240) if memory else np.zeros(2 * 240)
        asked = Asked(
            inside=target.train_idx, outside=target.test_idx,
            inside_scores=of_class[y[target.train_idx]] + noise[:120] + memory,
            outside_scores=of_class[y[target.test_idx]] + noise[120:360],
        )  # fmt: skip
        matched = asked.matched(y, rng)
        counts = [np.bincount(y[side], minlength=3) for side in (matched.inside, matched.outside)]
        assert np.array_equal(*counts)
        found = statistics.auc(matched.scores, matched.member)
        if not memory:
            assert found == 0.5
            assert statistics.auc(asked.scores, asked.member) > 0.65
        else:
            assert found > 0.75
    assert label_auc(y, nodes[0], nodes[1]) > 0.65


def test_a_model_that_knows_the_class_alone_has_one_half_on_one_graph() -> None:
    """The class is written in the features and the classes are uneven, so outsiders are of the large ones."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), (600, 150, 90))
    x = np.eye(3, dtype=np.float32)[y]
    pairs = np.stack([np.arange(0, 840, 2), np.arange(1, 840, 2)])
    edges = np.concatenate([pairs, pairs[::-1]], axis=1).astype(np.int64)
    graph = Graph(name="uneven", x=x, y=y, num_classes=3, edge_index=edges)
    known = methods.get("mlp")
    options: Any = strict.read(known.config, {"hidden": [8], "training": {"num_epochs": 30}})
    entry = Entry(
        name="mlp", method="mlp", mode="nonprivate", privacy_unit=None, relation=None,
        options=options,
    )  # fmt: skip
    streams = tuple(Streams(root_seed=1, axes={"side": side}) for side in (0, 1))
    found = membership.attack(
        entry, graph, Budget(epsilon=math.inf, delta=1e-4), streams,  # type: ignore[arg-type]
        rng=rng, sizes=SplitConfig(kind="membership", inductive=True, num_per_class=40, num_test=240),
        scorer_rng=scorer_rng,
    )  # fmt: skip
    same = found["variants"]["same-graph"]
    assert same["scorer"] == "trained"
    assert same["label_auc"] > 0.65
    assert same["auc_unmatched"] > 0.65
    assert found["variants"]["original"]["auc"] > 0.65
    # equal answers differ in rounding, so ties are broken by what knows nothing
    size = same["num_members"]
    assert abs(same["auc"] - 0.5) < 4 * useless_deviation(size, size)


@pytest.mark.parametrize(("odd", "expected"), [(0, True), (1, True), (124, True), (125, False)])
def test_a_classifier_of_one_score_but_for_a_few_says_nothing(odd: int, expected: bool) -> None:
    scores = np.full(1000, 0.25)
    scores[:odd] = np.arange(odd) + 1
    assert membership.says_nothing(scores) == expected


def test_a_classifier_that_says_nothing_is_trained_again_and_said_to_be_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, int]] = []

    def streams(variant: str, attempt: int) -> np.random.Generator:
        asked.append((variant, attempt))
        return scorer_rng(variant, attempt)

    real = membership.train_scorer

    def collapsing(*args: Any, **named: Any) -> Any:
        scorer = real(*args, **named)
        dead = asked[-1][0] == "original" or asked[-1][1] == 0
        return (lambda rows: np.full(len(rows), 0.25)) if dead else scorer

    monkeypatch.setattr(membership, "train_scorer", collapsing)
    found = attack("mlp", scorer_rng=streams, options={"training": {"num_epochs": 5}})
    original, same = (found["variants"][name] for name in membership.VARIANTS)
    assert (original["scorer"], original["scorer_attempts"]) == ("constant", 3)
    assert (same["scorer"], same["scorer_attempts"]) == ("trained", 2)
    assert [number for _, number in asked] == [0, 1, 2, 0, 1]


def test_a_variant_that_cannot_be_measured_leaves_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = membership.posteriors

    def failing(side: Any, graph: Any, variant: Any, **named: Any) -> Any:
        if variant == "original":
            raise ValueError("posteriors must be finite")
        return real(side, graph, variant, **named)

    monkeypatch.setattr(membership, "posteriors", failing)
    found = attack("mlp", options={"training": {"num_epochs": 5}})
    original, same = (found["variants"][name] for name in membership.VARIANTS)
    assert found["status"] == "ok"
    assert original == {"status": "not-available", "reason": "posteriors must be finite"}
    assert 0 < same["auc"] < 1
    said = words(found)
    tells(said, "original", "not-available", "posteriors", "same-graph", "AUC")


def test_the_attacks_classifier_starts_as_published() -> None:
    member = np.arange(400) < 100
    kept = _kept(member, np.random.default_rng(0))
    assert len(kept) == 350
    assert member[kept].sum() == 88
    untrained = train_scorer(
        np.full((400, 3), 1 / 3), member, AttackModel(num_epochs=0), rng=np.random.default_rng(0)
    )
    # without input an answer comes from the biases alone, and is none where they are zero
    assert (untrained(np.zeros((5, 3))) != 0).all()


def small_gcn(num_epochs: int) -> Entry:
    """A GCN without privacy."""
    options = {"hidden": [8], "training": {"num_epochs": num_epochs}}
    return Entry(
        name="gcn", method="gcn", mode="nonprivate", privacy_unit=None, relation=None,
        options=strict.read(methods.get("gcn").config, options),
    )  # fmt: skip


def test_members_are_asked_on_the_graph_the_variant_says() -> None:
    graph = noisy_graph()
    split, _ = membership_splits(graph, SIZES, rng=np.random.default_rng(0))
    side = membership.fit_side(
        small_gcn(num_epochs=5),
        graph,
        split,
        Budget(epsilon=math.inf, delta=1e-4),
        Streams(root_seed=1, axes={"s": 0}),
        label="t",
    )
    assert np.array_equal(np.setdiff1d(split.train_idx, side.inside).shape, (1,))
    own, everyone = membership.posteriors(side, graph, "original", number=0)
    same, _ = membership.posteriors(side, graph, "same-graph", number=0)
    assert np.allclose(same, everyone[side.inside])
    # a member whose neighbour was no member has lost an edge in the training graph: its answer differs
    partner = side.inside ^ 1
    lost = ~np.isin(partner, split.train_idx)
    assert np.allclose(own[~lost], same[~lost], atol=1e-5)
    assert not np.allclose(own[lost], same[lost], atol=1e-3)


def test_the_scripts_numbering_joins_wrong_nodes_and_keeps_everything_else() -> None:
    graph = noisy_graph()
    split, _ = membership_splits(graph, SIZES, rng=np.random.default_rng(0))
    entry = small_gcn(num_epochs=1)
    budget, streams = Budget(epsilon=math.inf, delta=1e-4), Streams(root_seed=1, axes={"s": 0})
    found = {}
    for numbering in ("own", "script"):
        side = membership.fit_side(
            entry, graph, split, budget, streams, label="t", numbering=numbering
        )
        small = side.target.graph
        row = {tuple(x): node for node, x in enumerate(graph.x.tolist())}
        nodes = np.array([row[tuple(x)] for x in small.x.tolist()])  # which node each row is
        assert np.array_equal(np.sort(nodes), np.sort(split.train_idx))
        assert np.array_equal(small.y, graph.y[nodes])
        assert np.array_equal(side.inside, nodes[side.place])
        found[numbering] = (small.edge_index, nodes)
    true = {tuple(pair) for pair in graph.edge_index.T.tolist()}
    edges, nodes = found["own"]
    assert all(tuple(pair) in true for pair in nodes[edges].T.tolist())
    edges, nodes = found["script"]
    assert (np.diff(graph.y[nodes]) >= 0).all()
    # counted in ascending order the edges are the graph's own; as the rows stand, few are
    assert all(tuple(pair) in true for pair in np.sort(nodes)[edges].T.tolist())
    assert np.mean([tuple(pair) in true for pair in nodes[edges].T.tolist()]) < 0.2


@pytest.mark.parametrize(
    ("method", "mode", "fields"),
    [
        ("caribou", "sound", EDGE | {"options": {"num_hops": 2, "head": SHORT}}),
        ("gap", "sound", BOUNDED | {"options": {"num_hops": 1, "head": SHORT, "node": STAGES}}),
        ("edgerand", "sound", EDGE | {"options": {"gcn": {"training": {"num_epochs": 3}}}}),
    ],
)  # fmt: skip
def test_models_with_noise_inside_answer_about_the_full_graph(
    method: str, mode: str, fields: dict[str, Any]
) -> None:
    found = attack(method, mode=mode, epsilon=4.0, **fields)
    assert found["status"] == "ok", found
    assert set(found["variants"]) == {"original", "same-graph"}


def test_a_model_tied_to_its_nodes_says_so() -> None:
    found = attack("dpdgc", options={"head": SHORT})
    assert found["status"] == "not-available"
    tells(found["reason"], "weight vector", "node")
