"""The printed figures of a study; their interactive forms are in `charts.py`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dpgnn.records.info import StudyInfo
from dpgnn.report.figures import drawing
from dpgnn.report.figures.drawing import Picture
from dpgnn.report.figures.figure_data import (
    FEW,
    AccuracyFigure,
    AccuracyPanel,
    ClassCurve,
    Series,
    TrainingCurve,
)
from dpgnn.report.figures.parts import STAND_INS, Part
from dpgnn.report.figures.style import FREE_DASHES, PALETTE, Look, beside, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIDE_BY_SIDE = "Entries with different guarantees are shown side by side; this is not a ranking."
MANY = 12  # entries of a figure of dots
LEVELS = 3  # lines across a figure of dots that can be told apart
FREE = "#666666"  # of dots without privacy
COLUMN_NAMES = {
    "train_loss": "training loss",
    "val_accuracy": "validation accuracy (%)",
    "train_accuracy": "training accuracy (%)",
}


def draw_accuracy(figure: AccuracyFigure, info: StudyInfo) -> Picture:
    """Accuracy against epsilon with 95 % bands, dots where there are few epsilons; a panel a data set."""
    look = looks(info)
    shown = figure if figure.budgets else _levels_as_points(figure)
    few = all(panel.is_dotted for panel in shown.panels)
    guarantee = figure.guarantee.replace("as-published", "as published")
    title = f"Guarantee: {guarantee}"
    part = f" ({figure.part})" if figure.part else ""
    names = ", ".join(panel.title for panel in figure.panels)
    how = (
        "Mean test score over repeats, a dot for each ε, with 95 % intervals; n/a: not run"
        if few
        else "Mean test score over repeats against ε (logarithmic axis) with 95 % bands"
    )
    drawn = " Graphs are stand-ins, drawn in the shape of real ones." if STAND_INS in part else ""
    return Picture(
        name=figure.name,
        title=f"Accuracy against ε ({guarantee}){part}",
        caption=(
            f"{how}; dashed or hollow: an entry without privacy, which gives no guarantee at all; dotted: "
            "the majority class. Only "
            f"entries whose claims allow one ranking stand in one figure: {guarantee}.{drawn}"
        ),
        alt=f"Test score in percent against epsilon on {names}. {_alt_numbers(figure)}",
        draw=partial(_dots if few else _lines, shown, look, title + part),
    )


def draw_classes(part: Part[tuple[str, Sequence[ClassCurve]]], info: StudyInfo) -> Picture:
    """Recall by class, from rare to frequent: private entries at the smallest and the largest epsilon."""
    title = f"Recall by class frequency{f' ({part.words})' if part.words else ''}"
    return Picture(
        name=f"class-accuracy{part.suffix}",
        title=title,
        caption=(
            "Share of each class's test nodes that is recognised, classes from rare to frequent, with 95 % "
            f"intervals over repeats. Hollow: no privacy. {SIDE_BY_SIDE}"
        ),
        alt="Recall of each class against how frequent the class is, on "
        + ", ".join(place for place, _ in part.panels)
        + ".",
        draw=partial(_classes, part.panels, looks(info), title),
    )


def _classes(
    panels: Sequence[tuple[str, Sequence[ClassCurve]]], look: Mapping[str, Look], title: str
) -> Figure:
    columns = _epsilon_columns(dict(panels))
    canvas, grid = _two_by_two(len(panels), len(columns), title)
    for (place, curves), axes in zip(panels, grid):
        for epsilon, axis in zip(columns, axes):
            shown = [curve for curve in curves if curve.epsilon in ("inf", epsilon)]
            _class_axis(axis, shown, look)
            budget = "" if epsilon == "inf" else f", ε = {epsilon}"
            drawing.panel_title(axis, f"{place}{budget}")
        axes[0].set_ylabel("recall of the class (%)")
    for axis in grid[-1]:
        axis.set_xlabel("class, from rare to frequent\n(share of test nodes)")
    drawing.legend(canvas, [axis for axes in grid for axis in axes])
    return canvas


def draw_training(part: Part[tuple[str, Sequence[TrainingCurve]]], info: StudyInfo) -> Picture:
    """Loss and accuracy over the steps of training, private entries at their largest epsilon."""
    title = f"Training curves{f' ({part.words})' if part.words else ''}"
    return Picture(
        name=f"training-curves{part.suffix}",
        title=title,
        caption=(
            "Mean over repeats with the range from smallest to largest; entries without privacy are dashed. "
            f"Such curves read private data and are never shown in a release. {SIDE_BY_SIDE}"
        ),
        alt="Training loss and accuracy against the training step, on "
        + ", ".join(place for place, _ in part.panels)
        + ".",
        draw=partial(_training, part.panels, looks(info), title),
    )


def _training(
    panels: Sequence[tuple[str, Sequence[TrainingCurve]]], look: Mapping[str, Look], title: str
) -> Figure:
    accuracy = _accuracy_column(dict(panels))
    canvas, grid = _two_by_two(len(panels), 2, title)
    for (place, curves), axes in zip(panels, grid):
        largest = _largest_epsilon(curve.epsilon for curve in curves)
        for column, axis in zip(("train_loss", accuracy), axes):
            shown = [c for c in curves if c.column == column and c.epsilon in ("inf", largest)]
            _training_axis(axis, shown, look, percent=column != "train_loss")
            axis.set_ylabel(COLUMN_NAMES[column])
            budget = "" if largest == "inf" else f", ε = {largest}"
            drawing.panel_title(axis, f"{place}{budget}")
    for axis in grid[-1]:
        axis.set_xlabel("training step")
    drawing.legend(canvas, [axis for axes in grid for axis in axes])
    return canvas


def _two_by_two(num_rows: int, num_columns: int, title: str) -> tuple[Figure, list[list[Axes]]]:
    """A grid of panels with a row for each data set."""
    canvas, axes = drawing.grid(num_rows * num_columns, title=title, columns=num_columns)
    return canvas, [axes[at : at + num_columns] for at in range(0, len(axes), num_columns)]


def _lines(figure: AccuracyFigure, look: Mapping[str, Look], title: str) -> Figure:
    entries = {s.entry for panel in figure.panels for s in (*panel.series, *panel.levels)}
    canvas, axes = drawing.grid(len(figure.panels), title=title, entries=len(entries))
    for position, (panel, axis) in enumerate(zip(figure.panels, axes)):
        _accuracy_axis(axis, panel, look)
        # a row shares its first label; a panel of another metric has its own
        first = position - position % drawing.columns_of(len(figure.panels))
        if position == first or panel.metric != figure.panels[first].metric:
            axis.set_ylabel(panel.score)
    drawing.legend(canvas, axes)
    return canvas


def _dots(figure: AccuracyFigure, look: Mapping[str, Look], title: str) -> Figure:
    """A row for each entry, a dot for each epsilon; entries without privacy are dashed lines or rows."""
    names = {series.label for panel in figure.panels for series in panel.levels}
    figure = _levels_as_rows(figure) if len(names) > LEVELS else figure
    most = 1 + _is_apart(figure.budgets)
    labels = {s.entry: s.label.replace("<=", "≤") for panel in figure.panels for s in panel.series}
    levels = list(dict.fromkeys(s.label for panel in figure.panels for s in panel.levels))
    room = drawing.LEGEND_LETTER * max(map(len, labels.values()))
    narrow = len(figure.panels) == 1 and room < 1.4
    width = drawing.COLUMN if narrow else drawing.FULL
    # with many rows panels are tall, so as many as fit stand side by side
    many = len(labels) > MANY
    fitting = max(1, int((width - room) / (1.1 if many else 1.3)))
    usual = len(figure.panels) if many else drawing.columns_of(len(figure.panels))
    canvas, axes = drawing.grid(
        len(figure.panels), title=title, width=width, sharey=True,
        columns=min(fitting, usual),
        height=0.17 * (len(labels) * most**0.5 + 1) + 0.65,
    )  # fmt: skip
    for budget in figure.budgets:  # the legend's order
        _dot(axes[0], [], [], budget, figure.budgets)
    for panel, axis in zip(figure.panels, axes):
        _dotted_axis(axis, panel, list(labels), levels, figure.budgets)
        drawing.panel_title(axis, panel.title, shared=room)
    axes[0].set_yticks(range(len(labels)), list(labels.values()))
    axes[0].set_ylim(len(labels) - 0.5, -0.5)
    drawing.legend(canvas, axes)
    return canvas


def _dotted_axis(
    axis: Axes,
    panel: AccuracyPanel,
    entries: Sequence[str],
    levels: Sequence[str],
    budgets: Sequence[float],
) -> None:
    shown = {series.entry: series for series in panel.series}
    for row, entry in enumerate(entries):
        if entry in shown:
            _row_of_dots(axis, row, shown[entry], budgets)
        else:
            drawing.not_available(axis, 0.02, row, transform=axis.get_yaxis_transform())
    for series in panel.levels:
        dash = FREE_DASHES[levels.index(series.label) % len(FREE_DASHES)]
        short = tuple(0.6 * length for length in dash)
        axis.axvline(
            100 * series.points[0].mean, color="#777777", lw=1, linestyle=(0, short),
            label=drawing.free_label(series.label),
        )  # fmt: skip
    drawing.majority_line(axis, _percent(panel.majority), upright=True)
    axis.set_xlabel(panel.score)
    axis.tick_params(axis="y", length=0)


def _row_of_dots(axis: Axes, row: int, series: Series, budgets: Sequence[float]) -> None:
    """A dot and an interval for each epsilon, one below another; hollow without privacy."""
    apart = _is_apart(budgets)
    for point in series.points:
        turn = budgets.index(point.epsilon)
        at = row + (0.5 * turn - 0.25 if apart and point.epsilon < math.inf else 0)
        color = _dot(axis, [100 * point.mean], [at], point.epsilon, budgets)
        if point.low is not None and point.high is not None:
            axis.hlines(at, 100 * point.low, 100 * point.high, color=color, alpha=0.5)


def _is_apart(budgets: Sequence[float]) -> bool:
    """Whether an entry's dots are drawn one below another: where there are two budgets."""
    return 1 < sum(budget < math.inf for budget in budgets) <= FEW


def _dot(
    axis: Axes, x: Sequence[float], y: Sequence[float], epsilon: float, budgets: Sequence[float]
) -> str:
    """Dots of one epsilon, and their colour."""
    free = epsilon == math.inf
    color = FREE if free else PALETTE[budgets.index(epsilon) % len(PALETTE)]
    name = "no privacy" if free else f"ε = {epsilon:g}"
    axis.plot(x, y, "o", color=color, markerfacecolor="white" if free else color, label=name)
    return color


def _levels_as_points(figure: AccuracyFigure) -> AccuracyFigure:
    """A figure without private entries, which shows its levels as points."""
    panels = [replace(panel, series=panel.levels, levels=()) for panel in figure.panels]
    return replace(figure, panels=tuple(panels))


def _levels_as_rows(figure: AccuracyFigure) -> AccuracyFigure:
    """The figure with its levels as rows below the others."""
    panels = [
        replace(panel, series=(*panel.series, *panel.levels), levels=()) for panel in figure.panels
    ]
    return replace(figure, panels=tuple(panels))


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _accuracy_axis(axis: Axes, panel: AccuracyPanel, look: Mapping[str, Look]) -> None:
    epsilons = sorted({point.epsilon for series in panel.series for point in series.points})
    for series in panel.levels:
        _level(axis, series, look[series.entry])
    drawing.majority_line(axis, _percent(panel.majority))
    for series in panel.series:
        _curve(axis, series, look[series.entry])
    if epsilons:
        axis.set_xscale("log", base=2)
        axis.set_xticks(epsilons, [f"{value:g}" for value in epsilons])
        axis.minorticks_off()
        axis.set_xlim(epsilons[0] / 1.19, epsilons[-1] * 1.19)
        axis.set_xlabel("ε")
    else:
        axis.set_xticks([])
    drawing.panel_title(axis, panel.title)
    axis.margins(y=0.08)


def _level(axis: Axes, series: Series, style: Look) -> None:
    """Draw an entry without privacy as a horizontal line with its interval."""
    point = series.points[0]
    axis.axhline(
        100 * point.mean, color=style.color, linestyle=style.line(free=True),
        label=drawing.free_label(series.label),
    )  # fmt: skip
    if point.low is not None and point.high is not None:
        axis.axhspan(100 * point.low, 100 * point.high, color=style.color, alpha=0.08, lw=0)


def _curve(axis: Axes, series: Series, style: Look) -> None:
    """Draw means over epsilon with their intervals; few points are not joined."""
    x = [point.epsilon for point in series.points]
    y = [100 * point.mean for point in series.points]
    joined = len(x) > FEW
    axis.plot(
        x, y, color=style.color, marker=style.marker,
        linestyle=style.line() if joined else "", label=series.label,
    )  # fmt: skip
    bounds = [(p.epsilon, p.low, p.high) for p in series.points if p.low is not None]
    if bounds:
        low = [100 * (p[1] or 0) for p in bounds]
        high = [100 * (p[2] or 0) for p in bounds]
        at = [p[0] for p in bounds]
        if joined:
            axis.fill_between(at, low, high, color=style.color, alpha=0.15, lw=0)
        else:
            axis.vlines(at, low, high, color=style.color, alpha=0.5)


def _class_axis(axis: Axes, curves: Sequence[ClassCurve], look: Mapping[str, Look]) -> None:
    """Draw dots, side by side within a class; no line joins classes."""
    size = 4.0 if max((len(curve.classes) for curve in curves), default=0) <= 12 else 2.5
    for offset, curve in enumerate(curves):
        style, private = look[curve.entry], curve.epsilon != "inf"
        shift = beside(offset, len(curves))
        x = [position + shift for position in range(len(curve.classes))]
        axis.plot(
            x,
            [100 * value for value in curve.mean],
            color=style.color,
            marker=style.marker,
            markersize=size,
            markerfacecolor=style.color if private else "white",
            linestyle="",
            label=curve.label if private else drawing.free_label(curve.label),
        )
        bounds = [
            (position, 100 * low, 100 * high)
            for position, low, high in zip(x, curve.low, curve.high)
            if low is not None and high is not None
        ]
        if bounds:
            axis.vlines(*zip(*bounds), color=style.color, alpha=0.35, lw=1)
    if curves:
        share = curves[0].share
        step = max(1, math.ceil(len(share) / 6))
        ticks = list(range(0, len(share), step))
        axis.set_xticks(ticks, [f"{100 * share[tick]:.1f}%" for tick in ticks])
        axis.set_xlim(-0.6, len(share) - 0.4)
    axis.set_ylim(-3, 103)


def _training_axis(
    axis: Axes, curves: Sequence[TrainingCurve], look: Mapping[str, Look], *, percent: bool
) -> None:
    scale = 100 if percent else 1
    for curve in curves:
        style, private = look[curve.entry], curve.epsilon != "inf"
        axis.plot(
            curve.step,
            [scale * value for value in curve.mean],
            color=style.color,
            linestyle=style.line(free=not private),
            label=curve.label if private else drawing.free_label(curve.label),
        )
        low, high = ([scale * value for value in values] for values in (curve.low, curve.high))
        axis.fill_between(curve.step, low, high, color=style.color, alpha=0.12, lw=0)
    ends = [curve.step[-1] for curve in curves]
    if ends and max(ends) > 5 * min(ends):
        axis.set_xscale("log")
    if not curves:
        axis.text(0.5, 0.5, "not recorded", ha="center", transform=axis.transAxes, color="#666666")


def _epsilon_columns(panels: Mapping[str, Sequence[ClassCurve]]) -> list[str]:
    found = {c.epsilon for curves in panels.values() for c in curves if c.epsilon != "inf"}
    ordered = sorted(found, key=float)
    return [ordered[0], ordered[-1]] if len(ordered) > 1 else ordered or ["inf"]


def _largest_epsilon(epsilons: Any) -> str:
    return max((epsilon for epsilon in epsilons if epsilon != "inf"), key=float, default="inf")


def _accuracy_column(panels: Mapping[str, Sequence[TrainingCurve]]) -> str:
    columns = {curve.column for curves in panels.values() for curve in curves}
    return "val_accuracy" if "val_accuracy" in columns else "train_accuracy"


def _alt_numbers(figure: AccuracyFigure) -> str:
    """The last point of every series and every level, in words."""
    parts = []
    for panel in figure.panels:
        ends = [
            f"{s.label} {100 * s.points[-1].mean:.1f} at epsilon {s.points[-1].epsilon:g}"
            for s in panel.series
        ]
        ends += [f"{s.label} {100 * s.points[0].mean:.1f} without privacy" for s in panel.levels]
        parts.append(f"{panel.title}: {', '.join(ends)}.")
    return " ".join(parts)
