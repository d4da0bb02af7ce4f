"""A cell: the runs of one data set, setting, entry and epsilon, over repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dpgnn.accountants.claims import ANSWERS, Answers, Claim, from_dict, in_words
from dpgnn.accountants.population import with_sizes
from dpgnn.records.frame import Run, as_float, to_frame
from dpgnn.records.info import StudyInfo
from dpgnn.records.schema import Record, answers_of
from dpgnn.training.evaluation import Interval, mean_interval

UNCOVERED = "°"  # after the label of a private entry whose answers no claim covers
UNCOVERED_WORDS = (
    f"{UNCOVERED} the weights are covered; an answer reads features or edges of other nodes at inference "
    "that no claim covers."
)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The runs behind one number in tables and figures.

    Attributes:
        dataset, setting, entry, epsilon: the key without the repeat.
        label: the entry's name in tables.
        method, mode: of the entry.
        metric: name of the score, "accuracy" or "micro_f1".
        scores: repeat -> score on the test nodes, a fraction; for runs that are ok and scored.
        runs: those runs, by repeat.
        planned: number of repeats that the study plans.
        seconds, max_rss_mb: of those runs, where known.
        published_split: the split is the graph's own, the same at every repeat and for every root seed.
    """

    dataset: str
    setting: str
    entry: str
    epsilon: str
    label: str
    method: str
    mode: str
    metric: str
    scores: dict[int, float]
    runs: tuple[Run, ...]
    planned: int
    seconds: tuple[float, ...]
    max_rss_mb: tuple[float, ...]
    published_split: bool

    @property
    def place(self) -> tuple[str, str]:
        """(dataset, setting): cells of one place share their splits."""
        return self.dataset, self.setting

    @property
    def is_private(self) -> bool:
        """Whether the entry has a budget."""
        return self.mode != "nonprivate"

    @cached_property
    def answers(self) -> Answers:
        """Who may see the answers under the claims: the most restrictive answer over the runs."""
        return max((answers_of(run.record) for run in self.runs), key=ANSWERS.index)

    @property
    def marked_label(self) -> str:
        """The label, with ° if the entry is private and no claim covers its answers."""
        return self.label + (UNCOVERED if self.is_private and self.answers == "none" else "")

    @cached_property
    def interval(self) -> Interval:
        """Mean, spread and 95 % interval of the score; the interval is cut to [0, 1]."""
        return mean_interval(list(self.scores.values())).within_0_and_1()

    @cached_property
    def validation(self) -> float | None:
        """Mean validation score over repeats, for selection; None if a repeat has none."""
        found = [run.validation(self.metric) for run in self.runs]
        known = [value for value in found if value is not None]
        return sum(known) / len(known) if len(known) == len(found) else None

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """The weakest claims of the repeats: for each position the one with the largest epsilon."""
        by_run = [claims_of(run.record) for run in self.runs]
        if not by_run or len({len(claims) for claims in by_run}) != 1:
            return max(by_run, key=len, default=())
        return tuple(max(column, key=lambda claim: claim.epsilon) for column in zip(*by_run))

    @property
    def claim(self) -> Claim | None:
        """The claim that the cell was calibrated for; None without privacy."""
        return self.claims[0] if self.claims else None

    @property
    def unit_text(self) -> str:
        """What is protected, in words for the table of claims."""
        if not self.is_private:
            return "nothing"
        entry, claim = self.runs[0].record.entry, self.claim
        if claim is None:
            return f"{entry.get('privacy_unit')} ({entry.get('relation')})"
        bound = "" if claim.degree_bound is None else f", degree ≤ {claim.degree_bound}"
        return f"{claim.privacy_unit} ({claim.relation}{bound})"

    @property
    def words(self) -> tuple[str, ...]:
        """The claims of the first repeat's record in words."""
        return tuple(in_words(claim) for claim in claims_of(self.runs[0].record))

    @property
    def delta(self) -> float | None:
        """The delta of a private cell."""
        return as_float(self.runs[0].record.budget.get("delta")) if self.is_private else None

    @property
    def resolution(self) -> float:
        """The smallest step of the score: one over the smallest number of test nodes."""
        return 1.0 / min(int(run.record.metrics["test"]["num_nodes"]) for run in self.runs)

    @property
    def overlap(self) -> float:
        """Number of test nodes over that of training nodes, the largest over repeats."""
        return max(
            int(run.record.metrics["test"]["num_nodes"]) / int(run.record.facts["num_train"])
            for run in self.runs
        )

    @cached_property
    def majority(self) -> float | None:
        """Mean share of the largest class among the test nodes; None without classes or counts."""
        if self.metric != "accuracy":
            return None
        counts = [run.record.metrics["test"].get("per_class_count") for run in self.runs]
        shares = [max(found) / sum(found) for found in counts if found and sum(found)]
        return sum(shares) / len(shares) if shares else None

    def split_of(self, repeat: int) -> Any:
        """The identity of the split at a repeat: its sha256, or the graph's for a published split.

        The file of a published split names the root seed of the study that wrote it, so its bytes may differ
        for the same nodes. None if it is not recorded.
        """
        name = "graph_sha256" if self.published_split else "split_sha256"
        for run in self.runs:
            if run.record.key["repeat"] == repeat:
                return run.record.inputs.get(name)
        return None


def build_cells(runs: Sequence[Run], info: StudyInfo, *, released: bool = False) -> list[Cell]:
    """Group runs by data set, setting, entry and epsilon; in the order of the study.

    Args:
        runs: of the study, in any order.
        info: the study; gives the order, and how many repeats are planned.
        released: take the runs of releases, which have no score, in place of those with one.

    Returns:
        cells with at least one such run.
    """
    if released:
        runs = [run for run in runs if run.is_release]
    frame = to_frame(runs)
    by_key: dict[tuple[str, str, str, str], list[tuple[Run, dict[str, Any]]]] = {}
    for run, row in zip(runs, frame.iter_rows(named=True)):
        if row["status"] == "ok" and (row["score"] is None) == released:
            key = (row["dataset"], row["setting"], row["entry"], row["epsilon"])
            by_key.setdefault(key, []).append((run, row))
    planned = dict.fromkeys(info.cell_order, 0)
    for folder in info.planned:
        place, entry, epsilon, _ = folder.split("/")
        dataset, setting = place.split(".", 1)
        planned[dataset, setting, entry, epsilon.removeprefix("eps=")] += 1
    known = [key for key in info.cell_order if key in by_key]
    return [_cell(key, by_key[key], info, planned[key]) for key in known]


def _cell(
    key: tuple[str, str, str, str],
    found: list[tuple[Run, dict[str, Any]]],
    info: StudyInfo,
    planned: int,
) -> Cell:
    found = sorted(found, key=lambda pair: pair[1]["repeat"])
    rows = [row for _, row in found]
    return Cell(
        dataset=key[0],
        setting=key[1],
        entry=key[2],
        epsilon=key[3],
        label=info.labels.get(key[2], key[2]),
        method=rows[0]["method"],
        mode=rows[0]["mode"],
        metric=rows[0]["metric"],
        scores={row["repeat"]: row["score"] for row in rows if row["score"] is not None},
        runs=tuple(run for run, _ in found),
        planned=planned,
        seconds=tuple(row["seconds"] for row in rows if row["seconds"] is not None),
        max_rss_mb=tuple(row["max_rss_mb"] for row in rows if row["max_rss_mb"] is not None),
        published_split=info.settings.get(key[1], {}).get("kind") == "public",
    )


def claims_of(record: Record) -> tuple[Claim, ...]:
    """The claims of a record, with the caveats from its facts added for older records.

    A record says whether its plan was made from a declared population. If not, its claims state the sizes
    that are taken as public, and that add-remove changes one of them.
    """
    stated = tuple(
        from_dict({name: value for name, value in values.items() if name != "words"})
        for values in record.claims
    )
    return stated if record.facts.get("public_population") else with_sizes(stated, declared=False)
