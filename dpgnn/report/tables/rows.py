"""Row types of the tables that pages also read: a field is a value, its annotation the column that shows it.

Fields are in column order. A field without a column is only for pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

from dpgnn.records.cells import UNCOVERED
from dpgnn.report.statistics.equivalence import MOST_REPEATS, repeats_of_interval
from dpgnn.report.tables.table import (
    CellRow,
    Column,
    epsilon_text,
    format_value,
    interval_text,
)


class RankedRow(Protocol):
    """A row about a ranked entry."""

    @property
    def label(self) -> str: ...
    @property
    def answers(self) -> str: ...


class SpreadRow(Protocol):
    """A row about one entry against another."""

    @property
    def dataset(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def reference_label(self) -> str: ...
    @property
    def epsilon(self) -> str: ...
    @property
    def mean(self) -> float | None: ...
    @property
    def verdict(self) -> str: ...


def marked(row: RankedRow) -> str:
    """The label, with ° if answers read data that no claim covers."""
    return row.label + (UNCOVERED if row.answers == "none" else "")


def _place(row: CellRow) -> str:
    return f"{row.dataset} ({row.setting})"


def _label(row: CellRow) -> str:
    return row.label


def _score_interval(row: SummaryRow) -> str:
    return interval_text(row.low, row.high)


def _difference_interval(row: DifferenceRow | ComparisonRow) -> str:
    return interval_text(row.low, row.high, "points")


def _behind_interval(row: RankingRow) -> str:
    return interval_text(row.behind_low, row.behind_high, "points")


def _gain_interval(row: TunedRow) -> str:
    return interval_text(row.gain_low, row.gain_high, "points")


def _n_of_planned(row: SummaryRow) -> str:
    return str(row.n) if row.n == row.planned else f"{row.n} of {row.planned}"


def _p(row: DifferenceRow | ComparisonRow) -> str:
    """A corrected p value with the number of comparisons it was corrected for."""
    p = format_value(row.p, "p")
    return p if row.p is None else f"{p} (of {row.family})"


def _reference(row: DifferenceRow) -> str:
    budget = row.reference_epsilon
    return row.reference + ("" if budget == "inf" else f" (ε = {budget})")


def _claims_differ(row: ComparisonRow) -> str:
    return row.claims or "may be ranked"


def _caveats(row: ClaimRow) -> str:
    return ", ".join(row.caveats) or "none"


def _proved(row: ClaimRow) -> str:
    if row.proved is not None:
        return epsilon_text(row.proved)
    if row.proved_elsewhere is None:
        return "nothing proved"
    return f"nothing; {epsilon_text(row.proved_elsewhere)} under {row.proved_relation}"


def _measured(row: ClaimRow) -> str:
    return "not audited" if row.measured is None else epsilon_text(row.measured)


def _threads(row: CostRow) -> str:
    return row.threads


Dataset = Annotated[str, Column(header="Data set", show=_place)]
Setting = Annotated[str, Column(header="Setting", form="csv")]
Entry = Annotated[str, Column(header="Entry", show=_label)]
RankedEntry = Annotated[str, Column(header="Entry", show=marked)]
Label = Annotated[str, Column(header="Label", form="csv")]
Epsilon = Annotated[str, Column(header="ε", kind="epsilon")]
Budget = Annotated[str, Column(header="Budget ε", kind="epsilon")]
Verdict = Annotated[str, Column(header="Verdict")]
Pairs = Annotated[int | None, Column(header="Pairs", kind="integer")]
P = Annotated[float | None, Column(header="p (Holm, of m)", kind="p", show=_p)]
Family = Annotated[int | None, Column(header="m", form="csv")]
Points = Annotated[float | None, Column(header="Difference (points)", kind="points")]
Low = Annotated[float | None, Column(header="low", kind="percent", form="csv")]
High = Annotated[float | None, Column(header="high", kind="percent", form="csv")]
# pages show the interval, the CSV its lower end
DifferenceLow = Annotated[
    float | None, Column(header="95 % interval", kind="points", show=_difference_interval)
]


@dataclass(frozen=True, kw_only=True)
class SummaryRow:
    """The score of one cell."""

    dataset: Dataset
    setting: Setting
    entry: Entry
    label: Label
    mode: Annotated[str, Column(header="Mode")]
    unit: Annotated[str, Column(header="Protects")]
    epsilon: Epsilon
    metric: Annotated[str, Column(header="Metric", form="csv")]
    mean: Annotated[float, Column(header="Mean %", kind="percent")]
    std: Annotated[float | None, Column(header="Std", kind="percent")]
    low: Annotated[
        float | None, Column(header="95 % interval", kind="percent", show=_score_interval)
    ]
    high: High
    n: Annotated[int, Column(header="n", kind="integer", show=_n_of_planned)]
    planned: Annotated[int, Column(header="planned", form="csv")]
    majority: Annotated[float | None, Column(header="Majority class", kind="percent")]


@dataclass(frozen=True, kw_only=True)
class RankingRow:
    """One entry of a ranking; `behind` is its distance to the leader, `n` its number of repeats."""

    guarantee: Annotated[str, Column(header="Guarantee")]
    dataset: Dataset
    setting: Setting
    epsilon: Epsilon
    position: Annotated[int, Column(header="Place", kind="integer")]
    entry: RankedEntry
    label: Label
    answers: Annotated[str, Column(header="Answers")]
    mean: Annotated[float, Column(header="Mean %", kind="percent")]
    low: Low
    high: High
    behind: Annotated[float | None, Column(header="Behind (points)", kind="points")]
    behind_low: Annotated[
        float | None, Column(header="95 % interval", kind="points", show=_behind_interval)
    ]
    behind_high: Annotated[float | None, Column(header="behind_high", kind="points", form="csv")]
    n_pairs: Pairs
    verdict: Verdict
    n: int
    bold: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class MeanRankRow:
    """One entry's mean rank among the entries of its guarantee, setting and epsilon.

    Attributes:
        num_graphs: graphs that all entries of the group have a score on.
        position: 1 for the best mean rank.
        rank: mean rank over the graphs.
        best_on: number of graphs on which the entry has the largest mean score.
        critical: difference of mean ranks above which two entries of the group are told apart.
        verdict: "told apart" or "not told apart" from the first entry; "" for the first.
        p: of "all entries have the same mean rank".
        left_out: labels of the entries without a score on every graph.
        bold: columns set in bold.
    """

    guarantee: Annotated[str, Column(header="Guarantee")]
    setting: Annotated[str, Column(header="Setting")]
    epsilon: Epsilon
    num_graphs: Annotated[int, Column(header="Graphs", kind="integer")]
    position: Annotated[int, Column(header="Place", kind="integer")]
    entry: RankedEntry
    label: Label
    answers: Annotated[str, Column(header="Answers", form="csv")]
    rank: Annotated[float, Column(header="Mean rank", kind="number")]
    best_on: Annotated[int, Column(header="Largest mean on", kind="integer")]
    critical: Annotated[float, Column(header="Critical difference", kind="number")]
    verdict: Annotated[str, Column(header="From the first")]
    p: Annotated[float, Column(header="p (all equal)", kind="p")]
    left_out: Annotated[str, Column(header="Left out, not on all graphs", optional=True)]
    bold: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RefusalRow:
    """Two kinds of claim that are not ranked together."""

    first: Annotated[str, Column(header="Guarantee")]
    second: Annotated[str, Column(header="and guarantee")]
    entries: Annotated[str, Column(header="For example")]
    reason: Annotated[str, Column(header="Why")]


@dataclass(frozen=True, kw_only=True)
class DifferenceRow:
    """Entry minus reference at shared splits; `reference` is a label."""

    dataset: Dataset
    setting: Setting
    entry: Entry
    label: Label
    epsilon: Epsilon
    reference: Annotated[str, Column(header="Reference", show=_reference)]
    reference_epsilon: Annotated[str, Column(header="ε of reference", form="csv")]
    mean: Points
    std: Annotated[float | None, Column(header="std", kind="points", form="csv")]
    low: DifferenceLow
    high: High
    verdict: Verdict
    question: Annotated[str, Column(header="Question")]
    p: P
    n: Pairs
    family: Family
    note: Annotated[str, Column(header="Note", optional=True)]


@dataclass(frozen=True, kw_only=True)
class ComparisonRow:
    """A difference that the study asks for; `claims` says why the two may not be ranked."""

    question: Annotated[str, Column(header="Question")]
    dataset: Dataset
    setting: Setting
    epsilon: Epsilon
    entry: Entry
    label: Label
    reference_label: Annotated[str, Column(header="Reference")]
    reference: Annotated[str, Column(header="reference", form="csv")]
    entry_mean: Annotated[float, Column(header="Entry %", kind="percent")]
    reference_mean: Annotated[float, Column(header="Reference %", kind="percent")]
    mean: Points
    low: DifferenceLow
    high: High
    verdict: Verdict
    p: P
    family: Family
    n: Pairs
    claims: Annotated[str, Column(header="Claims", show=_claims_differ)]
    bold: tuple[str, ...]

    @property
    def needed(self) -> str:
        """Paired repeats that would decide an undecided difference with the same mean and spread."""
        if (
            self.bold
            or self.mean is None
            or self.low is None
            or self.high is None
            or self.n is None
        ):
            return ""
        found = repeats_of_interval(
            self.mean, self.low, self.high, self.n, corrections=self.family or 1
        )
        return f"more than {MOST_REPEATS:,}" if found is None else str(found)


@dataclass(frozen=True, kw_only=True)
class TunedRow:
    """An entry tuned on validation nodes, and its gain over the fixed configuration.

    Attributes:
        gain_elsewhere: mean gain over the repeats whose validation nodes the choice did not read.
    """

    dataset: Dataset
    setting: Setting
    epsilon: Epsilon
    entry: Entry
    label: Label
    points: Annotated[int, Column(header="Points", kind="integer")]
    fixed: Annotated[float | None, Column(header="Fixed %", kind="percent")]
    mean: Annotated[float, Column(header="Tuned %", kind="percent")]
    low: Low
    high: High
    n: Annotated[int, Column(header="n", kind="integer")]
    gain_mean: Annotated[float | None, Column(header="Gain (points)", kind="points")]
    gain_low: Annotated[
        float | None, Column(header="95 % interval", kind="points", show=_gain_interval)
    ]
    gain_high: Annotated[float | None, Column(header="gain_high", kind="points", form="csv")]
    gain_elsewhere: Annotated[
        float | None, Column(header="gain_elsewhere", kind="points", form="csv")
    ] = None
    n_pairs: Pairs
    verdict: Verdict
    chosen: Annotated[str, Column(header="Chosen (repeats)")]


@dataclass(frozen=True, kw_only=True)
class ClaimRow:
    """Claimed, proved and measured epsilon of one private cell; None without a claim or an audit."""

    dataset: Dataset
    setting: Setting
    entry: Entry
    label: Label
    mode: Annotated[str, Column(header="Mode")]
    unit: Annotated[str, Column(header="Protects")]
    epsilon: Budget
    claimed: Annotated[float | None, Column(header="Claimed ε", kind="epsilon")] = None
    proved: Annotated[float | None, Column(header="Proved ε", kind="epsilon", show=_proved)] = None
    measured: Annotated[
        float | None, Column(header="Measured ε ≥", kind="epsilon", show=_measured)
    ] = None
    delta: Annotated[float | None, Column(header="δ", kind="number")]
    status: Annotated[str | None, Column(header="Status")] = None
    accountant: Annotated[str | None, Column(header="Accountant")] = None
    caveats: Annotated[tuple[str, ...], Column(header="Caveats", show=_caveats)] = ()
    proved_elsewhere: Annotated[float | None, Column(header="proved_elsewhere", form="csv")] = None
    proved_relation: Annotated[str | None, Column(header="proved_relation", form="csv")] = None
    attack: Annotated[str | None, Column(header="attack", form="csv")] = None
    confidence: Annotated[float | None, Column(header="confidence", form="csv")] = None
    assumed_public: Annotated[tuple[str, ...], Column(header="assumed_public", form="csv")] = ()
    released: Annotated[str | None, Column(header="released", form="csv")] = None
    selection: Annotated[str | None, Column(header="selection", form="csv")] = None
    words: Annotated[str | None, Column(header="words", form="csv")] = None


@dataclass(frozen=True, kw_only=True)
class StatusRow:
    """Planned runs of one entry without a score, for one reason."""

    dataset: Dataset
    setting: Setting
    entry: Entry
    label: Label
    epsilon: Epsilon
    repeats: Annotated[str, Column(header="Repeats")]
    status: Annotated[str, Column(header="Status")]
    reason: Annotated[str, Column(header="Reason", optional=True)]


@dataclass(frozen=True, kw_only=True)
class CostRow:
    """Seconds and memory of an entry's runs on one data set."""

    dataset: Dataset
    setting: Setting
    entry: Entry
    label: Label
    runs: Annotated[int, Column(header="Runs", kind="integer")]
    mean_seconds: Annotated[float | None, Column(header="Mean s", kind="seconds")]
    max_seconds: Annotated[float | None, Column(header="Longest s", kind="seconds")]
    total_seconds: Annotated[float | None, Column(header="All s", kind="seconds")]
    max_rss_mb: Annotated[float | None, Column(header="Memory MB", kind="megabytes")]
    device: Annotated[str, Column(header="Device")]
    threads: Annotated[str, Column(header="Threads", kind="integer", show=_threads)]


@dataclass(frozen=True, kw_only=True)
class PlanRow:
    """One mechanism of a release's plan."""

    dataset: Dataset
    setting: Setting
    entry: Entry
    label: Label
    epsilon: Epsilon
    mechanism: Annotated[str, Column(header="Mechanism")]
    event: Annotated[str, Column(header="Counted as")]
    noise_stddev: Annotated[float, Column(header="Noise σ", kind="number")]
    sensitivity: Annotated[float, Column(header="Sensitivity", kind="number")]
    num_steps: Annotated[int, Column(header="Steps", kind="integer")]
