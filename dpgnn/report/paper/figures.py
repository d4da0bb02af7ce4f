"""A paper's figures from our records: the cells of each figure, and what is missing.

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

A figure with lettered parts states under `parts` what differs in each part. A figure has the paper's number
as its name (F2, F5). A replacement on stand-in graphs, for a figure that cannot be made here, ends with
-stand-in and says so in its title.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from dpgnn.core import config as strict
from dpgnn.core.config import ConfigError
from dpgnn.data.datasets import is_stand_in
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
        label: in the legend.
        entries: names or patterns of our entries; NAME@EPSILON takes one budget only.
        x: this method's name of the figure's x; "" takes the figure's.
    """

    label: str
    entries: tuple[str, ...]
    x: str = ""


@dataclass(frozen=True, kw_only=True)
class FigurePart:
    """One lettered part of a figure; None takes the figure's value.

    Attributes:
        title: what it asks; comes before the panel's place.
        places, epsilons, x, row, x_title, row_title, x_log, where, series: see `PaperFigure`.
    """

    title: str
    places: tuple[str, ...] | None = None
    epsilons: tuple[str, ...] | None = None
    x: str | None = None
    row: str | None = None
    x_title: str | None = None
    row_title: str | None = None
    x_log: bool | None = None
    where: Mapping[str, Any] | None = None
    series: tuple[FigureSeries, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class PaperFigure:
    """One figure of a paper.

    Attributes:
        title: what it asks.
        kind: lines (over x), bars (a series each), heat (over x and row), checkpoints (score over the epsilon
            spent in training), classes (recall by class frequency), embedding (t-SNE of hidden units).
        places: DATASET.SETTING of each panel; the paper's first, then ours.
        epsilons: a panel for each; empty puts all budgets in one panel.
        x: "epsilon", "options.PATH", or "options.PATH * epsilon".
        row: heat only: "options.PATH".
        x_title, row_title: words for the axes.
        x_log: a logarithmic axis.
        y: quantities, a panel for each: score, steps, seconds, memory.
        where: option path -> the value a cell must have.
        series: the lines.
        besides: option path -> words, for options other than x and row that differ along a line.
        parts: letter -> part; the figure's own fields are shared by its parts.
        stand_in_for: the paper's figure that this one replaces on stand-in graphs.
        note: the last sentence of the caption.
    """

    title: str
    kind: Kind = "lines"
    places: tuple[str, ...] = ()
    epsilons: tuple[str, ...] = ()
    x: str = "epsilon"
    row: str = ""
    x_title: str = "ε"
    row_title: str = ""
    x_log: bool = False
    y: tuple[str, ...] = ("score",)
    where: Mapping[str, Any] = field(default_factory=dict)
    series: tuple[FigureSeries, ...] = ()
    besides: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, FigurePart] = field(default_factory=dict)
    stand_in_for: str = ""
    note: str = ""

    @property
    def is_sweep(self) -> bool:
        """Whether it varies options besides the budget."""
        return self.kind in ("lines", "heat") and any(
            {part.x, part.row} - {"epsilon", ""} for _, part in self.lettered
        )

    @cached_property
    def lettered(self) -> tuple[tuple[str, PaperFigure], ...]:
        """(letter, figure) of each part, with the shared fields; ("", the figure) if it has no parts."""
        if not self.parts:
            return (("", self),)
        made = []
        for letter, part in self.parts.items():
            stated = {
                item.name: value
                for item in fields(part)
                if (value := getattr(part, item.name)) is not None
            }
            made.append((letter, replace(self, parts={}, **stated)))
        return tuple(made)

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of all series, in order, each once."""
        named = (series.label for _, part in self.lettered for series in part.series)
        return tuple(dict.fromkeys(named))


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
    """Check rules that types cannot express.

    Raises:
        ConfigError: names the key.
    """
    for quantity in figure.y:
        if quantity not in ("score", "steps", "seconds", "memory"):
            raise ConfigError(f"{path}.y: unknown quantity {quantity!r}")
    for letter, part in figure.lettered:
        _check_part(f"{path}.parts.{letter}" if letter else path, part)
    drawn = any(
        is_stand_in(place.partition(".")[0]) for _, part in figure.lettered for place in part.places
    )
    name = path.rpartition(".")[2]
    said = (
        name.endswith("stand-in") and "stand-in" in figure.title and "(synthetic)" in figure.title
    )
    if (drawn or figure.stand_in_for) and not (said and figure.stand_in_for):
        raise ConfigError(
            f"{path}: a figure of drawn graphs must be named NAME-stand-in, state stand_in_for and have "
            f'"stand-in for FIGURE (synthetic)" in its title, got {figure.title!r}'
        )


def _check_part(path: str, figure: PaperFigure) -> None:
    for key in ("places", "series"):
        if not getattr(figure, key):
            raise ConfigError(f"{path}.{key} must be stated")
    for place in figure.places:
        if "." not in place:
            raise ConfigError(f"{path}.places: {place!r} must be DATASET.SETTING")
    for name in ("x", "row"):
        text = getattr(figure, name).removesuffix(" * epsilon")
        if text and text != "epsilon" and not text.startswith("options."):
            raise ConfigError(f"{path}.{name} must be epsilon or options.PATH, got {text!r}")
    if bool(figure.row) != (figure.kind == "heat"):
        raise ConfigError(f"{path}.row must be given for kind heat and for no other")


def varied_words(figure: PaperFigure) -> str:
    """What varies along the axes and between lines, for the caption."""
    if figure.kind not in ("lines", "heat"):
        return ""
    axes = []
    for letter, part in figure.lettered:
        names = [(part.x_title, part.x), *([(part.row_title, part.row)] if part.row else [])]
        words = " and ".join(title if x == "epsilon" else f"{title} ({x})" for title, x in names)
        fixed = ", ".join(f"{path} = {value}" for path, value in part.where.items())
        axes.append(f"{f'({letter}) ' if letter else ''}{words}{f' at {fixed}' if fixed else ''}")
    besides = "".join(
        f"; {path} differs as well: {words}" for path, words in figure.besides.items()
    )
    return f"Varied: {'; '.join(axes)}{besides}.".replace("options.", "")


def check_entries(figures: PaperFigures, info: StudyInfo) -> None:
    """Check that every entry or pattern is of the study.

    Raises:
        ConfigError: names the figure and the pattern.
    """
    entries = {*info.entry_order, *info.other_entries}
    for name, figure in figures.figures.items():
        stated = [item for _, part in figure.lettered for item in part.series]
        for pattern in (pattern for series in stated for pattern in series.entries):
            bare = pattern.split("@")[0]
            if not any(fnmatchcase(entry, bare) for entry in entries):
                raise ConfigError(f"figures.{name}: {pattern!r} matches no entry")


def matches(patterns: Sequence[str], entry: str, epsilon: str) -> bool:
    """Whether a series includes an entry at a budget."""
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
    """Series label -> the tier's cells that belong to it in any part, with any options."""
    found: dict[str, list[tuple[str, str, str, str]]] = {label: [] for label in figure.labels}
    for _, part in figure.lettered:
        for series in part.series:
            known = found[series.label]
            for key in info.cell_order:
                dataset, setting, entry, epsilon = key
                wanted = f"{dataset}.{setting}" in part.places
                budget = not part.epsilons or epsilon in ("inf", *part.epsilons)
                named = wanted and budget and matches(series.entries, entry, epsilon)
                if named and key not in known:
                    known.append(key)
    return found


@dataclass(frozen=True, kw_only=True)
class FigureRow:
    """How much of one figure of a paper is drawn."""

    figure: Annotated[str, Column(header="Figure")]
    title: Annotated[str, Column(header="Title")]
    form: Annotated[str, Column(header="Form")]
    cells: Annotated[str, Column(header="Cells")]
    points: Annotated[int, Column(header="points", form="csv")]
    reason: Annotated[str, Column(header="Not drawn")]


def figures_table(paper: str, rows: Sequence[FigureRow]) -> Table[FigureRow]:
    """Each figure of the paper: how much is drawn, and why the rest is not."""
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
