"""Which guarantee implies which, and which claims may be in one ranking.

A notion is (unit, relation, degree bound). Notion a implies notion b at the same epsilon and delta if every
pair of b-neighbours is a pair of a-neighbours. The table lists single steps with short proofs; all other
implications are chains of these. docs/accounting.md has the full proofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpgnn.accountants.claims import Claim, PrivacyUnit
from dpgnn.accountants.events import Relation
from dpgnn.core import checks


@dataclass(frozen=True, kw_only=True)
class Notion:
    """A neighbouring relation: unit, relation and, under `node-bounded`, the degree bound."""

    privacy_unit: PrivacyUnit
    relation: Relation
    degree_bound: int | None = None

    def __str__(self) -> str:
        bound = f" (degree <= {self.degree_bound})" if self.degree_bound is not None else ""
        return f"{self.privacy_unit}, {self.relation}{bound}"


@dataclass(frozen=True, kw_only=True)
class Implication:
    """One step of the table: from one (unit, relation) to another, with its proof."""

    stronger: tuple[PrivacyUnit, Relation]
    weaker: tuple[PrivacyUnit, Relation]
    proof: str


_NULL = "emptying is one of the replacements, so null-one pairs are replace-one pairs"
_BOUNDED = "pairs of graphs with degrees <= D are among all pairs of graphs"
_RECORD = (
    "merge half-edges before the mechanism: a change of one node's list changes only edges at that node, "
    "so record pairs become node pairs"
)
_ABSENT = "drop mentions of absent ids before the mechanism: the graphs then differ in one node and its edges"
_OWN_LIST = "keep the node's list and replace only features and label"
_ONE_EDGE = "replace a node by itself with one more or one less edge"
_STEPS: tuple[tuple[tuple[PrivacyUnit, Relation], tuple[PrivacyUnit, Relation], str], ...] = (
    (("node", "replace-one"), ("node", "null-one"), _NULL),
    (("node-bounded", "replace-one"), ("node-bounded", "null-one"), _NULL),
    (("node-record", "replace-one"), ("node-record", "null-one"), _NULL),
    (("node", "replace-one"), ("node-bounded", "replace-one"), _BOUNDED),
    (("node", "null-one"), ("node-bounded", "null-one"), _BOUNDED),
    (("node", "add-remove"), ("node-bounded", "add-remove"), _BOUNDED),
    (("node", "replace-one"), ("node-record", "replace-one"), _RECORD),
    (("node", "add-remove"), ("node-record", "add-remove"), _ABSENT),
    (("node-record", "replace-one"), ("node-features", "replace-one"), _OWN_LIST),
    (("node", "replace-one"), ("edge", "add-remove"), _ONE_EDGE),
)

IMPLICATIONS: tuple[Implication, ...] = tuple(
    Implication(stronger=stronger, weaker=weaker, proof=proof) for stronger, weaker, proof in _STEPS
)


def notion(claim: Claim) -> Notion:
    """The neighbouring relation of a claim.

    Args:
        claim: any.
    """
    return Notion(
        privacy_unit=claim.privacy_unit,
        relation=claim.relation,
        degree_bound=claim.degree_bound,
    )


def notion_implies(stronger: Notion, weaker: Notion) -> bool:
    """Whether every pair of `weaker`-neighbours is a pair of `stronger`-neighbours.

    Guarantee: if so, a claim under `stronger` holds under `weaker` at the same epsilon and delta;
    `IMPLICATIONS` has a proof of each step.

    Args:
        stronger, weaker: unit, relation and degree bound. A weaker notion may have a smaller bound (fewer
            graphs), never a larger one.

    Source: docs/accounting.md, theorem 10.
    """
    if (stronger.privacy_unit, stronger.relation) not in _reaching(weaker):
        return False
    if stronger.degree_bound is None:
        return True
    return weaker.degree_bound is not None and weaker.degree_bound <= stronger.degree_bound


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Whether claims may be in one ranking, the notion they share, and the reason."""

    allowed: bool
    reason: str
    notion: Notion | None = None


def may_rank_together(claims: Sequence[Claim]) -> Ranking:
    """Whether runs with these claims may be ranked against each other.

    They may if the notions of all claims imply the notion of one of them (a guarantee that all runs have),
    and if all are proved or all are as published.

    Args:
        claims: one per run, of equal budgets.

    Returns:
        whether, why, and the notion under which all hold.

    Raises:
        ValueError: no claim is given.

    Source: docs/accounting.md, theorem 10.
    """
    checks.require(len(claims) > 0, "claims", "hold at least one claim", claims)
    statuses = sorted({claim.status for claim in claims})
    if len(statuses) > 1:
        return Ranking(
            allowed=False,
            reason="proved and as-published claims stand in different rankings: the second kind "
            "may not hold for what was run",
        )
    notions = list(dict.fromkeys(notion(claim) for claim in claims))
    for candidate in notions:
        if all(notion_implies(other, candidate) for other in notions):
            return Ranking(allowed=True, reason=f"all hold for {candidate}", notion=candidate)
    listed = "; ".join(str(item) for item in notions)
    return Ranking(
        allowed=False, reason=f"no guarantee of one follows from those of all others: {listed}"
    )


def _reaching(target: Notion) -> set[tuple[str, str]]:
    """All (unit, relation) that imply the target, including itself."""
    found = {(target.privacy_unit, target.relation)}
    frontier = list(found)
    while frontier:
        node = frontier.pop()
        for step in IMPLICATIONS:
            if step.weaker == node and step.stronger not in found:
                found.add(step.stronger)
                frontier.append(step.stronger)
    return {(str(unit), str(relation)) for unit, relation in found}
