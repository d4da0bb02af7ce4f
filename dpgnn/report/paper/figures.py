"""A paper's figures from our records: which cells make which figure, and what is missing.

The map of paper P is data/papers/figures/P.yaml, read into `PaperFigures`. Each figure becomes
figures/paper-P-NAME.{png,svg} of the study's report and a row of the table paper-P-figures.

    paper: dpar
    figures:
      F2:
        title: Share of the budget that goes to neighbour rows, Cora-ML
        places: [cora_ml.inductive]
        epsilons: ["1", "8"]
        x: options.rows_share
        x_title: share of epsilon for neighbour rows
        series:
          - {label: DPAR-EM0, entries: [em0, "em0~rows_share=*"]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

from dpgnn.core import config as strict
from dpgnn.core.config import ConfigError
from dpgnn.data.raw.sources import data_folder
from dpgnn.records.info import StudyInfo
from dpgnn.report.tables.table import Column, Table, columns_of

Kind = Literal["lines", "bars", "heat", "checkpoints", "classes", "embedding"]
FORMS = {
    "lines": "lines", "bars": "bars", "heat": "heat map", "checkpoints": "curves over training",
    "classes": "recall by class", "embedding": "t-SNE",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class FigureSeries:
    """One line, or group of bars, of a figure.

    Attributes:
        label: how the legend calls it.
        entries: names or patterns of our entries; NAME@EPSILON takes one budget only.
    """

    label: str
    entries: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PaperFigure:
    """One figure of a paper.

    Attributes:
        title: what it asks.
        kind: lines (over x), bars (a series each), heat (over x and row), checkpoints (score over the epsilon
            spent in training), classes (recall by class frequency), embedding (t-SNE of class scores).
        places: DATASET.SETTING of each panel; the paper's first, then ours.
        epsilons: a panel for each; empty puts all budgets in one panel.
        x: "epsilon", "options.PATH", or "options.PATH * epsilon".
        row: heat only: "options.PATH".
        x_title, row_title: words for the axes.
        x_log: a logarithmic axis.
        y: quantities, a panel for each: score, steps, seconds, memory.
        where: option path -> the value a cell must have.
        series: the lines.
        note: what a reader must know; ends the caption.
    """

    title: str
    kind: Kind = "lines"
    places: tuple[str, ...]
    epsilons: tuple[str, ...] = ()
    x: str = "epsilon"
    row: str = ""
    x_title: str = "ε"
    row_title: str = ""
    x_log: bool = False
    y: tuple[str, ...] = ("score",)
    where: Mapping[str, Any] = field(default_factory=dict)
    series: tuple[FigureSeries, ...]
    note: str = ""

    @property
    def is_sweep(self) -> bool:
        """Whether it varies options, and not the budget alone."""
        return self.kind in ("lines", "heat") and self.x != "epsilon"


@dataclass(frozen=True, kw_only=True)
class PaperFigures:
    """The figures of a paper.

    Attributes:
        paper: its name.
        figures: by name, in the paper's order.
    """

    paper: str
    figures: Mapping[str, PaperFigure]


def load_figures(paper: str, folder: Path | None = None) -> PaperFigures | None:
    """Read data/papers/figures/PAPER.yaml; None where a paper has none.

    Raises:
        ConfigError: something in it is wrong.
    """
    import yaml

    path = (folder or data_folder() / "papers" / "figures") / f"{paper}.yaml"
    if not path.exists():
        return None
    try:
        found = strict.read(PaperFigures, yaml.safe_load(path.read_text(encoding="utf-8")))
        for name, figure in found.figures.items():
            check_figure(f"figures.{name}", figure)
    except (ConfigError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {error}") from None
    return found


def check_figure(path: str, figure: PaperFigure) -> None:
    """Check what the types cannot say.

    Raises:
        ConfigError: names the key.
    """
    for place in figure.places:
        if "." not in place:
            raise ConfigError(f"{path}.places: {place!r} must be DATASET.SETTING")
    for quantity in figure.y:
        if quantity not in ("score", "steps", "seconds", "memory"):
            raise ConfigError(f"{path}.y: unknown quantity {quantity!r}")
    for name in ("x", "row"):
        text = getattr(figure, name).removesuffix(" * epsilon")
        if text and text != "epsilon" and not text.startswith("options."):
            raise ConfigError(f"{path}.{name} must be epsilon or options.PATH, got {text!r}")
    if bool(figure.row) != (figure.kind == "heat"):
        raise ConfigError(f"{path}.row must be given for kind heat and for no other")


def check_entries(figures: PaperFigures, info: StudyInfo) -> None:
    """Check that every entry or pattern is of the study.

    Raises:
        ConfigError: names the figure and the pattern.
    """
    entries = {*info.entry_order, *info.other_entries}
    for name, figure in figures.figures.items():
        for series in figure.series:
            for pattern in series.entries:
                bare = pattern.split("@")[0]
                if not any(fnmatchcase(entry, bare) for entry in entries):
                    raise ConfigError(f"figures.{name}: {pattern!r} matches no entry")


def matches(patterns: Sequence[str], entry: str, epsilon: str) -> bool:
    """Whether an entry at a budget is named by a series."""
    for pattern in patterns:
        bare, _, budget = pattern.partition("@")
        if fnmatchcase(entry, bare) and budget in ("", epsilon):
            return True
    return False


def value_of(
    expression: str, options: Mapping[str, Any], epsilon: str, num_train: int | None = None
) -> float | str | None:
    """The value of "epsilon", "options.PATH" or "options.PATH * epsilon"; None where there is none.

    A batch of "full" is the number of training nodes.
    """
    text = expression.removesuffix(" * epsilon")
    value: Any = float(epsilon)
    if text != "epsilon":
        value = options
        for part in text.removeprefix("options.").split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    if value == "full" and num_train:
        value = num_train
    if value is None or isinstance(value, str):
        return value
    value = float(value)
    return value * float(epsilon) if text != expression else value


def planned_of(figure: PaperFigure, info: StudyInfo) -> dict[str, list[tuple[str, str, str, str]]]:
    """Series label -> the cells of the tier that belong to it, whatever their options."""
    found: dict[str, list[tuple[str, str, str, str]]] = {}
    for series in figure.series:
        cells = []
        for key in info.cell_order:
            dataset, setting, entry, epsilon = key
            wanted = f"{dataset}.{setting}" in figure.places
            budget = not figure.epsilons or epsilon in ("inf", *figure.epsilons)
            if wanted and budget and matches(series.entries, entry, epsilon):
                cells.append(key)
        found[series.label] = cells
    return found


@dataclass(frozen=True, kw_only=True)
class FigureRow:
    """What is drawn of one figure of a paper."""

    figure: Annotated[str, Column(header="Figure")]
    title: Annotated[str, Column(header="Title")]
    form: Annotated[str, Column(header="Form")]
    cells: Annotated[str, Column(header="Cells")]
    points: Annotated[int, Column(header="points", form="csv")]
    reason: Annotated[str, Column(header="Not drawn")]


def figures_table(paper: str, rows: Sequence[FigureRow]) -> Table[FigureRow]:
    """Each figure of the paper: what of it is drawn, and why the rest is not."""
    drawn = sum(bool(row.points) for row in rows)
    return Table(
        name=f"paper-{paper}-figures",
        title=f"{paper}: figures",
        caption=(
            f"{drawn} of {len(rows)} figures are drawn. Cells: how many of those planned in this tier stand "
            "in them. A panel or line that is not drawn is named."
        ),
        columns=columns_of(FigureRow),
        rows=rows,
    )
