"""Evaluation of G-MIA's scores: ranking, rates, the part due to the class, and tests of the claim.

Members are drawn class by class and non-members from the rest, so the class alone is informative: on Cora a
large class is mostly non-members. To measure only memorisation, compare pairs of a member and a non-member of
the same class.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.attacks import statistics
from dpgnn.audits.one_run import guess

if TYPE_CHECKING:
    from dpgnn.accountants.claims import Claim

# units whose claims are about a node with everything that its membership changes
WHOLE_NODE = ("node", "node-bounded")
BATCH_SIZE = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """The queried nodes and their scores.

    Attributes:
        inside, outside: int64: members and non-members, as positions in the full graph.
        inside_scores, outside_scores: float64, one per node: larger says "member".
    """

    inside: np.ndarray
    outside: np.ndarray
    inside_scores: np.ndarray
    outside_scores: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        """float64, shape (num_asked,): members first."""
        return np.concatenate([self.inside_scores, self.outside_scores])

    @property
    def member(self) -> np.ndarray:
        """bool, shape (num_asked,)."""
        return np.arange(len(self.inside) + len(self.outside)) < len(self.inside)

    def taken(self, first: np.ndarray, second: np.ndarray) -> Asked:
        """A subset of members and non-members, by their positions."""
        return Asked(
            inside=self.inside[first], outside=self.outside[second],
            inside_scores=self.inside_scores[first], outside_scores=self.outside_scores[second],
        )  # fmt: skip

    def matched(self, y: np.ndarray, rng: np.random.Generator) -> Asked:
        """Random pairs of one class: member i and non-member i; each node is in one pair at most.

        Guarantee: members and non-members have equal class counts, so a score that depends only on the class
        has an AUC of one half.
        """
        return self.taken(*pairs(y[self.inside], y[self.outside], rng))


def pairs(
    inside: np.ndarray, outside: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of random pairs (member, non-member) of one class, each in at most one pair.

    Args:
        inside, outside: int64: classes of members and of non-members.
        rng: of the choice.
    """
    first, second = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for label in np.unique(inside):
        ours = rng.permutation(np.flatnonzero(inside == label))
        theirs = rng.permutation(np.flatnonzero(outside == label))
        count = min(len(ours), len(theirs))
        first.append(ours[:count])
        second.append(theirs[:count])
    return np.concatenate(first), np.concatenate(second)


def label_auc(
    y: np.ndarray, shadow: tuple[np.ndarray, np.ndarray], target: tuple[np.ndarray, np.ndarray]
) -> float:
    """AUC of the best score that reads the true class alone.

    The score of a class is its log odds of "member" among the shadow's nodes, with one added to each count so
    that an absent class has a score; it is evaluated on the target's nodes.

    Args:
        y: int64, shape (num_nodes,): classes.
        shadow, target: members and non-members, positions in the graph.
    """
    size = int(y.max()) + 1
    inside, outside = (np.bincount(y[nodes], minlength=size) + 1.0 for nodes in shadow)
    score = np.log(inside / outside)
    scores = np.concatenate([score[y[nodes]] for nodes in target])
    return statistics.auc(scores, np.arange(len(scores)) < len(target[0]))


def by_degree(
    asked: Asked, y: np.ndarray, degree: np.ndarray, rng: np.random.Generator | None
) -> dict[str, float | None]:
    """AUC among the nodes of low and of high degree, split at the median.

    Args:
        asked: all queried nodes.
        y, degree: int64, shape (num_nodes,).
        rng: of the pairs of one class drawn within each half; None takes all nodes.
    """
    middle = np.median(degree[np.concatenate([asked.inside, asked.outside])])
    found: dict[str, float | None] = {}
    for name in ("low", "high"):
        sides = [degree[nodes] <= middle for nodes in (asked.inside, asked.outside)]
        chosen = [np.flatnonzero(side == (name == "low")) for side in sides]
        half = asked.taken(chosen[0], chosen[1])
        if rng is not None:
            half = half.matched(y, rng)
        enough = len(half.inside) and len(half.outside)
        found[f"auc_{name}_degree"] = statistics.auc(half.scores, half.member) if enough else None
    return found


def claim_tests(
    claims: tuple[Claim, ...],
    matched: Asked,
    *,
    largest_degree: int,
    rng: np.random.Generator,
    level: float,
) -> dict[str, Any]:
    """The line of the claim, and a bound within one run, from pairs of a member and another of one class.

    Guarantee: given the pairs, which node of a random pair of one class is the member is a fair coin,
    independent of the other pairs. Exchanging the two is one replacement, or one removal and one addition: at
    most epsilon for replace-one and 2 epsilon (and (1 + e^epsilon) delta) for the other relations. The line
    is that of these values. The bound exceeds a true value of them with probability <= level.

    All worlds of the coins are parts of the full graph, so under `node-bounded` they keep the degree bound if
    the full graph does. If it does not, an intermediate world may violate the bound, for which the claim
    promises nothing, so the claim is not tested.

    Args:
        claims: of the target's plan.
        matched: pairs of one class; member i and non-member i are a pair.
        largest_degree: of the full graph.
        rng: of coins and halves.
        level: of each test.

    Returns:
        as JSON; `detects` is the largest bound that this many pairs can show, in the units of
        `one_run_allowed_epsilon`; if they are too few for a test, `untested` says so.
    """
    note = _why_not_covered(claims, largest_degree)
    if note:
        return {"claim_covers_membership": False, "note": note}
    claim = claims[0]
    found: dict[str, Any] = {"claim_covers_membership": True, "exceeds_claim": False}
    twice = claim.relation != "replace-one"
    allowed = (2 if twice else 1) * claim.epsilon
    delta = claim.delta * (1 + math.exp(min(claim.epsilon, 50.0))) if twice else claim.delta
    coin = rng.random(len(matched.inside)) < 0.5
    gap = np.where(coin, 1.0, -1.0) * (matched.inside_scores - matched.outside_scores)
    try:
        run = guess(gap, coin, delta=min(delta, 0.5), level=level)
        line = statistics.line_test(
            matched.scores, matched.member, epsilon=allowed, delta=min(delta, 1.0), level=level,
            rng=rng,
        )  # fmt: skip
    except ValueError as error:
        return found | {"untested": str(error)}
    return found | {
        "claimed_epsilon": claim.epsilon if math.isfinite(claim.epsilon) else None,
        "delta": claim.delta,
        "line": dataclasses.asdict(line),
        "one_run": dataclasses.asdict(run),
        "one_run_allowed_epsilon": allowed if math.isfinite(allowed) else None,
        "detects": statistics.run_detects(run),
        "exceeds_claim": run.epsilon_lower_bound > allowed,
    }


def _why_not_covered(claims: tuple[Claim, ...], largest_degree: int) -> str:
    """Why the first claim does not cover membership; empty if it does."""
    if not claims:
        return "no privacy"
    if claims[0].privacy_unit not in WHOLE_NODE:
        return "membership changes more than the claim is about"
    bound = claims[0].degree_bound
    if bound is None or largest_degree <= bound:
        return ""
    return (
        f"the full graph has a degree of {largest_degree} where the claim is about graphs of at most "
        f"{bound}; a member exchanged for another may leave them"
    )
