"""Interactive figures are valid Vega-Lite, hold the printed figures' numbers and look the same."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from report.figures.test_figures import with_budgets

from dpgnn.records.cells import build_cells
from dpgnn.records.frame import load_runs
from dpgnn.records.info import StudyInfo
from dpgnn.report.figures import figure_data, vega
from dpgnn.report.figures.charts import Chart, accuracy_chart, class_chart, training_chart
from dpgnn.report.figures.parts import in_rows
from dpgnn.report.figures.style import MARKERS, VEGA_SHAPES, looks
from dpgnn.report.statistics.ranking import rankings


@pytest.fixture
def charts(written: Path, info: StudyInfo) -> list[Chart]:
    runs = load_runs(written / "studies" / "toy" / "runs", info.planned)
    cells = build_cells(runs, info)
    (classes,) = in_rows(figure_data.class_curves(cells))
    (curves,) = in_rows(figure_data.training_curves(cells))
    return [
        *(accuracy_chart(f, info) for f in figure_data.accuracy_figures(cells, rankings(cells))),
        class_chart(classes, info),
        training_chart(curves, info),
    ]


def test_every_panel_is_valid_vega_lite(charts: list[Chart]) -> None:
    import altair
    import vl_convert

    for chart in charts:
        for _, spec in chart.panels:
            altair.LayerChart.from_dict(dict(spec))  # raises on anything the schema does not know
            vl_convert.vegalite_to_vega(json.dumps(spec))


def test_points_are_the_cells_means_in_percent(charts: list[Chart]) -> None:
    title, spec = charts[0].panels[0]
    rows = spec["layer"][1]["data"]["values"]
    row = next(row for row in rows if row["entry"] == "dp_gcn" and row["epsilon"] == 8.0)
    assert title == "alpha"
    assert (row["mean"], row["interval"], row["n"]) == (72.0, "69.5 to 74.5", 3)


def test_colours_are_those_of_the_printed_figures(charts: list[Chart], info: StudyInfo) -> None:
    look = looks(info)
    for chart in charts:
        for item in chart.legend:
            assert item["color"] == look[item["entry"]].color


def test_legends_draw_what_the_panels_draw(charts: list[Chart], info: StudyInfo) -> None:
    look = looks(info)
    for chart in charts:
        drawn = {(item["color"], item["dash"], item["shape"]) for item in chart.legend}
        assert len(drawn) == len(chart.legend)
        for item in chart.legend:
            style = look[item["entry"]]
            dash = style.dash if item["private"] else style.free_dash
            by_class = chart.name == "class-accuracy"
            assert item["dash"] == (None if by_class else " ".join(map(str, dash)))
            level = chart.name.startswith("accuracy") and not item["private"]
            bare = level or chart.name == "training-curves"
            assert item["shape"] == ("" if bare else style.shape)


def test_levels_and_lines_keep_their_own_dashes(written: Path, info: StudyInfo) -> None:
    import vl_convert

    runs = load_runs(written / "studies" / "toy" / "runs", info.planned)
    cells = build_cells(runs, info)
    figure = with_budgets(figure_data.accuracy_figures(cells, rankings(cells))[0], 1.0, 2.0, 8.0)
    made = vl_convert.vegalite_to_vega(json.dumps(accuracy_chart(figure, info).panels[0][1]))
    ranges = [
        scale["range"] for scale in made["scales"] if scale["name"].lower().endswith("strokedash")
    ]
    assert len(ranges) == 2
    assert ranges[0] != ranges[1]


@pytest.mark.parametrize(
    ("budgets", "joined"), [((8.0,), False), ((1.0, 8.0), False), ((1.0, 2.0, 8.0), True)]
)
def test_lines_join_three_budgets_or_more(
    budgets: tuple[float, ...], joined: bool, written: Path, info: StudyInfo
) -> None:
    runs = load_runs(written / "studies" / "toy" / "runs", info.planned)
    cells = build_cells(runs, info)
    figure = with_budgets(figure_data.accuracy_figures(cells, rankings(cells))[0], *budgets)
    for _, spec in accuracy_chart(figure, info).panels:
        marks = [layer["mark"]["type"] for group in spec["layer"] for layer in group["layer"]]
        assert ("line" in marks) == joined
        assert "point" in marks


def test_no_line_joins_classes(charts: list[Chart]) -> None:
    for _, spec in charts[-2].panels:
        marks = [layer["mark"]["type"] for group in spec["layer"] for layer in group["layer"]]
        assert marks == ["rule", "point"]


def symbols(spec: object) -> list[tuple[str, str]]:
    """(fill, outline) of every dot as it is drawn."""
    import vl_convert

    text = vl_convert.vegalite_to_svg(json.dumps(spec))
    dots = re.findall(r'<path[^>]*role="graphics-symbol"[^>]*>', text)
    found = [dict(re.findall(r'(fill|stroke)="([^"]+)"', dot)) for dot in dots]
    return [(dot["fill"].lower(), dot["stroke"].lower()) for dot in found]


def test_dots_are_hollow_without_privacy_alone(charts: list[Chart], info: StudyInfo) -> None:
    shown = charts[-2]
    free = {item["color"].lower() for item in shown.legend if not item["private"]}
    assert {item["hollow"] for item in shown.legend} == {True, False}
    assert all(item["hollow"] != item["private"] for item in shown.legend)
    for _, spec in shown.panels:
        drawn = symbols(spec)
        assert {edge for _, edge in drawn} & free
        for fill, edge in drawn:
            assert fill == ("#ffffff" if edge in free else edge)
    for item in (*charts[0].legend, *charts[-1].legend):
        assert not item["hollow"]  # a line of dashes says it


@pytest.mark.parametrize("budgets", [(8.0,), (1.0, 8.0)])
def test_dots_of_one_epsilon_stand_beside_each_other(
    budgets: tuple[float, ...], written: Path, info: StudyInfo
) -> None:
    runs = load_runs(written / "studies" / "toy" / "runs", info.planned)
    cells = build_cells(runs, info)
    figure = with_budgets(figure_data.accuracy_figures(cells, rankings(cells))[0], *budgets)
    panel = figure.panels[0]
    twin = replace(panel.series[0], entry="mlp")
    figure = replace(figure, panels=(replace(panel, series=(*panel.series, twin)),))
    ((_, spec),) = accuracy_chart(figure, info).panels
    group = spec["layer"][1]
    rows = group["data"]["values"]
    x = group["layer"][-1]["encoding"]["x"]
    low, high = x["scale"]["domain"]
    assert x["axis"]["values"] == list(budgets)
    assert len({row["at"] for row in rows}) == len(rows) == len(budgets) * (len(panel.series) + 1)
    for row in rows:
        assert low < row["at"] < high
        assert min(budgets, key=lambda one: abs(math.log(one / row["at"]))) == row["epsilon"]


def test_dots_of_one_class_stand_beside_each_other(charts: list[Chart]) -> None:
    for _, spec in charts[-2].panels:
        (group,) = spec["layer"]
        x = group["layer"][-1]["encoding"]["x"]
        rows = [row for row in group["data"]["values"] if row["epsilon"] in ("inf", "8")]
        places = {(row["class"], row["position"]) for row in rows}
        assert len(places) == len(rows)
        assert {round(row["position"]) for row in rows} == set(x["axis"]["values"])


def test_every_shape_has_an_area_when_it_is_filled() -> None:
    import vl_convert

    rows = [{"x": position, "shape": shape} for position, shape in enumerate(VEGA_SHAPES)]
    spec = {
        "$schema": vega.VEGA_LITE,
        "data": {"values": rows},
        "mark": vega.points(64),
        "encoding": {
            "x": {"field": "x", "type": "quantitative"},
            "shape": {"field": "shape", "type": "nominal", "scale": None},
        },
    }
    text = vl_convert.vegalite_to_svg(json.dumps(spec))
    paths = re.findall(r'<path aria-label="[^"]*" role="graphics-symbol"[^>]*? d="([^"]+)"', text)
    assert len(paths) == len(VEGA_SHAPES) == len(MARKERS) == len(set(paths))
    for path in paths:
        # a circle of 64 square pixels has a radius of 4; none is a bare line
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", path)]
        assert max(numbers) >= 3
        assert path.endswith("Z")


def test_choices_are_offered_where_there_is_something_to_choose(charts: list[Chart]) -> None:
    assert charts[0].budgets == ()
    assert charts[-2].budgets == ("1", "8")
    assert [name for name, _ in charts[-1].columns] == ["train_loss", "val_accuracy"]


def test_specifications_are_the_same_for_the_same_records(
    charts: list[Chart], written: Path, info: StudyInfo
) -> None:
    runs = load_runs(written / "studies" / "toy" / "runs", info.planned[::-1])
    cells = build_cells(runs, info)
    (classes,) = in_rows(figure_data.class_curves(cells))
    again = class_chart(classes, info)
    assert json.dumps(again.panels[0][1]) == json.dumps(charts[-2].panels[0][1])
