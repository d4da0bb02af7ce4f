"""Pieces of Vega-Lite that all interactive panels share, and a compact form of their data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dpgnn.report.figures.style import MAJORITY, Look

VEGA_LITE = "https://vega.github.io/schema/vega-lite/v6.json"  # an identifier; it is never fetched
HEIGHT = 230


def layer(mark: Mapping[str, Any], **encoding: Any) -> dict[str, Any]:
    """One layer with its own encoding."""
    return {"mark": dict(mark), "encoding": encoding}


def joined(rows: Sequence[Mapping[str, Any]], few: int, **encoding: Any) -> dict[str, Any]:
    """A layer of lines, for entries with more than a few points."""
    counts = Counter(row["entry"] for row in rows)
    shown = [name for name, number in counts.items() if number > few]
    made = layer({"type": "line", "strokeWidth": 2}, **encoding)
    some = len(shown) < len(counts)
    return made | ({"transform": [{"filter": {"field": "entry", "oneOf": shown}}]} if some else {})


def points(size: int) -> dict[str, Any]:
    """Filled points of a size in square pixels."""
    return {"type": "point", "filled": True, "size": size, "opacity": 1}


def dots(
    look: Mapping[str, Look], size: int, free: Collection[str], **encoding: Any
) -> dict[str, Any]:
    """A layer of points, each entry with its marker; those in `free` have no privacy and are hollow."""
    inside = ["#ffffff" if name in free else style.color for name, style in look.items()]
    scale = {"domain": list(look), "range": inside}
    fill = {"field": "entry", "type": "nominal", "scale": scale, "legend": None}
    mark = points(size) | {"filled": False, "strokeWidth": 1.2}
    return layer(mark, fill=fill, shape=shape(look), **encoding)


def group(
    rows: Sequence[Mapping[str, Any]],
    layers: Sequence[Mapping[str, Any]],
    color: Mapping[str, Any],
    *filters: Mapping[str, str],
) -> dict[str, Any]:
    """Layers that share their data, their colours and the filter of hidden entries."""
    return {
        "data": {"values": list(rows)},
        "transform": [visible(), *filters],
        "encoding": {"color": color},
        "layer": list(layers),
    }


def spec(groups: Sequence[Mapping[str, Any]], **signals: str) -> dict[str, Any]:
    """A whole panel: groups of layers, signals with their initial values, and style."""
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
        # levels without privacy have dashes of their own
        "resolve": {"scale": {"strokeDash": "independent"}},
        "config": {
            "font": "system-ui, sans-serif",
            "axis": fonts | {"gridColor": "#e6e6e6"},
            "view": {"stroke": None},
        },
    }


def majority(percent: float, **axis: Mapping[str, Any]) -> dict[str, Any]:
    """A dotted line across an axis, x or y, at the accuracy of the most frequent class."""
    mark = {"type": "rule", "strokeWidth": 1, "strokeDash": [2, 2], "color": "#999999"}
    shown = layer(mark, **axis, tooltip=tooltip(("name", "line"), ("mean", "mean %")))
    return {"data": {"values": [{"name": MAJORITY, "mean": percent}]}, "layer": [shown]}


def visible() -> dict[str, str]:
    """Keeps the rows of entries that are not hidden."""
    return {"filter": "indexof(hidden, datum.entry) < 0"}


def of_budget() -> dict[str, str]:
    """Keeps the rows of the chosen epsilon and those without privacy."""
    return {"filter": "datum.epsilon == 'inf' || datum.epsilon == budget"}


def y_axis(name: str, title: str | None = "") -> dict[str, Any]:
    """A y axis that need not start at zero; title "" leaves it to another layer."""
    y: dict[str, Any] = {"field": name, "type": "quantitative", "scale": {"zero": False}}
    if title != "":
        y["title"] = title
    return y


def color(look: Mapping[str, Look]) -> dict[str, Any]:
    """Each entry in its colour; the page draws the legend."""
    scale = {"domain": list(look), "range": [style.color for style in look.values()]}
    return {"field": "entry", "type": "nominal", "scale": scale, "legend": None}


def shape(look: Mapping[str, Look]) -> dict[str, Any]:
    """Each entry with its marker."""
    scale = {"domain": list(look), "range": [style.shape for style in look.values()]}
    return {"field": "entry", "type": "nominal", "scale": scale, "legend": None}


def dash(look: Mapping[str, Look], free: Collection[str] = ()) -> dict[str, Any]:
    """Each entry with its dashes; those in `free` have no privacy."""
    dashes = [
        list((style.free_dash if name in free else style.dash) or (1, 0))
        for name, style in look.items()
    ]
    scale = {"domain": list(look), "range": dashes}
    return {"field": "entry", "type": "nominal", "scale": scale, "legend": None}


def tooltip(*fields: tuple[str, str]) -> list[dict[str, Any]]:
    """Field and title of each line of a tooltip."""
    return [{"field": field, "title": title} for field, title in fields]


def compact(spec: Any) -> Any:
    """The specification with its data stored by column, and texts as indices into a list.

    The page's script restores it. Pages of large studies become several times smaller.
    """
    if isinstance(spec, Mapping):
        if set(spec) == {"values"} and isinstance(spec["values"], list):
            return {"compact": [_column(name, spec["values"]) for name in _fields(spec["values"])]}
        return {key: compact(value) for key, value in spec.items()}
    if isinstance(spec, (list, tuple)):
        return [compact(item) for item in spec]
    return spec


def _fields(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _column(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    values = [row.get(name) for row in rows]
    if any(isinstance(value, str) for value in values):
        words = list(dict.fromkeys(values))
        places = {word: place for place, word in enumerate(words)}
        return {"name": name, "words": words, "values": [places[value] for value in values]}
    return {"name": name, "values": values}
