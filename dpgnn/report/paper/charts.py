"""The interactive form of a paper's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpgnn.report.figures import vega
from dpgnn.report.figures.charts import Chart, rounded
from dpgnn.report.figures.figure_data import FEW
from dpgnn.report.figures.style import Look, look_at, shifted
from dpgnn.report.paper.figures import PaperFigure
from dpgnn.report.paper.panels import Line, Panel, PanelPoint
from dpgnn.report.paper.printed import looks_of, shift_of

NUMBERS = (("mean", "mean"), ("interval", "95 %"), ("n", "n"))


def chart(name: str, figure: PaperFigure, panels: Sequence[Panel]) -> Chart:
    """The panels as Vega-Lite specifications; series are shown and hidden by the page's legend."""
    look = looks_of(figure)
    if figure.kind == "embedding":
        labels = dict.fromkeys(line.label for panel in panels for line in panel.lines)
        look = {
            label: replace(look_at(position), shape=look_at(0).shape)
            for position, label in enumerate(labels)
        }
    make = {"heat": _heat, "bars": _bars, "embedding": _cloud}.get(figure.kind, _lines)
    free = {line.label: line.free for panel in panels for line in panel.lines}
    levels = {line.label for panel in panels for line in panel.lines if line.level}
    lined = figure.kind not in ("heat", "bars", "embedding", "classes")
    return Chart(
        name=name,
        panels=tuple((panel.title, make(panel, look)) for panel in panels),
        legend=tuple(
            {"entry": label, "label": label, "private": not is_free}
            | look[label].legend(
                free=is_free,
                marked=figure.kind in ("embedding", "classes") or (lined and label not in levels),
                lined=lined,
            )
            for label, is_free in free.items()
        ),
    )


def _lines(panel: Panel, look: Mapping[str, Look]) -> dict[str, Any]:
    y = vega.y_axis("mean", panel.y_title)
    groups = []
    levels = [_row(line, point) for line in panel.lines if line.level for point in line.points]
    if levels:
        shown = vega.layer(
            {"type": "rule", "strokeWidth": 2}, y=y, strokeDash=vega.dash(look, look),
            tooltip=vega.tooltip(("entry", "series"), *NUMBERS),
        )  # fmt: skip
        groups.append(vega.group(levels, [shown], vega.color(look)))
    moving = [line for line in panel.lines if not line.level]
    if any(line.points for line in moving):
        groups.append(_moving(panel, moving, look, y))
    if panel.majority is not None:
        groups.append(vega.majority(rounded(panel.majority), y=y))
    return vega.spec(groups)


def _moving(
    panel: Panel, lines: Sequence[Line], look: Mapping[str, Look], y: Mapping[str, Any]
) -> dict[str, Any]:
    """Lines with bands; across classes and over few values dots beside each other with intervals."""
    values = sorted({_position(point) for line in lines for point in line.points})
    dotted = panel.by_class or len(values) <= FEW
    rows = []
    for place, line in enumerate(lines):
        shift = shift_of(place, len(lines), values, log=panel.x_log) if dotted else 0.0
        for point in line.points:
            rows.append(_row(line, point))
            if dotted:
                rows[-1]["at"] = rounded(shifted(_position(point), shift, log=panel.x_log))
    x: dict[str, Any] = {"field": "at" if dotted else "x", "type": "quantitative"}
    x["title"] = panel.x_title
    x["scale"] = {"type": "log", "base": 2} if panel.x_log else {"zero": False}
    x["axis"] = {"format": "~g"} | ({"values": values} if len(values) <= 8 else {})
    free = {line.label for line in lines if line.free}
    hollow = {line.label for line in lines if line.free and (dotted or len(line.points) <= FEW)}
    tooltip = vega.tooltip(("entry", "series"), ("x", panel.x_title), *NUMBERS)
    band, dash = vega.y_axis("low"), vega.dash(look, free)
    spread = {"type": "rule", "opacity": 0.5} if dotted else {"type": "area", "opacity": 0.15}
    joined = [] if dotted else [vega.joined(rows, FEW, x=x, y=y, strokeDash=dash)]
    layers = [
        vega.layer(spread, x=x, y=band, y2={"field": "high"}),
        *joined,
        vega.dots(look, 50, hollow, x=x, y=y, tooltip=tooltip),
    ]
    return vega.group(rows, layers, vega.color(look))


def _bars(panel: Panel, look: Mapping[str, Look]) -> dict[str, Any]:
    rows = [_row(line, point) for line in panel.lines for point in line.points]
    order = [name for _, name in panel.ticks]
    y = {"field": "entry", "type": "nominal", "title": None, "sort": order}
    x = {"field": "mean", "type": "quantitative", "title": panel.y_title}
    tooltip = vega.tooltip(("entry", "series"), *NUMBERS)
    layers = [
        vega.layer({"type": "bar", "opacity": 0.8}, x=x, y=y, tooltip=tooltip),
        vega.layer(
            {"type": "rule", "color": "#333333"}, y=y,
            x={"field": "low", "type": "quantitative"}, x2={"field": "high"},
            color={"value": "#333333"},
        ),
    ]  # fmt: skip
    groups = [vega.group(rows, layers, vega.color(look))]
    if panel.majority is not None:
        groups.append(vega.majority(rounded(panel.majority), x=x))
    return vega.spec(groups)


def _heat(panel: Panel, look: Mapping[str, Look]) -> dict[str, Any]:
    rows = [_row(line, point) for line in panel.lines for point in line.points]
    x = {"field": "x", "type": "ordinal", "title": panel.x_title}
    y = {"field": "row", "type": "ordinal", "title": panel.row_title, "sort": "descending"}
    fill = {"field": "mean", "type": "quantitative", "title": None, "scale": {"scheme": "cividis"}}
    tooltip = vega.tooltip(("x", panel.x_title), ("row", panel.row_title), *NUMBERS)
    middle = (min(row["mean"] for row in rows) + max(row["mean"] for row in rows)) / 2
    pale = {"test": f"datum.mean > {middle}", "value": "black"}
    layers = [
        vega.layer({"type": "rect"}, x=x, y=y, color=fill, tooltip=tooltip),
        vega.layer(
            {"type": "text"}, x=x, y=y, text={"field": "mean", "format": ".1f"},
            color={"condition": pale, "value": "white"},
        ),
    ]  # fmt: skip
    return vega.spec([{"data": {"values": rows}, "transform": [vega.visible()], "layer": layers}])


def _cloud(panel: Panel, look: Mapping[str, Look]) -> dict[str, Any]:
    rows = [_row(line, point) for line in panel.lines for point in line.points]
    bare = {"type": "quantitative", "axis": None, "scale": {"zero": False}}
    layers = [
        vega.layer(
            vega.points(14), x={"field": "x", **bare}, y={"field": "mean", **bare},
            tooltip=vega.tooltip(("entry", "class")),
        )
    ]  # fmt: skip
    return vega.spec([vega.group(rows, layers, vega.color(look))])


def _row(line: Line, point: PanelPoint) -> dict[str, Any]:
    row: dict[str, Any] = {"entry": line.label, "x": _position(point), "mean": rounded(point.mean)}
    row |= {"n": point.n, "interval": "one repeat"}
    if point.row is not None:
        row["row"] = point.row
    if point.low is not None and point.high is not None:
        row |= {"low": rounded(point.low), "high": rounded(point.high)}
        row["interval"] = f"{point.low:.1f} to {point.high:.1f}"
    return row


def _position(point: PanelPoint) -> float:
    """x; a share of a budget is a round number but for its last digits."""
    return float(f"{point.x:.6g}")
