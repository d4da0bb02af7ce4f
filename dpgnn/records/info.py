"""The description of a study for its report; stored as tables/study.json for the joined page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from dpgnn.core import config as strict
from dpgnn.core.checks import require
from dpgnn.core.paths import parse_run
from dpgnn.core.storage import DamagedFileError, read_json, write_json

# a study's `paper` -> its printed name
PAPERS = {
    "dpgnn": "DP-GNN (Daigavane et al., 2021)",
    "drw": "DRW (Ayle et al., 2023)",
    "dpar": "DPAR (Zhang et al., 2024)",
    "caribou": "CARIBOU (convergent privacy)",
    "progap": "ProGAP (Sajadmanesh and Gatica-Perez, 2024) and LPGNet (Kolluri et al., 2022)",
}


@dataclass(frozen=True, kw_only=True)
class EntryInfo:
    """One entry as the study states it.

    Attributes:
        name: the entry's name in paths.
        title: its name in tables; empty if the study gives none.
        method: name in the table of methods.
        mode: nonprivate, published or sound.
    """

    name: str
    title: str = ""
    method: str
    mode: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A question of a study that differences between entries answer; no run depends on it.

    Attributes:
        question: in words; the heading of its answer.
        entries: names or patterns of entries (dp_gcn~*), each compared with each of `against`.
        against: names or patterns of entries.
        steps: in place of the two, a chain of entries, each compared with the one before it.
        datasets: only these data sets; empty for all.
    """

    question: str
    entries: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        pairs = bool(self.entries) and bool(self.against) and not self.steps
        chain = len(self.steps) > 1 and not self.entries and not self.against
        require(
            pairs or chain,
            f"comparison {self.question!r}",
            "state entries and against, or steps of two or more entries",
            (self.entries, self.against, self.steps),
        )


@dataclass(frozen=True, kw_only=True)
class StudyInfo:
    """A study as its report needs it.

    Attributes:
        name: the study's name in paths.
        title: its question in one line.
        tier: S, M or L.
        config_path: the study file as it was given on the command line; part of rerun commands.
        config_text: the file's text, shown in the report.
        root_seed: the study's seed.
        baseline: reference entry of paired differences; or empty.
        paper: name of the paper whose tables are compared with ours; or empty.
        settings: name -> the recipe of the split.
        entries: in the order of the study.
        planned: folders of all runs of this tier, DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT.
        other_entries: names of entries that only other tiers run; a paper's map may name them.
        comparisons: the questions that paired differences answer.
        tuned: entries whose sweep points are an equal tuning budget, see `results.tuning`.
        tuned_on: the repeats that choose a tuned entry's point for all repeats; 0 where each chooses its own.
        accuracy: whether accuracies are ranked and drawn, or only listed.
    """

    name: str
    title: str = ""
    tier: str
    config_path: str
    config_text: str = ""
    root_seed: int = 0
    baseline: str = ""
    paper: str = ""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    entries: tuple[EntryInfo, ...]
    planned: tuple[str, ...]
    other_entries: tuple[str, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    tuned: tuple[str, ...] = ()
    tuned_on: int = 0
    accuracy: bool = True

    @cached_property
    def entry_order(self) -> dict[str, int]:
        """Entry name -> position in the study."""
        return {entry.name: position for position, entry in enumerate(self.entries)}

    @cached_property
    def cell_order(self) -> dict[tuple[str, str, str, str], int]:
        """(dataset, setting, entry, epsilon) -> position, in the order the study plans them."""
        order: dict[tuple[str, str, str, str], int] = {}
        for folder in self.planned:
            key = parse_run(folder)
            cell = (
                str(key["dataset"]), str(key["setting"]), str(key["entry"]), str(key["epsilon"]),
            )  # fmt: skip
            order.setdefault(cell, len(order))
        return order

    @cached_property
    def names(self) -> frozenset[str]:
        """Names for commands: planned runs and their cells, DATASET.SETTING/ENTRY/eps=EPSILON."""
        return frozenset(self.planned) | {name.rsplit("/", 1)[0] for name in self.planned}

    def is_point(self, entry: str) -> bool:
        """Whether an entry is a sweep point of one of `tuned`, there only to be chosen or not."""
        tuned, _, point = entry.partition("~")
        return bool(point) and tuned in self.tuned

    @cached_property
    def labels(self) -> dict[str, str]:
        """Entry name -> label in tables and figures: its title, for the first entry with that title.

        Further entries with the same title add their name, as "GCN (form-gcn)". A point of a sweep
        (dp_gcn~max_degree=2) has the title and the swept values; an entry without a title has its name.
        """
        holders: dict[str, str] = {}
        for entry in sorted(self.entries, key=lambda entry: "~" in entry.name):
            holders.setdefault(entry.title, entry.name.partition("~")[0])
        labels = {}
        for entry in self.entries:
            first, *points = entry.name.split("~")
            title = entry.title if holders[entry.title] == first else f"{entry.title} ({first})"
            labels[entry.name] = ", ".join([title, *points]) if entry.title else entry.name
        return labels


def write_info(path: str | Path, info: StudyInfo) -> None:
    """Write a study's description."""
    write_json(path, info)


def read_info(path: str | Path) -> StudyInfo:
    """Read what `write_info` wrote.

    Raises:
        DamagedFileError: missing, or of another form.
    """
    try:
        return strict.read(StudyInfo, read_json(path))
    except strict.ConfigError as error:
        raise DamagedFileError(f"{path}: {error}; run `dpgnn report --study` again") from None
