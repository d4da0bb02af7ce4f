"""The table of implications: it agrees with enumerated neighbours, and rankings follow it."""

from dataclasses import replace
from itertools import combinations, product

import pytest

from dpgnn.accountants import implications
from dpgnn.accountants.claims import UNIT_RELATIONS, Claim
from dpgnn.accountants.implications import Notion, may_rank_together, notion_implies

# Small graphs: presence, a feature bit and an undirected edge set over three ids. A node-record world is
# a graph too (own half-edges merged), which is how the table maps records to nodes.
NODES = (0, 1, 2)
EDGES = tuple(combinations(NODES, 2))


def worlds():
    for present in product((False, True), repeat=3):
        for bits in product((0, 1), repeat=3):
            if any(b and not p for b, p in zip(bits, present)):
                continue
            possible = [e for e in EDGES if present[e[0]] and present[e[1]]]
            for count in range(len(possible) + 1):
                for edges in combinations(possible, count):
                    yield present, bits, frozenset(edges)


def max_degree(world):
    return max(sum(v in e for e in world[2]) for v in NODES)


def neighbours(notion):
    """All ordered pairs of worlds that the notion compares."""
    pairs = set()
    for a, b in product(WORLDS, repeat=2):
        if a == b or not any(is_pair(notion, a, b, v) for v in NODES):
            if notion.privacy_unit == "edge" and edge_pair(a, b):
                pairs.add((a, b))
            continue
        bound = notion.degree_bound
        if bound is None or max(max_degree(a), max_degree(b)) <= bound:
            pairs.add((a, b))
    return pairs


def edge_pair(a, b):
    return a[:2] == b[:2] and len(a[2] ^ b[2]) == 1


def is_pair(notion, a, b, v):
    unit, relation = notion.privacy_unit, notion.relation
    if unit == "edge":
        return False
    others_same = all(a[0][u] == b[0][u] and a[1][u] == b[1][u] for u in NODES if u != v)
    if not others_same or any(v not in e for e in a[2] ^ b[2]):
        return False
    if relation == "add-remove":
        return a[0][v] != b[0][v]
    if not (a[0][v] and b[0][v]):
        return False
    if unit == "node-features":
        return a[2] == b[2]
    if relation == "null-one":
        return any(w[1][v] == 0 and not any(v in e for e in w[2]) for w in (a, b))
    return True


WORLDS = tuple(worlds())
NOTIONS = [
    Notion(privacy_unit=unit, relation=relation, degree_bound=bound)
    for unit, relations in UNIT_RELATIONS.items()
    for relation in relations
    for bound in ((1, 2) if unit == "node-bounded" else (None,))
    if unit != "node-record"  # defined on records; its two steps are checked below
]


def test_every_implication_holds_for_all_pairs_of_small_graphs():
    pairs = {notion: neighbours(notion) for notion in NOTIONS}
    checked = 0
    for a, b in product(NOTIONS, repeat=2):
        if notion_implies(a, b):
            assert pairs[b] <= pairs[a], (str(a), str(b))
            checked += 1
    assert checked > len(NOTIONS)


def test_notions_that_are_not_implied_have_a_pair_of_their_own():
    pairs = {notion: neighbours(notion) for notion in NOTIONS}
    for a, b in product(NOTIONS, repeat=2):
        if not notion_implies(a, b) and not (pairs[b] <= pairs[a]):
            continue  # the pair proves it
        # where the pairs of b are among those of a on this tiny universe, the table must say so,
        # except for units whose guarantee is restricted to bounded degrees
        if not notion_implies(a, b):
            assert a.privacy_unit == "node-bounded", (str(a), str(b))


def test_chains_are_followed():
    assert notion_implies(
        Notion(privacy_unit="node", relation="replace-one"),
        Notion(privacy_unit="node-features", relation="replace-one"),
    )
    assert notion_implies(
        Notion(privacy_unit="node", relation="replace-one"),
        Notion(privacy_unit="node-bounded", relation="null-one", degree_bound=7),
    )
    assert not notion_implies(
        Notion(privacy_unit="node-bounded", relation="replace-one", degree_bound=7),
        Notion(privacy_unit="edge", relation="add-remove"),
    )
    assert not notion_implies(
        Notion(privacy_unit="node-record", relation="add-remove"),
        Notion(privacy_unit="node", relation="add-remove"),
    )


def test_a_degree_bound_may_shrink_but_not_grow():
    def bounded(degree):
        return Notion(privacy_unit="node-bounded", relation="null-one", degree_bound=degree)

    assert notion_implies(bounded(10), bounded(5))
    assert not notion_implies(bounded(5), bounded(10))


def claim(unit, relation, bound=None, epsilon=1.0, delta=1e-5, status="proved"):
    return Claim(
        privacy_unit=unit, relation=relation, degree_bound=bound, epsilon=epsilon, delta=delta,
        accountant="pld", status=status,
    )  # fmt: skip


def test_dp_mlp_stands_in_every_ranking_of_node_units():
    mlp = claim("node", "replace-one")
    for other in (
        claim("node", "null-one"),
        claim("node-bounded", "null-one", 20),
        claim("node-bounded", "replace-one", 20),
        claim("node-record", "replace-one"),
        claim("node-features", "replace-one"),
        claim("edge", "add-remove"),
    ):
        ranking = may_rank_together([mlp, other])
        assert ranking.allowed
        assert ranking.notion == implications.notion(other)
    assert may_rank_together(
        [claim("node", "add-remove"), claim("node-record", "add-remove")]
    ).allowed


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ([claim("node-record", "add-remove"), claim("node-record", "replace-one")],
         "no guarantee of one follows"),
        ([claim("edge", "add-remove"), claim("node-features", "replace-one")],
         "edge, add-remove; node-features, replace-one"),
        ([claim("node", "null-one"), claim("node", "null-one", status="as-published")],
         "different rankings"),
    ],
)  # fmt: skip
def test_other_rankings_are_refused_with_the_reason(claims, reason):
    ranking = may_rank_together(claims)
    assert not ranking.allowed
    assert reason in ranking.reason


def test_the_weakest_common_notion_is_found_among_bounded_degrees():
    ranking = may_rank_together(
        [claim("node-bounded", "null-one", 10), claim("node-bounded", "null-one", 5)]
    )
    assert ranking.notion == Notion(
        privacy_unit="node-bounded", relation="null-one", degree_bound=5
    )


def test_every_step_of_the_table_has_a_proof_and_defined_ends():
    defined = {(unit, relation) for unit in UNIT_RELATIONS for relation in UNIT_RELATIONS[unit]}
    for step in implications.IMPLICATIONS:
        assert {step.stronger, step.weaker} <= defined
        assert len(step.proof) > 20


def test_no_claims_make_no_ranking():
    with pytest.raises(ValueError, match="claims must hold at least one claim"):
        may_rank_together([])
    assert may_rank_together([replace(claim("edge", "add-remove"), epsilon=3.0)]).allowed
