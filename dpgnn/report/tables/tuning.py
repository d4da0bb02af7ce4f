"""An equal tuning budget: on each split, of an entry's sweep points the best on validation nodes.

`tuned` of a study names entries; the points of NAME are the entries NAME~* its sweep makes. Each repeat
chooses for itself, as somebody with one split would, so the interval holds the noise of the choice. The
choice reads private validation nodes and no epsilon counts it: the claims of a tuned cell say
`validation-unaccounted`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dpgnn.records.cells import Cell, claims_of
from dpgnn.records.frame import Run
from dpgnn.records.info import StudyInfo
from dpgnn.report.statistics.ranking import Ranking, compare, shared_repeats
from dpgnn.report.statistics.statistics import PairedTest, holm, verdict
from dpgnn.report.tables.rows import RankingRow, TunedRow
from dpgnn.report.tables.table import Table, columns_of
from dpgnn.report.tables.tables import ON_REPEATS, mean_of, rankings_table

CHOSEN = "chosen on validation, uncounted"
SELECTION: Literal["validation-unaccounted"] = "validation-unaccounted"


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """One entry at one data set, setting and epsilon, chosen on validation nodes repeat by repeat.

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
    """Every entry of `info.tuned`, where all its planned points have a score on a common repeat."""
    by_key = {(*cell.place, cell.epsilon, cell.entry): cell for cell in cells}
    found = []
    for name in info.tuned:
        points = [entry for entry in info.entry_order if entry.startswith(f"{name}~")]
        wanted: dict[tuple[str, str, str], list[str]] = {}
        for dataset, setting, entry, epsilon in info.cell_order:
            if entry in points:
                wanted.setdefault((dataset, setting, epsilon), []).append(entry)
        for place, planned in wanted.items():
            there = [by_key[*place, point] for point in planned if (*place, point) in by_key]
            if len(there) == len(planned):
                made = _tuned(name, there, by_key.get((*place, name)), info)
                found += [] if made is None else [made]
    return found


def tuned_table(found: Sequence[Tuned]) -> Table[TunedRow]:
    """What an equal tuning budget gains over the one fixed configuration."""
    tests: list[PairedTest | None] = [
        None if item.fixed is None else compare(item.cell, item.fixed) for item in found
    ]
    corrected = holm([None if test is None else test.p for test in tests])
    rows = [_row(*tested) for tested in zip(found, tests, corrected)]
    return Table(
        name="tuned",
        title=f"An equal tuning budget ({CHOSEN})",
        caption=(
            "Test score in percent. Tuned: each repeat takes, of the entry's points, the one with the best "
            "score on its own validation nodes. Fixed: the entry's one configuration for every data set, "
            "over the repeats that both have (pairs). Gain: tuned minus fixed on those; p values are "
            f"corrected by Holm's method over the {sum(p is not None for p in corrected)} rows with a "
            f"test. The choice reads private nodes and is counted in no ε (caveat {SELECTION}). "
            f"{ON_REPEATS}"
        ),
        columns=columns_of(TunedRow),
        rows=rows,
        empty="No entry of this study has its tuning points run.",
    )


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


def _row(item: Tuned, test: PairedTest | None, p: float | None) -> TunedRow:
    cell, score = item.cell, item.cell.interval
    return TunedRow(
        dataset=cell.dataset, setting=cell.setting, epsilon=cell.epsilon, entry=cell.entry,
        label=cell.label, points=item.points, fixed=_fixed_mean(item),
        mean=score.mean, low=score.low, high=score.high, n=score.n,
        gain_mean=test.mean if test else None, gain_low=test.low if test else None,
        gain_high=test.high if test else None, n_pairs=test.n if test else None,
        verdict=verdict(test, p) if test else item.no_fixed or "no shared split",
        chosen=", ".join(f"{point} ({times})" for point, times in item.chosen.items()),
    )  # fmt: skip


def _fixed_mean(item: Tuned) -> float | None:
    """Mean of the fixed entry over the repeats it shares with the tuned one: gain = tuned - fixed on them."""
    if item.fixed is None:
        return None
    return mean_of([item.fixed.scores[repeat] for repeat in shared_repeats(item.cell, item.fixed)])


def _why_no_fixed(cell: Cell, name: str, info: StudyInfo) -> str:
    if (cell.dataset, cell.setting, name, cell.epsilon) in info.cell_order:
        return "the fixed entry has no score here"
    return f"the fixed entry is not planned here in tier {info.tier}"


def _tuned(name: str, points: Sequence[Cell], fixed: Cell | None, info: StudyInfo) -> Tuned | None:
    chosen: dict[int, Run] = {}
    for repeat in sorted(set.intersection(*(set(point.scores) for point in points))):
        runs = [run for point in points for run in point.runs if run.record.key["repeat"] == repeat]
        scores = [run.validation(points[0].metric) for run in runs]
        if None not in scores:
            best = max(range(len(runs)), key=lambda i: (scores[i], -i))
            chosen[repeat] = runs[best]
    if not chosen:
        return None
    first = points[0]
    metric = first.metric
    cell = replace(
        first,
        entry=name,
        label=info.labels.get(name, name),
        scores={
            repeat: float(run.record.metrics["test"][metric]) for repeat, run in chosen.items()
        },
        runs=tuple(_with_caveat(run) for run in chosen.values()),
        planned=max(point.planned for point in points),
        seconds=(),
        max_rss_mb=(),
    )
    times = Counter(
        str(run.record.key["entry"]).removeprefix(f"{name}~") for run in chosen.values()
    )
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
