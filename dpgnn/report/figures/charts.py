"""Interactive figures: Vega-Lite specifications with their data inside, one per panel.

Each panel is a specification of its own, so that the page can lay them out for its width. The signal `hidden`
(a list of entry names) hides entries; `budget` and `column` choose a budget and a column.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpgnn.records.info import StudyInfo
from dpgnn.report.figures import vega
from dpgnn.report.figures.drawing import free_label
from dpgnn.report.figures.figure_data import (
    FEW,
    AccuracyFigure,
    AccuracyPanel,
    ClassCurve,
    TrainingCurve,
)
from dpgnn.report.figures.figures import COLUMN_NAMES
from dpgnn.report.figures.parts import Part
from dpgnn.report.figures.style import Look, beside, looks, shifted


@dataclass(frozen=True, kw_only=True)
class Chart:
    """An interactive figure.

    Attributes:
        name: of the printed figure it belongs to.
        panels: (title, specification).
        legend: entry, label, whether it is private; colour, dashes and shape, see `Look.legend`.
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
    entries = {
        series.entry: (series.label, bool(series in panel.series))
        for panel in figure.panels
        for series in (*panel.levels, *panel.series)
    }
    look = _looks_of(entries, info)
    return Chart(
        name=figure.name,
        panels=tuple((panel.title, _accuracy_spec(panel, look)) for panel in figure.panels),
        legend=_legend(entries, info, look, marked=True, levels=True),
    )


def class_chart(part: Part[tuple[str, Sequence[ClassCurve]]], info: StudyInfo) -> Chart:
    """Recall by class, one panel per data set, with a choice of epsilon."""
    panels = dict(part.panels)
    budgets = _budgets(curve.epsilon for curves in panels.values() for curve in curves)
    curves = [curve for group in panels.values() for curve in group]
    look = _looks_of({curve.entry for curve in curves}, info)
    return Chart(
        name=f"class-accuracy{part.suffix}",
        panels=tuple((title, _class_spec(group, look, budgets)) for title, group in panels.items()),
        legend=_legend(
            {c.entry: (c.label, c.epsilon != "inf") for c in curves},
            info,
            look,
            marked=True,
            lined=False,
        ),
        budgets=budgets,
    )


def training_chart(part: Part[tuple[str, Sequence[TrainingCurve]]], info: StudyInfo) -> Chart:
    """Loss and accuracy over steps, one panel per data set, with a choice of epsilon and column."""
    panels = dict(part.panels)
    curves = [curve for group in panels.values() for curve in group]
    look = _looks_of({curve.entry for curve in curves}, info)
    budgets = _budgets(curve.epsilon for curve in curves)
    present = [name for name in COLUMN_NAMES if any(curve.column == name for curve in curves)]
    columns = tuple((name, COLUMN_NAMES[name]) for name in present)
    specs = {t: _training_spec(group, look, budgets, present) for t, group in panels.items()}
    return Chart(
        name=f"training-curves{part.suffix}",
        panels=tuple(specs.items()),
        legend=_legend({c.entry: (c.label, c.epsilon != "inf") for c in curves}, info, look),
        budgets=budgets,
        columns=columns,
    )


def _accuracy_spec(panel: AccuracyPanel, look: Mapping[str, Look]) -> dict[str, Any]:
    places = _places(panel) if panel.is_dotted else {}
    lines = [
        {"entry": s.entry, "label": s.label, **_percent(point.mean, point.low, point.high)}
        | {"epsilon": point.epsilon, "n": point.n}
        | ({"at": rounded(places[s.entry, point.epsilon])} if places else {})
        for s in panel.series
        for point in s.points
    ]
    levels = [
        {"entry": s.entry, "label": free_label(s.label), "n": s.points[0].n}
        | _percent(s.points[0].mean, s.points[0].low, s.points[0].high)
        for s in panel.levels
    ]
    y = vega.y_axis("mean", panel.score)
    numbers = (("mean", "mean %"), ("interval", "95 %"), ("n", "n"))
    level_layers = [
        vega.layer({"type": "rect", "opacity": 0.08}, y=vega.y_axis("low"), y2={"field": "high"}),
        vega.layer(
            {"type": "rule", "strokeWidth": 2},
            y=y,
            strokeDash=vega.dash(look, look),
            tooltip=vega.tooltip(("label", "entry"), *numbers),
        ),
    ]
    groups = [vega.group(levels, level_layers, vega.color(look))]
    if lines:
        x = _epsilon_axis(panel.budgets, places)
        band = {"type": "rule", "opacity": 0.5} if places else {"type": "area", "opacity": 0.15}
        tooltip = vega.tooltip(("label", "entry"), ("epsilon", "ε"), *numbers)
        joined = [] if places else [vega.joined(lines, FEW, x=x, y=y, strokeDash=vega.dash(look))]
        line_layers = [
            vega.layer(band, x=x, y=vega.y_axis("low"), y2={"field": "high"}),
            *joined,
            vega.dots(look, 60, (), x=x, y=y, tooltip=tooltip),
        ]
        groups.append(vega.group(lines, line_layers, vega.color(look)))
    if panel.majority is not None:
        groups.append(vega.majority(rounded(100 * panel.majority), y=y))
    return vega.spec(groups)


def _places(panel: AccuracyPanel) -> dict[tuple[str, float], float]:
    """(entry, epsilon) -> where its dot stands: those of one epsilon beside each other."""
    places = {}
    for epsilon in panel.budgets:
        others = [abs(math.log2(epsilon / other)) for other in panel.budgets if other != epsilon]
        here = [s.entry for s in panel.series if any(p.epsilon == epsilon for p in s.points)]
        for position, entry in enumerate(here):
            shift = min(others, default=1.0) * beside(position, len(here))
            places[entry, epsilon] = shifted(epsilon, shift, log=True)
    return places


def _epsilon_axis(
    epsilons: Sequence[float], places: Mapping[tuple[str, float], float]
) -> dict[str, Any]:
    ends = [epsilons[0] / 1.19, epsilons[-1] * 1.19]
    for place in places.values():
        ends = [min(ends[0], place / 1.05), max(ends[1], place * 1.05)]
    return {
        "field": "at" if places else "epsilon",
        "type": "quantitative",
        "title": "ε",
        "scale": {"type": "log", "base": 2, "domain": ends},
        "axis": {"values": list(epsilons), "format": "~g"},
    }


def _class_spec(
    curves: Sequence[ClassCurve], look: Mapping[str, Look], budgets: Sequence[str]
) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    entries = list(dict.fromkeys(curve.entry for curve in curves))
    shares: dict[int, float] = {}
    for curve in curves:
        shift = beside(entries.index(curve.entry), len(entries))
        columns = zip(curve.classes, curve.share, curve.mean, curve.low, curve.high)
        for position, (index, share, mean, low, high) in enumerate(columns):
            shares[position] = round(100 * share, 2)
            row: dict[str, Any] = _names(curve)
            row |= {
                "position": rounded(position + shift),
                "class": index,
                "share": shares[position],
            }
            rows.append(row | _percent(mean, low, high))
    x = _class_axis(shares)
    whole = {"scale": {"domain": [0, 100]}}
    y = vega.y_axis("mean", "recall of the class (%)") | whole
    tooltip = vega.tooltip(
        ("label", "entry"), ("epsilon", "ε"), ("class", "class"), ("share", "share %"),
        ("mean", "recall %"), ("interval", "95 %"),
    )  # fmt: skip
    layers = [
        vega.layer(
            {"type": "rule", "opacity": 0.3},
            x=x,
            y=vega.y_axis("low") | whole,
            y2={"field": "high"},
        ),
        vega.dots(
            look, 45, {c.entry for c in curves if c.epsilon == "inf"}, x=x, y=y, tooltip=tooltip
        ),
    ]
    shown = [vega.group(rows, layers, vega.color(look), vega.of_budget())]
    return vega.spec(shown, budget=budgets[-1] if budgets else "inf")


def _class_axis(shares: Mapping[int, float]) -> dict[str, Any]:
    """Axis of classes from rare to frequent; about six of them are labelled with their share."""
    ticks = sorted(shares)[:: max(1, -(-len(shares) // 6))]
    names = "".join(f"datum.value == {tick} ? '{shares[tick]:.1f}%' : " for tick in ticks)
    return {
        "field": "position",
        "type": "quantitative",
        "title": "class, from rare to frequent (share of test nodes)",
        "scale": {"domain": [-0.6, max(len(shares), 1) - 0.4], "nice": False},
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
            row |= {"mean": rounded(scale * mean), "low": rounded(scale * low)}
            rows.append(row | {"high": rounded(scale * high)})
    ends = [curve.step[-1] for curve in curves]
    kind = "log" if ends and max(ends) > 5 * min(ends) else "linear"
    x = {"field": "step", "type": "quantitative", "title": "training step", "scale": {"type": kind}}
    x["axis"] = {"tickCount": 6, "format": "~s"}
    y = vega.y_axis("mean", None)
    tooltip = vega.tooltip(("label", "entry"), ("epsilon", "ε"), ("step", "step"), ("mean", "mean"))
    dash = vega.dash(look, {c.entry for c in curves if c.epsilon == "inf"})
    layers = [
        vega.layer(
            {"type": "area", "opacity": 0.12}, x=x, y=vega.y_axis("low"), y2={"field": "high"}
        ),
        vega.layer({"type": "line", "strokeWidth": 1.8}, x=x, y=y, strokeDash=dash),
        vega.layer({"type": "point", "size": 60, "opacity": 0}, x=x, y=y, tooltip=tooltip),
    ]
    shown = {"filter": "datum.column == column"}
    first = "val_accuracy" if "val_accuracy" in columns else columns[0]
    budget = budgets[-1] if budgets else "inf"
    return vega.spec(
        [vega.group(rows, layers, vega.color(look), vega.of_budget(), shown)],
        budget=budget,
        column=first,
    )


def _names(curve: ClassCurve | TrainingCurve) -> dict[str, Any]:
    return {"entry": curve.entry, "label": curve.label, "epsilon": curve.epsilon}


def _percent(mean: float, low: float | None, high: float | None) -> dict[str, Any]:
    row: dict[str, Any] = {"mean": rounded(100 * mean), "interval": "one repeat"}
    if low is not None and high is not None:
        row |= {"low": rounded(100 * low), "high": rounded(100 * high)}
        row["interval"] = f"{100 * low:.1f} to {100 * high:.1f}"
    return row


def rounded(value: float) -> float:
    """Four significant digits after scaling: enough for a screen, and it keeps pages small."""
    return float(f"{value:.5g}")


def _budgets(epsilons: Any) -> tuple[str, ...]:
    return tuple(sorted({epsilon for epsilon in epsilons if epsilon != "inf"}, key=float))


def _looks_of(entries: Collection[str], info: StudyInfo) -> dict[str, Look]:
    """The looks of the entries that a figure shows; a study may have hundreds of others."""
    return {name: look for name, look in looks(info).items() if name in entries}


def _legend(
    entries: Mapping[str, tuple[str, bool]],
    info: StudyInfo,
    look: Mapping[str, Look],
    *,
    marked: bool = False,
    levels: bool = False,
    lined: bool = True,
) -> tuple[Mapping[str, Any], ...]:
    """The legend's entries and their looks; levels without privacy have no markers."""
    ordered = sorted(entries, key=lambda name: info.entry_order[name])
    return tuple(
        {"entry": name, "label": entries[name][0], "private": entries[name][1]}
        | look[name].legend(
            free=not entries[name][1],
            lined=lined,
            marked=marked and (entries[name][1] or not levels),
        )
        for name in ordered
    )
