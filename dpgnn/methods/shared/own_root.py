"""Facts of methods that read no edge in training: a node's record enters only its own root."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpgnn.accountants.plan import Budget, Plan
from dpgnn.methods.entry import pairs
from dpgnn.methods.shared.planning import DPSGDConfig, claim_for, poisson_dp_sgd

if TYPE_CHECKING:
    from dpgnn.methods.entry import Entry, Facts

ASSUMED_PUBLIC = ("number of training nodes", "membership of the split", "all options")

# every node unit: no other node's record is read
SUPPORTS = (
    *pairs("node", "add-remove", "replace-one", "null-one"),
    *pairs("node-record", "add-remove", "replace-one"),
    *pairs("node-features", "replace-one"),
)
# changed roots when one node changes: (roots of G, roots of G')
CHANGED_ROOTS = {"add-remove": (1, 0), "replace-one": (1, 1), "null-one": (1, 1)}


def plan_own_roots(entry: Entry, training: DPSGDConfig, facts: Facts, budget: Budget) -> Plan:
    """DP-SGD in which a record enters its own root alone: noise or steps from the budget.

    Guarantee: unit `node` (or any weaker node unit), relation of the entry, (epsilon, delta) as claimed; the
    number of training nodes and the split are public.

    Args:
        entry: unit, relation and mode; published mode counts by Renyi DP.
        training: noisy gradient descent.
        facts: public ones.
        budget: epsilon and delta, or given noise.

    Source: Abadi et al. (2016), arXiv:1607.00133; docs/accounting.md, theorem 1, with one changed root.
    """
    assert entry.relation is not None
    d_plus, d_minus = CHANGED_ROOTS[entry.relation]
    counted = poisson_dp_sgd(
        entry, training, budget, num_roots=facts.num_train, d_plus=d_plus, d_minus=d_minus,
        reference_sensitivity=training.clipping_norm,
        accountant="pld" if entry.mode == "sound" else "rdp",
    )  # fmt: skip
    claim = claim_for(entry, budget, counted.spent, assumed_public=ASSUMED_PUBLIC, status="proved")
    return Plan(
        mechanisms=(counted.mechanism,), claims=(claim,), num_steps=counted.mechanism.num_steps,
        facts=facts.recorded(),
    )  # fmt: skip
