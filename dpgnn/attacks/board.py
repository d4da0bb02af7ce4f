"""Attacks on a released board of votes: what it reveals about a record, and about who is mentioned.

Games on the run's own graph, each with the planned noise, fresh in every run. The attacker knows everything
except the answer, and projects the released board on the difference of the two noise-free boards:

* record: is the record of the training node with the longest list there? The claim covers it, but for
  replace-one;
* label: has that record its own label or another one? Two changes under add-remove and null-one;
* mentions: do others' lists name the node that most training nodes mention? These are others' records, so no
  claim of `node-record` covers it, and what is found is what such a claim does not promise.

In addition, the share of nodes that never voted whose class is the largest entry of their row, which does not
depend on their own record.
"""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn import methods
from dpgnn.attacks import statistics
from dpgnn.core.checks import at_least

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpgnn.accountants.claims import Claim
    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import Entry
    from dpgnn.methods.queries import FittedRun
    from dpgnn.methods.releases import Draw

NUM_RUNS = 200  # runs of each world by default
GAMES = ("record", "label", "mentions")
# (graph, ids of the voters)
World = tuple["Graph", np.ndarray]


def why_not(entry: Entry) -> str:
    """Why the attack does not apply to the entry; "" if it does."""
    if methods.get(entry.method).leaks.board is None:
        return "it is about boards of votes"
    if entry.privacy_unit == "edge":
        return "its games change a node's record, and the claim is about edges"
    return ""


def attack(
    target: FittedRun, *, num_runs: int | None, level: float, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Play the games, and read classes from the board; runs are independent, so a test's level is exact.

    Args:
        target: of a method with a board; a plan without a board is an error.
        num_runs: of each world; None takes 200.
        level: probability of rejecting a true claim.
        rng: of all noise.
    """
    count = at_least("num_runs", NUM_RUNS if num_runs is None else num_runs, 8)
    reason = why_not(target.entry)
    if reason:
        return [{"attack": "board", "status": "not-applicable", "reason": reason}]
    if _board(target, (target.graph, target.split.train_idx)) is None:
        reason = "the plan has no board: the run is DP-MLP"
        return [{"attack": "board", "status": "not-available", "reason": reason}]
    return [_game(target, name, count, level, rng) for name in GAMES]


def _board(target: FittedRun, world: World) -> Callable[[Draw], np.ndarray] | None:
    build = target.leaks.board
    assert build is not None
    return build(target, *world)


def _game(
    target: FittedRun, name: str, num_runs: int, level: float, rng: np.random.Generator
) -> dict[str, Any]:
    started = time.monotonic()
    node, other = neighbour(target, name)
    covered, claim = claim_about(target.plan.claims[0], name)
    scores = _scores(target, other, num_runs, rng)
    found = statistics.game_result(scores, claim, level=level, rng=rng)
    beyond = found.pop("exceeds_claim")
    return {
        "attack": "board", "what": name, "status": "ok",
        "list_length": int((target.graph.edge_index[0] == node).sum()),
        "num_mentions": int((target.graph.edge_index[1] == node).sum()),
        **found,
        "claim_covers_answers": covered,
        "exceeds_claim": covered and beyond,
        "exceeds_what_is_not_claimed": not covered and beyond,
        **(_classes_of_the_mentioned(target, rng) if name == "mentions" else {}),
        "seconds": time.monotonic() - started,
    }  # fmt: skip


def claim_about(claim: Claim, name: str) -> tuple[bool, Claim]:
    """Whether the claim covers a game's two worlds, and the claim for them; two changes count twice."""
    if name == "label" and claim.relation != "replace-one":
        delta = float((1 + np.exp(claim.epsilon)) * claim.delta)
        return delta < 1, dataclasses.replace(
            claim, epsilon=2 * claim.epsilon, delta=min(delta, 0.5)
        )
    return name == "label" or (name == "record" and claim.relation != "replace-one"), claim


def neighbour(target: FittedRun, name: str) -> tuple[int, World]:
    """The node a game is about, and the other world."""
    graph, train = target.graph, target.split.train_idx
    source, end = graph.edge_index
    if name == "mentions":
        voted = np.isin(source, train)
        node = int(np.bincount(end[voted], minlength=graph.num_nodes).argmax())
        return node, (_with(graph, edge_index=graph.edge_index[:, end != node]), train)
    node = int(train[np.bincount(source, minlength=graph.num_nodes)[train].argmax()])
    if name == "record":
        return node, (graph, train[train != node])
    y = graph.y.copy()
    y[node] = (y[node] + 1) % graph.num_classes
    return node, (_with(graph, y=y), train)


def _with(graph: Graph, **changes: Any) -> Graph:
    return dataclasses.replace(graph, directed=True, splits={}, **changes)


def _scores(target: FittedRun, other: World, num_runs: int, rng: np.random.Generator) -> np.ndarray:
    """Projections of released boards of both worlds; float64, shape (2, num_runs)."""
    boards = []
    for world in ((target.graph, target.split.train_idx), other):
        board = _board(target, world)
        assert board is not None, "the plan is that of the run, which has a board"
        boards.append(board)
    quiet = [board(lambda step, shape: np.zeros(shape)).astype(np.float64) for board in boards]
    direction = quiet[0] - quiet[1]
    direction /= max(float(np.linalg.norm(direction)), 1e-300)
    scores = np.zeros((2, num_runs))
    for place, board in enumerate(boards):
        for run in range(num_runs):
            released = board(lambda step, shape: rng.standard_normal(shape))
            scores[place, run] = float(((released - quiet[1]) * direction).sum())
    return scores


def _classes_of_the_mentioned(target: FittedRun, rng: np.random.Generator) -> dict[str, Any]:
    """Share of nodes that did not vote whose class is the largest entry of their row."""
    graph, train = target.graph, target.split.train_idx
    board = _board(target, (graph, train))
    assert board is not None
    rows = board(lambda step, shape: rng.standard_normal(shape))
    others = np.setdiff1d(np.arange(graph.num_nodes), train)
    others = others[graph.y[others] >= 0]
    right = rows[others].argmax(axis=1) == graph.y[others]
    mentions = np.bincount(
        graph.edge_index[1][np.isin(graph.edge_index[0], train)], minlength=graph.num_nodes
    )[others]
    most = mentions >= np.quantile(mentions, 0.9)
    share = np.bincount(graph.y[others], minlength=graph.num_classes).max() / len(others)
    return {
        "num_not_voting": len(others),
        "class_from_row": float(right.mean()),
        "class_from_row_of_most_mentioned": float(right[most].mean()),
        "mentions_of_most_mentioned": float(mentions[most].mean()),
        "share_of_largest_class": float(share),
    }
