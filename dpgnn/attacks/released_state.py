"""Infers edges from a single release without further queries, so the claim covers the attack.

LinkTeller queries an aggregating model again, which its claim does not cover. This attack reads the release
itself: the noisy rows or the perturbed graph that the method states (`Method.leaks`). Each candidate edge was
removed by a fair coin before the fit; the score is the correlation of one end's rows with the other's public
row (or whether the perturbed graph has the edge).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn import methods
from dpgnn.attacks import statistics
from dpgnn.attacks.linkteller import Pairs, claim_tests

if TYPE_CHECKING:
    from dpgnn.methods.base import Entry
    from dpgnn.methods.queries import FittedRun


def why_not(entry: Entry) -> str:
    """Why the attack does not apply; "" if it does."""
    leaks = methods.get(entry.method).leaks
    released = leaks.noisy_edges or leaks.noisy_rows
    if not released or entry.mode == "nonprivate" or entry.privacy_unit != "edge":
        return "it is about releases of noisy rows or edges at edge level"
    return leaks.why_not_rows(entry)


def pair_scores(target: FittedRun, pairs: Pairs) -> np.ndarray:
    """float64, shape (num_pairs,): larger if the release suggests that the edge exists."""
    first, second = pairs.perturbed, pairs.looked_at
    if target.leaks.noisy_rows is None:
        noisy = target.noisy_edges
        return np.asarray(noisy[first, second] + noisy[second, first], dtype=np.float64).reshape(-1)
    rows, public = target.leaks.noisy_rows(target)
    return np.asarray((rows[first] * public[second] + rows[second] * public[first]).sum(axis=1))


def attack(
    target: FittedRun, pairs: Pairs, *, level: float, rng: np.random.Generator
) -> dict[str, Any]:
    """Score held-out edges by the release and test the claim.

    Guarantee: `one_run.epsilon_lower_bound` exceeds a true claim with probability <= level.

    Args:
        target: fitted on the graph of `linkteller.hold_out`.
        pairs: its candidate edges.
        level: of the tests.
        rng: of ties and halves.
    """
    started = time.monotonic()
    base: dict[str, Any] = {"attack": "released-state"}
    reason = why_not(target.entry)
    if reason:
        return base | {"status": "not-applicable", "reason": reason}
    scores = pair_scores(target, pairs)
    return base | {
        "status": "ok",
        **statistics.summary(scores, pairs.member),
        **claim_tests(target, scores, pairs.member, covered=True, level=level, rng=rng),
        "seconds": time.monotonic() - started,
    }
