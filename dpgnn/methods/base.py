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
from typing import TYPE_CHECKING, Any, get_args

from dpgnn.accountants.claims import Answers
from dpgnn.accountants.plan import Budget, Ledger, Plan
from dpgnn.core.checks import one_of
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import Store, sha256_json
from dpgnn.methods.entry import (
    MODES,
    Entry,
    Facts,
    Mode,
    Prepared,
    SamplerSpec,
    Support,
    facts_of,
    pairs,
)
from dpgnn.methods.queries import Leaks, Queries

if TYPE_CHECKING:
    import numpy as np
    import torch

    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.releases import Release
    from dpgnn.methods.scores import Score
    from dpgnn.methods.tensors import States
    from dpgnn.samplers.promise import Owner

__all__ = [
    "MODES", "Asked", "Context", "Degrees", "Entry", "Facts", "Fitted", "Method", "Mode", "Performance",
    "PlannedRun", "Prediction", "Prepared", "Progress", "SamplerSpec", "SilentContext", "SilentProgress",
    "Support", "facts_of", "no_runs", "nonprivate_plan", "pairs",
]  # fmt: skip


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
    """Progress lines: a terminal has one line that is updated, a log gets plain lines."""

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

    @classmethod
    def of_streams(cls, plan: Plan, streams: Streams) -> Context:
        """A context that only hands out streams."""
        return cls(ledger=Ledger(plan), streams=streams, store=Store(None))

    def progress(self, total: int, stage: str = "train") -> Progress:
        """A progress reporter for a stage of `total` steps."""
        return Progress(f"{self.label} {stage}", total)


class SilentProgress(Progress):
    """A progress line that shows nothing."""

    def __init__(self) -> None:
        super().__init__("", 1)

    def update(self, step: int, **shown: Any) -> None:
        """Do nothing."""


class SilentContext(Context):
    """A context whose stages show nothing."""

    def progress(self, total: int, stage: str = "train") -> Progress:
        """A line that shows nothing."""
        return SilentProgress()


@dataclass(frozen=True, kw_only=True, eq=False)
class PlannedRun:
    """What a fit gets; as sensitive as the graph.

    Attributes:
        entry: method, mode, unit, relation and options.
        graph: as the method sees it, edges of the setting.
        split: nodes to train, select and test on.
        prepared: the prepared sample, or None.
        plan: what may be done to private data; made from public facts.
        context: ledger, streams, checkpoints, speed settings.
    """

    entry: Entry
    graph: Graph
    split: Split
    prepared: Prepared | None
    plan: Plan
    context: Context


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What a fit leaves.

    Attributes:
        state: named tensors that are released with the model (weights, noisy aggregates); they are
            covered by the plan's claims.
        kept: named tensors that answers read and that are not released: a row for each node, to be used for
            answers to that node alone, or statistics of a head without a guarantee. A release writes them to
            a file of their own that only its owner may read; a study does not write them.
        history: one row per checkpoint of training (step, epsilon, ...), for the training curves.
        details: what the record shall say of the fit.
    """

    state: Mapping[str, torch.Tensor]
    kept: Mapping[str, torch.Tensor] = field(default_factory=dict)
    history: tuple[Mapping[str, Any], ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Answers for some nodes.

    Attributes:
        logits: float32, shape (num_nodes_asked, num_classes).
        answers: who may see them under the claims (docs/accounting.md, answers): "everyone"; "own-record",
            the asked node alone, whose own record an answer reads; "none", where inference reads other
            records of the evaluation graph afresh.
        note: why, in words.
    """

    logits: torch.Tensor
    answers: Answers
    note: str = ""

    def __post_init__(self) -> None:
        one_of("answers of a prediction", self.answers, get_args(Answers))


def own_features_only(entry: Entry, logits: torch.Tensor) -> Prediction:
    """Answers that read released weights and the asked node's own features, and nothing else.

    Guarantee: unit and relation of the first claim, jointly: for every node v, the weights and all answers
    about other nodes are covered for v's record; the answer about v is for v alone (`own-record`).

    Args:
        entry: of the run.
        logits: float, shape (num_nodes, num_outputs).
    """
    return Prediction(
        logits=logits,
        answers="none" if entry.mode == "nonprivate" else "own-record",
        note="an answer reads the released weights and the asked node's own features only",
    )


@dataclass(frozen=True, kw_only=True)
class Degrees:
    """Degree bounds of an entry; all public.

    Attributes:
        slots: K or D, how many nodes one record may be read by.
        declared: D that the graph is promised to keep; None where nothing is promised.
        minimum: degree that every node is promised to have.
    """

    slots: int = 4
    declared: int | None = None
    minimum: int = 0


@dataclass(frozen=True, kw_only=True)
class Asked:
    """How `dpgnn account` asks a method; without it every option is given by `--set`.

    Attributes:
        steps: option that holds the number of steps, hops or releases; "" where there is none.
        counted: what it counts, in the plural.
        fixed_steps: privacy units under which the number of steps is no choice.
        flags: flag of the command line -> option.
        published: options of the paper's own accounting, where the default is another.
        structure: facts that a published plan measures on a graph -> value where no graph is at hand.
    """

    steps: str = ""
    counted: str = "releases"
    fixed_steps: tuple[str, ...] = ()
    flags: Mapping[str, str] = field(default_factory=dict)
    published: Mapping[str, Any] = field(default_factory=dict)
    structure: Mapping[str, Any] = field(default_factory=dict)


def no_runs(entry: Entry, plan: Plan) -> tuple[tuple[Entry, Plan], ...]:
    """Of a method whose fit executes no runs of another."""
    return ()


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
        fit: (run: PlannedRun) -> Fitted.
        predict: (entry, fitted, graph, node_idx) -> Prediction: entry and fitted of the run, the evaluation
            graph, which is private, and node_idx: int64, shape (num_asked,).
        check: (entry, path) -> raises ValueError where options, mode and unit do not go together.
        check_sizes: (entry, facts) -> raises ValueError where the public sizes do not fit the entry, before a
            run begins.
        fixed_sizes: entry -> whether it takes its data set's own numbers of features and classes alone, so
            that graphs of an audit must have them.
        outside_code: entry -> hash of code outside the package that it runs, "" for none; None where no
            entry has any.
        example: smallest sensible options; the contract tests run every mode with them.
        more_examples: smallest options for pairs of unit and relation that `example` does not have.
        restartable: a restart of a release goes on with the first draw of every stage; where it is False and
            a plan has several mechanisms, a release keeps no checkpoint and starts anew, so that no result
            depends on two draws of a noise that is paid for once.
        uses_edges: False for a method that never reads an edge.
        why_not_on_disk: entry -> why it needs the whole graph in memory; "" where batches and answers read
            what they need of features and arcs that stay on disk.
        list_owner: whose record holds an arc under `node-record`, "source" or "target", for a method that has
            no sampler (a sampler's promise states it); audits change the arcs of that end alone.
        score: entry -> how far the number of right answers on validation nodes moves between neighbours, for
            an accounted choice of options (`selected`), which refuses methods that do not state it.
        inner: (entry, plan) -> entries and plans of other methods that its fit executes as runs of its own;
            audits examine them too.
        releases: functions that make noisy values other than clipped sums (`releases.Release`); a planned
            mechanism that neither a DP-SGD loop nor one of them executes fails every audit.
        degrees: entry -> the public degree bounds of its graph, for worst-case graphs of audits.
        counts_own_roots: its events count roots that only the graph itself has, so a plan for another graph
            (of an audit) is made from that graph's facts.
        state: what a claim releases -> names (patterns) of tensors that a fit may leave beside weights, noisy
            states and logits, see `run.method_checks.STATE`.
        tensors: names and shapes of what a fit leaves, from its own networks; None where it does not say, and
            `dpgnn verify` then says that they are not checked.
        shows_nodes: entry -> whether a tensor that is released at node level has a row for every node, so its
            shape tells how many there are.
        asked: how `dpgnn account` asks it.
        queries: how a fitted model answers about other features or graphs; None refuses every query.
        leaks: what attacks made for one kind of release need; what is not stated is not attacked.
        citation: BibTeX key in data/papers/methods.bib; None for textbook baselines.
    """

    name: str
    title: str
    config: type
    source: str
    modes: tuple[Mode, ...]
    supports: tuple[Support, ...] = ()
    plan: Callable[[Entry, Facts, Budget], Plan]
    fit: Callable[[PlannedRun], Fitted]
    predict: Callable[[Entry, Fitted, Graph, np.ndarray], Prediction]
    sampler: Callable[[Entry], SamplerSpec | None] = lambda entry: None
    prepare: Callable[[Graph, Split, SamplerSpec, np.random.Generator], Prepared] | None = None
    check: Callable[[Entry, str], None] | None = None
    check_sizes: Callable[[Entry, Facts], None] = lambda entry, facts: None
    fixed_sizes: Callable[[Entry], bool] = lambda entry: False
    outside_code: Callable[[Entry], str] | None = None
    example: Mapping[str, Any] = field(default_factory=dict)
    more_examples: tuple[Mapping[str, Any], ...] = ()
    restartable: bool = False
    uses_edges: bool = True
    why_not_on_disk: Callable[[Entry], str] = lambda entry: (
        f"{entry.method} reads all features and edges at once"
    )
    list_owner: Owner | None = None
    score: Callable[[Entry], Score] | None = None
    inner: Callable[[Entry, Plan], tuple[tuple[Entry, Plan], ...]] = no_runs
    releases: Callable[[], tuple[Release[..., Any], ...]] = tuple
    degrees: Callable[[Entry], Degrees] = lambda entry: Degrees()
    counts_own_roots: bool = False
    state: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tensors: States | None = None
    shows_nodes: Callable[[Entry], bool] = lambda entry: False
    asked: Asked = Asked()
    queries: Queries | None = None
    leaks: Leaks = Leaks()
    citation: str | None = None

    def sees(self, graph: Graph) -> Graph:
        """The graph as the method gets it: without edges if `uses_edges` is False.

        Guarantee: a method that uses no edges cannot leak one.

        Args:
            graph: the whole graph.
        """
        if self.uses_edges:
            return graph
        return replace(graph, edge_index=graph.edge_index[:, :0])

    def with_outside(self, code: str, entry: Entry) -> str:
        """A hash of the package's code joined with that of the code outside it, where the entry runs any."""
        outside = "" if self.outside_code is None else self.outside_code(entry)
        return sha256_json([code, outside]) if outside else code

    def has(self, entry: Entry) -> bool:
        """Whether the entry's mode, unit and relation go together; see `check_entry`.

        Args:
            entry: of a study.
        """
        try:
            self.check_entry(entry, entry.name)
        except ValueError:
            return False
        return True

    def check_entry(self, entry: Entry, path: str) -> None:
        """Check mode, unit and relation against what the method has.

        Args:
            entry: of a study or a call.
            path: where it stands, for the message.

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
    """The plan of a run without privacy: no mechanism, no claim.

    Guarantee: none, and no claim is made.

    Args:
        entry, facts, budget: as for `Method.plan`; the budget is not spent.
    """
    return Plan(facts=facts.recorded())
