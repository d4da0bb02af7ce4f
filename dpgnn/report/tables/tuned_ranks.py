"""Rankings side by side: fixed, tuned on validation nodes, and tuned with the choice accounted.

The entry acc-NAME is NAME whose choice among the same points is inside its claim
(docs/methods/selected.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Annotated

from dpgnn.core.grouping import grouped
from dpgnn.records.cells import Cell
from dpgnn.report.statistics.ranking import compare, rankings
from dpgnn.report.statistics.statistics import PairedTest, judged
from dpgnn.report.tables.pivots import markdown
from dpgnn.report.tables.rows import Dataset, Entry, Epsilon, Label, Pairs, Setting, Verdict
from dpgnn.report.tables.table import Column, Table, columns_of, epsilon_text, interval_text
from dpgnn.report.tables.tuning import Tuned

ACCOUNTED = "acc-"
Key = tuple[str, str, str, str]


def _gain_interval(row: TunedRankRow) -> str:
    return interval_text(row.gain_low, row.gain_high, "points")


@dataclass(frozen=True, kw_only=True)
class TunedRankRow:
    """An entry fixed, tuned and accounted, and its places among entries that have all three."""

    guarantee: Annotated[str, Column(header="Guarantee")]
    dataset: Dataset
    setting: Setting
    epsilon: Epsilon
    entry: Entry
    label: Label
    fixed: Annotated[float, Column(header="Fixed %", kind="percent")]
    fixed_place: Annotated[int, Column(header="Place", kind="integer")]
    tuned: Annotated[float, Column(header="Tuned %", kind="percent")]
    tuned_place: Annotated[int, Column(header="Place", kind="integer")]
    accounted: Annotated[float, Column(header="Accounted %", kind="percent")]
    accounted_place: Annotated[int, Column(header="Place", kind="integer")]
    n: Annotated[int, Column(header="n", kind="integer")]
    gain_mean: Annotated[float | None, Column(header="Gain (points)", kind="points")]
    gain_low: Annotated[
        float | None, Column(header="95 % interval", kind="points", show=_gain_interval)
    ]
    gain_high: Annotated[float | None, Column(header="gain_high", kind="points", form="csv")]
    n_pairs: Pairs
    verdict: Verdict


def tuned_ranks_table(found: Sequence[Tuned], cells: Sequence[Cell]) -> Table[TunedRankRow]:
    """Places of the entries that have all three scores, among each other.

    Args:
        found: tuned entries with their fixed ones.
        cells: of the study, with the accounted entries.
    """
    all_accounted = {_key(cell): cell for cell in cells if cell.entry.startswith(ACCOUNTED)}
    tuned = {_key(item.cell): item.cell for item in found if item.fixed is not None}
    tuned = {key: cell for key, cell in tuned.items() if key in all_accounted}
    fixed = {_key(item.fixed): item.fixed for item in found if item.fixed is not None}
    accounted = {key: all_accounted[key] for key in tuned}
    tests = {key: compare(accounted[key], fixed[key]) for key in tuned}
    corrected, words = judged([*tests.values()])
    verdicts = {key: word or "no shared split" for key, word in zip(tests, words)}
    rows = []
    for ranking in rankings(list(accounted.values())):
        keys = [_key(place.cell) for place in ranking.places]
        for key in keys if len(keys) > 1 else ():
            scores = [[of[other] for other in keys] for of in (fixed, tuned, accounted)]
            rows.append(
                _row(ranking.title, tuned[key], scores, keys.index(key), tests[key], verdicts[key])
            )
    return Table(
        name="tuned-ranks",
        title="Fixed, tuned, and tuned with the choice accounted",
        caption=(
            "Mean test score in percent and place among the entries that have all three under one "
            "guarantee. Fixed: one configuration for every data set. Tuned: chosen on validation nodes, "
            "uncounted. Accounted: chosen among the same points inside the claim. Gain: accounted minus "
            "fixed on shared splits, with a 95 % interval; verdicts are corrected by Holm's method over "
            f"{sum(p is not None for p in corrected)} pairs."
        ),
        columns=columns_of(TunedRankRow),
        rows=rows,
        empty="No two entries of one guarantee have their choice accounted.",
    )


def what_accounting_costs(rows: Sequence[TunedRankRow]) -> str:
    """On how many pairs of graph and entry the accounted choice is ahead or behind; "" of none."""
    pairs = {(row.dataset, row.setting, row.epsilon, row.entry): row for row in rows}.values()
    tested = [row for row in pairs if row.gain_mean is not None]
    if not tested:
        return ""
    decided = [row for row in tested if row.verdict == "larger than the noise"]
    gains = [100 * row.gain_mean for row in tested if row.gain_mean is not None]
    ahead, behind = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    better = sum((row.gain_mean or 0) > 0 for row in decided)
    return (
        f"Of {len(tested)} pairs of graph and entry the accounted choice scores above the fixed "
        f"configuration in {ahead} ({better} decided) and below it in {behind} "
        f"({len(decided) - better} decided); the median difference is {median(gains):+.1f} points."
    )


def side_by_side(rows: Sequence[TunedRankRow]) -> list[str]:
    """Markdown: means over shared graphs, one line a guarantee, setting, epsilon and entry."""
    body = []
    groups = grouped(rows, lambda row: (row.guarantee, row.setting, row.epsilon))
    for (guarantee, setting, epsilon), group in groups.items():
        found = _without_holes(grouped(group, lambda row: row.label))
        order = sorted(found, key=lambda label: fmean(row.accounted_place for row in found[label]))
        for label in order:
            decided = [r for r in found[label] if r.verdict == "larger than the noise"]
            better = sum((row.gain_mean or 0) > 0 for row in decided)
            worse = sum((row.gain_mean or 0) < 0 for row in decided)
            body.append(
                [f"{guarantee} (setting {setting})", epsilon_text(epsilon), label, str(len(found[label])),
                 *(_mean_and_place(found[label], name) for name in ("fixed", "tuned", "accounted")),
                 f"{better} better, {worse} worse"]
            )  # fmt: skip
    head = ["Guarantee", "ε", "Entry", "Shared graphs", "Fixed", "Tuned, uncounted", "Tuned, accounted",
            "Accounted against fixed, decided"]  # fmt: skip
    return markdown(head, body, numbers=4) if body else []


def _without_holes(entries: Mapping[str, Sequence[TunedRankRow]]) -> dict[str, list[TunedRankRow]]:
    """Entries and the graphs that they share: the most rows of which no entry misses a graph."""
    order = sorted(entries, key=lambda label: -len(entries[label]))
    shared = {row.dataset for label in order for row in entries[label]}
    best: dict[str, list[TunedRankRow]] = {}
    for number, label in enumerate(order, 1):
        shared &= {row.dataset for row in entries[label]}
        if number * len(shared) > sum(map(len, best.values())):
            best = {
                name: [row for row in entries[name] if row.dataset in shared]
                for name in order[:number]
            }
    return {label: best[label] for label in entries if label in best}


def _mean_and_place(rows: Sequence[TunedRankRow], name: str) -> str:
    mean = 100 * fmean(getattr(row, name) for row in rows)
    return f"{mean:.1f} (place {fmean(getattr(row, f'{name}_place') for row in rows):.1f})"


def _row(
    guarantee: str,
    cell: Cell,
    scores: Sequence[Sequence[Cell]],
    at: int,
    test: PairedTest | None,
    word: str,
) -> TunedRankRow:
    fixed, tuned, accounted = ([other.interval.mean for other in cells] for cells in scores)
    return TunedRankRow(
        guarantee=guarantee, dataset=cell.dataset, setting=cell.setting, epsilon=cell.epsilon,
        entry=cell.entry, label=cell.label, fixed=fixed[at], fixed_place=_place(fixed, at),
        tuned=tuned[at], tuned_place=_place(tuned, at), accounted=accounted[at],
        accounted_place=_place(accounted, at), n=scores[2][at].interval.n,
        gain_mean=test.mean if test else None, gain_low=test.low if test else None,
        gain_high=test.high if test else None, n_pairs=test.n if test else None, verdict=word,
    )  # fmt: skip


def _key(cell: Cell) -> Key:
    return (*cell.place, cell.epsilon, cell.entry.removeprefix(ACCOUNTED))


def _place(means: Sequence[float], at: int) -> int:
    """1 and how many are ahead."""
    return 1 + sum(mean > means[at] for mean in means)
