"""LinkTeller: infers edges from the influence of one node's features on another node's answer.

Sets of pairs: "unbalanced", "low" and "high" take nodes (uniformly, or of low or high degree) and all pairs
among them, as published; "balanced" takes edges and equally many non-edges; "held-out" is the honest variant:
before the fit, each of some edges is removed by a fair coin, and the attacker distinguishes kept from removed
edges. The other sets compare edges with non-edges, which also differ in features (neighbours are alike), so
the line of a claim, which compares one pair with and without its edge, is a bound only for "held-out".
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpgnn.attacks import statistics
from dpgnn.attacks.influence import Direction, influence, path_of
from dpgnn.attacks.queries import Noise, queries_of, why_not_other_features
from dpgnn.core.checks import at_least, one_of, require
from dpgnn.methods.shared.undirected import undirected_pairs

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.methods.queries import FittedRun

PairSet = Literal["unbalanced", "low", "high", "balanced", "held-out"]
SETS: tuple[PairSet, ...] = ("unbalanced", "low", "high", "balanced", "held-out")
# shares of the density that the attacker believes in
BELIEFS = (0.25, 0.5, 1.0, 2.0, 4.0)
# largest degree of "low" and smallest of "high"
DEGREES: Mapping[str, tuple[int, int]] = {"cora": (3, 4), "citeseer": (3, 3), "pubmed": (10, 10)}
OTHER_DEGREES = (15, 30)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """Pairs to be scored.

    Attributes:
        perturbed, looked_at: int64, shape (num_pairs,): the features of the first are perturbed, the answer
            for the second is read.
        member: bool, shape (num_pairs,): whether the pair is an edge of the graph of the fit.
    """

    perturbed: np.ndarray
    looked_at: np.ndarray
    member: np.ndarray


def pairs_of(
    graph: Graph, kind: PairSet, size: int, *, rng: np.random.Generator, present: np.ndarray
) -> Pairs:
    """The pairs of a set.

    Args:
        graph: of the fit.
        kind: "unbalanced", "low", "high" or "balanced".
        size: nodes; for "balanced" edges.
        rng: of the choice.
        present: int64: nodes that may be chosen.

    Raises:
        ValueError: too few nodes or edges.

    Source: arXiv:2108.06504, experiments; low and high degree as in its code for each data set.
    """
    one_of("set", kind, SETS[:-1])
    at_least("size", size, 2)
    edges = undirected_pairs(graph.edge_index, graph.num_nodes)
    keys = edges[0] * graph.num_nodes + edges[1]
    if kind == "balanced":
        count = min(size, edges.shape[1])
        at_least(f"{graph.name}: edges", count, 2)
        inside = edges[:, rng.choice(edges.shape[1], count, replace=False)]
        outside = gaps(graph.num_nodes, keys, present, count, rng=rng)
        both = np.concatenate([inside, outside], axis=1)
        return _directed(both, np.arange(2 * count) < count, rng)
    degree = np.bincount(edges.ravel(), minlength=graph.num_nodes)[present]
    nodes = rng.permutation(_of_degree(graph, kind, present, degree))[:size]
    earlier, later = np.triu_indices(len(nodes), 1)
    first, second = nodes[earlier], nodes[later]
    pair = np.minimum(first, second) * graph.num_nodes + np.maximum(first, second)
    # as in the published code: the later node of the sample is perturbed, the earlier one is read
    return Pairs(perturbed=second, looked_at=first, member=np.isin(pair, keys))


def _of_degree(graph: Graph, kind: PairSet, present: np.ndarray, degree: np.ndarray) -> np.ndarray:
    """The nodes that a set chooses from."""
    low, high = DEGREES.get(graph.name, OTHER_DEGREES)
    if kind == "low":
        present = present[degree <= low]
    elif kind == "high":
        present = present[degree >= high]
    enough = len(present) >= 2
    require(enough, f"{graph.name}: nodes of set {kind}", "be at least 2", len(present))
    return present


def gaps(
    num_nodes: int, keys: np.ndarray, present: np.ndarray, count: int, *, rng: np.random.Generator
) -> np.ndarray:
    """Pairs of present nodes without an edge, each once: int64, shape (2, count)."""
    cells = len(present) * (len(present) - 1) // 2
    require(
        count + len(keys) <= cells, "gaps", f"be <= {cells - len(keys)}", count, "ask fewer pairs"
    )
    found = np.zeros(0, dtype=np.int64)
    while len(found) < count:
        ends = np.sort(present[rng.integers(0, len(present), size=(2, 2 * count + 16))], axis=0)
        fresh = (ends[0] * num_nodes + ends[1])[ends[0] != ends[1]]
        both = np.concatenate([found, fresh[~np.isin(fresh, keys)]])
        _, first = np.unique(both, return_index=True)
        found = both[np.sort(first)]
    return np.stack(np.divmod(found[:count], num_nodes))


def hold_out(graph: Graph, size: int, *, rng: np.random.Generator) -> tuple[Graph, Pairs]:
    """A graph from which each of `size` edges is removed by a fair coin, and those edges as pairs.

    Guarantee: given the other edges, coins are independent and fair, so under a claim for one edge every
    attack on them has P(kept | guessed kept) <= e^epsilon/(1 + e^epsilon), up to delta.
    """
    edges = undirected_pairs(graph.edge_index, graph.num_nodes)
    count = min(size, edges.shape[1] // 2)
    at_least(f"{graph.name}: edges to hold out", count, 4)
    chosen = rng.choice(edges.shape[1], count, replace=False)
    kept = rng.random(count) < 0.5
    gone = edges[:, chosen[~kept]]
    taken = np.concatenate([gone, gone[::-1]], axis=1)
    keys = graph.edge_index[0] * graph.num_nodes + graph.edge_index[1]
    stay = ~np.isin(keys, taken[0] * graph.num_nodes + taken[1])
    changed = dataclasses.replace(graph, edge_index=graph.edge_index[:, stay].copy())
    return changed, _directed(edges[:, chosen], kept, rng)


def pair_scores(
    target: FittedRun,
    pairs: Pairs,
    *,
    direction: Direction,
    noise: Noise,
    rng: np.random.Generator,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> np.ndarray:
    """Influence of the perturbed on the other node of each pair: float64, shape (num_pairs,)."""
    nodes, place = np.unique(pairs.perturbed, return_inverse=True)
    read, column = np.unique(pairs.looked_at, return_inverse=True)
    wanted = np.zeros((len(nodes), len(read)), dtype=bool)
    wanted[place, column] = True
    found = influence(
        target, nodes, read, direction=direction, noise=noise, rng=rng, wanted=wanted,
        report=lambda done: report(done, len(nodes)),
    )  # fmt: skip
    return np.asarray(found[place, column])


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way of running the attack.

    Attributes:
        pair_set: which pairs.
        size: nodes, or edges.
        direction: how features are perturbed.
        noise: of the run or fresh.
    """

    pair_set: PairSet
    size: int
    direction: Direction = "scale"
    noise: Noise = "frozen"


def attack(
    target: FittedRun,
    pairs: Pairs,
    variant: Variant,
    *,
    level: float,
    rng: np.random.Generator,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Score the pairs, and measure how well the scores distinguish edges from non-edges; as JSON."""
    started = time.monotonic()
    base = {"attack": "linkteller", **dataclasses.asdict(variant)}
    reason = why_not_other_features(target)
    if reason:
        return base | {"status": "not-available", "reason": reason}
    scores = pair_scores(
        target, pairs, direction=variant.direction, noise=variant.noise, rng=rng, report=report
    )
    member = pairs.member
    found = base | {
        "status": "ok",
        "way": path_of(target, variant.noise),
        "num_queries": len(np.unique(pairs.perturbed)),
        **statistics.summary(scores, member),
    }
    if variant.pair_set == "held-out":
        covered = is_covered(target, variant.noise)
        found |= claim_tests(target, scores, member, covered=covered, level=level, rng=rng)
    else:
        density = float(f"{member.mean():.0e}")
        found["beliefs"] = [
            {
                "belief": belief,
                **statistics.best_guesses(scores, member, min(1.0, belief * density)),
            }
            for belief in BELIEFS
        ]
    return found | {"seconds": time.monotonic() - started}


def is_covered(target: FittedRun, noise: Noise) -> bool:
    """Whether the run's claim covers the answers to queries with other features.

    True for feature-only models and for post-processing of a single release (perturbed graphs, DPDGC's sums).
    False if a query reads private edges without noise, or repeats an aggregation: the run's noise cancels in
    the difference of two answers, and with fresh noise every query is another release.
    """
    entry = target.entry
    if entry.mode == "nonprivate" or entry.privacy_unit != "edge":
        return False
    return noise == "frozen" and queries_of(target).covered


def claim_tests(
    target: FittedRun,
    scores: np.ndarray,
    member: np.ndarray,
    *,
    covered: bool,
    level: float,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """The claim's line, and the lower bound on epsilon that holds within one run.

    Guarantee: where members were chosen by independent fair coins before the fit, the bound exceeds a true
    (epsilon, delta) with probability <= level (Steinke, Nasr and Jagielski 2023, Theorem 5.2).

    Returns:
        as JSON; `detects` is the largest bound that this many trials can show; if they are too few for a
        test, `untested` says so.
    """
    from dpgnn.audits.one_run import guess

    claim = next(iter(target.plan.claims), None)
    epsilon, delta = (math.inf, 0.0) if claim is None else (claim.epsilon, claim.delta)
    # ties must not be broken by anything that depends on the answer
    shuffled = rng.permutation(len(scores))
    run = guess(scores[shuffled], member[shuffled], delta=delta, level=level)
    try:
        line = statistics.line_test(
            scores, member, epsilon=epsilon, delta=delta, level=level, rng=rng
        )
    except ValueError as error:
        return {"claim_covers_answers": covered, "untested": str(error), "exceeds_claim": False}
    return {
        "detects": statistics.run_detects(run),
        "one_run": dataclasses.asdict(run),
        "line": dataclasses.asdict(line),
        "claimed_epsilon": epsilon if math.isfinite(epsilon) else None,
        "delta": delta,
        "claim_covers_answers": covered,
        "exceeds_claim": covered and run.epsilon_lower_bound > epsilon,
    }


def _directed(both: np.ndarray, member: np.ndarray, rng: np.random.Generator) -> Pairs:
    """The perturbed end of each pair is chosen by a coin."""
    coin = rng.integers(0, 2, size=both.shape[1])
    place = np.arange(both.shape[1])
    return Pairs(perturbed=both[coin, place], looked_at=both[1 - coin, place], member=member)
