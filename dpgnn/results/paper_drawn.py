"""All figures of a study's paper, drawn, and the table that says what is drawn of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpgnn.paths import Paths
from dpgnn.results.cells import Cell
from dpgnn.results.charts import Chart
from dpgnn.results.drawing import Picture
from dpgnn.results.info import StudyInfo
from dpgnn.results.paper_charts import chart
from dpgnn.results.paper_costs import cost_table, depth_table
from dpgnn.results.paper_drawing import draw
from dpgnn.results.paper_embedding import embedding_panels
from dpgnn.results.paper_figures import FORMS, check_entries, figures_table, load_figures
from dpgnn.results.paper_map import read_numbers
from dpgnn.results.paper_missing import missing
from dpgnn.results.paper_panels import panels_of
from dpgnn.results.table import Table
from dpgnn.results.tops import tops_table


def further_tables(info: StudyInfo, cells: Sequence[Cell]) -> list[Table]:
    """Tables of a paper that compare more than accuracies."""
    if info.paper != "caribou":
        return []
    numbers = read_numbers("caribou_numbers.csv")
    return [tops_table(numbers, cells), depth_table(), cost_table(numbers, cells)]


def paper_figures(
    info: StudyInfo, cells: Sequence[Cell], paths: Paths
) -> tuple[list[tuple[Picture, Chart]], list[Table]]:
    """Printed and interactive form of each figure that has records, and the table of all of them.

    Raises:
        ConfigError: the map of the paper's figures is wrong.
    """
    stated = load_figures(info.paper) if info.paper else None
    if stated is None:
        return [], []
    check_entries(stated, info)
    drawn: list[tuple[Picture, Chart]] = []
    rows: list[dict[str, Any]] = []
    for name, figure in stated.figures.items():
        embedded = figure.kind == "embedding"
        panels = embedding_panels(figure, cells, paths) if embedded else panels_of(figure, cells)
        present, planned, reason = missing(figure, cells, info, panels)
        rows.append(
            {
                "figure": name,
                "title": figure.title,
                "form": FORMS[figure.kind],
                "cells": f"{present} of {planned}",
                "points": sum(len(line.points) for panel in panels for line in panel.lines),
                "reason": reason,
            }
        )
        if panels:
            stem, title = f"paper-{info.paper}-{name}", f"{info.paper} {name}: {figure.title}"
            drawn.append((draw(stem, title, figure, panels), chart(stem, figure, panels)))
    return drawn, [figures_table(info.paper, rows)]
