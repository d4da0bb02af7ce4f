"""The README's figure: the best methods at one budget, grouped by what they protect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from dpgnn.core.grouping import grouped
from dpgnn.records.archive import MAIN_STUDY
from dpgnn.records.cells import UNCOVERED, UNCOVERED_WORDS
from dpgnn.report.figures import drawing
from dpgnn.report.figures.drawing import Picture
from dpgnn.report.statistics.stand_ins import on_real_graphs_if_any
from dpgnn.report.tables.rows import RankingRow, marked
from dpgnn.report.tables.table import epsilon_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpgnn.report.pages.study_results import StudyResults

GROUP_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MAX_PANELS = 4
BEST = 3


def front_figure(found: Sequence[StudyResults]) -> Picture | None:
    """Scores of the rankings of one study at its largest epsilon, a panel for each data set.

    Taken from the head-to-head study if its records are present, else from the first study with a proved
    ranking; without one, the first accuracy figure, or None.
    """
    order = sorted(found, key=lambda results: results.info.name != MAIN_STUDY)
    for results in order:
        rows = [row for row in results.rankings.rows if "as-published" not in row.guarantee]
        if rows:
            return _picture(results, rows)
    pictures = [picture for results in order for picture, _ in results.figures]
    return replace(pictures[0], name="front") if pictures else None


def _picture(results: StudyResults, rows: Sequence[RankingRow]) -> Picture:
    budget = max((row.epsilon for row in rows), key=float)
    rows = [_with_signs(row) for row in rows if row.epsilon == budget]
    rows, settings = _one_setting(rows)
    rows = on_real_graphs_if_any(rows, lambda row: row.dataset)
    present, datasets = _panels_of(rows, _sizes(results))
    rows = _best_of(rows, datasets)
    guarantees = list(dict.fromkeys(row.guarantee for row in rows))
    best = _best(rows, guarantees)
    return Picture(
        name="front",
        title=f"The best {BEST} of each guarantee at ε = {epsilon_text(budget)}",
        caption=(
            f"Test score at ε = {epsilon_text(budget)} with 95 % intervals over repeats: the {BEST} best "
            "means of each guarantee, of entries that all panels have. Only entries under one heading may "
            "be ranked together; an entry stands under each guarantee that follows from its own."
            f"{_hollow(rows)}{settings} Study {results.info.name}, tier {results.info.tier}"
            f"{_chosen(datasets, present)}."
        ),
        alt=f"Dots of test accuracy by method and guarantee. {best}",
        draw=partial(_draw, results, rows, datasets, guarantees),
    )


def _draw(
    results: StudyResults,
    rows: Sequence[RankingRow],
    datasets: Sequence[str],
    guarantees: Sequence[str],
) -> Figure:
    from matplotlib.figure import Figure

    lines = _lines(rows, guarantees)
    height = 0.155 * (len(lines) + 2) + 0.7
    figure = Figure(figsize=(drawing.FULL, height), layout="constrained")
    axes = figure.subplots(1, len(datasets), sharey=True, squeeze=False)[0]
    for dataset, axis in zip(datasets, axes):
        _panel(axis, dataset, rows, lines, guarantees)
        _levels(axis, results, dataset)
    axes[0].set_yticks(range(len(lines)), [text for _, text in lines])
    for tick, (entry, _) in zip(axes[0].get_yticklabels(), lines, strict=True):
        tick.set_fontweight("normal" if entry else "bold")
    axes[0].set_ylim(len(lines) - 0.4, -0.6)
    axes[len(axes) // 2].set_xlabel("test accuracy (%)")
    _legend(figure, rows)
    return figure


def _with_signs(row: RankingRow) -> RankingRow:
    return replace(
        row, guarantee=row.guarantee.replace("<=", "≤"), label=row.label.replace("<=", "≤")
    )


def _best_of(rows: Sequence[RankingRow], datasets: Sequence[str]) -> list[RankingRow]:
    """The rows of each guarantee's best entries, among those in every panel if there are any."""
    here = (row for row in rows if row.dataset in datasets)
    groups = grouped(here, lambda row: (row.guarantee, row.entry))
    whole = {key: group for key, group in groups.items() if len(group) == len(datasets)} or groups
    kept: set[tuple[str, str]] = set()
    for guarantee in dict.fromkeys(name for name, _ in whole):
        means = {
            key: sum(row.mean for row in group) / len(group)
            for key, group in whole.items()
            if key[0] == guarantee
        }
        kept |= {*sorted(means, key=lambda key: -means[key])[:BEST]}
    return [row for row in rows if (row.guarantee, row.entry) in kept and row.dataset in datasets]


def _legend(figure: Figure, rows: Sequence[RankingRow]) -> None:
    from matplotlib.lines import Line2D

    grey = "#777777"
    handles = [
        Line2D([], [], color=grey, ls="--", lw=1, label="MLP, no privacy"),
        Line2D([], [], color=grey, ls=":", lw=1, label="GCN, no privacy"),
        Line2D([], [], color=grey, marker="o", ls="", label="answers are covered"),
    ]
    if any(row.answers == "none" for row in rows):
        hollow = "an answer reads what no claim covers"
        handles.append(Line2D([], [], color=grey, marker="o", ls="", mfc="white", label=hollow))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def _one_setting(rows: Sequence[RankingRow]) -> tuple[list[RankingRow], str]:
    """Each data set in its first setting under a guarantee, and words on other settings."""
    first: dict[tuple[str, str], str] = {}
    usual: dict[str, str] = {}
    for row in rows:
        first.setdefault((row.guarantee, row.dataset), row.setting)
        usual.setdefault(row.dataset, row.setting)
    kept = [row for row in rows if row.setting == first[row.guarantee, row.dataset]]
    others = dict.fromkeys(
        f"{guarantee.removesuffix(', proved')}: {setting}"
        for (guarantee, dataset), setting in first.items()
        if setting != usual[dataset]
    )
    named = ", ".join(dict.fromkeys(usual.values()))
    return kept, f" Setting {named} ({'; '.join(others)})." if others else ""


def _hollow(rows: Sequence[RankingRow]) -> str:
    """What hollow dots mean; "" without any."""
    some = any(row.answers == "none" for row in rows)
    return f" Hollow dots ({UNCOVERED}): {UNCOVERED_WORDS[2:]}" if some else ""


def _sizes(results: StudyResults) -> dict[str, int]:
    """Data set -> number of nodes, from its records."""
    return {
        run.record.key["dataset"]: int(run.record.facts.get("num_nodes") or 0)
        for run in results.runs
    }


def _panels_of(rows: Sequence[RankingRow], sizes: dict[str, int]) -> tuple[list[str], list[str]]:
    """Graphs that may have a panel (those with intervals, if there are any), and the largest of them."""
    with_interval = [row for row in rows if row.n > 1]
    present = list(dict.fromkeys(row.dataset for row in with_interval or rows))
    largest = sorted(present, key=sizes.__getitem__)[-MAX_PANELS:]
    return present, [dataset for dataset in present if dataset in largest]


def _chosen(shown: Sequence[str], present: Sequence[str]) -> str:
    if len(shown) == len(present):
        return ""
    return f", its {len(shown)} largest real graphs of {len(present)} with repeated runs"


def _lines(rows: Sequence[RankingRow], guarantees: Sequence[str]) -> list[tuple[str, str]]:
    """(entry, label) from top to bottom; a heading has no entry."""
    found: list[tuple[str, str]] = []
    for guarantee in guarantees:
        here = [row for row in rows if row.guarantee == guarantee]
        labels = {row.entry: marked(row) for row in here}
        means = {
            entry: sum(row.mean for row in of_entry) / len(of_entry)
            for entry, of_entry in grouped(here, lambda row: row.entry).items()
        }
        found.append(("", _heading(guarantee)))
        ordered = sorted(means, key=lambda entry: -means[entry])
        found += [(f"{guarantee}|{entry}", labels[entry]) for entry in ordered]
    return found


def _heading(guarantee: str) -> str:
    """A guarantee, short enough for one line."""
    text = guarantee.removesuffix(", proved").replace("answers to nobody", "answers: uncovered")
    return text.replace("answers to their own node", "own node").replace(
        "answers to everyone", "everyone"
    )


def _panel(
    axis: Axes,
    dataset: str,
    rows: Sequence[RankingRow],
    lines: Sequence[tuple[str, str]],
    guarantees: Sequence[str],
) -> None:
    positions = {entry: place for place, (entry, _) in enumerate(lines)}
    for row in rows:
        if row.dataset != dataset:
            continue
        place = positions[f"{row.guarantee}|{row.entry}"]
        color = GROUP_COLORS[guarantees.index(row.guarantee) % len(GROUP_COLORS)]
        if row.low is not None and row.high is not None:
            axis.hlines(place, 100 * row.low, 100 * row.high, color=color, alpha=0.5, lw=2)
        fill = "white" if row.answers == "none" else color
        axis.plot(100 * row.mean, place, "o", color=color, markerfacecolor=fill, markersize=4)
    axis.set_title(dataset.replace("facebook-", ""), loc="left")
    axis.tick_params(axis="y", length=0)


def _levels(axis: Axes, results: StudyResults, dataset: str) -> None:
    """The levels of MLP and GCN without privacy."""
    for entry, dash in (("mlp", "--"), ("gcn", ":")):
        means = [
            cell.interval.mean
            for cell in results.cells
            if cell.entry == entry and cell.dataset == dataset and not cell.is_private
        ]
        if means:
            axis.axvline(100 * means[0], color="#777777", linestyle=dash, lw=1)


def _best(rows: Sequence[RankingRow], guarantees: Sequence[str]) -> str:
    parts = []
    for guarantee in guarantees:
        first = [row for row in rows if row.guarantee == guarantee and row.position == 1]
        parts += [
            f"{guarantee}, {row.dataset}: {marked(row)} {100 * row.mean:.1f}." for row in first
        ]
    return " ".join(parts)
