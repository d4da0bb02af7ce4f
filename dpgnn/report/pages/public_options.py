"""The page of options that cost no privacy: copied from public graphs, and what copying is worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, median

from dpgnn.core.grouping import grouped
from dpgnn.core.wording import count
from dpgnn.report.pages.asked import csv_of
from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.statistics.pairs import CLEAR
from dpgnn.report.tables.copied import CopiedRow, GainRow, OptionRow
from dpgnn.report.tables.pivots import markdown
from dpgnn.report.tables.table import (
    DASH,
    epsilon_text,
    interval_text,
    markdown_text,
    signed,
)

POINT = 0.01  # one point, a fraction


def option_lines(found: Sequence[StudyResults]) -> list[str]:
    """What copying is worth, beside the other ways to choose, and the options to copy.

    Args:
        found: the studies; those that tune nothing on several graphs say nothing.
    """
    lines = []
    for results in found:
        if results.options.rows:
            lines += [*_worth(results), *_four_ways(results), *_to_copy(results)]
    return lines or ["No study tunes an entry on several graphs yet.", ""]


def _worth(results: StudyResults) -> list[str]:
    """How often copied options score above the fixed ones, and by how much."""
    rows = results.copied.rows
    gains = [row.copied - row.fixed for row in rows]
    own = [row.tuned - row.fixed for row in rows]
    places = {(row.dataset, row.setting, row.epsilon, row.entry) for row in rows}
    over_all = [
        row.gain_mean
        for row in results.tuned.rows
        if (row.dataset, row.setting, row.epsilon, row.entry) in places
        and row.gain_mean is not None
    ]
    graphs, splits = len({row.dataset for row in rows}), max(row.n for row in rows)
    entries = len({row.entry for row in rows})
    above, below = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    more, less = sum(gain > POINT for gain in gains), sum(gain < -POINT for gain in gains)
    return [
        "Options chosen on validation nodes of a private graph leak, and no ε counts it. A counted choice "
        "costs accuracy. Options that did best on *other* graphs, which are public, cost nothing, because "
        "nothing of the private graph is read. What are they worth there?",
        "",
        "Each graph in turn plays the private one: of an entry's points that all graphs have, the one with "
        "the best mean score on validation nodes of the other graphs is taken and tested here, against the "
        f"one configuration that the study states for all graphs ({csv_of(results, results.copied.name)}).",
        "",
        f"**Copied options gain {_points(gains)} points in the mean and {_points(gains, median)} in the "
        f"median; options chosen on the graph itself, uncounted, {_points(own)} and "
        f"{_points(own, median)} ({_points(over_all)} in the mean over all splits; it reads the first "
        f"{splits}). Of {len(rows):,} cells of graph, entry and ε copied options score above "
        f"the fixed ones in {above:,} (in {more:,} by more than a point) and below in {below:,} (in "
        f"{less:,}).** n = {splits} splits; {count(graphs, 'graph')}; {count(entries, 'entry', 'entries')}.",
        "",
    ]  # fmt: skip


def _points(gains: Sequence[float], middle: Callable[[Sequence[float]], float] = fmean) -> str:
    return signed(100 * middle(gains))


def _four_ways(results: StudyResults) -> list[str]:
    """Fixed, copied, counted and uncounted, of entries that have all four."""
    rows = [row for row in results.copied.rows if row.accounted is not None]
    if not rows:
        return []
    # means over the same scores in another order differ in their last digits
    ahead = [round(row.copied - (row.accounted or 0.0), 12) for row in rows]
    budgets = ", ".join(sorted({epsilon_text(row.epsilon) for row in rows}))
    body = [
        [markdown_text(name), str(len(here)), _mean(here, "fixed"),
         *(_gain(here, way) for way in ("copied", "accounted", "tuned"))]
        for name, here in grouped(rows, _name).items()
    ]  # fmt: skip
    head = [
        "Entry",
        "Graphs",
        "Fixed %",
        "Copied",
        "Chosen here, counted",
        "Chosen here, uncounted",
    ]
    return [
        f"## Four ways to choose, at ε = {budgets}", "",
        "Mean over graphs; the last three in points above the fixed options. Counted: a private choice among "
        "the same points inside the claim ([selected](methods/selected.md)). Of "
        f"{count(len(rows), 'pair')} of graph and entry copied options score above the counted choice in "
        f"{sum(gain > 0 for gain in ahead)} and below it in {sum(gain < 0 for gain in ahead)}; the mean "
        f"difference is {_points(ahead)} points.", "",
        *markdown(head, body, numbers=5), "",
    ]  # fmt: skip


def _name(row: CopiedRow | OptionRow | GainRow) -> str:
    """The entry, with its setting where that is not the whole graph."""
    return row.label if row.setting == "whole" else f"{row.label} (setting {row.setting})"


def _mean(rows: Sequence[CopiedRow], way: str) -> str:
    return f"{100 * fmean(getattr(row, way) for row in rows):.1f}"


def _gain(rows: Sequence[CopiedRow], way: str) -> str:
    return signed(100 * fmean(getattr(row, way) - row.fixed for row in rows))


def _to_copy(results: StudyResults) -> list[str]:
    """The options of each entry and budget, and their gain on a graph that was left out."""
    table = results.options
    budgets = list(dict.fromkeys(row.epsilon for row in table.rows))
    gains = {_name(row): row for row in results.gains.rows}
    body = []
    for name, here in grouped(table.rows, _name).items():
        of = {row.epsilon: row for row in here}
        points = (_advice(of[budget]) if budget in of else DASH for budget in budgets)
        body.append([markdown_text(name), _over_budgets(gains.get(name)), *points])
    return [
        "## Options to copy", "",
        f"{table.caption} All, with full names of the options: {csv_of(results, table.name)}.", "",
        f"{_decided(results.gains.rows)} {results.gains.caption} {csv_of(results, results.gains.name)}. "
        "Where a gain is negative, the stated options are the safer ones; those of votes were fixed with "
        "these graphs in view. Cora and Cora-ML are both of papers on machine learning, so neither is quite "
        "new to the other. Another graph may differ by more than an interval shows.", "",
        *markdown(["Entry", "Gain, all ε", *(f"ε = {epsilon_text(b)}" for b in budgets)], body), "",
    ]  # fmt: skip


def _advice(row: OptionRow) -> str:
    """The point in short, and its gain."""
    point = row.point.replace("~", ", ").replace("num_", "")
    return markdown_text(f"{point}: {signed(100 * row.gain_mean)}")


def _over_budgets(row: GainRow | None) -> str:
    if row is None:
        return DASH
    interval = interval_text(row.gain_low, row.gain_high, "points")
    text = f"{signed(100 * row.gain_mean)} ({interval})"
    return f"**{text}**" if row.verdict == CLEAR else text


def _decided(rows: Sequence[GainRow]) -> str:
    """How many entries gain or lose by copying."""
    clear = [row.gain_mean > 0 for row in rows if row.verdict == CLEAR]
    above = sum(row.gain_low is not None and row.gain_low > 0 for row in rows)
    below = sum(row.gain_high is not None and row.gain_high < 0 for row in rows)
    return (
        f"Over all ε, of {len(rows)} entries {above} gain and {below} lose with an interval that leaves out "
        f"zero; after the correction {sum(clear)} and {len(clear) - sum(clear)} (bold)."
    )
