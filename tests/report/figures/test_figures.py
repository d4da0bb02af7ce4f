"""Printed figures: the same bytes for the same records, the right data, readable by all."""

from __future__ import annotations

import base64
import html
import io
import math
import re
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from fontTools.ttLib import TTFont

from dpgnn.records.cells import build_cells
from dpgnn.records.frame import Run, load_runs
from dpgnn.records.info import EntryInfo, StudyInfo
from dpgnn.report.figures import drawing, figure_data
from dpgnn.report.figures.charts import accuracy_chart
from dpgnn.report.figures.drawing import Picture, write_picture
from dpgnn.report.figures.figure_data import AccuracyFigure
from dpgnn.report.figures.figures import draw_accuracy, draw_classes
from dpgnn.report.figures.parts import in_rows, parts
from dpgnn.report.figures.style import DASHES, FREE_DASHES, looks
from dpgnn.report.statistics.ranking import rankings

ROOT = Path(__file__).resolve().parents[3]


def with_budgets(figure: AccuracyFigure, *budgets: float) -> AccuracyFigure:
    """The same figure with other budgets."""
    panels = [
        replace(
            panel,
            series=tuple(
                replace(one, points=tuple(replace(one.points[0], epsilon=e) for e in budgets))
                for one in panel.series
            ),
        )
        for panel in figure.panels
    ]
    return replace(figure, panels=tuple(panels))


def joined(picture: Picture) -> int:
    """Lines through points, which are not levels."""
    return sum(
        line.get_linestyle() not in ("None", "") and line.get_marker() not in ("None", "")
        for axis in picture.figure.axes
        for line in axis.get_lines()
    )


def test_the_same_records_give_the_same_bytes(runs: list[Run], info: StudyInfo) -> None:
    pictures = []
    for order in (runs, runs[::-1]):
        cells = build_cells(order, info)
        figure = figure_data.accuracy_figures(cells, rankings(cells))[0]
        pictures.append(draw_accuracy(figure, info))
    assert pictures[0].png == pictures[1].png
    assert pictures[0].svg == pictures[1].svg
    assert b"<dc:date>" not in pictures[0].svg


def test_a_figure_holds_only_entries_that_share_a_guarantee(
    runs: list[Run], info: StudyInfo
) -> None:
    cells = build_cells(runs, info)
    found = {
        figure.guarantee: {series.entry for panel in figure.panels for series in panel.series}
        for figure in figure_data.accuracy_figures(cells, rankings(cells))
    }
    assert found == {
        "node-record, add-remove, answers to their own node, proved": {"dp_mlp", "dp_gcn"},
        "edge, add-remove, answers to their own node, proved": {"gap"},
        "node-record, add-remove, answers to their own node, as-published": {"dp_gcn-paper"},
    }


@pytest.mark.parametrize(
    ("count", "pages"), [(1, [1]), (6, [6]), (7, [4, 3]), (9, [6, 3]), (13, [5, 5, 3])]
)
def test_no_figure_has_more_than_six_panels(count: int, pages: list[int]) -> None:
    names = [f"graph{number}" for number in range(count)]
    made = parts(names, str)
    assert [len(part.panels) for part in made] == pages
    assert [name for part in made for name in part.panels] == names
    assert made[-1].suffix == (f"-{len(pages)}" if len(pages) > 1 else "")
    with pytest.raises(ValueError, match=r"num_panels must be in \[1, 6\]"):
        drawing.grid(7, title="")


def test_stand_ins_have_figures_of_their_own_that_say_so(runs: list[Run], info: StudyInfo) -> None:
    cells = build_cells(runs, info)
    figure = figure_data.accuracy_figures(cells, rankings(cells))[0]
    names = ["cora, whole", "synthetic-arxiv, whole", "photo, whole"]
    real, drawn = parts(names, str)
    assert (real.suffix, real.words, real.panels) == ("", "", ("cora, whole", "photo, whole"))
    assert (drawn.suffix, drawn.words) == ("-stand-in", "synthetic stand-ins")
    picture = draw_accuracy(replace(figure, part=drawn.words), info)
    assert "synthetic stand-ins" in picture.title
    assert "stand-ins" in picture.svg.decode()
    for path in (ROOT / "docs" / "figures").rglob("*.png"):
        assert "synthetic" not in path.name


def test_a_figure_of_few_budgets_has_dots_and_no_lines(runs: list[Run], info: StudyInfo) -> None:
    cells = build_cells(runs, info)
    figure = figure_data.accuracy_figures(cells, rankings(cells))[0]
    assert joined(draw_accuracy(with_budgets(figure, 8.0), info)) == 0
    assert joined(draw_accuracy(with_budgets(figure, 1.0, 8.0), info)) == 0
    lines = sum(len(panel.series) for panel in figure.panels)
    assert joined(draw_accuracy(with_budgets(figure, 1.0, 2.0, 8.0), info)) == lines


def test_what_was_not_run_says_so(runs: list[Run], info: StudyInfo) -> None:
    cells = build_cells(runs, info)
    figure = figure_data.accuracy_figures(cells, rankings(cells))[0]
    first, *rest = figure.panels
    fewer = replace(figure, panels=(replace(first, series=first.series[:-1]), *rest))
    assert ">n/a<" not in draw_accuracy(figure, info).svg.decode()
    assert draw_accuracy(fewer, info).svg.decode().count(">n/a<") == 1


def test_entries_tuned_each_for_its_own_budget_are_one_series() -> None:
    def tuned(entry: str, label: str, *budgets: float) -> figure_data.Series:
        points = [figure_data.Point(epsilon=e, mean=0.5, low=None, high=None, n=1) for e in budgets]
        return figure_data.Series(entry=entry, label=label, points=tuple(points))

    given = [
        tuned("a1", "A, tuned for ε = 1", 1.0),
        tuned("b", "B", 1.0, 16.0),
        tuned("a16", "A, tuned for ε = 16", 16.0),
        tuned("c", "C, tuned for ε = 8", 8.0),
    ]
    made = figure_data._joined(given)
    assert [(s.entry, s.label, [p.epsilon for p in s.points]) for s in made] == [
        ("a1", "A, tuned for each ε", [1.0, 16.0]),
        ("b", "B", [1.0, 16.0]),
        ("c", "C, tuned for ε = 8", [8.0]),
    ]


def test_many_entries_without_privacy_are_rows_of_hollow_dots(
    runs: list[Run], info: StudyInfo
) -> None:
    cells = build_cells(runs, info)
    figure = figure_data.accuracy_figures(cells, rankings(cells))[0]
    (level, *_) = figure.panels[0].levels
    for count, rows in ((2, 0), (5, 5)):
        many = [replace(level, entry=f"free-{i}", label=f"Free {i}") for i in range(count)]
        panels = [replace(panel, levels=tuple(many)) for panel in figure.panels]
        canvas = draw_accuracy(replace(figure, panels=tuple(panels)), info).figure
        names = [label.get_text() for label in canvas.axes[0].get_yticklabels()]
        assert sum(name.startswith("Free") for name in names) == rows
        told = [text.get_text() for text in canvas.legends[0].get_texts()]
        assert ("no privacy" in told) == bool(rows)
        assert told[0].startswith("ε = ")


def test_titles_beside_long_labels_stay_in_the_figure(runs: list[Run], info: StudyInfo) -> None:
    cells = build_cells(runs, info)
    figure = with_budgets(figure_data.accuracy_figures(cells, rankings(cells))[0], 8.0)
    first = figure.panels[0]
    label = "DP-MLP, answers averaged once, tuned, accounted"
    series = tuple(replace(one, label=label) for one in first.series)
    panel = replace(first, series=series, title="facebook-Rutgers89, whole")
    canvas = draw_accuracy(replace(figure, panels=(panel,) * 3), info).figure
    canvas.draw_without_rendering()
    boxes = [axis.get_tightbbox() for axis in canvas.axes]
    ends = [*(axis.get_window_extent().x0 for axis in canvas.axes[1:]), canvas.bbox.x1]
    assert [box is not None and box.x1 <= end for box, end in zip(boxes, ends)] == [True] * 3


def test_no_place_of_a_grid_is_empty() -> None:
    with drawing.style():
        figure, axes = drawing.grid(5, title="Five", sharey=True)
    assert len(axes) == len(figure.axes) == 5
    assert [axis.get_subplotspec().colspan.stop for axis in axes] == [2, 4, 6, 3, 6]
    assert [axis.get_subplotspec().colspan.start for axis in axes] == [0, 2, 4, 0, 3]


def test_no_line_joins_classes(runs: list[Run], info: StudyInfo) -> None:
    (part,) = in_rows(figure_data.class_curves(build_cells(runs, info)))
    assert joined(draw_classes(part, info)) == 0


def test_committed_figures_are_a_column_or_a_page_wide() -> None:
    paths = [*(ROOT / "docs" / "figures").rglob("*.png")]
    assert len(paths) > 80
    for path in paths:
        width, height = struct.unpack(">II", path.read_bytes()[16:24])
        assert width in (200 * drawing.COLUMN, 200 * drawing.FULL), path
        assert height < 200 * 9.2, path


def test_points_and_levels_are_the_cells_means_and_intervals(
    runs: list[Run], info: StudyInfo
) -> None:
    cells = build_cells(runs, info)
    panel = figure_data.accuracy_figures(cells, rankings(cells))[0].panels[0]
    assert [level.entry for level in panel.levels] == ["mlp", "gcn"]
    assert math.isinf(panel.levels[0].points[0].epsilon)
    first = panel.series[0].points
    assert [point.epsilon for point in first] == [1.0, 8.0]
    assert first[1].mean == pytest.approx(0.70)
    assert first[1].low == pytest.approx(0.70 - 0.0248414, abs=1e-6)


def test_classes_are_ordered_from_rare_to_frequent(runs: list[Run], info: StudyInfo) -> None:
    curves = figure_data.class_curves(build_cells(runs, info))
    curve = curves["alpha"][0]
    assert curve.classes == (0, 1, 2)
    assert curve.share == pytest.approx((0.1, 0.3, 0.6))
    assert curve.mean == pytest.approx((0.2, 0.5, 0.9))


def test_a_class_that_is_never_tested_is_left_out(runs: list[Run], info: StudyInfo) -> None:
    changed = []
    for run in runs:
        test = {**run.record.metrics["test"], "per_class_accuracy": [0.2, None, 0.9]}
        test["per_class_count"] = [20, 0, 180]
        changed.append(replace(run, record=replace(run.record, metrics={"test": test})))
    curve = figure_data.class_curves(build_cells(changed, info))["alpha"][0]
    assert curve.classes == (0, 2)


def test_training_curves_are_means_over_repeats_with_their_range(
    written: Path, info: StudyInfo
) -> None:
    runs = load_runs(written / "studies" / "toy" / "runs", info.planned)
    curves = figure_data.training_curves(build_cells(runs, info))
    curve = next(c for c in curves["alpha"] if c.entry == "mlp" and c.column == "val_accuracy")
    assert curve.step[0] == 10
    end = 1 - math.exp(-100 / 30)
    assert curve.mean[-1] == pytest.approx(0.80 * end)
    assert (curve.low[-1], curve.high[-1]) == (pytest.approx(0.79 * end), pytest.approx(0.81 * end))


def test_long_histories_are_thinned_and_keep_both_ends() -> None:
    thinned = figure_data._thinned(list(range(1, 5001)))
    assert len(thinned) == figure_data.MAX_CURVE_POINTS
    assert (thinned[0], thinned[-1]) == (1, 5000)


def test_every_figure_says_in_words_what_is_seen(runs: list[Run], info: StudyInfo) -> None:
    cells = build_cells(runs, info)
    picture = draw_accuracy(figure_data.accuracy_figures(cells, rankings(cells))[0], info)
    assert "DP-GCN 72.0 at epsilon 8" in picture.alt
    assert "MLP 80.0 without privacy" in picture.alt
    assert picture.caption


def test_svg_text_stays_text_and_names_every_entry(runs: list[Run], info: StudyInfo) -> None:
    cells = build_cells(runs, info)
    (classes,) = in_rows(figure_data.class_curves(cells))
    text = draw_classes(classes, info).svg.decode()
    for cell in cells:
        assert cell.label in re.sub(r"<[^>]+>", "\n", text)


def test_many_classes_and_one_repeat_and_no_private_entry_can_be_drawn(
    runs: list[Run], info: StudyInfo
) -> None:
    few = []
    for run in runs:
        if run.record.key["repeat"] == 0 and run.record.key["entry"] == "mlp":
            test = {
                **run.record.metrics["test"],
                "per_class_accuracy": [0.5] * 40,
                "per_class_count": list(range(1, 41)),
            }
            few.append(replace(run, record=replace(run.record, metrics={"test": test})))
    cells = build_cells(few, info)
    (figure,) = figure_data.accuracy_figures(cells, rankings(cells))
    assert figure.guarantee == "no privacy"
    assert joined(draw_accuracy(figure, info)) == 0
    assert draw_accuracy(figure, info).png.startswith(b"\x89PNG")
    (classes,) = in_rows(figure_data.class_curves(cells))
    assert draw_classes(classes, info).png.startswith(b"\x89PNG")


def test_an_entry_keeps_its_look_and_looks_differ(info: StudyInfo) -> None:
    many = tuple(EntryInfo(name=f"e{i}", method="m", mode="sound") for i in range(20))
    found = looks(replace(info, entries=many))
    assert len({(look.color, look.marker, look.dash) for look in found.values()}) == 20
    assert found["e0"] == looks(replace(info, entries=many[:3]))["e0"]


def test_no_two_entries_share_colour_dashes_and_marker(info: StudyInfo) -> None:
    names = [f"e{i}" for i in range(32)]
    # points of a sweep stand between the entries they are made of and take no look from them
    listed = [name for e in names for name in (e, f"{e}~lr=1")]
    many = tuple(EntryInfo(name=name, method="m", mode="sound") for name in listed)
    found = looks(replace(info, entries=many))
    assert found == looks(replace(info, entries=many[::2])) | {
        name: look for name, look in found.items() if "~" in name
    }
    # levels without privacy have no marker
    assert len({(found[name].color, found[name].free_dash) for name in names}) == 32
    assert len({(found[name].color, found[name].dash) for name in names}) == 32
    assert not set(DASHES) & set(FREE_DASHES)


def test_a_panel_of_another_metric_has_its_own_label(runs: list[Run], info: StudyInfo) -> None:
    changed = [
        replace(run, record=replace(run.record, facts={**run.record.facts, "task": "multilabel"}))
        if run.record.key["dataset"] == "beta"
        else run
        for run in runs
    ]
    for made, labels in ((runs, 1), (changed, 2)):
        cells = build_cells(made, info)
        figure = figure_data.accuracy_figures(cells, rankings(cells))[0]
        picture = draw_accuracy(with_budgets(figure, 1.0, 2.0, 4.0), info)
        found = re.findall(r">(test [^<]* \(%\))<", picture.svg.decode())
        assert found == ["test accuracy (%)", "test micro-F1 (%)"][:labels]


def test_both_files_of_a_picture_are_written(
    tmp_path: Path, runs: list[Run], info: StudyInfo
) -> None:
    cells = build_cells(runs, info)
    picture = draw_accuracy(figure_data.accuracy_figures(cells, rankings(cells))[1], info)
    write_picture(tmp_path, picture)
    assert (tmp_path / f"{picture.name}.png").read_bytes() == picture.png
    assert (tmp_path / f"{picture.name}.svg").read_bytes() == picture.svg


@pytest.mark.filterwarnings("error:constrained_layout")
def test_a_long_legend_makes_the_figure_grow_and_covers_no_panel() -> None:
    with drawing.style():
        canvas, axes = drawing.grid(1, title="one panel, many entries")
        for number in range(30):
            axes[0].plot(
                [1, 2], [number, number], label=f"an entry with a long name, number {number}"
            )
        drawing.legend(canvas, axes)
        canvas.draw_without_rendering()
        box, panel = canvas.legends[0].get_window_extent(), axes[0].get_window_extent()
        assert box.y1 <= panel.y0
        assert box.x0 >= 0
        assert box.x1 <= canvas.bbox.x1
        assert panel.height > 1.5 * canvas.dpi


def test_every_accuracy_panel_shows_what_the_majority_class_reaches(
    runs: list[Run], info: StudyInfo
) -> None:
    """In print and on the screen: the mean share of the largest class among the test nodes."""
    cells = build_cells(runs, info)
    for figure in figure_data.accuracy_figures(cells, rankings(cells)):
        canvas = draw_accuracy(figure, info).figure
        chart = accuracy_chart(figure, info)
        for panel, axis, (_, spec) in zip(figure.panels, canvas.axes, chart.panels):
            here = [cell for cell in cells if cell.dataset == panel.title]
            counts = [run.record.metrics["test"]["per_class_count"] for run in here[0].runs]
            share = sum(max(found) / sum(found) for found in counts) / len(counts)
            assert panel.majority == pytest.approx(share)
            (line,) = [line for line in axis.lines if line.get_label() == "majority class"]
            drawn = {*line.get_xdata(), *line.get_ydata()}
            assert any(value == pytest.approx(100 * share) for value in drawn)
            (row,) = spec["layer"][-1]["data"]["values"]
            assert row == {"name": "majority class", "mean": pytest.approx(100 * share, rel=1e-4)}


def test_a_drawing_brings_the_letters_of_its_fonts(runs: list[Run], info: StudyInfo) -> None:
    cells = build_cells(runs, info)
    picture = draw_accuracy(figure_data.accuracy_figures(cells, rankings(cells))[0], info)
    text = picture.svg.decode()
    faces = re.findall(
        r"@font-face\{[^}]*font-weight:(\w+);src:url\(data:font/woff;base64,([^)]+)\)", text
    )
    assert faces[0][0] == "normal"
    words = set("".join(re.findall(r"<text[^>]*>([^<]+)<", text))) - {" ", "\n"}
    font = TTFont(io.BytesIO(base64.b64decode(faces[0][1])))
    assert {ord(letter) for letter in html.unescape("".join(words))} <= set(font.getBestCmap())
    assert picture.pdf.count(b"/FontFile2") >= 1
    assert b"/Type3" not in picture.pdf
