"""Options copied from public graphs: what they are worth on a graph that the choice did not read.

A graph in turn plays the private one. Of an entry's points, the one with the best mean validation score over
the other graphs is taken, and tested here. Nothing of the graph is read, so the claim counts everything.
`tuning` chooses on the graph itself, which no epsilon counts; `acc-NAME` counts it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Annotated, Any

from dpgnn.core.grouping import grouped
from dpgnn.data.datasets import is_stand_in
from dpgnn.records.cells import Cell
from dpgnn.records.info import StudyInfo
from dpgnn.report.statistics.differences import dotted
from dpgnn.report.statistics.statistics import judged, paired_test
from dpgnn.report.tables.rows import Dataset, Entry, Epsilon, Label, Setting, Verdict
from dpgnn.report.tables.table import Column, Table, columns_of, interval_text
from dpgnn.report.tables.tuned_ranks import ACCOUNTED
from dpgnn.report.tables.tuning import point_of, validation_mean, with_points

LEAST = 3  # graphs that an entry must have been tuned on


@dataclass(frozen=True, kw_only=True)
class CopiedRow:
    """One entry on one graph: as stated, with copied options, with a counted choice, with an uncounted one.

    All are means over the splits that the uncounted choice reads.
    """

    dataset: Dataset
    setting: Setting
    epsilon: Epsilon
    entry: Entry
    label: Label
    graphs: Annotated[int, Column(header="Other graphs", kind="integer")]
    points: Annotated[int, Column(header="Points", kind="integer")]
    fixed: Annotated[float, Column(header="Fixed %", kind="percent")]
    copied: Annotated[float, Column(header="Copied %", kind="percent")]
    accounted: Annotated[float | None, Column(header="Accounted %", kind="percent", optional=True)]
    tuned: Annotated[float, Column(header="Tuned, uncounted %", kind="percent")]
    n: Annotated[int, Column(header="n", kind="integer")]
    point: Annotated[str, Column(header="Copied options")]
    own: Annotated[str, Column(header="Chosen here")]


def _gain_interval(row: OptionRow | GainRow) -> str:
    return interval_text(row.gain_low, row.gain_high, "points")


GainMean = Annotated[float, Column(header="Gain (points)", kind="points")]
GainLow = Annotated[
    float | None, Column(header="95 % interval", kind="points", show=_gain_interval)
]
GainHigh = Annotated[float | None, Column(header="gain_high", kind="points", form="csv")]
TunedGain = Annotated[float, Column(header="Tuned, uncounted (points)", kind="points")]
Named = Annotated[str, Column(header="Entry", show=lambda row: row.label)]


@dataclass(frozen=True, kw_only=True)
class OptionRow:
    """The options that did best over all graphs, and what copying gained on a graph that was left out."""

    setting: Setting
    epsilon: Epsilon
    entry: Named
    label: Label
    graphs: Annotated[int, Column(header="Graphs", kind="integer")]
    point: Annotated[str, Column(header="Best over all graphs")]
    changed: Annotated[str, Column(header="changed", form="csv")]
    gain_mean: GainMean
    gain_low: GainLow
    gain_high: GainHigh
    tuned_gain: TunedGain


@dataclass(frozen=True, kw_only=True)
class GainRow:
    """What copying gains an entry on a graph that was left out, mean over its budgets."""

    setting: Setting
    entry: Named
    label: Label
    budgets: Annotated[int, Column(header="Budgets", kind="integer")]
    graphs: Annotated[int, Column(header="Graphs", kind="integer")]
    gain_mean: GainMean
    gain_low: GainLow
    gain_high: GainHigh
    verdict: Verdict
    tuned_gain: TunedGain


def copied_tables(
    cells: Sequence[Cell], info: StudyInfo
) -> tuple[Table[CopiedRow], Table[OptionRow]]:
    """Copied options graph by graph, and the options to copy.

    Args:
        cells: of a study with `tuned_on`; other studies have no rows.
        info: the study.
    """
    by_key = {(*cell.place, cell.epsilon, cell.entry): cell for cell in cells}
    rows: list[CopiedRow] = []
    stated: list[tuple[list[CopiedRow], str, str]] = []
    for entry in _tuned_entries(cells, info):
        made = [_row(entry, dataset, by_key, info) for dataset in entry.places]
        here = [row for row in made if row is not None]
        rows += here
        if len(here) >= LEAST:
            best = entry.best([*entry.places])
            points = entry.places[here[0].dataset]
            fixed = _options(by_key[*points[best].place, points[best].epsilon, entry.name])
            options = {name: _options(cell) for name, cell in points.items()}
            other = changed(fixed, options[best], [*options.values()])
            stated.append((here, best, json.dumps(other)))
    return _copied_table(rows, info), _options_table(stated, info)


@dataclass(frozen=True, kw_only=True)
class _Tuned:
    """A private entry under one setting and epsilon, on the real graphs that have all its points.

    Attributes:
        name: the entry.
        places: data set -> point -> its cell.
        scores: data set -> point -> its mean score on validation nodes.
        shared: the points that all data sets have.
    """

    name: str
    places: Mapping[str, Mapping[str, Cell]]
    scores: Mapping[str, Mapping[str, float]]
    shared: tuple[str, ...]

    def best(self, datasets: Sequence[str]) -> str:
        """The shared point with the best mean over some data sets, the first of equals."""
        means = [fmean(self.scores[name][point] for name in datasets) for point in self.shared]
        return self.shared[means.index(max(means))]


def _tuned_entries(cells: Sequence[Cell], info: StudyInfo) -> Iterator[_Tuned]:
    """Each private entry, setting and epsilon with scores on enough graphs."""
    repeats = range(info.tuned_on)
    there = [
        (name, points, [validation_mean(point, repeats) for point in points])
        for name, points in (with_points(cells, info) if info.tuned_on else ())
        if points[0].is_private and not is_stand_in(points[0].dataset)
    ]
    known = [item for item in there if None not in item[2]]
    for (name, *_), found in grouped(
        known, lambda item: (item[0], item[1][0].setting, item[1][0].epsilon)
    ).items():
        places, scores = {}, {}
        for _, points, means in found:
            names = [point_of(cell.entry, name) for cell in points]
            places[points[0].dataset] = dict(zip(names, points))
            scores[points[0].dataset] = {n: m for n, m in zip(names, means) if m is not None}
        first, *others = scores.values()
        shared = tuple(point for point in first if all(point in other for other in others))
        if len(places) >= LEAST and shared:
            yield _Tuned(name=name, places=places, scores=scores, shared=shared)


def _row(
    entry: _Tuned, dataset: str, by_key: Mapping[tuple[str, str, str, str], Cell], info: StudyInfo
) -> CopiedRow | None:
    """The row of one graph; None where a score on one of the first splits is missing."""
    points, repeats = entry.places[dataset], range(info.tuned_on)
    copied = entry.best([other for other in entry.places if other != dataset])
    own = max(points, key=lambda point: entry.scores[dataset][point])
    cell = points[own]
    place = (*cell.place, cell.epsilon)
    fixed = _mean(by_key.get((*place, entry.name)), repeats)
    tested, tuned = _mean(points[copied], repeats), _mean(cell, repeats)
    if fixed is None or tested is None or tuned is None:
        return None
    return CopiedRow(
        dataset=dataset, setting=cell.setting, epsilon=cell.epsilon, entry=entry.name,
        label=info.labels.get(entry.name, entry.name), graphs=len(entry.places) - 1,
        points=len(points), fixed=fixed, copied=tested,
        accounted=_mean(by_key.get((*place, f"{ACCOUNTED}{entry.name}")), repeats),
        tuned=tuned, n=info.tuned_on, point=copied, own=own,
    )  # fmt: skip


def _mean(cell: Cell | None, repeats: Sequence[int]) -> float | None:
    """Mean test score over some repeats; None where one is missing."""
    if cell is None or not set(repeats) <= set(cell.scores):
        return None
    return fmean(cell.scores[repeat] for repeat in repeats)


def _options(cell: Cell) -> dict[str, Any]:
    return dict(cell.runs[0].record.entry["options"])


def changed(
    stated: Mapping[str, Any], chosen: Mapping[str, Any], points: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Dotted name -> value of the chosen options that points vary and that are not as stated.

    What all points share is not named: records of points may be younger than those of the entry, whose method
    has got another option or default since.

    Args:
        stated, chosen: all options of the entry and of its point.
        points: of all points.
    """
    before, others = dotted(stated), [dotted(options) for options in points]
    return {
        name: value
        for name, value in dotted(chosen).items()
        if (name not in before or before[name] != value)
        and any(name not in other or other[name] != value for other in others)
    }


def _copied_table(rows: Sequence[CopiedRow], info: StudyInfo) -> Table[CopiedRow]:
    return Table(
        name="copied",
        title="Options copied from other graphs",
        caption=(
            "Test score in percent, mean over the first n splits. Fixed: one configuration for every data "
            "set. Copied: the point with the best mean score on the validation nodes of the other "
            "graphs, so nothing of this graph is read. Accounted: chosen here inside the claim. Tuned: "
            "chosen on validation nodes of these splits, counted in no ε."
        ),
        columns=columns_of(CopiedRow),
        rows=rows,
        empty=f"No entry of {info.name} is tuned on {LEAST} real graphs.",
    )


def _options_table(
    stated: Sequence[tuple[Sequence[CopiedRow], str, str]], info: StudyInfo
) -> Table[OptionRow]:
    rows = []
    for here, point, options in stated:
        test = paired_test([row.copied for row in here], [row.fixed for row in here])
        rows.append(
            OptionRow(
                setting=here[0].setting, epsilon=here[0].epsilon, entry=here[0].entry,
                label=here[0].label, graphs=test.n, point=point, changed=options,
                gain_mean=test.mean, gain_low=test.low, gain_high=test.high,
                tuned_gain=fmean(row.tuned - row.fixed for row in here),
            )
        )  # fmt: skip
    return Table(
        name="options",
        title="Options to copy from public graphs",
        caption=(
            "The point with the best mean score on validation nodes over all graphs. Gain: on a graph that "
            "the choice left out, over the fixed configuration, in points; mean and 95 % interval over "
            f"graphs (Student's t; {info.tuned_on} splits a graph). Tuned: what the choice on the graph's "
            "own validation nodes gains, which no ε counts."
        ),
        columns=columns_of(OptionRow),
        rows=rows,
        empty=f"No entry of {info.name} is tuned on {LEAST} real graphs.",
    )


def gains_table(rows: Sequence[CopiedRow]) -> Table[GainRow]:
    """What copying gains each entry, on the graphs that have all its budgets."""
    made, tests = [], []
    for here in grouped(rows, lambda row: (row.setting, row.entry)).values():
        budgets = len({row.epsilon for row in here})
        graphs = [g for g in grouped(here, lambda row: row.dataset).values() if len(g) == budgets]
        if len(graphs) < LEAST:
            continue
        copied, fixed, tuned = (
            [fmean(getattr(row, way) for row in graph) for graph in graphs]
            for way in ("copied", "fixed", "tuned")
        )
        test = paired_test(copied, fixed)
        tests.append(test)
        made.append(
            GainRow(
                setting=here[0].setting, entry=here[0].entry, label=here[0].label, budgets=budgets,
                graphs=test.n, gain_mean=test.mean, gain_low=test.low, gain_high=test.high,
                verdict="", tuned_gain=fmean(tuned) - fmean(fixed),
            )
        )  # fmt: skip
    corrected, words = judged(tests)
    return Table(
        name="copied-gains",
        title="What copied options gain",
        caption=(
            "Copied minus fixed in points on a graph that the choice left out, mean over budgets; 95 % "
            "interval over graphs (Student's t). Verdicts are corrected by Holm's method over "
            f"{sum(p is not None for p in corrected)} rows."
        ),
        columns=columns_of(GainRow),
        rows=[replace(row, verdict=str(word)) for row, word in zip(made, words)],
        empty=f"No entry is tuned on {LEAST} real graphs.",
    )
