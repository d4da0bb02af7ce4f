"""Edges from what is released once: no further query, so the claim covers all of it.

LinkTeller asks an aggregating model again, which its claim does not cover. This attack reads the release
itself: the noisy rows of CARIBOU, GAP and DPDGC, or the perturbed graph of EdgeRand, LapGraph and PertGraph.
A fair coin took each candidate edge out before the fit; the score is how much one end's rows hold of the
other's public row (or whether the perturbed graph has the edge).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.attacks import aggregates, statistics
from dpgnn.attacks.linkteller import Pairs, claim_tests
from dpgnn.attacks.queries import PERTURBED_GRAPH, Target, part
from dpgnn.methods.shared.aggregate import unit_rows

if TYPE_CHECKING:
    from dpgnn.methods.base import Entry

METHODS = ("caribou", "gap", "dpdgc", *PERTURBED_GRAPH)


def applies(entry: Entry) -> str:
    """Why the attack does not fit; "" when it does."""
    if entry.method not in METHODS or entry.mode == "nonprivate" or entry.privacy_unit != "edge":
        return "it is about releases of noisy rows or edges at edge level"
    released_code = getattr(entry.options, "variant", "paper") == "as-released"
    if released_code and entry.mode == "published":
        return "the released code's own attack is noise-free-layer"
    return ""


def pair_scores(target: Target, pairs: Pairs) -> np.ndarray:
    """float64, shape (num_pairs,): larger where the release looks as if the edge were there."""
    first, second = pairs.perturbed, pairs.looked_at
    if target.entry.method in PERTURBED_GRAPH:
        noisy = target.frozen_pairs
        return np.asarray(noisy[first, second] + noisy[second, first], dtype=np.float64).reshape(-1)
    rows, public = _rows(target)
    return np.asarray((rows[first] * public[second] + rows[second] * public[first]).sum(axis=1))


def attack(
    target: Target, pairs: Pairs, *, level: float, rng: np.random.Generator
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
    reason = applies(target.entry)
    if reason:
        return base | {"status": "not-applicable", "reason": reason}
    scores = pair_scores(target, pairs)
    return base | {
        "status": "ok",
        **statistics.summary(scores, pairs.member),
        **claim_tests(target, scores, pairs.member, covered=True, level=level, rng=rng),
        "seconds": time.monotonic() - started,
    }


def _rows(target: Target) -> tuple[np.ndarray, np.ndarray]:
    """Noisy rows, less what is public in them, and the public rows they are sums of."""
    if target.entry.method == "dpdgc":
        weights = target.state["encoder.weight"].double().numpy()
        return target.state["noisy_state"].double().numpy(), unit_rows(weights)
    x0 = aggregates.start_rows(target, target.graph)
    states = part(target.state, "noisy_state")
    first = states.get("") if "" in states else states[".1"]
    assert first is not None
    return first.double().numpy(), x0
