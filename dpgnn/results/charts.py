"""Interactive figures: Vega-Lite specifications with their data inside, one per panel.

Panels are separate so that the page lays them out for its width; entries are shown and hidden through
the signal `hidden` (a list of entry names), budgets and columns chosen through `budget` and `column`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpgnn.results.figure_data import AccuracyFigure, AccuracyPanel, ClassCurve, TrainingCurve
from dpgnn.results.figures import COLUMN_NAMES
from dpgnn.results.info import StudyInfo
from dpgnn.results.style import VEGA_DASHES, Look, looks

VEGA_LITE = "https://vega.github.io/schema/vega-lite/v6.json"  # a name, never fetched
HEIGHT = 230
NO_PRIVACY = [6, 3]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """An interactive figure.

    Attributes:
        name: of the printed figure it belongs to.
        panels: (title, specification).
        legend: entry, label, color, whether it is private.
        budgets: values of the signal `budget`; empty where there is no choice.
        columns: (value of the signal `column`, words); empty where there is no choice.
    """

    name: str
    panels: tuple[tuple[str, Mapping[str, Any]], ...]
    legend: tuple[Mapping[str, Any], ...]
    budgets: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()


def accuracy_chart(figure: AccuracyFigure, info: StudyInfo) -> Chart:
    """Accuracy against epsilon, one panel per data set."""
    look = looks(info)
    entries = {
        series.entry: (series.label, bool(series in panel.series))
        for panel in figure.panels
        for series in (*panel.levels, *panel.series)
    }
    return Chart(
        name=figure.name,
        panels=tuple((panel.title, _accuracy_spec(panel, look)) for panel in figure.panels),
        legend=_legend(entries, info, look),
    )


def class_chart(panels: Mapping[str, Sequence[ClassCurve]], info: StudyInfo) -> Chart:
    """Recall by class, one panel per data set, with a choice of epsilon."""
    look = looks(info)
    budgets = _budgets(curve.epsilon for curves in panels.values() for curve in curves)
    curves = [curve for group in panels.values() for curve in group]
    return Chart(
        name="class-accuracy",
        panels=tuple((title, _class_spec(group, look, budgets)) for title, group in panels.items()),
        legend=_legend({c.entry: (c.label, c.epsilon != "inf") for c in curves}, info, look),
        budgets=budgets,
    )


def training_chart(panels: Mapping[str, Sequence[TrainingCurve]], info: StudyInfo) -> Chart:
    """Loss and accuracy over steps, one panel per data set, with a choice of epsilon and column."""
    look = looks(info)
    curves = [curve for group in panels.values() for curve in group]
    budgets = _budgets(curve.epsilon for curve in curves)
    present = [name for name in COLUMN_NAMES if any(curve.column == name for curve in curves)]
    columns = tuple((name, COLUMN_NAMES[name]) for name in present)
    specs = {t: _training_spec(group, look, budgets, present) for t, group in panels.items()}
    return Chart(
        name="training-curves",
        panels=tuple(specs.items()),
        legend=_legend({c.entry: (c.label, c.epsilon != "inf") for c in curves}, info, look),
        budgets=budgets,
        columns=columns,
    )


def _accuracy_spec(panel: AccuracyPanel, look: Mapping[str, Look]) -> dict[str, Any]:
    lines = [
        {"entry": s.entry, "label": s.label, **_percent(point.mean, point.low, point.high)}
        | {"epsilon": point.epsilon, "n": point.n}
        for s in panel.series
        for point in s.points
    ]
    levels = [
        {"entry": s.entry, "label": f"{s.label} (no privacy)", "n": s.points[0].n}
        | _percent(s.points[0].mean, s.points[0].low, s.points[0].high)
        for s in panel.levels
    ]
    y = _y("mean", f"test {panel.metric.replace('_', ' ')} (%)")
    numbers = (("mean", "mean %"), ("interval", "95 %"), ("n", "n"))
    level_layers = [
        _layer({"type": "rect", "opacity": 0.08}, y=_y("low"), y2={"field": "high"}),
        _layer(
            {"type": "rule", "strokeWidth": 2, "strokeDash": NO_PRIVACY},
            y=y,
            tooltip=_tooltip(("label", "entry"), *numbers),
        ),
    ]
    groups = [_group(levels, level_layers, _color(look))]
    if lines:
        x = _epsilon_axis(sorted({row["epsilon"] for row in lines}))
        single = len({row["epsilon"] for row in lines}) == 1
        band = {"type": "rule", "opacity": 0.5} if single else {"type": "area", "opacity": 0.15}
        tooltip = _tooltip(("label", "entry"), ("epsilon", "ε"), *numbers)
        line_layers = [
            _layer(band, x=x, y=_y("low"), y2={"field": "high"}),
            _layer({"type": "line", "strokeWidth": 2}, x=x, y=y, strokeDash=_dash(look)),
            _layer(_points(60), x=x, y=y, shape=_shape(look), tooltip=tooltip),
        ]
        groups.append(_group(lines, line_layers, _color(look)))
    return _spec(groups)


def _epsilon_axis(epsilons: Sequence[float]) -> dict[str, Any]:
    return {
        "field": "epsilon",
        "type": "quantitative",
        "title": "ε",
        "scale": {"type": "log", "base": 2, "domain": [epsilons[0] / 1.19, epsilons[-1] * 1.19]},
        "axis": {"values": list(epsilons), "format": "~g"},
    }


def _class_spec(
    curves: Sequence[ClassCurve], look: Mapping[str, Look], budgets: Sequence[str]
) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for curve in curves:
        columns = zip(curve.classes, curve.share, curve.mean, curve.low, curve.high)
        for position, (index, share, mean, low, high) in enumerate(columns):
            row: dict[str, Any] = _names(curve)
            row |= {"position": position, "class": index, "share": round(100 * share, 2)}
            rows.append(row | _percent(mean, low, high))
    x = _class_axis({row["position"]: row["share"] for row in rows})
    whole = {"scale": {"domain": [0, 100]}}
    y = _y("mean", "recall of the class (%)") | whole
    tooltip = _tooltip(
        ("label", "entry"), ("epsilon", "ε"), ("class", "class"), ("share", "share %"),
        ("mean", "recall %"), ("interval", "95 %"),
    )  # fmt: skip
    dash = _private_dash(look, curves)
    layers = [
        _layer({"type": "rule", "opacity": 0.3}, x=x, y=_y("low") | whole, y2={"field": "high"}),
        _layer({"type": "line", "strokeWidth": 1.5}, x=x, y=y, strokeDash=dash),
        _layer(_points(45), x=x, y=y, shape=_shape(look), tooltip=tooltip),
    ]
    shown = [_group(rows, layers, _color(look), _budget())]
    return _spec(shown, budget=budgets[-1] if budgets else "inf")


def _class_axis(shares: Mapping[int, float]) -> dict[str, Any]:
    """Positions from rare to frequent; about six of them are labelled with their share."""
    ticks = sorted(shares)[:: max(1, -(-len(shares) // 6))]
    names = "".join(f"datum.value == {tick} ? '{shares[tick]:.1f}%' : " for tick in ticks)
    return {
        "field": "position",
        "type": "quantitative",
        "title": "class, from rare to frequent (share of test nodes)",
        "scale": {"domain": [-0.4, max(len(shares), 1) - 0.6], "nice": False},
        "axis": {"values": ticks, "labelExpr": names + "''", "grid": False},
    }


def _training_spec(
    curves: Sequence[TrainingCurve],
    look: Mapping[str, Look],
    budgets: Sequence[str],
    columns: Sequence[str],
) -> dict[str, Any]:
    rows = []
    for curve in curves:
        scale = 1.0 if curve.column == "train_loss" else 100.0
        for step, mean, low, high in zip(curve.step, curve.mean, curve.low, curve.high):
            row = _names(curve) | {"column": curve.column, "step": step}
            row |= {"mean": _round(scale * mean), "low": _round(scale * low)}
            rows.append(row | {"high": _round(scale * high)})
    ends = [curve.step[-1] for curve in curves]
    kind = "log" if ends and max(ends) > 5 * min(ends) else "linear"
    x = {"field": "step", "type": "quantitative", "title": "training step", "scale": {"type": kind}}
    x["axis"] = {"tickCount": 6, "format": "~s"}
    y = _y("mean", None)
    tooltip = _tooltip(("label", "entry"), ("epsilon", "ε"), ("step", "step"), ("mean", "mean"))
    dash = _private_dash(look, curves)
    layers = [
        _layer({"type": "area", "opacity": 0.12}, x=x, y=_y("low"), y2={"field": "high"}),
        _layer({"type": "line", "strokeWidth": 1.8}, x=x, y=y, strokeDash=dash),
        _layer({"type": "point", "size": 60, "opacity": 0}, x=x, y=y, tooltip=tooltip),
    ]
    shown = {"filter": "datum.column == column"}
    first = "val_accuracy" if "val_accuracy" in columns else columns[0]
    budget = budgets[-1] if budgets else "inf"
    return _spec(
        [_group(rows, layers, _color(look), _budget(), shown)], budget=budget, column=first
    )


def _names(curve: ClassCurve | TrainingCurve) -> dict[str, Any]:
    return {"entry": curve.entry, "label": curve.label, "epsilon": curve.epsilon}


def _layer(mark: Mapping[str, Any], **encoding: Any) -> dict[str, Any]:
    return {"mark": dict(mark), "encoding": encoding}


def _points(size: int) -> dict[str, Any]:
    return {"type": "point", "filled": True, "size": size, "opacity": 1}


def _group(
    rows: Sequence[Mapping[str, Any]],
    layers: Sequence[Mapping[str, Any]],
    color: Mapping[str, Any],
    *filters: Mapping[str, str],
) -> dict[str, Any]:
    """Layers that share their data, their colours and what is hidden."""
    return {
        "data": {"values": list(rows)},
        "transform": [_visible(), *filters],
        "encoding": {"color": color},
        "layer": list(layers),
    }


def _spec(groups: Sequence[Mapping[str, Any]], **signals: str) -> dict[str, Any]:
    params: list[dict[str, Any]] = [{"name": "hidden", "value": []}]
    params += [{"name": name, "value": value} for name, value in signals.items()]
    fonts = {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal"}
    return {
        "$schema": VEGA_LITE,
        "width": "container",
        "height": HEIGHT,
        "autosize": {"type": "fit", "contains": "padding"},
        "background": "transparent",
        "params": params,
        "layer": list(groups),
        "config": {
            "font": "system-ui, sans-serif",
            "axis": fonts | {"gridColor": "#e6e6e6"},
            "view": {"stroke": None},
        },
    }


def _visible() -> dict[str, str]:
    return {"filter": "indexof(hidden, datum.entry) < 0"}


def _budget() -> dict[str, str]:
    return {"filter": "datum.epsilon == 'inf' || datum.epsilon == budget"}


def _y(name: str, title: str | None = "") -> dict[str, Any]:
    y: dict[str, Any] = {"field": name, "type": "quantitative", "scale": {"zero": False}}
    if title != "":
        y["title"] = title
    return y


def _color(look: Mapping[str, Look]) -> dict[str, Any]:
    scale = {"domain": list(look), "range": [style.color for style in look.values()]}
    return {"field": "entry", "type": "nominal", "scale": scale, "legend": None}


def _shape(look: Mapping[str, Look]) -> dict[str, Any]:
    scale = {"domain": list(look), "range": [style.shape for style in look.values()]}
    return {"field": "entry", "type": "nominal", "scale": scale, "legend": None}


def _dash(look: Mapping[str, Look]) -> dict[str, Any]:
    dashes = [VEGA_DASHES[style.dash] or [1, 0] for style in look.values()]
    scale = {"domain": list(look), "range": dashes}
    return {"field": "entry", "type": "nominal", "scale": scale, "legend": None}


def _private_dash(
    look: Mapping[str, Look], curves: Sequence[ClassCurve] | Sequence[TrainingCurve]
) -> dict[str, Any]:
    """As `_dash`, with the entries without privacy dashed."""
    free = {curve.entry for curve in curves if curve.epsilon == "inf"}
    dashes = [
        NO_PRIVACY if name in free else (VEGA_DASHES[style.dash] or [1, 0])
        for name, style in look.items()
    ]
    scale = {"domain": list(look), "range": dashes}
    return {"field": "entry", "type": "nominal", "scale": scale, "legend": None}


def _tooltip(*fields: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"field": field, "title": title} for field, title in fields]


def _percent(mean: float, low: float | None, high: float | None) -> dict[str, Any]:
    row: dict[str, Any] = {"mean": _round(100 * mean), "interval": "one repeat"}
    if low is not None and high is not None:
        row |= {"low": _round(100 * low), "high": _round(100 * high)}
        row["interval"] = f"{100 * low:.1f} to {100 * high:.1f}"
    return row


def _round(value: float) -> float:
    """Four significant places after scaling: what a screen can show, and smaller pages."""
    return float(f"{value:.5g}")


def _budgets(epsilons: Any) -> tuple[str, ...]:
    return tuple(sorted({epsilon for epsilon in epsilons if epsilon != "inf"}, key=float))


def _legend(
    entries: Mapping[str, tuple[str, bool]], info: StudyInfo, look: Mapping[str, Look]
) -> tuple[Mapping[str, Any], ...]:
    ordered = sorted(entries, key=lambda name: info.entry_order[name])
    return tuple(
        {
            "entry": name,
            "label": entries[name][0],
            "color": look[name].color,
            "private": entries[name][1],
        }
        for name in ordered
    )
