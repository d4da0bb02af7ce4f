"""All figures of a study's paper, drawn, and the table that says what is drawn of each."""

from __future__ import annotations

from collections.abc import Sequence

from dpgnn.core.paths import Paths
from dpgnn.records.cells import Cell
from dpgnn.records.info import StudyInfo
from dpgnn.report.figures.charts import Chart
from dpgnn.report.figures.drawing import Picture
from dpgnn.report.paper.charts import chart
from dpgnn.report.paper.costs import cost_table, depth_table
from dpgnn.report.paper.drawing import draw
from dpgnn.report.paper.embedding import embedding_panels
from dpgnn.report.paper.figures import FORMS, FigureRow, check_entries, figures_table, load_figures
from dpgnn.report.paper.map import read_numbers
from dpgnn.report.paper.missing import missing
from dpgnn.report.paper.panels import panels_of
from dpgnn.report.tables.table import Table
from dpgnn.report.tables.tops import tops_table


def further_tables(info: StudyInfo, cells: Sequence[Cell]) -> list[Table]:
    """Tables of a paper that compare more than accuracies."""
    if info.paper != "caribou":
        return []
    numbers = read_numbers("caribou_numbers.csv")
    return [tops_table(numbers, cells), depth_table(), cost_table(numbers, cells)]


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
        if panels:
            stem, title = f"paper-{info.paper}-{name}", f"{info.paper} {name}: {figure.title}"
            drawn.append((draw(stem, title, figure, panels), chart(stem, figure, panels)))
    return drawn, [figures_table(info.paper, rows)]
