"""The result of a fit, and its claims."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpgnn import methods
from dpgnn.accountants.claims import Answers, from_dict
from dpgnn.core import config as strict
from dpgnn.core.checks import require
from dpgnn.methods.base import Entry, Facts
from dpgnn.records.schema import Record, answers_of
from dpgnn.release.expected import looks_up
from dpgnn.release.words import PUBLIC_IDS, SEEDED, SHOWN_TO

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.accountants import claims


@dataclass(frozen=True, kw_only=True)
class Names:
    """Names of classes and features that their owner declares public, and of nodes; empty if there are none.

    Attributes:
        classes: of the classes in their order.
        features: of the columns of x in their order.
        ids: of the nodes of the training graph in order; private unless `public_ids`.
        public_ids: whether the ids are declared public and published with the model.
    """

    classes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    public_ids: bool = False

    def __post_init__(self) -> None:
        for kind in ("classes", "features", "ids"):
            names = getattr(self, kind)
            require(len(set(names)) == len(names), kind, "be different names", "a name twice")
            texts = all(isinstance(name, str) and name for name in names)
            require(texts, f"names of {kind}", "be texts that are not empty", names)
        rule = "stand beside the ids"
        require(bool(self.ids) or not self.public_ids, "public_ids", rule, "no ids")


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """The guarantee of a model; `print(model.claim)` shows it in words.

    Attributes:
        epsilon, delta: of the first claim, the calibrated one; epsilon is inf without privacy.
        privacy_unit, relation: what two graphs differ in, and how; None without privacy.
        is_release: whether noise was drawn in secret; False for a model with a seed.
        public: what the claim takes as public.
        answers: who may see the answers: "everyone", "own-record" (the asked node alone) or "none".
        caveats: ids; each is a paragraph of docs/soundness.md.
        claims: all claims.
        words: all of it in sentences.
    """

    epsilon: float
    delta: float
    privacy_unit: str | None
    relation: str | None
    is_release: bool
    public: tuple[str, ...]
    answers: Answers
    caveats: tuple[str, ...]
    claims: tuple[claims.Claim, ...]
    words: str

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, kw_only=True, repr=False)
class Released:
    """The result of a fit: its record and tensors.

    Attributes:
        record: plan, claims and versions of the run; no score in a release.
        state: tensors that are released.
        kept: rows for the nodes' own answers; kept private by the owner.
        names: names of classes and features that are public, and of nodes.
        directed_graph: whether edges of the fit's graph were directed; public.
    """

    record: Record
    state: Mapping[str, Tensor]
    kept: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    names: Names = Names()
    directed_graph: bool = False

    def __repr__(self) -> str:
        claim = self.claim
        unit = f"{claim.privacy_unit}, {claim.relation}, " if claim.claims else ""
        kind = "a release" if claim.is_release else "no release"
        return f"<{self.record.entry['title']}: {unit}epsilon {claim.epsilon:.4g}, {kind}>"

    @property
    def entry(self) -> Entry:
        """The method with its options, mode, unit and relation."""
        stated = self.record.entry
        names = ("name", "method", "mode", "privacy_unit", "relation")
        options: Any = strict.read(methods.get(stated["method"]).config, stated["options"])
        return Entry(**{name: stated[name] for name in names}, options=options)

    @property
    def facts(self) -> Facts:
        """The public facts that the plan was made from."""
        stated = dict(self.record.facts)
        structure = stated.pop("depends_on_structure", {})
        declared = stated.pop("public_population", False)
        return Facts(**stated, declared=declared, structure=structure)

    @property
    def claim(self) -> Guarantee:
        """What the model guarantees, in words and numbers."""
        found = tuple(
            from_dict({k: v for k, v in claim.items() if k != "words"})
            for claim in self.record.claims
        )
        release = self.record.randomness["kind"] == "release"
        answers = answers_of(self.record)
        first = found[0] if found else None
        words = [SEEDED] if found and not release else []
        words += [str(claim["words"]) for claim in self.record.claims] or ["No privacy is claimed."]
        words.append(SHOWN_TO[answers])
        public = () if first is None else first.assumed_public
        return Guarantee(
            epsilon=math.inf if first is None else first.epsilon,
            delta=float(self.record.budget["delta"]) if first is None else first.delta,
            privacy_unit=None if first is None else first.privacy_unit,
            relation=None if first is None else first.relation,
            is_release=release and bool(found),
            public=(*public, *((PUBLIC_IDS,) if self.names.public_ids else ())),
            answers=answers,
            caveats=() if first is None else first.caveats,
            claims=found,
            words="\n".join(words),
        )

    @property
    def method(self) -> methods.Method:
        return methods.get(self.record.entry["method"])

    @property
    def knows_nodes(self) -> bool:
        """Whether answers read rows of nodes of the fit, so that only these can be asked about.

        Method and options decide it; that the owner's rows lie beside a model does not.
        """
        return "board" in self.state or looks_up(self.entry)
