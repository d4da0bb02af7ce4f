"""A fitted private model: what it claims, and answers that say who may see them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn import methods
from dpgnn.accountants.claims import Answers, from_dict
from dpgnn.core import config as strict
from dpgnn.core.checks import fail, require
from dpgnn.methods.base import Entry, Facts, Fitted
from dpgnn.records.schema import Record, answers_of
from dpgnn.release.data import graph_of, positions
from dpgnn.run.method_checks import check_answer

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.accountants import claims
    from dpgnn.data.graph import Graph

# in the owner's file beside the rows: whose they are
ROWS_FOR = "rows_for"
SHOWN_TO: Mapping[Answers, str] = {
    "everyone": "Everyone may see its answers.",
    "own-record": "An answer may be shown to the asked node alone: it reads that node's own record.",
    "none": "No claim covers its answers: they read records of other nodes afresh. Show the weights alone.",
}
SEEDED = (
    "This is no release: noise and batches follow from a seed, and who knows the seed can take the noise "
    "off. The claim below holds for a fit without `seed`."
)


@dataclass(frozen=True, kw_only=True)
class Names:
    """Names that their owner declares public; empty where nothing is declared.

    Attributes:
        classes: of the classes in their order.
        features: of the columns of x in their order.
        ids: of the nodes of the training graph in their order.
    """

    classes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for kind in ("classes", "features", "ids"):
            names = getattr(self, kind)
            require(len(set(names)) == len(names), kind, "be different names", "a name twice")


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What a model guarantees; `print(model.claim)` shows its words.

    Attributes:
        epsilon, delta: of the first claim, the one that was calibrated for; epsilon is inf without privacy.
        privacy_unit, relation: what two graphs differ in, and how; None without privacy.
        is_release: noise was drawn in secret; False for a model with a seed.
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


@dataclass(frozen=True, kw_only=True)
class Answered:
    """Answers about nodes.

    Attributes:
        nodes: int64, shape (num_asked,), their positions.
        classes: int64, shape (num_asked,); uint8 (num_asked, num_labels) for several labels a node.
        names: of the classes of the answers, where the model has names and one class a node.
        probabilities: float32, shape (num_asked, num_classes): softmax, or each label's own.
        answers: who may see them; `covered` is False where nobody may.
        note: why.
    """

    nodes: np.ndarray
    classes: np.ndarray
    names: tuple[str, ...] = ()
    probabilities: np.ndarray
    answers: Answers
    note: str

    @property
    def covered(self) -> bool:
        """Whether the claim covers showing these answers to those whom `answers` names."""
        return self.answers != "none"


@dataclass(frozen=True, kw_only=True)
class Model:
    """A fitted model and its record.

    Attributes:
        record: what the run states of itself: plan, claims, versions; no score in a release.
        state: tensors that are released.
        kept: rows that answers to their own nodes read; their owner's alone.
        names: names that are public.
    """

    record: Record
    state: Mapping[str, Tensor]
    kept: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    names: Names = Names()

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
        return Guarantee(
            epsilon=math.inf if first is None else first.epsilon,
            delta=float(self.record.budget["delta"]) if first is None else first.delta,
            privacy_unit=None if first is None else first.privacy_unit,
            relation=None if first is None else first.relation,
            is_release=release and bool(found),
            public=() if first is None else first.assumed_public,
            answers=answers,
            caveats=() if first is None else first.caveats,
            claims=found,
            words="\n".join(words),
        )

    def predict(
        self,
        data: Any,
        nodes: Any = None,
        *,
        features: Sequence[str] | None = None,
        directed_graph: bool = False,
    ) -> Answered:
        """Answers about nodes of a graph.

        Guarantee: see `answers` of what comes back; it says to whom the claims let an answer be shown.

        Args:
            data: a PyG `Data` with the columns of x that the model was fitted on; labels are read by methods
                whose answers read the asked node's own record.
            nodes: positions or a mask, shape (num_nodes,); None asks about all.
            features: names of the columns, compared with the model's where it has names.
            directed_graph: as in `fit`.

        Raises:
            ValueError: other columns or classes, a node that is not there, or a graph that the model cannot
                answer about; names what is wrong.
        """
        graph = self._graph(data, directed_graph, features)
        idx, entry, method = positions(nodes, graph.num_nodes), self.entry, self._method
        fitted = Fitted(state=self.state, kept=self.kept)
        found = method.predict(entry, fitted, method.sees(graph), idx)
        logits = check_answer(entry, found, len(idx), graph.num_classes).astype(np.float64)
        if graph.task == "multilabel":
            shares, classes = 1 / (1 + np.exp(-logits)), (logits > 0).astype(np.uint8)
        else:
            shares = np.exp(logits - logits.max(1, keepdims=True))
            shares, classes = shares / shares.sum(1, keepdims=True), logits.argmax(1)
        named = bool(self.names.classes) and classes.ndim == 1
        return Answered(
            nodes=idx,
            classes=classes,
            names=tuple(self.names.classes[c] for c in classes) if named else (),
            probabilities=shares.astype(np.float32),
            answers=found.answers,
            note=found.note,
        )

    @property
    def _method(self) -> methods.Method:
        return methods.get(self.record.entry["method"])

    def _graph(self, data: Any, directed_graph: bool, features: Sequence[str] | None) -> Graph:
        facts, names = self.facts, self.names.features
        if features is not None and names and tuple(features) != names:
            wrong = [name for name in features if name not in names]
            missing = [name for name in names if name not in features]
            found = {"more": wrong, "missing": missing} if wrong or missing else "another order"
            fail("columns of x", "be those of the fit in their order", found)
        several = facts.task == "multilabel"
        graph = graph_of(
            data,
            name="data",
            num_classes=facts.num_classes,
            directed=directed_graph,
            several=several,
        )
        remedy = "give the columns of the fit in their order"
        rule = f"be {facts.num_features}"
        require(
            graph.num_features == facts.num_features,
            "columns of x",
            rule,
            graph.num_features,
            remedy,
        )
        right = graph.num_classes == facts.num_classes
        require(right, "number of classes", f"be {facts.num_classes}", graph.num_classes)
        wanted = self.kept.get(ROWS_FOR)
        if wanted is not None and rows_for(graph).tolist() != wanted.tolist():
            fail(
                "data", "be the graph of the fit", "other features or nodes",
                "the model keeps noisy rows of the nodes of that graph alone",
            )  # fmt: skip
        return graph


def rows_for(graph: Graph) -> Tensor:
    """Whose rows are kept: uint8, shape (32,), a hash of the features; as private as they are."""
    import torch

    from dpgnn.data.files.content import features_hash

    return torch.tensor(list(bytes.fromhex(features_hash(graph))), dtype=torch.uint8)
