"""Figures of the papers: maps name what studies have, panels hold the records' numbers, gaps have reasons."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml
from helpers import ROOT, tells, two_community_graph
from safetensors.torch import load_file
from studies import known

from dpgnn import methods
from dpgnn.core import config as strict
from dpgnn.core.config import ConfigError
from dpgnn.core.paths import Paths
from dpgnn.core.storage import write_parquet
from dpgnn.data.files.graph_files import save_graph
from dpgnn.data.raw.sources import data_folder
from dpgnn.data.splits import SplitConfig, make_split, write_split
from dpgnn.methods.base import Entry
from dpgnn.records.archive import Kept
from dpgnn.records.cells import Cell, build_cells
from dpgnn.records.frame import Run
from dpgnn.records.info import EntryInfo, StudyInfo
from dpgnn.report.paper import drawn as paper_drawn
from dpgnn.report.paper.charts import chart
from dpgnn.report.paper.drawn import missing
from dpgnn.report.paper.embedding import (
    _in_two_dimensions,
    embedding_panels,
    hidden_units,
    node_positions,
)
from dpgnn.report.paper.embedding import _panel as _embedded
from dpgnn.report.paper.figures import (
    FigureSeries,
    PaperFigure,
    PaperFigures,
    check_entries,
    load_figures,
    value_of,
)
from dpgnn.report.paper.panels import panels_of
from dpgnn.report.paper.printed import draw, sheets
from dpgnn.run.execute import run_one
from dpgnn.run.specification import RunInputs

PAPERS = ("dpgnn", "drw", "dpar", "caribou")


def figure(**changes: Any) -> PaperFigure:
    stated: dict[str, Any] = {
        "title": "A question", "places": ("alpha.random", "beta.public"), "x_log": True,
        "series": (
            FigureSeries(label="DP-GCN", entries=("dp_gcn", "dp_gcn-*")),
            FigureSeries(label="DP-MLP", entries=("dp_mlp",)),
            FigureSeries(label="MLP", entries=("mlp",)),
        ),
    }  # fmt: skip
    return PaperFigure(**(stated | changes))


def with_option(run: Run, **options: Any) -> Run:
    entry = {**run.record.entry, "options": {**run.record.entry["options"], **options}}
    return replace(run, record=replace(run.record, entry=entry))


def swept(runs: list[Run], *names: str, repeats: int = 3) -> tuple[list[Run], StudyInfo]:
    """dp_mlp at epsilon 8 on alpha, renamed with sweep values: NAME~width=W~depth=D."""
    base = [
        run
        for run in runs
        if run.name.startswith("alpha.random/dp_mlp/eps=8") and run.record.key["repeat"] < repeats
    ]
    made = []
    for name in names:
        options = {k: float(v) for k, v in (part.split("=") for part in name.split("~")[1:])}
        for run in base:
            changed = with_option(run, **options)
            record = replace(changed.record, key={**run.record.key, "entry": name})
            made.append(replace(changed, record=record))
    info = StudyInfo(
        name="toy", tier="S", config_path="toy.yaml", planned=tuple(run.name for run in made),
        entries=tuple(EntryInfo(name=name, method="dp_mlp", mode="sound") for name in names),
        other_entries=("dp_mlp~width=99",),
    )  # fmt: skip
    return made, info


@pytest.mark.parametrize("paper", PAPERS)
def test_maps_name_entries_and_places_of_their_study(paper: str) -> None:
    stated = load_figures(paper)
    assert stated is not None
    assert stated.paper == paper
    study = known(ROOT / f"workflow/studies/{paper}.yaml", "S")
    info = StudyInfo(
        name=paper, tier="S", config_path="", planned=(),
        entries=tuple(
            EntryInfo(name=name, method=entry.method, mode=entry.mode)
            for name, entry in study.entries.items()
        ),
    )  # fmt: skip
    check_entries(stated, info)
    places = {
        f"{name}.{setting}"
        for name, dataset in study.config.datasets.items()
        for setting in dataset.settings
    }
    for name, shown in stated.figures.items():
        assert set(shown.places) <= places, name


@pytest.mark.parametrize(
    ("paper", "wanted"),
    [
        ("drw", {"F2", "exact"}),
        ("dpar", {f"F{number}" for number in range(1, 13)}),
        ("dpgnn", {"F2a", "F2b", "F2c", "F2d", "F3a", "F3b", "F4"}),
        ("caribou", {"F3", *(f"F{number}" for number in range(5, 12))}),
    ],
)
def test_every_figure_of_a_paper_has_its_target(paper: str, wanted: set[str]) -> None:
    stated = load_figures(paper)
    assert stated is not None
    assert wanted <= set(stated.figures)


def test_lines_hold_means_and_levels_of_the_cells(runs: list[Run], info: StudyInfo) -> None:
    panels = panels_of(figure(), build_cells(runs, info))
    assert [panel.title for panel in panels] == ["alpha", "beta"]
    gcn, mlp, level = panels[0].lines
    # the first pattern wins where two entries meet at one epsilon
    assert [(p.x, p.mean) for p in gcn.points] == [
        (1.0, pytest.approx(50)),
        (8.0, pytest.approx(72)),
    ]
    assert gcn.points[0].n == 3
    assert gcn.points[0].low == pytest.approx(50 - 2.48414, abs=1e-4)
    assert [p.mean for p in mlp.points] == [pytest.approx(60), pytest.approx(70)]
    assert level.level
    assert level.free
    assert level.points[0].mean == pytest.approx(80)


def test_a_sweep_is_read_from_the_options_of_the_records(runs: list[Run]) -> None:
    made, info = swept(runs, "dp_mlp~width=4", "dp_mlp~width=16")
    one = figure(
        x="options.width", epsilons=("8",),
        series=(FigureSeries(label="DP-MLP", entries=("dp_mlp~width=*",)),),
    )  # fmt: skip
    (panel,) = panels_of(one, build_cells(made, info))
    assert [p.x for p in panel.lines[0].points] == [4.0, 16.0]
    made, info = swept(runs, "dp_mlp~width=4")
    cells = build_cells(made, info)
    assert panels_of(one, cells) == []  # one value of what is varied shows nothing


def test_points_of_a_sweep_are_over_the_repeats_that_all_have(runs: list[Run]) -> None:
    made, info = swept(runs, "dp_mlp~width=4", "dp_mlp~width=16")
    fewer = [run for run in made if "=4/" in run.name or run.record.key["repeat"] < 2]
    one = figure(
        x="options.width", epsilons=("8",), places=("alpha.random",),
        series=(FigureSeries(label="DP-MLP", entries=("dp_mlp~width=*",)),),
    )  # fmt: skip
    cells = build_cells(fewer, info)
    assert [len(cell.scores) for cell in cells] == [3, 2]
    (panel,) = panels_of(one, cells)
    first, second = panel.lines[0].points
    assert (first.n, second.n) == (2, 2)
    assert first.mean == pytest.approx(second.mean)  # the same runs under two names


def test_a_heat_map_has_rows_columns_and_a_condition(runs: list[Run]) -> None:
    names = [f"dp_mlp~width={w}~depth={d}~lr={r}" for w in (4, 8) for d in (1, 2) for r in (0.1, 1)]
    made, info = swept(runs, *names)
    heat = figure(
        kind="heat", x="options.width", row="options.depth", x_title="width", row_title="depth",
        where={"options.lr": 0.1}, series=(FigureSeries(label="DP-MLP", entries=("dp_mlp~*",)),),
    )  # fmt: skip
    (panel,) = panels_of(heat, build_cells(made, info))
    assert [(p.x, p.row) for p in panel.lines[0].points] == [(4, 1), (4, 2), (8, 1), (8, 2)]
    picture = draw("heat", "heat", heat, [panel])
    assert picture.png.startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("expression", "options", "wanted"),
    [
        ("epsilon", {}, 8.0),
        ("options.a.b", {"a": {"b": 3}}, 3.0),
        ("options.a.b * epsilon", {"a": {"b": 0.5}}, 4.0),
        ("options.batch", {"batch": "full"}, 600.0),
        ("options.none", {}, None),
    ],
)
def test_values_of_axes(expression: str, options: dict[str, Any], wanted: float | None) -> None:
    assert value_of(expression, options, "8", 600) == wanted


def test_checkpoints_follow_the_epsilon_spent(
    runs: list[Run], info: StudyInfo, tmp_path: Path
) -> None:
    placed = []
    for run in runs:
        folder = tmp_path / run.name
        repeat = float(run.record.key["repeat"])
        table = {"step": [1, 2], "epsilon": [2.0, 8.0], "test_accuracy": [0.2, 0.5 + 0.01 * repeat]}
        write_parquet(folder / "history.parquet", pa.table(table))
        placed.append(replace(run, folder=folder))
    panel = panels_of(figure(kind="checkpoints"), build_cells(placed, info))[0]
    gcn = panel.lines[0]
    assert [p.x for p in gcn.points] == [2.0, 8.0]
    assert gcn.points[1].mean == pytest.approx(51)
    assert panel.x_title == "ε spent"
    assert panel.lines[2].level


def test_bars_show_steps_beside_scores(runs: list[Run], info: StudyInfo) -> None:
    planned = [
        replace(
            run, record=replace(run.record, plan={"num_steps": 10 + len(run.record.key["entry"])})
        )
        for run in runs
    ]
    bars = figure(kind="bars", epsilons=("8",), y=("steps", "score"), places=("alpha.random",))
    steps, scores = panels_of(bars, build_cells(planned, info))
    assert [line.points[0].mean for line in steps.lines] == [16, 16, 13]
    assert scores.lines[1].points[0].mean == pytest.approx(70)
    assert steps.ticks == ((0.0, "DP-GCN"), (1.0, "DP-MLP"), (2.0, "MLP"))


def test_what_is_missing_is_counted_and_named(runs: list[Run], info: StudyInfo) -> None:
    cells = build_cells(runs, info)
    few = [cell for cell in cells if cell.dataset == "alpha"]
    shown = figure(places=("alpha.random", "beta.public", "gamma.public"))
    extra = FigureSeries(label="Other", entries=("nobody",))
    shown = replace(shown, series=(*shown.series, extra))
    present, planned, reason = missing(shown, few, info, panels_of(shown, few))
    # two of DP-GCN's entries meet at each budget, and the first is drawn
    assert (present, planned) == (5, 14)
    tells(reason, "2 recorded")
    assert "not in tier S: Other" in reason
    assert "on gamma.public" in reason
    tells(reason, "7 cells planned")


def test_panels_and_lines_that_are_not_drawn_are_named(runs: list[Run], info: StudyInfo) -> None:
    cells = build_cells(runs, info)
    fewer = [cell for cell in cells if (cell.dataset, cell.entry) != ("beta", "dp_mlp")]
    shown = figure()
    *_, reason = missing(shown, fewer, info, panels_of(shown, fewer))
    assert "no DP-MLP on beta" in reason
    made, info = swept(runs, "dp_mlp~width=4", "dp_mlp~width=16")
    sweep = figure(
        x="options.width", epsilons=("8",), places=("alpha.random",),
        series=(FigureSeries(label="DP-MLP", entries=("dp_mlp~width=*",)),),
    )  # fmt: skip
    one = build_cells(made, info)[:1]
    assert panels_of(sweep, one) == []
    drawn, planned, reason = missing(sweep, one, info, [])
    assert (drawn, planned) == (0, 2)
    tells(reason, "no panel", "alpha.random", "one value")


def test_a_figure_of_many_panels_has_sheets_of_at_most_six(
    runs: list[Run], info: StudyInfo
) -> None:
    shown = figure()
    (panel, _) = panels_of(shown, build_cells(runs, info))
    assert [(s, w, len(p)) for s, w, p in sheets(shown, [panel] * 6)] == [("", "", 6)]
    made = sheets(shown, [panel] * 13)
    assert [(s, w, len(p)) for s, w, p in made] == [
        ("", " (1 of 3)", 5), ("-2", " (2 of 3)", 5), ("-3", " (3 of 3)", 3),
    ]  # fmt: skip
    # quantities of one place stay together
    pairs = sheets(replace(shown, kind="bars", y=("steps", "score")), [panel] * 14)
    assert [len(page) for _, _, page in pairs] == [6, 6, 2]


def test_few_values_and_classes_are_dots_and_what_is_missing_says_so(
    runs: list[Run], info: StudyInfo
) -> None:
    cells = build_cells(runs, info)
    for kind in ("lines", "classes"):
        shown = figure(kind=kind, epsilons=("8",) if kind == "classes" else ())
        picture = draw("name", "title", shown, panels_of(shown, cells))
        for axis in picture.figure.axes:
            styles = {(line.get_marker(), line.get_linestyle()) for line in axis.get_lines()}
            assert all(dash == "None" for marker, dash in styles if marker != "None")
            assert any(marker != "None" for marker, _ in styles)
    bars = figure(kind="bars", epsilons=("8",), places=("alpha.random",))
    (panel,) = panels_of(bars, cells)
    assert b">n/a<" not in draw("name", "title", bars, [panel]).svg
    fewer = replace(panel, lines=panel.lines[1:])
    assert draw("name", "title", bars, [fewer]).svg.count(b">n/a<") == 1
    last = replace(panel, lines=panel.lines[:-1])
    low, high = sorted(draw("name", "title", bars, [last]).figure.axes[0].get_ylim())
    assert all(low < tick < high for tick, _ in panel.ticks)


@pytest.mark.parametrize("kind", ["lines", "bars", "classes"])
def test_every_kind_is_drawn_the_same_twice_and_has_an_interactive_form(
    kind: Any, runs: list[Run], info: StudyInfo
) -> None:
    shown = figure(kind=kind, epsilons=("8",))
    panels = panels_of(shown, build_cells(runs, info))
    first, second = (draw("name", "title", shown, panels) for _ in range(2))
    assert first.png == second.png
    assert first.svg == second.svg
    assert "alpha" in first.alt
    made = chart("name", shown, panels)
    assert len(made.panels) == len(panels)
    assert json.dumps([spec for _, spec in made.panels])
    assert {row["entry"] for row in made.legend} == {"DP-GCN", "DP-MLP", "MLP"}


def test_positions_are_read_as_round_numbers(runs: list[Run], info: StudyInfo) -> None:
    shown = figure(kind="classes", epsilons=("8",))
    (panel, *_) = panels_of(shown, build_cells(runs, info))
    values = (0.1000002, 0.24999975, 4.0000005)
    first = panel.lines[0].points[0]
    points = tuple(replace(first, x=value) for value in values)
    moved = [replace(line, level=False, points=points) for line in panel.lines]
    dotted = replace(panel, lines=tuple(moved), x_log=True)
    for panel in (dotted, replace(dotted, by_class=False)):
        ((_, spec),) = chart("name", shown, [panel]).panels
        group = next(group for group in spec["layer"] if len(group["data"]["values"]) > 1)
        rows = group["data"]["values"]
        for layer in group["layer"]:
            assert layer["encoding"]["x"]["axis"]["values"] == [0.1, 0.25, 4.0]
        assert {row["x"] for row in rows} == {0.1, 0.25, 4.0}
        beside = {row["at"] for row in rows if "at" in row}
        assert len(beside) == (len(rows) if panel.by_class else 0)


def test_dots_that_no_line_joins_are_hollow_without_privacy(
    runs: list[Run], info: StudyInfo
) -> None:
    shown = figure(kind="classes", epsilons=("8",))
    (panel, *_) = panels_of(shown, build_cells(runs, info))
    first, second = (replace(line, level=False) for line in panel.lines[:2])
    spot = first.points[0]
    line = replace(first, free=False, points=tuple(replace(spot, x=x) for x in (1.0, 2.0, 4.0)))
    for number, hollow in ((2, True), (3, False)):
        points = tuple(replace(spot, x=x) for x in (1.0, 2.0, 4.0)[:number])
        lines = (line, replace(second, free=True, points=points))
        mixed = replace(panel, by_class=False, lines=lines)
        ((_, spec),) = chart("name", shown, [mixed]).panels
        group = next(group for group in spec["layer"] if len(group["data"]["values"]) > 1)
        scale = group["layer"][-1]["encoding"]["fill"]["scale"]
        inside = dict(zip(scale["domain"], scale["range"]))
        assert (inside[second.label] == "#ffffff") == hollow
        assert inside[first.label] != "#ffffff"


def test_a_study_of_a_paper_gets_its_figures_and_their_table(
    runs: list[Run], info: StudyInfo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    absent = figure(series=(FigureSeries(label="None", entries=("later",)),))
    stated = PaperFigures(paper="toy", figures={"F1": figure(), "F2": absent})
    monkeypatch.setattr(paper_drawn, "load_figures", lambda paper: stated)
    info = replace(info, paper="toy", other_entries=("later",))
    drawn, (table,) = paper_drawn.paper_figures(
        info, build_cells(runs, info), Paths(results=tmp_path)
    )
    assert [picture.name for picture, _ in drawn] == ["paper-toy-F1"]
    assert [row.figure for row in table.rows] == ["F1", "F2"]
    assert table.rows[1].reason == "not in tier S: None"
    assert table.name == "paper-toy-figures"


def test_an_entry_that_no_study_has_is_refused(runs: list[Run], info: StudyInfo) -> None:
    wrong = figure(series=(FigureSeries(label="x", entries=("nope-*",)),))
    with pytest.raises(ConfigError, match=r"figures\.F1: 'nope-\*' matches no entry"):
        check_entries(PaperFigures(paper="toy", figures={"F1": wrong}), info)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"places": ["alpha"]}, "must be DATASET.SETTING"),
        ({"y": ["speed"]}, "unknown quantity 'speed'"),
        ({"x": "width"}, "must be epsilon or options.PATH"),
        ({"kind": "heat"}, "row must be given for kind heat"),
        ({"kind": "pie"}, "kind must be one of"),
    ],
)
def test_mistakes_in_a_map_name_file_and_key(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    stated = {"title": "t", "places": ["a.b"], "series": [{"label": "x", "entries": ["mlp"]}]}
    text = yaml.safe_dump({"paper": "toy", "figures": {"F1": stated | change}})
    (tmp_path / "toy.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_figures("toy", tmp_path)
    assert load_figures("other", tmp_path) is None


def test_maps_are_files_of_the_package() -> None:
    found = {path.stem for path in (data_folder() / "papers" / "figures").glob("*.yaml")}
    assert found == set(PAPERS)


def test_hidden_units_are_those_of_the_released_perceptron_on_training_nodes(
    tmp_path: Path,
) -> None:
    """By hand from the weights, and of training nodes alone."""
    graph = two_community_graph(60)
    split = make_split(graph, SplitConfig(), rng=np.random.default_rng(0))
    paths = Paths(results=tmp_path)
    save_graph(graph, paths.graph("two"))
    write_split(paths.split("two", "random", 0), split, num_nodes=graph.num_nodes)
    method = methods.get("dpar")
    entry = Entry(
        name="dpar", method="dpar", mode="nonprivate", privacy_unit=None, relation=None,
        options=strict.read(method.config, {"num_epochs": 2, "width": 5, "subsample_rate": 1.0}),
    )  # fmt: skip
    key = {
        "study": "toy", "dataset": "two", "setting": "random", "entry": "dpar", "epsilon": "inf",
        "repeat": 0,
    }  # fmt: skip
    inputs = RunInputs(
        key=key, entry=entry, epsilon=math.inf, delta=1e-3, graph=graph, split=split,
        prepared=None, hashes={},
    )  # fmt: skip
    record = run_one(inputs, tmp_path / "run", work=None)
    found = hidden_units(Run(record=record, folder=tmp_path / "run"), paths)
    assert found is not None
    hidden, y = found
    state = load_file(tmp_path / "run" / "model.safetensors")
    (weight,) = (t.numpy() for t in state.values() if t.shape == (graph.num_features, 5))
    x = np.asarray(graph.x if isinstance(graph.x, np.ndarray) else graph.x.toarray())
    assert hidden == pytest.approx(np.maximum(x[split.train_idx] @ weight, 0), abs=1e-5)
    assert y.tolist() == graph.y[split.train_idx].tolist()
    kept = Kept(positions=(np.zeros((3, 2), np.float32), np.zeros(3, np.int64)))
    here, archived, lost = node_positions(
        [
            Run(record=record, folder=tmp_path / "run", kept=kept),
            Run(record=record, folder=None, kept=kept),
            Run(record=record, folder=None),
        ],
        paths,
    )
    assert here is not None  # drawn anew from the weights
    assert np.array_equal(here[0], _in_two_dimensions(hidden))
    assert archived is kept.positions
    assert lost is None


def test_an_embedding_keeps_the_classes_apart(
    runs: list[Run], info: StudyInfo, tmp_path: Path
) -> None:
    shown = figure(kind="embedding", epsilons=("8",), x_log=False)
    cells: list[Cell] = build_cells(runs, info)
    assert embedding_panels(shown, cells, Paths(results=tmp_path)) == []  # no weights on disk
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 20)
    units = np.eye(3)[y] * 9 + rng.normal(0, 0.3, (60, 3))
    panel = _embedded("scores", cells[0], _in_two_dimensions(units), y)
    assert [line.label for line in panel.lines] == ["class 0", "class 1", "class 2"]
    spots = [np.array([(p.x, p.mean) for p in line.points]) for line in panel.lines]
    middles = np.array([spot.mean(axis=0) for spot in spots])
    for own, spot in enumerate(spots):
        nearest = np.linalg.norm(spot[:, None] - middles[None], axis=2).argmin(axis=1)
        assert (nearest == own).mean() > 0.9
    made = chart("tsne", shown, [panel])
    assert [row["label"] for row in made.legend] == ["class 0", "class 1", "class 2"]
    assert draw("tsne", "t", shown, [panel]).png


def test_panels_of_scores_have_the_majority_class_and_a_heat_map_names_it(
    runs: list[Run], info: StudyInfo
) -> None:
    cells = build_cells(runs, info)
    lines = PaperFigure(
        title="Budget", places=("alpha.random",), y=("score", "steps"),
        series=(FigureSeries(label="DP-GCN", entries=("dp_gcn",)),),
    )  # fmt: skip
    score, steps = panels_of(lines, cells)
    share = next(cell for cell in cells if cell.dataset == "alpha").majority
    assert share is not None
    assert score.majority == pytest.approx(100 * share)
    assert steps.majority is None
    picture = draw("x", "toy: Budget", lines, [score, steps])
    dotted = [
        [line.get_ydata()[0] for line in axis.lines if line.get_label() == "majority class"]
        for axis in picture.figure.axes
    ]
    assert dotted == [[pytest.approx(100 * share)], []]
    assert "Dotted: the majority class." in picture.caption
