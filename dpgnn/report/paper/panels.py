"""Cells -> the panels of a paper's figure, as plain values for print and screen."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpgnn.records.archive import SCORE_COLUMNS
from dpgnn.records.cells import Cell
from dpgnn.report.figures.figure_data import class_curves, majority_of
from dpgnn.report.paper.figures import PaperFigure, matches, value_of
from dpgnn.training.evaluation import mean_interval

Key = tuple[str, str, str, str]
QUANTITIES = {
    "score": "test {metric} (%)", "steps": "training steps", "seconds": "seconds a run",
    "memory": "peak memory (MB)",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PanelPoint:
    """A mean with its 95 % interval over n repeats; x is a number, or a class's position; row for heat."""

    x: float
    mean: float
    low: float | None = None
    high: float | None = None
    n: int = 1
    row: float | None = None


@dataclass(frozen=True, kw_only=True)
class Line:
    """One series in a panel, drawn from `cells`; `level` has one value for every x, `free` no privacy."""

    label: str
    points: tuple[PanelPoint, ...]
    cells: tuple[Key, ...] = ()
    free: bool = False
    level: bool = False


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A panel: its title, its axes and its lines; `ticks` name positions of x.

    `place` is DATASET.SETTING, and `where` names it with the budget; panels of several quantities share it.
    `part` is the letter of the figure's part; `by_class` says that x counts classes; `majority` is the
    accuracy of the most frequent class in percent, for panels of scores.
    """

    title: str
    x_title: str
    y_title: str
    lines: tuple[Line, ...]
    x_log: bool = False
    ticks: tuple[tuple[float, str], ...] = ()
    row_title: str = ""
    place: str = ""
    where: str = ""
    part: str = ""
    majority: float | None = None
    by_class: bool = False


def panels_of(figure: PaperFigure, cells: Sequence[Cell]) -> list[Panel]:
    """Panels that have at least one point, parts by places by budgets by quantities."""
    return [
        replace(panel, part=letter, title=_lettered(letter, part, panel.title))
        for letter, part in figure.lettered
        for panel in _panels_of_part(part, cells)
    ]


def _lettered(letter: str, part: PaperFigure, title: str) -> str:
    if not letter:
        return title
    mark = "" if letter == part.title else f"({letter}) "
    return f"{mark}{part.title}: {title}"


def _panels_of_part(figure: PaperFigure, cells: Sequence[Cell]) -> list[Panel]:
    made = []
    for place in figure.places:
        here = [cell for cell in cells if ".".join(cell.place) == place and _fits(figure, cell)]
        for epsilon in figure.epsilons or ("",):
            chosen = [c for c in here if not epsilon or c.epsilon in ("inf", epsilon)]
            dataset, setting = place.split(".", 1)
            several = sum(other.startswith(f"{dataset}.") for other in figure.places) > 1
            title = f"{dataset}, {setting}" if several else dataset
            title += f", ε = {epsilon}" if epsilon else ""
            for quantity in figure.y:
                panel = _panel(figure, title, chosen, quantity)
                if panel.lines and _spread(figure, panel):
                    made.append(replace(panel, place=place, where=title))
    return made


def key_of(cell: Cell) -> Key:
    """The cell's (dataset, setting, entry, epsilon)."""
    return cell.dataset, cell.setting, cell.entry, cell.epsilon


def _spread(figure: PaperFigure, panel: Panel) -> bool:
    """Whether the varied quantity has at least two values, so that there is something to draw."""
    points = [p for line in panel.lines if not line.level for p in line.points]
    if figure.kind == "heat":
        return len({p.x for p in points}) > 1 and len({p.row for p in points}) > 1
    if figure.kind == "checkpoints":
        return bool(points)
    return not figure.is_sweep or any(len(line.points) > 1 for line in panel.lines)


def _fits(figure: PaperFigure, cell: Cell) -> bool:
    for path, wanted in figure.where.items():
        found = _value(path, cell)
        if isinstance(wanted, (int, float)) and isinstance(found, float):
            if not math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-12):
                return False
        elif found != wanted:
            return False
    return True


def _value(expression: str, cell: Cell) -> float | str | None:
    record = cell.runs[0].record
    options, num_train = record.entry.get("options", {}), record.facts.get("num_train")
    return value_of(expression, options, cell.epsilon, num_train)


def _panel(figure: PaperFigure, title: str, cells: Sequence[Cell], quantity: str) -> Panel:
    metric = (cells[0].metric if cells else "accuracy").replace("_", " ")
    words: dict[str, Any] = {
        "x_title": figure.x_title, "y_title": QUANTITIES[quantity].format(metric=metric),
        "x_log": figure.x_log, "row_title": figure.row_title,
    }  # fmt: skip
    lines: list[Line] = []
    ticks: dict[float, str] = {}
    build = {
        "bars": _bars, "heat": _points, "lines": _points, "checkpoints": _checkpoints,
        "classes": _classes,
    }[figure.kind]  # fmt: skip
    for position, series in enumerate(figure.series):
        chosen = [c for c in cells if matches(series.entries, c.entry, c.epsilon)]
        if chosen:
            made = build(figure, series.label, position, chosen, quantity)
            lines += [line for line in made if all(math.isfinite(p.mean) for p in line.points)]
        if figure.kind == "bars":
            ticks[float(position)] = series.label
    if figure.kind == "classes":
        words |= {"x_title": "class, from rare to frequent", "y_title": "recall of the class (%)"}
        words["x_log"] = False
    if figure.kind == "checkpoints":
        words["x_title"] = "ε spent"
    share = majority_of(cells) if quantity == "score" and figure.kind != "classes" else None
    if share is not None and figure.kind == "heat":
        title += f" (majority class {100 * share:.1f} %)"
    return Panel(
        title=title,
        majority=None if share is None else 100 * share,
        lines=tuple(lines),
        ticks=tuple(ticks.items()),
        by_class=figure.kind == "classes",
        **words,
    )


def _points(
    figure: PaperFigure, label: str, position: int, cells: Sequence[Cell], quantity: str
) -> list[Line]:
    """A line over x; cells without privacy become a level where x is epsilon.

    If a series has several cells at one place, the one of its earliest pattern is drawn. In a sweep of
    options, a point is the mean over the repeats that all points of its line share, so that easy and hard
    splits do not shift it.
    """
    series = next(s for s in figure.series if s.label == label)
    patterns, across = series.entries, series.x or figure.x
    found: dict[bool, dict[tuple[float, float | None], Cell]] = {False: {}, True: {}}
    levels: list[tuple[PanelPoint, Key]] = []
    for cell in sorted(cells, key=lambda c: _rank(patterns, c)):
        row = _value(figure.row, cell) if figure.row else None
        if across.endswith("epsilon") and not cell.is_private:
            levels.append((_measured(cell, quantity, x=0.0), key_of(cell)))
            continue
        x = _value(across, cell)
        if isinstance(x, float) and not isinstance(row, str):
            found[not cell.is_private].setdefault((x, row), cell)
    lines = []
    for free, drawn in found.items():
        repeats = _shared(drawn.values()) if figure.is_sweep else None
        points = [
            _measured(drawn[x, row], quantity, x=x, row=row, repeats=repeats)
            for x, row in sorted(drawn, key=lambda place: (place[0], place[1] or 0.0))
        ]
        if points:
            keys = tuple(key_of(cell) for cell in drawn.values())
            lines.append(Line(label=label, points=tuple(points), cells=keys, free=free))
    lines += [
        Line(label=label, points=(point,), cells=(key,), free=True, level=True)
        for point, key in levels
    ]
    return lines


def _rank(patterns: Sequence[str], cell: Cell) -> int:
    """Position of the first pattern that matches the cell."""
    named = (matches((pattern,), cell.entry, cell.epsilon) for pattern in patterns)
    return next(position for position, found in enumerate(named) if found)


def _bars(
    figure: PaperFigure, label: str, position: int, cells: Sequence[Cell], quantity: str
) -> list[Line]:
    points = tuple(_measured(cell, quantity, x=float(position)) for cell in cells[:1])
    keys = (key_of(cells[0]),)
    return [Line(label=label, points=points, cells=keys, free=not cells[0].is_private)]


def _checkpoints(
    figure: PaperFigure, label: str, position: int, cells: Sequence[Cell], quantity: str
) -> list[Line]:
    """The score at the epsilon spent so far, from histories; without privacy, the last score as a level."""
    cell = max(cells, key=lambda c: float(c.epsilon) if c.is_private else 0.0)
    if not cell.is_private:
        point = _measured(cell, "score", x=0.0)
        return [Line(label=label, points=(point,), cells=(key_of(cell),), free=True, level=True)]
    by_step: dict[int, list[tuple[float, float]]] = {}
    for run in cell.runs:
        history = run.history
        column = next((name for name in SCORE_COLUMNS if name in history), None)
        if column is None or "epsilon" not in history:
            continue
        for step, epsilon, score in zip(history["step"], history["epsilon"], history[column]):
            if None not in (epsilon, score) and math.isfinite(epsilon) and math.isfinite(score):
                by_step.setdefault(int(step), []).append((float(epsilon), float(score)))
    points = []
    for _, values in sorted(by_step.items()):
        spent = sum(epsilon for epsilon, _ in values) / len(values)
        points.append(_summed([score for _, score in values], x=spent, scale=100.0))
    return [Line(label=label, points=tuple(points), cells=(key_of(cell),))] if points else []


def _classes(
    figure: PaperFigure, label: str, position: int, cells: Sequence[Cell], quantity: str
) -> list[Line]:
    ((curve, *_),) = class_curves(cells[:1]).values()
    points = tuple(
        PanelPoint(
            x=float(place), mean=100 * mean, n=len(cells[0].runs),
            low=None if low is None else 100 * low, high=None if high is None else 100 * high,
        )
        for place, (mean, low, high) in enumerate(zip(curve.mean, curve.low, curve.high))
    )  # fmt: skip
    keys = (key_of(cells[0]),)
    return [Line(label=label, points=points, cells=keys, free=not cells[0].is_private)]


def _shared(cells: Iterable[Cell]) -> set[int] | None:
    """Repeats that all cells share; None if there are none."""
    sets = [set(cell.scores) for cell in cells]
    return set.intersection(*sets) or None if sets else None


def _measured(
    cell: Cell,
    quantity: str,
    *,
    x: float,
    row: float | None = None,
    repeats: set[int] | None = None,
) -> PanelPoint:
    """A cell's mean of a quantity; scores in percent, over `repeats` or all."""
    if quantity == "score":
        scores = [score for at, score in cell.scores.items() if repeats is None or at in repeats]
        return _summed(scores, x=x, row=row, scale=100.0)
    of_run: dict[str, Callable[[], Sequence[float]]] = {
        "steps": lambda: [float(run.record.plan.get("num_steps", 0)) for run in cell.runs],
        "seconds": lambda: cell.seconds,
        "memory": lambda: cell.max_rss_mb,
    }
    return _summed(list(of_run[quantity]()) or [math.nan], x=x, row=row, scale=1.0)


def _summed(
    values: Sequence[float], *, x: float, scale: float, row: float | None = None
) -> PanelPoint:
    found = mean_interval(list(values))
    found = found.within_0_and_1() if scale == 100.0 else found
    return PanelPoint(
        x=x, row=row, mean=scale * found.mean, n=len(values),
        low=None if found.low is None else scale * found.low,
        high=None if found.high is None else scale * found.high,
    )  # fmt: skip
