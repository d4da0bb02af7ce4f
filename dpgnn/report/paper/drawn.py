"""All figures of a study's paper, and a table of what is not drawn and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpgnn.core.paths import Paths
from dpgnn.records.cells import Cell
from dpgnn.records.info import StudyInfo
from dpgnn.report.figures.charts import Chart
from dpgnn.report.figures.drawing import Picture
from dpgnn.report.paper.caribou import cost_tables, depth_table, tops_table
from dpgnn.report.paper.charts import chart
from dpgnn.report.paper.embedding import embedding_panels
from dpgnn.report.paper.figures import (
    FORMS,
    FigureRow,
    PaperFigure,
    check_entries,
    figures_table,
    load_figures,
    planned_of,
)
from dpgnn.report.paper.map import read_numbers
from dpgnn.report.paper.panels import Key, Panel, key_of, panels_of
from dpgnn.report.paper.printed import draw, sheets
from dpgnn.report.tables.table import Table


def further_tables(info: StudyInfo, cells: Sequence[Cell]) -> list[Table]:
    """Tables of a paper that compare more than accuracies."""
    if info.paper != "caribou":
        return []
    numbers = read_numbers("caribou_numbers.csv")
    return [
        tops_table(numbers, cells),
        depth_table(),
        *cost_tables(numbers, cells),
        tops_table(numbers, cells, other_bound=True),
    ]


def paper_figures(
    info: StudyInfo, cells: Sequence[Cell], paths: Paths
) -> tuple[list[tuple[Picture, Chart]], list[Table[FigureRow]]]:
    """Printed and interactive form of each figure that has records, and the table of all of them.

    Raises:
        ConfigError: the map of the paper's figures is wrong.
    """
    stated = load_figures(info.paper) if info.paper else None
    if stated is None:
        return [], []
    check_entries(stated, info)
    drawn: list[tuple[Picture, Chart]] = []
    rows: list[FigureRow] = []
    for name, figure in stated.figures.items():
        embedded = figure.kind == "embedding"
        panels = embedding_panels(figure, cells, paths) if embedded else panels_of(figure, cells)
        present, planned, reason = missing(figure, cells, info, panels)
        rows.append(
            FigureRow(
                figure=name,
                title=figure.title,
                form=FORMS[figure.kind],
                cells=f"{present} of {planned}",
                points=sum(len(line.points) for panel in panels for line in panel.lines),
                reason=reason,
            )
        )
        stem, title = f"paper-{info.paper}-{name}", f"{info.paper} {name}: {figure.title}"
        for suffix, words, page in sheets(figure, panels) if panels else ():
            made = draw(stem + suffix, title + words, figure, page)
            drawn.append((made, chart(stem + suffix, figure, page)))
    return drawn, [figures_table(info.paper, rows)]


# why a place with records has no panel
NO_PANEL = {
    "embedding": "model.safetensors, graph and split of the runs are not here, nor kept positions",
    "checkpoints": "the runs kept no history.parquet with a score",
}
ONE_VALUE = "what the figure varies has one value there"


def missing(
    figure: PaperFigure, cells: Sequence[Cell], info: StudyInfo, panels: Sequence[Panel]
) -> tuple[int, int, str]:
    """Number of cells drawn, number planned in this tier, and words on what is not drawn.

    Args:
        figure: as its map states it.
        cells: of the study.
        info: the study.
        panels: the drawn panels of the figure.
    """
    counts, words = [0, 0], []
    for letter, part in figure.lettered:
        shown, planned, reason = _part_missing(
            part, cells, info, [panel for panel in panels if panel.part == letter]
        )
        counts = [counts[0] + shown, counts[1] + planned]
        if reason:
            words.append(f"({letter}) {reason}" if letter else reason)
    return counts[0], counts[1], "; ".join(words)


def _part_missing(
    figure: PaperFigure, cells: Sequence[Cell], info: StudyInfo, panels: Sequence[Panel]
) -> tuple[int, int, str]:
    planned = planned_of(figure, info)
    wanted = {key for keys in planned.values() for key in keys}
    recorded = wanted & {key_of(cell) for cell in cells}
    drawn = {key for panel in panels for line in panel.lines for key in line.cells}
    reasons = []
    empty = [label for label, keys in planned.items() if not keys]
    if empty:
        reasons.append(f"not in tier {info.tier}: {_labels(empty)}")
    places = {_place(key) for key in wanted}
    absent = [place for place in figure.places if place not in places]
    if absent and places:
        reasons.append(f"no run of these entries in tier {info.tier} on {', '.join(absent)}")
    reasons += _panels_missing(figure, recorded, panels)
    reasons += _lines_missing(planned, panels)
    shown = {panel.place for panel in panels}
    aside = sum(_place(key) in shown for key in recorded - drawn)
    if aside:
        verb = "stands" if aside == 1 else "stand"
        reasons.append(
            f"{aside} recorded {verb} in no line: other options than the figure holds fixed, one value of "
            "what it varies, or behind the first entry of a series"
        )
    waiting = len(wanted - recorded)
    if waiting:
        reasons.append(f"{waiting} cells planned, not run yet")
    return len(wanted & drawn), len(wanted), "; ".join(reasons)


def _panels_missing(
    figure: PaperFigure, recorded: Iterable[Key], panels: Sequence[Panel]
) -> list[str]:
    """Places that have records but no panel."""
    shown = {panel.place for panel in panels}
    present = {_place(key) for key in recorded}
    lost = [place for place in figure.places if place in present - shown]
    if not lost:
        return []
    return [f"no panel of {', '.join(lost)}: {NO_PANEL.get(figure.kind, ONE_VALUE)}"]


def _lines_missing(planned: dict[str, list[Key]], panels: Sequence[Panel]) -> list[str]:
    """Series of this tier without a point in a drawn panel; series with the same gaps are joined."""
    drawn: dict[str, set[Key]] = {}
    for panel in panels:
        here = drawn.setdefault(panel.where, set())
        here |= {key for line in panel.lines for key in line.cells}
    gaps: dict[tuple[str, ...], list[str]] = {}
    for label, keys in planned.items():
        without = tuple(where for where, shown in drawn.items() if not shown & set(keys))
        if keys and without:
            gaps.setdefault(without, []).append(label)
    return [f"no {_labels(labels)} on {', '.join(where)}" for where, labels in gaps.items()]


def _labels(labels: Sequence[str]) -> str:
    """Labels joined by commas; a label that contains a comma is quoted."""
    return ", ".join(f"“{label}”" if "," in label else label for label in labels)


def _place(key: Key) -> str:
    return f"{key[0]}.{key[1]}"
