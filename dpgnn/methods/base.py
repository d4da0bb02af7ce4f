"""The method protocol: prepare, plan, fit, predict.

A method is one file and one line in `methods/__init__.py`. `prepare` makes files that are as sensitive as
the graph and never adds noise; `plan` sees public facts only; `fit` executes the plan, each mechanism
entering the ledger first; `predict` answers and says whether a claim covers the answer.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from dpgnn.accountants.plan import Budget, Ledger, Plan
from dpgnn.core.checks import one_of
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import Store

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import torch

    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split

Mode = Literal["nonprivate", "published", "sound"]
MODES = ("nonprivate", "published", "sound")


@dataclass(frozen=True, kw_only=True)
class Support:
    """A pair of privacy unit and neighbouring relation a method can be run under."""

    privacy_unit: str
    relation: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A line of a study: a method with everything that defines it.

    Attributes:
        name: the entry's name, the workflow's wildcard.
        method: name in the table of methods.
        mode: nonprivate, published or sound.
        privacy_unit: what one neighbour differs in; None without privacy.
        relation: how (add-remove, replace-one, null-one); None without privacy.
        options: the method's own frozen configuration.
    """

    name: str
    method: str
    mode: Mode
    privacy_unit: str | None
    relation: str | None
    options: Any


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Public facts a plan may read; declared, never measured on what they protect.

    Attributes:
        num_nodes: nodes of the graph (N).
        num_train: training nodes; membership of the split is public.
        num_features: columns of x.
        num_classes: classes or labels.
        task: "multiclass" or "multilabel".
        structure: facts that depend on the structure (number of subgraphs M, ...); a plan that reads one
            may only claim a unit under which the structure is public, and the record says so.
    """

    num_nodes: int
    num_train: int
    num_features: int
    num_classes: int
    task: str
    structure: Mapping[str, Any] = field(default_factory=dict)

    def recorded(self) -> dict[str, Any]:
        """The facts as the record holds them."""
        plain = {
            name: getattr(self, name)
            for name in ("num_nodes", "num_train", "num_features", "num_classes", "task")
        }
        return plain | {"depends_on_structure": dict(self.structure)}


@dataclass(frozen=True, kw_only=True)
class SamplerSpec:
    """Which prepared sample an entry needs; entries with equal specs share one file.

    Attributes:
        name: the sampler's name, first part of the file's name.
        params: every parameter that decides the sample.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """SAMPLER-HASH8, the file's stem."""
        from dpgnn.core.storage import sha256_json

        return f"{self.name}-{sha256_json({'name': self.name, 'params': self.params})[:8]}"


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A prepared sample: as sensitive as the graph, never noised.

    Attributes:
        kind: subgraphs, partition, rows or edges (the columns are those of DESIGN).
        table: the sample.
        facts: public facts a plan may read, and those that depend on the structure under `structure`.
        diagnostics: counts for people; sensitive, kept in another file and never read by a plan.
    """

    kind: str
    table: pa.Table
    facts: Mapping[str, Any] = field(default_factory=dict)
    diagnostics: Mapping[str, Any] = field(default_factory=dict)


def facts_of(graph: Graph, split: Split, prepared: Prepared | None) -> Facts:
    """The public facts a plan may read."""
    return Facts(
        num_nodes=graph.num_nodes,
        num_train=len(split.train_idx),
        num_features=graph.num_features,
        num_classes=graph.num_classes,
        task=graph.task,
        structure={} if prepared is None else dict(prepared.facts),
    )


@dataclass(frozen=True, kw_only=True)
class Performance:
    """What only makes a run faster: never part of the mechanism, the plan or the claims.

    Attributes:
        device: cpu or cuda.
        num_threads: threads of each process.
        chunk_size: rows of trees handled at once; None chooses from the device.
        num_processes: processes that share the per-root gradients of one run, where the method can.
    """

    device: str = "cpu"
    num_threads: int = 1
    chunk_size: int | None = None
    num_processes: int = 1


class Progress:
    """A line now and then: to a terminal as a bar that stays on one line, to a log as plain lines."""

    def __init__(self, label: str, total: int, *, every_seconds: float = 5.0) -> None:
        self.label, self.total = label, total
        self._terminal = sys.stderr.isatty()
        self._every = 0.2 if self._terminal else every_seconds
        self._start = self._last = time.monotonic()

    def update(self, step: int, **shown: Any) -> None:
        """Show step, steps a second, remaining time and `shown` (public values only in a release)."""
        now = time.monotonic()
        if now - self._last < self._every and step < self.total:
            return
        self._last = now
        rate = step / max(now - self._start, 1e-9)
        left = (self.total - step) / rate if rate > 0 else 0.0
        words = " ".join(f"{key}={value}" for key, value in shown.items())
        text = f"{self.label}: {step}/{self.total} {rate:.1f}/s {left:.0f} s left {words}".rstrip()
        end = "\n" if not self._terminal or step >= self.total else "\r"
        print(text, end=end, file=sys.stderr, flush=True)


@dataclass(frozen=True, kw_only=True)
class Context:
    """What surrounds a fit: ledger, named streams, checkpoints, speed settings."""

    ledger: Ledger
    streams: Streams
    store: Store
    performance: Performance = Performance()
    label: str = "run"

    def progress(self, total: int, stage: str = "train") -> Progress:
        """A progress reporter for a stage of `total` steps."""
        return Progress(f"{self.label} {stage}", total)


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What a fit leaves.

    Attributes:
        state: named tensors that are released with the model (weights, noisy aggregates); they are
            covered by the plan's claims, and `predict` needs nothing else.
        history: one row per checkpoint of training (step, epsilon, ...), for the training curves.
        details: what the record shall say of the fit.
    """

    state: Mapping[str, torch.Tensor]
    history: tuple[Mapping[str, Any], ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Answers for some nodes.

    Attributes:
        logits: float32, shape (num_nodes_asked, num_classes).
        covered: whether the claims cover the answers themselves; False where inference reads private
            features or edges of the evaluation graph afresh.
        note: why, in words.
    """

    logits: torch.Tensor
    covered: bool
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Method:
    """One method of the table; see `docs/add_a_method.md`.

    Attributes:
        name: its name in configurations.
        title: its name in tables.
        config: the frozen dataclass of its options.
        source: where it was published.
        modes: the modes it has.
        supports: pairs of unit and relation it has proofs or published claims for.
        sampler: which prepared sample an entry needs; returns None where none is needed.
        prepare: (graph, split, spec, rng) -> Prepared; graph edges are those of the setting.
        plan: (entry, facts, budget) -> Plan; public facts only.
        fit: (entry, graph, split, prepared, plan, context) -> Fitted.
        predict: (entry, fitted, graph, node_idx) -> Prediction.
        check: (entry, path) -> raises ValueError where options, mode and unit do not go together.
        example: smallest sensible options; the contract tests run every mode with them.
        restartable: a restart of a release goes on with the first draw of every stage; where it is False and
            a plan has several mechanisms, a release keeps no checkpoint and starts anew, so that no result
            depends on two draws of a noise that is paid for once.
        uses_edges: False for a method that never reads an edge.
        citation: BibTeX key in data/papers/methods.bib; None for textbook baselines.
    """

    name: str
    title: str
    config: type
    source: str
    modes: tuple[Mode, ...]
    supports: tuple[Support, ...] = ()
    plan: Callable[[Entry, Facts, Budget], Plan]
    fit: Callable[[Entry, Graph, Split, Prepared | None, Plan, Context], Fitted]
    predict: Callable[[Entry, Fitted, Graph, np.ndarray], Prediction]
    sampler: Callable[[Entry], SamplerSpec | None] = lambda entry: None
    prepare: Callable[[Graph, Split, SamplerSpec, np.random.Generator], Prepared] | None = None
    check: Callable[[Entry, str], None] | None = None
    example: Mapping[str, Any] = field(default_factory=dict)
    restartable: bool = False
    uses_edges: bool = True
    citation: str | None = None

    def sees(self, graph: Graph) -> Graph:
        """The graph as the method gets it: what it says it does not read is not there."""
        if self.uses_edges:
            return graph
        return replace(graph, edge_index=graph.edge_index[:, :0])

    def has(self, entry: Entry) -> bool:
        """Whether the entry's mode, unit and relation go together; see `check_entry`."""
        try:
            self.check_entry(entry, entry.name)
        except ValueError:
            return False
        return True

    def check_entry(self, entry: Entry, path: str) -> None:
        """Check mode, unit and relation against what the method has.

        Raises:
            ValueError: the pair is not supported; lists what is.
        """
        one_of(f"mode of {path} (method {self.name})", entry.mode, self.modes)
        pairs = [(pair.privacy_unit, pair.relation) for pair in self.supports]
        if entry.mode != "nonprivate" and (entry.privacy_unit, entry.relation) not in pairs:
            listed = ", ".join(f"{unit} / {relation}" for unit, relation in pairs) or "none"
            raise ValueError(
                f"{path}: privacy_unit / relation must be one of {listed} for method {self.name}, "
                f"got {entry.privacy_unit} / {entry.relation}"
            )
        if self.check is not None:
            self.check(entry, path)


def nonprivate_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """The plan of a run without privacy: no mechanism, no claim."""
    return Plan(facts=facts.recorded())
