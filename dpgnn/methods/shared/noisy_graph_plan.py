"""Plans of methods that perturb the graph itself: pure epsilon at edge level."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dpgnn.accountants.events import LaplaceRelease, RandomizedResponse
from dpgnn.accountants.plan import Budget, Mechanism
from dpgnn.core.checks import require
from dpgnn.methods.shared.edge_level import EDGE_PUBLIC
from dpgnn.methods.shared.noisy_graph import num_cells

if TYPE_CHECKING:
    from dpgnn.accountants.claims import Claim
    from dpgnn.methods.base import Entry, Facts

# largest number of perturbed edges of a run; larger graphs are not worth training on
MAX_EDGES = 30_000_000


def pure_claim(entry: Entry, *, epsilon: float, **words: Any) -> Claim:
    """A claim with delta 0; features, labels, split and options are public."""
    from dpgnn.accountants.claims import Claim

    fields: dict[str, Any] = {
        "status": "proved" if entry.mode == "sound" else "as-published",
        "assumed_public": EDGE_PUBLIC,
        "released": "noisy-state",
        "selection": "public",
    }
    return Claim(
        privacy_unit="edge",
        relation="add-remove",
        epsilon=epsilon,
        delta=0.0,
        accountant="pure",
        **(fields | words),
    )


def truthful(epsilon: float) -> tuple[float, float]:
    """Probabilities of a true and of a false answer, exactly epsilon-DP in float64.

    e^epsilon/(e^epsilon + 1) rounds to 1 from epsilon 37 on, and may round up below that. The probability of
    a false answer is rounded up to a multiple of 2^-53, with room for the rounding of the exponential, so
    that the true answer has exactly one minus it and their ratio is at most e^epsilon. It is never 0, because
    a certain answer has no finite epsilon.
    """
    unit, exact = 2.0**-53, math.exp(-epsilon) / (1 + math.exp(-epsilon))
    lie = min(max(math.ceil(exact * (1 + 2.0**-49) / unit), 1) * unit, 0.5)
    return 1.0 - lie, lie


def response_mechanism(
    name: str, *, one_if_one: float, one_if_zero: float, details: dict[str, Any]
) -> Mechanism:
    """Randomised response on every pair; an undirected edge is one of them."""
    event: RandomizedResponse[Any] = RandomizedResponse(
        relation="add-remove", one_if_one=one_if_one, one_if_zero=one_if_zero
    )
    return Mechanism(name=name, event=event, noise_stddev=0.0, sensitivity=1.0, details=details)


def laplace_mechanism(name: str, *, scale: float, sensitivity: float) -> Mechanism:
    """A Laplace release; the recorded deviation is sqrt 2 times the scale."""
    event: LaplaceRelease[Any] = LaplaceRelease(
        relation="add-remove", scale=scale, sensitivity=sensitivity
    )
    return Mechanism(
        name=name,
        event=event,
        noise_stddev=scale * 2**0.5,
        sensitivity=sensitivity,
        details={"scale": scale},
    )


def check_size(facts: Facts, one_if_zero: float) -> None:
    """Refuse, from public facts, a run whose perturbed graph would be too large.

    Raises:
        ValueError: more than MAX_EDGES edges are expected from non-edges alone.
    """
    expected = num_cells(facts.num_nodes) * one_if_zero
    require(
        expected <= MAX_EDGES,
        "expected number of perturbed edges",
        f"be <= {MAX_EDGES}",
        round(expected),
        f"raise epsilon; at this one {100 * one_if_zero:.2g} % of all pairs of nodes are joined",
    )


def require_private(budget: Budget) -> None:
    """Refuse an infinite budget: without noise these methods are the plain GCN."""
    budget.require_target("a perturbed graph")
    require(budget.is_private, "epsilon", "be finite", budget.epsilon, "use the method gcn")
