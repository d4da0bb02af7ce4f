"""An equal tuning budget: of an entry's sweep points, the best on validation nodes.

`tuned` of a study names entries; the points of NAME are the entries NAME~* that its sweep makes. With
`tuned_on: N` the point with the best mean on the validation nodes of the first N repeats is taken for all
repeats. Without it each repeat chooses for itself, and the interval holds the noise of the choice. Either
way the choice reads private validation nodes and no epsilon counts it: the claims of a tuned cell say
`validation-unaccounted`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from dpgnn.records.cells import Cell, claims_of
from dpgnn.records.frame import Run
from dpgnn.records.info import StudyInfo
from dpgnn.report.statistics.ranking import Ranking, compare, shared_repeats
from dpgnn.report.statistics.statistics import PairedTest, judged
from dpgnn.report.tables.rows import RankingRow, TunedRow
from dpgnn.report.tables.table import Table, columns_of
from dpgnn.report.tables.tables import ON_REPEATS, mean_of, rankings_table

CHOSEN = "chosen on validation, uncounted"
SELECTION: Literal["validation-unaccounted"] = "validation-unaccounted"


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """One entry at one data set, setting and epsilon, its point chosen on validation nodes.

    Attributes:
        cell: scores and runs of the chosen points, under the entry's name.
        fixed: the entry as stated; None where it has no score.
        no_fixed: why it has none; "" where it has one.
        points: how many were to choose from.
        chosen: point -> repeats that chose it; the most frequent first.
    """

    cell: Cell
    fixed: Cell | None
    no_fixed: str
    points: int
    chosen: Mapping[str, int]


def tuned_cells(cells: Sequence[Cell], info: StudyInfo) -> list[Tuned]:
    """Every entry of `info.tuned` where all its planned points have the scores that the choice reads."""
    by_key = {(*cell.place, cell.epsilon, cell.entry): cell for cell in cells}
    found = []
    for name, points in with_points(cells, info):
        if chosen := _chosen_runs(points, info.tuned_on):
            fixed = by_key.get((*points[0].place, points[0].epsilon, name))
            found.append(_tuned(name, points, chosen, fixed, info))
    return found


def choices(cells: Sequence[Cell], info: StudyInfo) -> dict[tuple[str, str, str, str], str]:
    """(data set, setting, epsilon, entry) -> the point that the first `info.tuned_on` repeats choose.

    Args:
        cells: with all points of the entries of `info.tuned`; a cell whose points lack a score is left out.
        info: of a study with `tuned_on`.

    Returns:
        the point without its entry's name, as `study.choices` keeps it.
    """
    found = {}
    for name, points in with_points(cells, info):
        best = _best_point(points, range(info.tuned_on))
        if best is not None:
            first = points[0]
            found[first.dataset, first.setting, first.epsilon, name] = point_of(best.entry, name)
    return found


def with_points(cells: Sequence[Cell], info: StudyInfo) -> Iterator[tuple[str, list[Cell]]]:
    """Each entry of `info.tuned` with its points, wherever all of them that are planned have a score."""
    by_key = {(*cell.place, cell.epsilon, cell.entry): cell for cell in cells}
    for name in info.tuned:
        wanted: dict[tuple[str, str, str], list[str]] = {}
        for dataset, setting, entry, epsilon in info.cell_order:
            if entry.startswith(f"{name}~"):
                wanted.setdefault((dataset, setting, epsilon), []).append(entry)
        for place, planned in wanted.items():
            there = [by_key[*place, point] for point in planned if (*place, point) in by_key]
            if len(there) == len(planned):
                yield name, there


def _best_point(points: Sequence[Cell], repeats: Sequence[int]) -> Cell | None:
    """The point with the best mean validation score, the first of equals; None where a score is missing."""
    means = [validation_mean(point, repeats) for point in points]
    known = [mean for mean in means if mean is not None]
    return points[known.index(max(known))] if len(known) == len(means) else None


def validation_mean(point: Cell, repeats: Sequence[int]) -> float | None:
    """Mean score on validation nodes over some repeats; None where one is missing."""
    runs = {int(run.record.key["repeat"]): run for run in point.runs}
    there = [runs[k].validation(point.metric) for k in repeats if k in runs]
    scores = [score for score in there if score is not None]
    return fmean(scores) if len(scores) == len(repeats) else None


def _chosen_runs(points: Sequence[Cell], tuned_on: int) -> dict[int, Run]:
    """Repeat -> the run that was chosen; {} where the choice lacks a score."""
    if tuned_on:
        best = _best_point(points, range(tuned_on))
        return {} if best is None else {int(run.record.key["repeat"]): run for run in best.runs}
    chosen = {}
    for repeat in sorted(set.intersection(*(set(point.scores) for point in points))):
        best = _best_point(points, [repeat])
        if best is not None:
            chosen[repeat] = next(r for r in best.runs if r.record.key["repeat"] == repeat)
    return chosen


def point_of(entry: str, name: str) -> str:
    """The point's name without that of its entry."""
    return entry.removeprefix(f"{name}~")


def tuned_table(found: Sequence[Tuned], tuned_on: int = 0) -> Table[TunedRow]:
    """What an equal tuning budget gains over the one fixed configuration."""
    tests: list[PairedTest | None] = [
        None if item.fixed is None else compare(item.cell, item.fixed) for item in found
    ]
    corrected, words = judged(tests)
    rows = [_row(*tested, tuned_on) for tested in zip(found, tests, words)]
    return Table(
        name="tuned",
        title=f"An equal tuning budget ({CHOSEN})",
        caption=(
            f"Test score in percent. Tuned: {_how_chosen(tuned_on)}. Fixed: the entry's one configuration "
            "for every data set, over the repeats that both have (pairs). Gain: tuned minus fixed on those; "
            f"p values are corrected by Holm's method over the {sum(p is not None for p in corrected)} rows "
            f"with a test. The choice reads private nodes and is counted in no ε (caveat {SELECTION}). "
            f"{ON_REPEATS}"
        ),
        columns=columns_of(TunedRow),
        rows=rows,
        empty="No entry of this study has its tuning points run.",
    )


def _how_chosen(tuned_on: int) -> str:
    if tuned_on:
        return (
            "of the entry's points, the one with the best mean score on the validation nodes of the first "
            f"{tuned_on} repeats, for all repeats"
        )
    return "each repeat takes, of the entry's points, the one with the best score on its own validation nodes"


def tuned_rankings_table(ranked: Sequence[Ranking]) -> Table[RankingRow]:
    """Rankings among tuned entries alone, each with the same number of points to choose from."""
    made = rankings_table(ranked)
    return replace(
        made,
        name="tuned-rankings",
        title=f"Rankings under one guarantee, equally tuned ({CHOSEN})",
        caption=f"{made.caption} Claims carry {SELECTION}.",
        empty="Nowhere are two tuned entries under one guarantee.",
    )


def _row(item: Tuned, test: PairedTest | None, word: str | None, tuned_on: int) -> TunedRow:
    cell, score = item.cell, item.cell.interval
    return TunedRow(
        dataset=cell.dataset, setting=cell.setting, epsilon=cell.epsilon, entry=cell.entry,
        label=cell.label, points=item.points, fixed=_fixed_mean(item),
        mean=score.mean, low=score.low, high=score.high, n=score.n,
        gain_mean=test.mean if test else None, gain_low=test.low if test else None,
        gain_high=test.high if test else None, gain_elsewhere=_gain_elsewhere(item, tuned_on),
        n_pairs=test.n if test else None,
        verdict=word or item.no_fixed or "no shared split",
        chosen=", ".join(f"{point} ({times})" for point, times in item.chosen.items()),
    )  # fmt: skip


def _fixed_mean(item: Tuned) -> float | None:
    """Mean of the fixed entry over the repeats it shares with the tuned one: gain = tuned - fixed on them."""
    if item.fixed is None:
        return None
    return mean_of([item.fixed.scores[repeat] for repeat in shared_repeats(item.cell, item.fixed)])


def _gain_elsewhere(item: Tuned, tuned_on: int) -> float | None:
    """Mean of tuned - fixed over the shared repeats that took no part in the choice; None where all did."""
    if item.fixed is None or not tuned_on:
        return None
    ours, fixed = item.cell.scores, item.fixed.scores
    others = [k for k in shared_repeats(item.cell, item.fixed) if k >= tuned_on]
    return fmean(ours[k] - fixed[k] for k in others) if others else None


def _why_no_fixed(cell: Cell, name: str, info: StudyInfo) -> str:
    if (cell.dataset, cell.setting, name, cell.epsilon) in info.cell_order:
        return "the fixed entry has no score here"
    return f"the fixed entry is not planned here in tier {info.tier}"


def _tuned(
    name: str,
    points: Sequence[Cell],
    chosen: Mapping[int, Run],
    fixed: Cell | None,
    info: StudyInfo,
) -> Tuned:
    first = points[0]
    cell = replace(
        first,
        entry=name,
        label=info.labels.get(name, name),
        scores={
            repeat: float(run.record.metrics["test"][first.metric])
            for repeat, run in chosen.items()
        },
        runs=tuple(_with_caveat(run) for run in chosen.values()),
        planned=max(point.planned for point in points),
        seconds=(),
        max_rss_mb=(),
    )
    times = Counter(point_of(str(run.record.key["entry"]), name) for run in chosen.values())
    return Tuned(
        cell=cell,
        fixed=fixed,
        no_fixed="" if fixed is not None else _why_no_fixed(cell, name, info),
        points=len(points),
        chosen=dict(times.most_common()),
    )


def _with_caveat(run: Run) -> Run:
    """The run with claims that say how its options were chosen."""
    claims = []
    for claim in claims_of(run.record):
        caveats = tuple(dict.fromkeys((*claim.caveats, SELECTION)))
        claims.append(replace(claim, selection=SELECTION, caveats=caveats).to_dict())
    return replace(run, record=replace(run.record, claims=tuple(claims)))
