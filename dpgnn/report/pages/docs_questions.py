"""Two questions of docs/results.md: do edges help under privacy, and what does equal tuning change?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from statistics import fmean

from dpgnn.core.wording import count, listed
from dpgnn.records.cells import Cell
from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.statistics import comparisons
from dpgnn.report.statistics.differences import is_mlp, reads_edges
from dpgnn.report.statistics.stand_ins import on_real_graphs_if_any
from dpgnn.report.tables import pivots
from dpgnn.report.tables.comparisons_table import comparisons_table
from dpgnn.report.tables.rows import ComparisonRow, RankingRow, TunedRow
from dpgnn.report.tables.table import CellRow, Table
from dpgnn.report.tables.tuned_ranks import side_by_side, what_accounting_costs
from dpgnn.report.tables.tuning import CHOSEN

WORDS = ("ahead", "behind")


def about_edges(results: StudyResults, question: str) -> bool:
    """Whether a question compares entries with an MLP or DP-MLP, which reads no edge."""
    mlps = {cell.entry for cell in results.cells if is_mlp(cell)}
    return any(
        any(fnmatchcase(name, pattern) for name in mlps)
        for asked in results.info.comparisons
        if asked.question == question
        for pattern in asked.against
    )


def answer(found: Sequence[StudyResults]) -> list[str]:
    """Proved graph methods against an MLP with the same guarantee.

    Args:
        found: studies, the main one first; counted are comparisons on real graphs at the smallest and the
            largest epsilon of each.

    Returns:
        lines of Markdown: a sentence, then its counts by study and by unit; none without such comparisons.
    """
    counted = [
        (results.info.name, rows)
        for results in found
        if (rows := _fair_rows(results, results.comparisons))
    ]
    if not counted:
        return []
    name, rows = counted[0]
    everything = [row for _, row in rows]
    main = next(results for results in found if results.info.name == name)
    graphs, told = len({row.dataset for row in everything}), _counts(everything)
    lines = [
        f"On the {count(graphs, 'graph')} of study {name} a graph method that has a proof is, against an MLP "
        "that reads no edge (DP-MLP under the same guarantee; without noise where edges alone are "
        f"protected), {told}. {_tuned_counts(main, told)}DP-MLP with averaged answers, "
        "the control for what averaging alone gives, stands beside it in the tables. By study and by what "
        "is protected:",
        "",
    ]
    for name, rows in counted:
        units = dict.fromkeys(unit for unit, _ in rows)
        parts = [f"{unit}: {_counts([row for u, row in rows if u == unit])}" for unit in units]
        lines.append(f"- {name}: {'; '.join(parts)}.")
    return lines


def _tuned_counts(results: StudyResults, told: str) -> str:
    """How the pairs of which both sides are tuned come out, and as stated unless that is told; "" without.

    Both are corrected among these pairs alone, so that tuning is the one difference.
    """
    tuned = [row for _, row in _fair_rows(results, results.tuned_comparisons)]
    if not tuned:
        return ""
    there = {(*cell.place, cell.epsilon, cell.entry) for cell in results.tuned_cells}
    cells = [c for c in results.cells if (*c.place, c.epsilon, c.entry) in there]
    stated = comparisons_table(comparisons.compared(cells, results.info))
    same = [row for _, row in _fair_rows(results, stated)]
    entries = count(len({row.entry for row in tuned}), "method")
    words = (
        f"With both sides tuned alike ({entries}; options chosen on validation nodes, uncounted) it is "
        f"{_counts(tuned)}"
    )
    return (
        f"{words}. "
        if _counts(same) == told
        else f"{words}; the same pairs as stated: {_counts(same)}. "
    )


def _fair_rows(
    results: StudyResults, table: Table[ComparisonRow]
) -> list[tuple[str, ComparisonRow]]:
    """(unit, row) of a table's fair comparisons; on real graphs only if there are any."""
    cells = {(*cell.place, cell.entry, cell.epsilon): cell for cell in results.cells}
    by_entry = {cell.entry: cell for cell in results.cells}
    asked = dict.fromkeys(row.question for row in table.rows)
    wanted = {question for question in asked if about_edges(results, question)}
    found = []
    for row in table.rows:
        if row.question in wanted and _is_fair(row, cells, by_entry):
            claim = cells[_key(row)].claim
            assert claim is not None, "a fair comparison has a private entry"
            found.append((str(claim.privacy_unit), row))
    return on_real_graphs_if_any(found, lambda pair: pair[1].dataset)


def _is_fair(
    row: ComparisonRow,
    cells: Mapping[tuple[str, str, str, str], Cell],
    by_entry: Mapping[str, Cell],
) -> bool:
    """Whether a proved entry that reads edges is compared with an MLP that gives the same guarantee.

    The MLP without privacy gives it at edge level, where features and labels are public.
    """
    entry, reference = cells.get(_key(row)), by_entry[row.reference]
    if entry is None or entry.mode != "sound" or entry.claim is None or not reads_edges(entry):
        return False
    if not is_mlp(reference):
        return False
    return row.claims == "" if reference.is_private else entry.claim.privacy_unit == "edge"


def _key(row: ComparisonRow) -> tuple[str, str, str, str]:
    return row.dataset, row.setting, row.entry, row.epsilon


def _counts(rows: Sequence[ComparisonRow]) -> str:
    budgets = sorted({row.epsilon for row in rows}, key=float)
    parts = []
    for budget in dict.fromkeys((budgets[0], budgets[-1])):
        words = [row.verdict for row in rows if row.epsilon == budget]
        told = [f"{words.count(word)} {word}" for word in WORDS]
        told.append(f"{words.count('unclear') + words.count('inside the noise')} undecided")
        untested = words.count("one repeat") + words.count("no shared split")
        told += [f"{untested} not tested"] if untested else []
        parts.append(f"{listed(told)} at ε = {budget}")
    return ", ".join(parts)


@dataclass(frozen=True, kw_only=True)
class Gain:
    """A tuned entry against the same entry with its fixed configuration."""

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
    link = f"reference/{results.info.name}/tables/tuned.csv"
    return [
        f"**With an equal tuning budget** ([every number]({link}); {CHOSEN}; {graphs}, "
        f"{' or '.join(map(str, points))} points an entry). Among the tuned entries the largest mean is that "
        f"of the same entry tuned as with the fixed configuration, on the same splits, in {same} of "
        f"{count(places, 'ranking')}.",
        "",
        *pivots.leaders(ranked),
        "",
        "What the choice gains over the fixed configuration (points, over data sets and settings; corrected "
        f"over the whole table).{_gains(tuned)}",
        "",
        *pivots.comparison_summary([_gain(row) for row in tuned]),
        "",
        *_accounted_lines(results),
    ]


def _gains(tuned: Sequence[TunedRow]) -> str:
    """Mean gain over all repeats and over those that did not choose; "" where all choose."""
    both = [
        (row.gain_mean, row.gain_elsewhere)
        for row in tuned
        if row.gain_mean is not None and row.gain_elsewhere is not None
    ]
    if not both:
        return ""
    everywhere, elsewhere = (100 * fmean(column) for column in zip(*both))
    return (
        f" On average {everywhere:.2f} over all repeats, and {elsewhere:.2f} over those whose validation "
        "nodes the choice did not read; their test nodes may be among them."
    )


def _accounted_lines(results: StudyResults) -> list[str]:
    """Fixed, tuned and accounted side by side; none where no choice is accounted."""
    rows = on_real_graphs_if_any(results.tuned_ranks.rows, lambda row: row.dataset)
    if not rows:
        return []
    link = f"reference/{results.info.name}/tables/{results.tuned_ranks.name}.csv"
    title = f"{results.tuned_ranks.title} ([every number]({link}))"
    return [f"{title}. {what_accounting_costs(rows)}", "", *side_by_side(rows), ""]


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
