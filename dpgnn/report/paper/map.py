"""The map file of a paper: which entry of a study belongs to which row of the paper's tables.

The map of paper P is data/papers/maps/P.yaml, read into `PaperMap`; a new study adds only that file. The
paper's numbers come from data/papers/*.csv; a map holds none.

    paper: dpgnn
    tables:
      T1:
        title: Test accuracy in the transductive setting
        where: {table: T1, metric: test_accuracy_pct}
        scale: 0.01
        setting: public
        datasets: {ogbn-arxiv: ogbn-arxiv}
        unavailable: {reddit: the raw files cannot be had here}
        rules:
          - {where: {method: GCN}, entry: gcn}
          - {where: {method: DP-GCN (SGD)}, entry: dp_gcn-paper, note: "learning rate is not stated"}
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpgnn.core import config as strict
from dpgnn.core.config import ConfigError
from dpgnn.data.raw.sources import data_folder


@dataclass(frozen=True, kw_only=True)
class PaperRule:
    """The entry of ours for some rows of a paper.

    Attributes:
        where: column -> value, or list of values, that a row must have.
        entry: our entry; empty with `select` or `unavailable`. {COLUMN} is replaced by the row's value in
            that column: gap~num_hops={hops}.
        select: names or patterns of entries (drw-1~*); the one with the best mean validation score is used,
            as by a paper that searched a grid.
        pooled: the runs of all entries of `select` are used, for a value that is a mean over a grid.
        epsilon: our epsilon; empty takes the row's own, and "inf" where it has none.
        setting: overrides the table's.
        unavailable: why there is no entry for these rows.
        note: an ambiguity of the paper that may explain a difference and that no run tests; shown, as
        untested, when the verdict is "different".
        alternatives: names or patterns of entries for other readings of an ambiguity; when the verdict is
        "different", the reason gives the change for those that differ from ours in one option.
    """

    where: Mapping[str, Any]
    entry: str = ""
    select: tuple[str, ...] = ()
    pooled: bool = False
    epsilon: str = ""
    setting: str = ""
    unavailable: str = ""
    note: str = ""
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """One table of a paper.

    Attributes:
        where: selects the table's rows from the source.
        title: what the table is about.
        setting: our setting's name.
        scale: factor that turns the paper's numbers into fractions (0.01 for percent).
        metric: our metric; "" for the score that rankings use.
        datasets: the paper's name -> ours, where they differ; DATASET.SETTING where its setting is another.
        unavailable: the paper's data set -> why we do not have it.
        rules: tried in order; the first that matches a row is used.
        apart: column -> words before its value, for columns that distinguish rows of one data set, method and
            budget.
        source, spread: file in data/papers, and its column of standard deviations, if not the map's.
        reproduces: False if our entries are other mechanisms, shown only for comparison.
    """

    where: Mapping[str, Any]
    title: str = ""
    apart: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    spread: str = ""
    reproduces: bool = True
    setting: str
    scale: float = 1.0
    metric: str = ""
    datasets: Mapping[str, str] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[PaperRule, ...]


@dataclass(frozen=True, kw_only=True)
class PaperMap:
    """How a paper's numbers correspond to a study.

    Attributes:
        paper: the paper's name.
        source: file in data/papers.
        stated_as: what the numbers are, "paper" or "authors' logs".
        value, spread: the source's columns with the number and its standard deviation ("" for none).
        runs: the source's column with the number of runs behind a value; "" where it has none.
        repeats: the number of runs behind every value, where that is stated; None where it is not.
        absent: our data set -> why it is in no tier that was run; the reason shown for rows without a run.
        tables: by name, in the order they are shown.
    """

    paper: str
    source: str = "paper_numbers.csv"
    stated_as: str = "paper"
    value: str = "mean"
    spread: str = "std"
    runs: str = ""
    repeats: int | None = None
    absent: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, PaperTable]


def load_map(paper: str, folder: Path | None = None) -> PaperMap:
    """Read data/papers/maps/PAPER.yaml.

    Raises:
        ConfigError: there is none, or something in it is wrong.
    """
    import yaml

    path = (folder or data_folder() / "papers" / "maps") / f"{paper}.yaml"
    if not path.exists():
        raise ConfigError(f"paper: {paper!r} needs the map file data/papers/maps/{path.name}")
    try:
        return strict.read(PaperMap, yaml.safe_load(path.read_text(encoding="utf-8")))
    except (ConfigError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {error}") from None


def entry_pattern(entry: str) -> str:
    """The pattern of all entries that a rule's entry can become, with any value for each {COLUMN}."""
    return re.sub(r"\{\w+\}", "*", entry)


def entry_for(entry: str, row: Mapping[str, str]) -> str:
    """A rule's entry for one row of the paper's numbers."""
    return re.sub(r"\{(\w+)\}", lambda found: row[found[1]], entry)


def rows_of(table: PaperTable, numbers: Sequence[Mapping[str, str]]) -> Sequence[Mapping[str, str]]:
    """The numbers that a table's rows are chosen from: its own source, or `numbers` of the map's."""
    return read_numbers(table.source) if table.source else numbers


def read_numbers(source: str, folder: Path | None = None) -> list[dict[str, str]]:
    """The rows of a file of paper numbers, as texts."""
    path = (folder or data_folder() / "papers") / source
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
