"""What an equal tuning budget changes: who leads among tuned entries, and what tuning gains each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpgnn.report.pages.findings import count
from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.statistics.stand_ins import on_real_graphs_if_any
from dpgnn.report.tables import pivots
from dpgnn.report.tables.rows import RankingRow, TunedRow
from dpgnn.report.tables.table import CellRow
from dpgnn.report.tables.tuning import CHOSEN


@dataclass(frozen=True, kw_only=True)
class Gain:
    """A tuned entry against the same entry as stated."""

    dataset: str
    label: str
    reference_label: str
    epsilon: str
    mean: float | None
    verdict: str


def tuned_lines(results: StudyResults) -> list[str]:
    """A paragraph and two tables of Markdown; none where the study tunes nothing."""
    tuned = on_real_graphs_if_any(results.tuned.rows, lambda row: row.dataset)
    ranked = on_real_graphs_if_any(results.tuned_rankings.rows, lambda row: row.dataset)
    if not ranked:
        return []
    points = sorted({row.points for row in tuned})
    graphs = count(len({row.dataset for row in ranked}), "graph")
    same, places = _same_leader(ranked, tuned)
    link = f"results/{results.info.name}.md#tuned"
    return [
        f"**With an equal tuning budget** ([every number]({link}); {CHOSEN}; {graphs}, "
        f"{' or '.join(map(str, points))} points an entry). Among the tuned entries the largest mean is that "
        f"of the same entry tuned as with the fixed configuration, on the same splits, in {same} of "
        f"{count(places, 'ranking')}.",
        "",
        *pivots.leaders(ranked),
        "",
        "What the choice gains over the fixed configuration (points, over data sets and settings)",
        "",
        *pivots.comparison_summary([_gain(row) for row in tuned]),
        "",
    ]


def _same_leader(ranked: Sequence[RankingRow], tuned: Sequence[TunedRow]) -> tuple[int, int]:
    """Rankings of tuned entries whose leader leads as stated too, and rankings where all have that score."""
    fixed = {_cell(row): row.fixed for row in tuned if row.fixed is not None}
    same = places = 0
    for place in dict.fromkeys((row.guarantee, _cell(row)[1:]) for row in ranked):
        here = [row for row in ranked if (row.guarantee, _cell(row)[1:]) == place]
        stated = [fixed[_cell(row)] for row in here if _cell(row) in fixed]
        if len(stated) == len(here):
            places += 1
            first = min(here, key=lambda row: row.position)
            same += fixed[_cell(first)] == max(stated)
    return same, places


def _gain(row: TunedRow) -> Gain:
    verdict = row.verdict
    if verdict == "larger than the noise":
        verdict = "ahead" if row.gain_mean is not None and row.gain_mean > 0 else "behind"
    return Gain(
        dataset=row.dataset, label=row.label, reference_label="as stated", epsilon=row.epsilon,
        mean=row.gain_mean, verdict=verdict,
    )  # fmt: skip


def _cell(row: CellRow) -> tuple[str, str, str, str]:
    return row.entry, row.dataset, row.setting, row.epsilon
