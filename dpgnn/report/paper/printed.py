"""The printed form of a paper's figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dpgnn.report.figures import drawing
from dpgnn.report.figures.drawing import Picture
from dpgnn.report.figures.figure_data import FEW
from dpgnn.report.figures.figures import SIDE_BY_SIDE
from dpgnn.report.figures.style import PALETTE, Look, look_at, shifted
from dpgnn.report.paper.figures import PaperFigure, varied_words
from dpgnn.report.paper.panels import Line, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MARKED = ("lines", "bars", "checkpoints")  # kinds with a line at the majority class


def looks_of(figure: PaperFigure) -> dict[str, Look]:
    """Series label -> look, in the order of the figure."""
    return {label: look_at(position) for position, label in enumerate(figure.labels)}


def sheets(figure: PaperFigure, panels: Sequence[Panel]) -> list[tuple[str, str, list[Panel]]]:
    """The figure's sheets of at most six panels: suffix of the stem, suffix of the title, panels."""
    wide = len(figure.y)
    step = wide if wide > 1 and len(panels) % wide == 0 else 1
    rows = [panels[start : start + step] for start in range(0, len(panels), step)]
    found = drawing.pages(rows, step=step)
    return [
        (
            f"-{number}" if number > 1 else "",
            f" ({number} of {len(found)})" if len(found) > 1 else "",
            [panel for row in page for panel in row],
        )
        for number, page in enumerate(found, start=1)
    ]


def draw(name: str, title: str, figure: PaperFigure, panels: Sequence[Panel]) -> Picture:
    """Draw the panels of one sheet of a figure, see `sheets`.

    Args:
        name: of the files.
        title: of the figure.
        figure: as its map states it.
        panels: at least one, from `panels.panels_of`.
    """
    return Picture(
        name=name,
        title=title,
        caption=_caption(figure),
        alt=f"{figure.title}. " + " ".join(_in_words(panel) for panel in panels),
        draw=partial(_drawn, figure, title.partition(": ")[2] or title, panels),
    )


def _drawn(figure: PaperFigure, title: str, panels: Sequence[Panel]) -> Figure:
    look = looks_of(figure)
    canvas, axes = _canvas(figure, title, panels)
    for panel, axis in zip(panels, axes):
        {"heat": _heat, "bars": _bars, "embedding": _cloud}.get(figure.kind, _lines)(
            axis, panel, look
        )
        drawing.panel_title(axis, panel.title)
        if figure.kind == "bars":
            axis.set_xlabel(panel.y_title)
        else:
            axis.set_ylabel(panel.row_title if figure.kind == "heat" else panel.y_title)
            axis.set_xlabel(panel.x_title)
    if figure.kind not in ("heat", "bars"):
        drawing.legend(canvas, axes, marker=2.5 if figure.kind == "embedding" else 1.0)
    return canvas


def _canvas(figure: PaperFigure, title: str, panels: Sequence[Panel]) -> tuple[Figure, list[Axes]]:
    """Panels in rows; quantities of one place side by side, bars as wide as their names ask for."""
    wide, num_panels = len(figure.y), len(panels)
    columns = wide if wide > 1 and num_panels % wide == 0 else 0
    if figure.kind != "bars":
        shown = {line.label for panel in panels for line in panel.lines}
        entries = 0 if figure.kind == "heat" else len(shown)
        return drawing.grid(num_panels, title=title, columns=columns, entries=entries)
    names = {name for panel in panels for _, name in panel.ticks}
    room = drawing.LEGEND_LETTER * max(map(len, names))
    columns = columns or min(drawing.columns_of(num_panels), max(1, int(drawing.FULL / (room + 1))))
    width = drawing.COLUMN if num_panels == 1 and room < 1.4 else drawing.FULL
    height = 0.2 * len(names) + 0.65
    return drawing.grid(num_panels, title=title, columns=columns, width=width, height=height)


def _lines(axis: Axes, panel: Panel, look: Mapping[str, Look]) -> None:
    """Lines with bands; dots with intervals across classes and over few values."""
    moving = [line for line in panel.lines if not line.level]
    drawing.majority_line(axis, panel.majority)
    values = sorted({p.x for line in moving for p in line.points})
    dotted = panel.by_class or len(values) <= FEW
    for line in panel.lines:
        style = look[line.label]
        name = drawing.free_label(line.label) if line.free else line.label
        if line.level:
            (point,) = line.points
            axis.axhline(point.mean, color=style.color, linestyle=style.line(free=True), label=name)
            if point.low is not None and point.high is not None:
                axis.axhspan(point.low, point.high, color=style.color, alpha=0.08, lw=0)
        elif dotted:
            shift = shift_of(moving.index(line), len(moving), values, log=panel.x_log)
            _dots(axis, line, style, name, shift, log=panel.x_log)
        elif len(line.points) <= FEW:
            _dots(axis, line, style, name, 0.0, log=panel.x_log)
        else:
            _band(axis, line, style, name)
    if panel.x_log and values:
        axis.set_xscale("log", base=2)
    if values and len(values) <= 8:
        shown = _apart(values, log=panel.x_log)
        axis.set_xticks(shown, [f"{value:.4g}" for value in shown])
        axis.minorticks_off()
    elif not values:
        axis.set_xticks([])
        drawing.not_available(axis, 0.5, 0.5, ha="center", transform=axis.transAxes)
    elif all(value.is_integer() for value in values):
        axis.locator_params(axis="x", integer=True)
    axis.margins(y=0.08)
    if dotted and len(values) == 1:
        axis.margins(x=0.5)


def _band(axis: Axes, line: Line, style: Look, name: str) -> None:
    x, y = [p.x for p in line.points], [p.mean for p in line.points]
    dash = style.line(free=line.free)
    axis.plot(x, y, color=style.color, marker=style.marker, linestyle=dash, label=name)
    known = [(p.x, p.low, p.high) for p in line.points if p.low is not None]
    if len(known) > 1:
        low, high = [k[1] or 0.0 for k in known], [k[2] or 0.0 for k in known]
        axis.fill_between([k[0] for k in known], low, high, color=style.color, alpha=0.15, lw=0)
    elif known:
        axis.vlines(known[0][0], known[0][1] or 0, known[0][2] or 0, color=style.color)


def _dots(axis: Axes, line: Line, style: Look, name: str, shift: float, *, log: bool) -> None:
    """Dots beside those of other lines; hollow without privacy."""
    x = [shifted(p.x, shift, log=log) for p in line.points]
    axis.plot(
        x, [p.mean for p in line.points], color=style.color, marker=style.marker, linestyle="",
        markerfacecolor="white" if line.free else style.color, label=name,
    )  # fmt: skip
    for place, point in zip(x, line.points):
        if point.low is not None and point.high is not None:
            axis.vlines(place, point.low, point.high, color=style.color, alpha=0.5)


def shift_of(position: int, count: int, values: Sequence[float], *, log: bool) -> float:
    """Horizontal shift of one line's dots; all stay within a third of the distance to the next value."""
    at = [math.log2(value) if log else value for value in values]
    gap = min((after - before for before, after in zip(at, at[1:])), default=1.0)
    return (position - (count - 1) / 2) * min(0.1, 0.6 / max(count, 1)) * gap


def _apart(values: Sequence[float], *, log: bool) -> list[float]:
    """The ticks that do not overlap the one before."""
    at = [math.log(value) if log and value > 0 else value for value in values]
    kept = [0]
    for position in range(1, len(values)):
        if at[position] - at[kept[-1]] >= 0.09 * (at[-1] - at[0]):
            kept.append(position)
    return [values[position] for position in kept]


def _bars(axis: Axes, panel: Panel, look: Mapping[str, Look]) -> None:
    """Horizontal bars, the first on top, each with its number."""
    largest = max(p.high or p.mean for line in panel.lines for p in line.points)
    for line in panel.lines:
        (point,) = line.points
        axis.barh(
            point.x, point.mean, color=look[line.label].color, alpha=0.8, height=0.7,
            hatch="//" if line.free else None,
        )  # fmt: skip
        if point.low is not None and point.high is not None:
            axis.hlines(point.x, point.low, point.high, color="#333333", lw=1.2)
        end = max(point.mean, point.high or 0.0)
        text = f"{point.mean:.1f}" if largest < 200 else f"{point.mean:,.0f}"
        axis.text(end + 0.02 * largest, point.x, text, va="center", fontsize=8)
    drawing.majority_line(axis, panel.majority, upright=True)
    shown = {p.x for line in panel.lines for p in line.points}
    for tick, _ in panel.ticks:
        if tick not in shown:
            drawing.not_available(axis, 0.02 * largest, tick)
    axis.set_yticks([tick for tick, _ in panel.ticks], [name for _, name in panel.ticks])
    axis.set_xlim(0, 1.18 * largest)
    places = [tick for tick, _ in panel.ticks]
    axis.set_ylim(max(places) + 0.6, min(places) - 0.6)
    axis.grid(axis="y", visible=False)


def _heat(axis: Axes, panel: Panel, look: Mapping[str, Look]) -> None:
    points = [p for line in panel.lines for p in line.points if p.row is not None]
    columns, rows = sorted({p.x for p in points}), sorted({p.row or 0.0 for p in points})
    values = np.full((len(rows), len(columns)), np.nan)
    for point in points:
        values[rows.index(point.row or 0.0), columns.index(point.x)] = point.mean
    axis.imshow(values, cmap="cividis", aspect="auto", origin="lower")
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            color = "black" if value > middle else "white"
            axis.text(column, row, f"{value:.1f}", ha="center", va="center", color=color, size=8)
        else:
            drawing.not_available(axis, column, row, ha="center")
    axis.set_xticks(range(len(columns)), [f"{value:g}" for value in columns])
    axis.set_yticks(range(len(rows)), [f"{value:g}" for value in rows])
    axis.grid(visible=False)


def _cloud(axis: Axes, panel: Panel, look: Mapping[str, Look]) -> None:
    """Points in the plane, one colour a class."""
    for position, line in enumerate(panel.lines):
        axis.scatter(
            [p.x for p in line.points], [p.mean for p in line.points], s=5, lw=0,
            color=PALETTE[position % len(PALETTE)], label=line.label,
        )  # fmt: skip
    axis.set_xticks([])
    axis.set_yticks([])


def _caption(figure: PaperFigure) -> str:
    parts = {
        "lines": "Means over repeats with 95 % bands; dashed: no privacy; n/a: no record.",
        "bars": "Means over repeats with 95 % intervals; n/a: no record.",
        "heat": "Mean test score in percent over repeats; n/a: no record.",
        "checkpoints": "Score at the ε spent so far, means over repeats with 95 % bands; dashed: the last "
        "score without privacy. Such curves read held-out labels and are never shown in a release.",
        "classes": "Classes from rare to frequent, means with 95 % intervals; hollow: no privacy.",
        "embedding": "",
    }  # fmt: skip
    shared = "Means are over the repeats that all points of a line have." if figure.is_sweep else ""
    dotted = "Dotted: the majority class." if figure.kind in MARKED and "score" in figure.y else ""
    side = "" if figure.kind in ("heat", "embedding") else SIDE_BY_SIDE
    varied = varied_words(figure)
    return " ".join(filter(None, (parts[figure.kind], dotted, varied, shared, figure.note, side)))


def _in_words(panel: Panel) -> str:
    ends = [f"{line.label} {line.points[-1].mean:.1f}" for line in panel.lines if line.points]
    return f"{panel.title}: {', '.join(ends[:8])}."
