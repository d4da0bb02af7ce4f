"""DPAR's plan: chooses among its three kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpgnn.accountants.plan import Budget, Plan
from dpgnn.methods.dpar.mechanisms import sizes_of
from dpgnn.methods.dpar.options import is_control_of_sound, resolved
from dpgnn.methods.dpar.published import chain_details, published
from dpgnn.methods.dpar.sound import control_of_sound, sound

if TYPE_CHECKING:
    from dpgnn.methods.base import Entry, Facts


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """Noise of both stages from the budget, and the claims.

    Guarantee (sound mode): unit node, replace-one, (epsilon, delta) as claimed. Rows: M selections with
    Gumbel noise or M Gaussian releases at the true sensitivity (sqrt(2) C1), composed on one curve with
    Poisson batches in which at most s + 1 roots change, because a node is in at most s of the M rows
    and in its own root's loss. With a secret subsample the curve is amplified by theorem 7 of
    docs/accounting.md.

    Raises:
        ValueError: no noise meets the budget, or delta / q' is not below 1.

    Source: Zhang et al. (2024), DPAR, sections 3.1 and 3.2.
    """
    config = resolved(entry)
    budget.require_target("dpar")
    sizes = sizes_of(config, facts.num_train)
    if entry.mode == "nonprivate":
        return Plan(facts=facts.recorded(), num_steps=sizes.num_steps)
    details: dict[str, Any] = {
        "members": sizes.num_members,
        "vectors": sizes.num_vectors,
        "amplification": config.amplification,
    }
    if entry.mode == "sound":
        mechanisms, claims = sound(entry, config, sizes, budget)
    elif is_control_of_sound(entry):
        mechanisms, claims = control_of_sound(entry, config, sizes, budget)
    else:
        mechanisms, claims = published(entry, config, sizes, budget)
        details |= chain_details(config, sizes, budget)
    return Plan(
        mechanisms=mechanisms,
        claims=claims,
        num_steps=sizes.num_steps,
        facts=facts.recorded(),
        details=details,
    )
