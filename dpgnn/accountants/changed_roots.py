"""How many roots one element can change: (d_plus, d_minus) for each unit and relation.

The sampler states how many subgraphs one record can enter, N = 1 + K + ... + K^r, root included; this
table turns it into the two numbers of the two-sided pair. Proofs: docs/accounting.md, theorem 4.
"""

from __future__ import annotations

from dpgnn import checks
from dpgnn.accountants.claims import UNIT_RELATIONS, PrivacyUnit
from dpgnn.accountants.events import Relation


def changed_roots(
    unit: PrivacyUnit,
    relation: Relation,
    *,
    max_occurrences: int,
    degree_bound: int = 0,
    occurrences_one_hop_less: int = 0,
) -> tuple[int, int]:
    """(d_plus, d_minus) of a Poisson batch of roots under the own-list sampler.

    Args:
        unit: what neighbouring graphs differ in; `edge` is not counted here.
        relation: how they differ.
        max_occurrences: N(K, r), subgraphs that one record can enter, its own root included; 1 for a
            method without edges.
        degree_bound: the declared largest degree D, for `node-bounded`.
        occurrences_one_hop_less: N(K, r - 1), for `node-bounded` (1 at depth 1).

    Returns:
        roots whose example in G is absent or different in G', and the same from G'.

    Raises:
        ValueError: the pair of unit and relation is unknown, or the unit has no such bound here.
    """
    n = checks.at_least("max_occurrences", max_occurrences, 1)
    checks.one_of("privacy_unit", unit, UNIT_RELATIONS)
    allowed = UNIT_RELATIONS[unit]
    checks.require(
        relation in allowed, "relation", f"be one of {', '.join(allowed)} for {unit}", relation
    )
    if unit == "edge":
        checks.fail("privacy_unit", "not be edge", unit, "count aggregations, not roots")
    if unit == "node-features":
        return n, n  # the lists stay, so the same roots hold the record in both worlds
    if unit == "node" and n > 1:
        remedy = "declare a degree bound (node-bounded) or protect the record (node-record)"
        checks.fail("max_occurrences", "be 1 for the unit node", n, remedy)
    ripple = 0
    if unit == "node-bounded" and n > 1:
        checks.at_least("degree_bound", degree_bound, 0)
        checks.at_least("occurrences_one_hop_less", occurrences_one_hop_less, 1)
        ripple = degree_bound * occurrences_one_hop_less
    if relation == "add-remove":
        return n + ripple, n - 1 + ripple
    if relation == "null-one":
        return n + ripple, n + ripple
    return 2 * n - 1 + 2 * ripple, 2 * n - 1 + 2 * ripple
