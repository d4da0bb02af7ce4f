"""Privacy claims, which are stored with every result.

A claim states its neighbouring graphs (unit and relation), epsilon and delta, how they were computed, what is
assumed, and its caveats. `implications.py` decides which claims may be in one ranking; docs/soundness.md
explains each caveat.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_CEILING, Decimal
from typing import Any, Literal, get_args

from dpgnn.accountants.caveats import CAVEATS
from dpgnn.accountants.events import RELATIONS, Relation
from dpgnn.core import checks

PrivacyUnit = Literal["node-features", "node-record", "node-bounded", "node", "edge"]
Status = Literal["proved", "as-published"]
Released = Literal["weights", "weights+predictions", "noisy-state"]
Selection = Literal["none", "public", "validation-unaccounted", "accounted"]
Arithmetic = Literal["real", "rounded-sums", "rounded-sums-assumed", "float-caveat"]
Answers = Literal["everyone", "own-record", "none"]

PRIVACY_UNITS: tuple[PrivacyUnit, ...] = get_args(PrivacyUnit)
ANSWERS: tuple[Answers, ...] = get_args(Answers)  # the first is the strongest

# relations that are defined for each unit
UNIT_RELATIONS: dict[PrivacyUnit, tuple[Relation, ...]] = {
    "node-features": ("replace-one",),
    "node-record": ("add-remove", "replace-one", "null-one"),
    "node-bounded": ("add-remove", "replace-one", "null-one"),
    "node": ("add-remove", "replace-one", "null-one"),
    "edge": ("add-remove",),
}

_PROTECTS = {
    "node-features": "the features and the label of one node; the structure is public",
    "node-record": (
        "the features, the label and the own edge list of one node, but not that a neighbour's "
        "record still mentions it"
    ),
    "node-bounded": "one node with all its edges, in graphs whose degrees are at most {degree_bound}",
    "node": "one node with all its edges",
    "edge": "one undirected edge; features and labels are public",
}
_RELATION_WORDS = {
    "add-remove": "is present in one graph and absent in the other",
    "replace-one": "has one value in one graph and any other value in the other",
    "null-one": (
        "is as it is in one graph and emptied (features zero, label the first class, no edges) in the "
        "other"
    ),
}
_SELECTION_WORDS = {
    "none": "no choice was made from results",
    "public": "choices were made on public data",
    "validation-unaccounted": "choices were made on private validation nodes and are not counted",
    "accounted": "choices were made privately and are counted",
}
_ARITHMETIC_WORDS = {
    "real": "The proof holds for the computation as it was run.",
    "rounded-sums": (
        "The proof covers noise, sums and rounding to the last bit, and takes each record's term as a "
        "function of that record alone to the last bit. Rounding is covered for graphs with at most twice "
        "the nodes, and twice the training nodes, that the plan counts on."
    ),
    "rounded-sums-assumed": (
        "The proof covers noise, sums and rounding to the last bit; that each record's term is a function "
        "of that record alone to the last bit is assumed of the GPU it was computed on, and not shown. "
        "Rounding is covered for graphs with at most twice the nodes, and twice the training nodes, that the "
        "plan counts on."
    ),
    "float-caveat": "The proof is for real numbers; the run used floating point.",
}


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One guarantee.

    Args:
        privacy_unit: in what neighbouring graphs differ.
        relation: how they differ; must be defined for the unit (`UNIT_RELATIONS`).
        degree_bound: the declared largest degree D; required for `node-bounded`, None otherwise.
        epsilon: >= 0; math.inf means that there is no finite guarantee.
        delta: in [0, 1).
        accountant: what computed it, e.g. "pld", "gdp", "rdp", "dpgnn-theorem-1".
        status: "proved", or "as-published" for the publication's own claim.
        caveats: ids of `caveats.CAVEATS`; a proved claim has none that voids it.
        assumed_public: facts that the proof takes as public, e.g. "number of training nodes".
        released: what is released under this claim.
        selection: how options were chosen.
        arithmetic: whether the proof covers floating point.

    Raises:
        ValueError: an unknown word, a relation that is not defined for the unit, a missing degree bound, an
            unknown caveat, or a voiding caveat on a proved claim.
    """

    privacy_unit: PrivacyUnit
    relation: Relation
    degree_bound: int | None = None
    epsilon: float
    delta: float
    accountant: str
    status: Status
    caveats: tuple[str, ...] = ()
    assumed_public: tuple[str, ...] = ()
    released: Released = "weights"
    selection: Selection = "none"
    arithmetic: Arithmetic = "float-caveat"

    def __post_init__(self) -> None:
        checks.one_of("privacy_unit", self.privacy_unit, PRIVACY_UNITS)
        checks.one_of("relation", self.relation, RELATIONS)
        allowed = UNIT_RELATIONS[self.privacy_unit]
        rule = f"be one of {', '.join(allowed)} for the unit {self.privacy_unit}"
        checks.require(self.relation in allowed, "relation", rule, self.relation)
        if self.privacy_unit == "node-bounded":
            if self.degree_bound is None:
                checks.fail("degree_bound", "be declared for node-bounded", None)
            checks.at_least("degree_bound", self.degree_bound, 0)
        elif self.degree_bound is not None:
            rule = f"be None for the unit {self.privacy_unit}"
            checks.fail("degree_bound", rule, self.degree_bound)
        if not (isinstance(self.epsilon, (int, float)) and self.epsilon >= 0):
            checks.fail("epsilon", "be >= 0 or inf", self.epsilon)
        checks.require(0 <= self.delta < 1, "delta", "be in [0, 1)", self.delta)
        checks.one_of("status", self.status, get_args(Status))
        checks.one_of("released", self.released, get_args(Released))
        checks.one_of("selection", self.selection, get_args(Selection))
        checks.one_of("arithmetic", self.arithmetic, get_args(Arithmetic))
        for name in self.caveats:
            checks.one_of("caveat", name, CAVEATS)
        voided = [name for name in self.caveats if CAVEATS[name].voids]
        if self.status == "proved" and voided:
            remedy = f"{', '.join(voided)} breaks the guarantee; say as-published"
            checks.fail("status", "not be proved", self.status, remedy)

    def to_dict(self) -> dict[str, Any]:
        """The claim as JSON values (tuples as lists, an infinite epsilon as "inf")."""
        values = asdict(self)
        values["caveats"], values["assumed_public"] = list(self.caveats), list(self.assumed_public)
        values["epsilon"] = "inf" if math.isinf(self.epsilon) else self.epsilon
        return values


def from_dict(values: dict[str, Any]) -> Claim:
    """The claim that `Claim.to_dict` wrote.

    Args:
        values: field -> JSON value.

    Raises:
        ValueError, TypeError: a field is missing, unknown or out of range.
    """
    fields = dict(values)
    fields["epsilon"] = float(fields["epsilon"])
    for name in ("caveats", "assumed_public"):
        fields[name] = tuple(fields.get(name, ()))
    return Claim(**fields)


def mark_large_delta(claims: tuple[Claim, ...], delta: float, num_units: int) -> tuple[Claim, ...]:
    """Add the caveat `delta-too-large` to the claims if delta exceeds 1 / (10 units).

    Args:
        claims: those with delta 0 or with the caveat already are returned unchanged.
        delta: of the budget; claims of parts may have another.
        num_units: public number of protected units; for edges, whose number is private, that of nodes.
    """
    # a tolerance of one in a thousand, for deltas written with four digits
    if delta <= 1.001 / (10 * num_units):
        return claims
    return tuple(
        claim
        if claim.delta == 0 or "delta-too-large" in claim.caveats
        else replace(claim, caveats=(*claim.caveats, "delta-too-large"))
        for claim in claims
    )


def in_words(claim: Claim) -> str:
    """The claim in sentences.

    epsilon is shown with 4 digits and delta with 3, both rounded up, so that the sentences are true.

    Args:
        claim: any.
    """
    protects = _PROTECTS[claim.privacy_unit].format(degree_bound=claim.degree_bound)
    unbounded = math.isinf(claim.epsilon)
    if unbounded:
        opening = f"No finite epsilon at delta {_rounded_up(claim.delta, 3)}"
    else:
        epsilon, delta = _rounded_up(claim.epsilon, 4), _rounded_up(claim.delta, 3)
        opening = f"({epsilon}, {delta})-differential privacy"
    if unbounded and claim.status == "proved":
        status = "Nothing is proved for what was run."
    elif claim.status == "proved":
        status = f"The guarantee is proved (accountant: {claim.accountant})."
    else:
        status = f"The figure is as published (accountant: {claim.accountant}), not proved here."
    lines = [
        f"{opening} for {protects}.",
        f"Two graphs are compared in which that element {_RELATION_WORDS[claim.relation]}.",
        status,
        f"What is released: {claim.released.replace('-', ' ').replace('+', ' and ')}.",
        f"Taken as public: {', '.join(claim.assumed_public) or 'nothing beyond the method'}.",
        f"Selection: {_SELECTION_WORDS[claim.selection]}.",
    ]
    if not unbounded:
        lines.append(_ARITHMETIC_WORDS[claim.arithmetic])
    if claim.caveats:
        listed = "; ".join(f"{CAVEATS[name].title} ({name})" for name in claim.caveats)
        lines.append(f"Caveats: {listed}.")
    return " ".join(lines)


def _rounded_up(value: float, digits: int) -> str:
    """The value rounded up to this many significant digits, as text."""
    exact = Decimal(repr(float(value)))
    if exact == 0:
        return "0"
    last = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    return f"{float(exact.quantize(last, rounding=ROUND_CEILING)):.{digits}g}"
