"""The data of figures as plain values, for the printed and the interactive form."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dpgnn.records.cells import Cell
from dpgnn.report.figures.parts import parts
from dpgnn.report.statistics.ranking import ANSWERS_TO, Ranking
from dpgnn.training.evaluation import mean_interval

MAX_CURVE_POINTS = 40
MAX_ENTRIES = 10
FEW = 2  # budgets, or values of an axis, that no line joins


@dataclass(frozen=True, kw_only=True)
class Point:
    """One cell in a figure: its epsilon, mean, 95 % interval (None for one repeat), number of repeats."""

    epsilon: float
    mean: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, kw_only=True)
class Series:
    """One entry's points over epsilon."""

    entry: str
    label: str
    points: tuple[Point, ...]


@dataclass(frozen=True, kw_only=True)
class AccuracyPanel:
    """Accuracy against epsilon at one place; `majority` is the accuracy of the most frequent class."""

    title: str
    metric: str
    series: tuple[Series, ...]
    levels: tuple[Series, ...] = field(default=())
    majority: float | None = None

    @property
    def budgets(self) -> tuple[float, ...]:
        """The epsilons of its points, in order."""
        return tuple(sorted({point.epsilon for series in self.series for point in series.points}))

    @property
    def is_dotted(self) -> bool:
        """Whether it shows dots alone and no line."""
        return all(len(series.points) <= FEW for series in self.series)

    @property
    def score(self) -> str:
        """The label of its axis."""
        return f"test {self.metric.replace('micro_f1', 'micro-F1').replace('_', ' ')} (%)"


@dataclass(frozen=True, kw_only=True)
class AccuracyFigure:
    """Panels whose private entries share one guarantee; `part` says which of its panels they are."""

    name: str
    guarantee: str
    panels: tuple[AccuracyPanel, ...]
    part: str = ""

    @property
    def budgets(self) -> tuple[float, ...]:
        """The epsilons of all panels, in order."""
        return tuple(sorted({epsilon for panel in self.panels for epsilon in panel.budgets}))


@dataclass(frozen=True, kw_only=True)
class ClassCurve:
    """Recall of each class of one cell, classes from rare to frequent."""

    entry: str
    label: str
    epsilon: str
    share: tuple[float, ...]
    classes: tuple[int, ...]
    mean: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class TrainingCurve:
    """One column of the histories of a cell: mean, smallest and largest over repeats at each step."""

    entry: str
    label: str
    epsilon: str
    column: str
    step: tuple[int, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def plotted(cells: Sequence[Cell]) -> list[Cell]:
    """The cells that figures and rankings show.

    All of them; in a study of more than ten entries, without those made by a sweep.
    """
    entries = {cell.entry for cell in cells}
    stated = {entry for entry in entries if "~" not in entry}
    if len(entries) <= MAX_ENTRIES or not stated:
        return list(cells)
    return [cell for cell in cells if cell.entry in stated]


def place_title(dataset: str, setting: str, cells: Sequence[Cell]) -> str:
    """The data set; with its setting where a study has it in several."""
    settings = {cell.setting for cell in cells if cell.dataset == dataset}
    return dataset if len(settings) == 1 else f"{dataset}, {setting}"


def accuracy_figures(cells: Sequence[Cell], rankings: Sequence[Ranking]) -> list[AccuracyFigure]:
    """Figures for each guarantee and audience of answers; without private cells, the levels alone.

    A figure has at most six panels. Stand-ins, and panels of dots alone, have figures of their own. Entries
    that were each tuned for one epsilon are one series, see `_joined`.
    """
    by_guarantee: dict[str, dict[tuple[str, str], dict[str, dict[float, Cell]]]] = {}
    shown = {cell.entry for cell in cells}
    for ranking in rankings:
        here = [place.cell for place in ranking.places if place.cell.entry in shown]
        if not here:
            continue
        bound = ranking.notion
        answers = f"answers to {ANSWERS_TO[ranking.answers]}"
        guarantee = f"{bound.privacy_unit}, {bound.relation}, {answers}, {ranking.status}"
        places = by_guarantee.setdefault(guarantee, {})
        entries = places.setdefault((ranking.dataset, ranking.setting), {})
        for cell in here:
            entries.setdefault(cell.entry, {})[float(ranking.epsilon)] = cell
    if not by_guarantee and cells:
        by_guarantee["no privacy"] = {cell.place: {} for cell in cells}
    figures = []
    for guarantee, places in by_guarantee.items():
        panels = [_accuracy_panel(place, entries, cells) for place, entries in places.items()]
        # "edge, add-remove, answers to everyone, proved" -> accuracy-epsilon-edge-add-remove-everyone-proved
        words = guarantee.replace("answers to ", "").replace("their own node", "own node")
        name = "accuracy-epsilon-" + words.replace(", ", "-").replace(" ", "-")
        figures += [
            AccuracyFigure(
                name=name + part.suffix, guarantee=guarantee, panels=part.panels, part=part.words
            )
            for part in parts(
                panels, lambda p: p.title, apart=lambda p: (p.is_dotted, len(p.budgets) > FEW)
            )
        ]
    return figures


def _accuracy_panel(
    place: tuple[str, str], entries: dict[str, dict[float, Cell]], cells: Sequence[Cell]
) -> AccuracyPanel:
    order = list(dict.fromkeys(cell.entry for cell in cells))
    here = [cell for cell in cells if cell.place == place]
    series = [
        Series(
            entry=entry,
            label=next(iter(entries[entry].values())).label,
            points=tuple(_point(cell) for _, cell in sorted(entries[entry].items())),
        )
        for entry in order
        if entry in entries
    ]
    levels = [
        Series(entry=cell.entry, label=cell.label, points=(_point(cell),))
        for cell in here
        if not cell.is_private
    ]
    return AccuracyPanel(
        title=place_title(*place, cells),
        metric=here[0].metric,
        series=tuple(_joined(series)),
        levels=tuple(levels),
        majority=majority_of(here),
    )


def _joined(series: Sequence[Series]) -> list[Series]:
    """Join series that were each tuned for one epsilon.

    "A, tuned for ε = 1" with its point at 1 and "A, tuned for ε = 2" with its at 2 are "A, tuned for each ε".
    """
    found: dict[str, Series] = {}
    for one in series:
        (point, *more) = one.points
        label = (
            re.sub(rf"ε = {point.epsilon:g}(?![\d.])", "each ε", one.label)
            if not more
            else one.label
        )
        if label in found and label != one.label:
            before = found[label]
            points = sorted((*before.points, point), key=lambda p: p.epsilon)
            found[label] = replace(before, label=label, points=tuple(points))
        else:
            found[label] = one
    return list(found.values())


def majority_of(cells: Sequence[Cell]) -> float | None:
    """Share of the largest class among the test nodes of one place's cells; None without classes."""
    return next((share for cell in cells if (share := cell.majority) is not None), None)


def _point(cell: Cell) -> Point:
    found = cell.interval
    return Point(
        epsilon=float(cell.epsilon) if cell.is_private else math.inf,
        mean=found.mean,
        low=found.low,
        high=found.high,
        n=found.n,
    )


def class_curves(cells: Sequence[Cell]) -> dict[str, list[ClassCurve]]:
    """Panel title -> recall by class of every cell there.

    Classes are ordered by their share of the test nodes, averaged over all repeats of the data set, so
    that entries meet the same order. A class without test nodes in every repeat is left out.
    """
    found: dict[str, list[ClassCurve]] = {}
    places = list(dict.fromkeys(cell.place for cell in cells))
    for place in places:
        here = [cell for cell in cells if cell.place == place]
        tests = [run.record.metrics["test"] for cell in here for run in cell.runs]
        share = np.mean(
            [np.asarray(t["per_class_count"], float) / max(t["num_nodes"], 1) for t in tests],
            axis=0,
        )
        order = [int(c) for c in np.lexsort((np.arange(len(share)), share)) if share[c] > 0]
        curves = [_class_curve(cell, order, share) for cell in here]
        found[place_title(*place, cells)] = curves
    return found


def _class_curve(cell: Cell, order: Sequence[int], share: np.ndarray) -> ClassCurve:
    columns = []
    for index in order:
        values = [run.record.metrics["test"]["per_class_accuracy"][index] for run in cell.runs]
        columns.append([float(value) for value in values if value is not None])
    kept = [(index, values) for index, values in zip(order, columns) if values]
    intervals = [mean_interval(values).within_0_and_1() for _, values in kept]
    return ClassCurve(
        entry=cell.entry,
        label=cell.label,
        epsilon=cell.epsilon,
        share=tuple(float(share[index]) for index, _ in kept),
        classes=tuple(index for index, _ in kept),
        mean=tuple(found.mean for found in intervals),
        low=tuple(found.low for found in intervals),
        high=tuple(found.high for found in intervals),
    )


def training_curves(cells: Sequence[Cell]) -> dict[str, list[TrainingCurve]]:
    """Panel title -> curves of training loss and accuracy, from the histories beside the records.

    Cells whose runs kept no history (a release, a method without steps) are left out.
    """
    found: dict[str, list[TrainingCurve]] = {}
    for cell in cells:
        curves = _curves_of(cell)
        if curves:
            found.setdefault(place_title(*cell.place, cells), []).extend(curves)
    return found


def _curves_of(cell: Cell) -> list[TrainingCurve]:
    curves = []
    for column in ("train_loss", "val_accuracy", "train_accuracy"):
        by_step: dict[int, list[float]] = {}
        for history in (run.history for run in cell.runs):
            for step, value in zip(history.get("step", []), history.get(column, [])):
                if value is not None and math.isfinite(value):
                    by_step.setdefault(int(step), []).append(float(value))
        steps = _thinned(sorted(by_step))
        if steps:
            curves.append(
                TrainingCurve(
                    entry=cell.entry,
                    label=cell.label,
                    epsilon=cell.epsilon,
                    column=column,
                    step=tuple(steps),
                    mean=tuple(float(np.mean(by_step[step])) for step in steps),
                    low=tuple(min(by_step[step]) for step in steps),
                    high=tuple(max(by_step[step]) for step in steps),
                )
            )
    return curves


def _thinned(steps: list[int]) -> list[int]:
    """At most MAX_CURVE_POINTS steps, evenly spaced, with the first and the last."""
    if len(steps) <= MAX_CURVE_POINTS:
        return steps
    chosen = np.unique(np.linspace(0, len(steps) - 1, MAX_CURVE_POINTS).round().astype(int))
    return [steps[position] for position in chosen]
