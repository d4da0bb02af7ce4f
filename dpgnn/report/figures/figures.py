"""The printed figures of a study; their interactive forms are in `charts.py`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpgnn.records.info import StudyInfo
from dpgnn.report.figures import drawing
from dpgnn.report.figures.drawing import Picture
from dpgnn.report.figures.figure_data import (
    AccuracyFigure,
    AccuracyPanel,
    ClassCurve,
    TrainingCurve,
)
from dpgnn.report.figures.style import Look, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIDE_BY_SIDE = "Entries stand side by side here whatever their guarantee; this is no ranking."
COLUMN_NAMES = {
    "train_loss": "training loss",
    "val_accuracy": "validation accuracy (%)",
    "train_accuracy": "training accuracy (%)",
}


def draw_accuracy(figure: AccuracyFigure, info: StudyInfo) -> Picture:
    """Accuracy against epsilon with 95 % bands; one panel per data set; non-private levels dashed."""
    look = looks(info)
    with drawing.style():
        canvas, axes = drawing.grid(len(figure.panels), title=f"Guarantee: {figure.guarantee}")
        for position, (panel, axis) in enumerate(zip(figure.panels, axes)):
            _accuracy_axis(axis, panel, look)
            # a row shares its first label; a panel of another metric has its own
            first = position - position % drawing.columns_of(len(figure.panels))
            if position == first or panel.metric != figure.panels[first].metric:
                axis.set_ylabel(f"test {panel.metric.replace('_', ' ')} (%)")
        drawing.legend(canvas, axes)
    names = ", ".join(panel.title for panel in figure.panels)
    return Picture(
        name=figure.name,
        title=f"Accuracy against ε ({figure.guarantee})",
        caption=(
            "Mean test score over repeats against ε (logarithmic axis) with 95 % bands; dashed: the level of "
            "an entry without privacy, which gives no guarantee at all. Only entries whose claims allow one "
            f"ranking stand in one figure: {figure.guarantee}."
        ),
        alt=f"Lines of test score in percent against epsilon on {names}. {_alt_numbers(figure)}",
        figure=canvas,
    )


def draw_classes(panels: Mapping[str, Sequence[ClassCurve]], info: StudyInfo) -> Picture:
    """Recall by class, from rare to frequent: private entries at the smallest and the largest epsilon."""
    look = looks(info)
    columns = _epsilon_columns(panels)
    with drawing.style():
        canvas, grid = drawing.rows_of(len(panels), len(columns))
        for (title, curves), axes in zip(panels.items(), grid):
            for epsilon, axis in zip(columns, axes):
                shown = [curve for curve in curves if curve.epsilon in ("inf", epsilon)]
                _class_axis(axis, shown, look)
                budget = "" if epsilon == "inf" else f", ε = {epsilon}"
                axis.set_title(f"{title}{budget}", loc="left")
            axes[0].set_ylabel("recall of the class (%)")
        for axis in grid[-1]:
            axis.set_xlabel("class, from rare to frequent\n(share of test nodes)")
        drawing.legend(canvas, [axis for axes in grid for axis in axes])
    return Picture(
        name="class-accuracy",
        title="Recall by class frequency",
        caption=(
            "Share of each class's test nodes that is recognised, classes from rare to frequent, with 95 % "
            f"intervals over repeats. Dashed lines: no privacy. {SIDE_BY_SIDE}"
        ),
        alt="Recall of each class against how frequent the class is, on " + ", ".join(panels) + ".",
        figure=canvas,
    )


def draw_training(panels: Mapping[str, Sequence[TrainingCurve]], info: StudyInfo) -> Picture:
    """Loss and accuracy over the steps of training, private entries at their largest epsilon."""
    look = looks(info)
    accuracy = _accuracy_column(panels)
    with drawing.style():
        canvas, grid = drawing.rows_of(len(panels), 2)
        for (title, curves), axes in zip(panels.items(), grid):
            largest = _largest_epsilon(curve.epsilon for curve in curves)
            for column, axis in zip(("train_loss", accuracy), axes):
                shown = [c for c in curves if c.column == column and c.epsilon in ("inf", largest)]
                _training_axis(axis, shown, look, percent=column != "train_loss")
                axis.set_ylabel(COLUMN_NAMES[column])
                budget = "" if largest == "inf" else f", ε = {largest}"
                axis.set_title(f"{title}{budget}", loc="left")
        for axis in grid[-1]:
            axis.set_xlabel("training step")
        drawing.legend(canvas, [axis for axes in grid for axis in axes])
    return Picture(
        name="training-curves",
        title="Training curves",
        caption=(
            "Mean over repeats with the range from smallest to largest; entries without privacy are dashed. "
            f"Such curves read private data and are never shown in a release. {SIDE_BY_SIDE}"
        ),
        alt="Training loss and accuracy against the training step, on " + ", ".join(panels) + ".",
        figure=canvas,
    )


def _accuracy_axis(axis: Axes, panel: AccuracyPanel, look: Mapping[str, Look]) -> None:
    epsilons = sorted({point.epsilon for series in panel.series for point in series.points})
    for series in panel.levels:
        point, style = series.points[0], look[series.entry]
        axis.axhline(
            100 * point.mean,
            color=style.color,
            linestyle=style.line(free=True),
            label=f"{series.label} (no privacy)",
        )
        if point.low is not None and point.high is not None:
            axis.axhspan(100 * point.low, 100 * point.high, color=style.color, alpha=0.08, lw=0)
    for series in panel.series:
        style = look[series.entry]
        x = [point.epsilon for point in series.points]
        y = [100 * point.mean for point in series.points]
        axis.plot(
            x, y, color=style.color, marker=style.marker, linestyle=style.line(), label=series.label
        )
        bounds = [(p.epsilon, p.low, p.high) for p in series.points if p.low is not None]
        if bounds:
            low = [100 * (p[1] or 0) for p in bounds]
            high = [100 * (p[2] or 0) for p in bounds]
            if len(bounds) > 1:
                axis.fill_between(
                    [p[0] for p in bounds], low, high, color=style.color, alpha=0.15, lw=0
                )
            else:
                axis.vlines(bounds[0][0], low[0], high[0], color=style.color, alpha=0.5)
    if epsilons:
        axis.set_xscale("log", base=2)
        axis.set_xticks(epsilons, [f"{value:g}" for value in epsilons])
        axis.minorticks_off()
        axis.set_xlim(epsilons[0] / 1.19, epsilons[-1] * 1.19)
        axis.set_xlabel("ε")
    else:
        axis.set_xticks([])
    axis.set_title(panel.title, loc="left")
    axis.margins(y=0.08)


def _class_axis(axis: Axes, curves: Sequence[ClassCurve], look: Mapping[str, Look]) -> None:
    many = max((len(curve.classes) for curve in curves), default=0) > 12
    for offset, curve in enumerate(curves):
        style, private = look[curve.entry], curve.epsilon != "inf"
        shift = (offset - (len(curves) - 1) / 2) * min(0.12, 0.6 / max(len(curves), 1))
        x = [position + (0 if many else shift) for position in range(len(curve.classes))]
        axis.plot(
            x,
            [100 * value for value in curve.mean],
            color=style.color,
            marker=None if many else style.marker,
            linestyle=style.line(free=not private),
            linewidth=1.0,
            label=curve.label if private else f"{curve.label} (no privacy)",
        )
        if not many:
            for position, low, high in zip(x, curve.low, curve.high):
                if low is not None and high is not None:
                    axis.vlines(
                        position, 100 * low, 100 * high, color=style.color, alpha=0.35, lw=1
                    )
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
            label=curve.label if private else f"{curve.label} (no privacy)",
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
