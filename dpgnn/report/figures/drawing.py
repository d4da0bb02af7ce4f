"""What all printed figures share: sizes, fonts, grids of panels, one legend, files."""

from __future__ import annotations

import base64
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from html import unescape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dpgnn.core.checks import require
from dpgnn.core.storage import atomic_write
from dpgnn.report.figures.style import MAJORITY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T = TypeVar("T")
COLUMN, FULL = 3.4, 7.0  # inches: a column and the page of a two-column paper
PANEL_HEIGHT = {1: 2.3, 2: 2.2, 3: 1.95}  # inches, by panels in a row
RC: dict[str, Any] = {
    "svg.hashsalt": "dpgnn",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e2e2e2",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "legend.frameon": False,
    "legend.handlelength": 3.4,  # long enough to be seen as dashes
    "figure.facecolor": "white",
}


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A drawn figure.

    Attributes:
        name: the files' stem.
        title, caption: for people.
        alt: a description, for readers who cannot see the figure.
        draw: makes the figure; called in the common style when a file is first asked for.
    """

    name: str
    title: str
    caption: str
    alt: str
    draw: Callable[[], Figure] = field(repr=False, compare=False)

    @cached_property
    def figure(self) -> Figure:
        """The figure, drawn once."""
        with style():
            return self.draw()

    @cached_property
    def png(self) -> bytes:
        """The figure as PNG at 200 dots per inch."""
        return _rendered(self.figure, "png")

    @cached_property
    def svg(self) -> bytes:
        """The figure as SVG; text stays text, with the glyphs of its font that it uses."""
        return _with_fonts(_rendered(self.figure, "svg"))

    @cached_property
    def pdf(self) -> bytes:
        """The figure as PDF, with its fonts."""
        return _rendered(self.figure, "pdf")


def write_picture(folder: str | Path, picture: Picture) -> None:
    """Write NAME.png, NAME.svg and NAME.pdf."""
    for suffix, content in ((".png", picture.png), (".svg", picture.svg), (".pdf", picture.pdf)):
        with atomic_write(Path(folder) / f"{picture.name}{suffix}") as file:
            file.write(content)


def write_png(folder: str | Path, picture: Picture) -> None:
    """Write NAME.png alone."""
    with atomic_write(Path(folder) / f"{picture.name}.png") as file:
        file.write(picture.png)


def style() -> Any:
    """The look of all figures, for a with block."""
    import matplotlib

    matplotlib.use("agg")
    return matplotlib.rc_context(RC)  # type: ignore[arg-type]


BOLD = re.compile(r"font(?:-weight)?: *(?:bold|700)\b")
MAX_PANELS = 6
NARROW = 6  # entries of a legend below a column
TITLE_LINE, LEGEND_LINE = 0.22, 0.19  # inches
LONG_LEGEND = 16  # lines; a longer legend of one column is folded into two
TITLE_LETTER, PANEL_LETTER, LEGEND_LETTER = 0.085, 0.068, 0.06  # inches: the widest letter
HANDLE = 0.7  # inches: the handle beside a legend's label


def pages(items: Sequence[T], *, step: int = 1) -> list[list[T]]:
    """Panels in figures of at most `MAX_PANELS`, in order and about equally many in each.

    Args:
        items: panels, or rows of panels.
        step: number of panels in an item.
    """
    most = MAX_PANELS // step
    count = math.ceil(len(items) / most)
    if count < 2:
        return [list(items)]
    size = math.ceil(len(items) / count)
    whole_rows = 3 * math.ceil(size / 3)
    if whole_rows <= most and len(items) % whole_rows != 1:
        size = whole_rows
    return [list(items[start : start + size]) for start in range(0, len(items), size)]


def columns_of(num_panels: int) -> int:
    """Number of panels in a row."""
    return min(3, num_panels) if num_panels != 4 else 2


def grid(
    num_panels: int,
    *,
    title: str,
    entries: int = 0,
    columns: int = 0,
    width: float = 0.0,
    height: float = 0.0,
    sharey: bool = False,
) -> tuple[Figure, list[Axes]]:
    """A figure of panels in rows, with a title; a column wide for one panel, a page wide for more.

    Args:
        num_panels: at most `MAX_PANELS`.
        title: above all panels, in as many lines as it needs.
        entries: number of legend entries; more than `NARROW` take the page's width.
        columns: panels in a row; 0 takes `columns_of`.
        width: of the figure, `COLUMN` or `FULL`; 0 chooses by the number of panels.
        height: of a row of panels in inches; 0 takes `PANEL_HEIGHT`.
        sharey: all panels share one y axis, labelled at the left only.
    """
    from matplotlib.figure import Figure

    require(1 <= num_panels <= MAX_PANELS, "num_panels", f"be in [1, {MAX_PANELS}]", num_panels)
    columns = columns or columns_of(num_panels)
    rows = math.ceil(num_panels / columns)
    width = width or (COLUMN if num_panels == 1 and entries <= NARROW else FULL)
    lines = _wrapped(title, width / TITLE_LETTER) or [""]
    height = (height or PANEL_HEIGHT[min(columns, 3)]) * rows + TITLE_LINE * len(lines)
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=10)
    return figure, _panels(figure, num_panels, columns, sharey=sharey)


def _panels(figure: Figure, num_panels: int, columns: int, *, sharey: bool) -> list[Axes]:
    """Panels in rows; in a last row that is not full they are wider, so that no space is left empty."""
    last = num_panels % columns or columns
    whole, parts = num_panels - last, math.lcm(columns, last)
    spec = figure.add_gridspec(math.ceil(num_panels / columns), parts)
    axes: list[Axes] = []
    for number in range(num_panels):
        row, wide = number // columns, parts // (columns if number < whole else last)
        start = wide * (number - columns * row)
        shared = axes[0] if sharey and axes else None
        axes.append(figure.add_subplot(spec[row, start : start + wide], sharey=shared))
    if sharey:
        for axis in axes:
            spot = axis.get_subplotspec()
            axis.tick_params(labelleft=spot is not None and spot.is_first_col())
    return axes


def panel_title(axis: Axes, text: str, *, shared: float | None = None) -> None:
    """Set a panel's title, wrapped to the panel's width.

    Args:
        axis: a panel of `grid`.
        text: the title.
        shared: inches that the labels at the left of a row take; None if each panel has its own.
    """
    figure, spec = axis.get_figure(root=True), axis.get_subplotspec()
    assert figure is not None
    assert spec is not None
    share = len(spec.colspan) / spec.get_gridspec().ncols
    own = 0.35 if shared is None else 0.0
    width = (figure.get_figwidth() - (shared or 0.0)) * share - own
    axis.set_title("\n".join(_wrapped(text, width / PANEL_LETTER)), loc="left")


def _wrapped(text: str, letters: float) -> list[str]:
    """Lines of at most that many letters; "2 of 3" stays together."""
    text = re.sub(r"(\d) of (\d)", "\\1\u00a0of\u00a0\\2", text)
    return textwrap.wrap(text, max(1, int(letters)), break_on_hyphens=False)


def majority_line(axis: Axes, percent: float | None, *, upright: bool = False) -> None:
    """A dotted line at the accuracy of the most frequent class; nothing where it is not known."""
    if percent is not None:
        draw = axis.axvline if upright else axis.axhline
        draw(percent, color="#999999", linestyle=":", lw=1, label=MAJORITY)


def free_label(label: str) -> str:
    """The legend's label of an entry without privacy."""
    return label if "without privacy" in label else f"{label} (no privacy)"


def not_available(axis: Axes, x: float, y: float, **where: Any) -> None:
    """Write n/a where there is no value."""
    axis.text(x, y, "n/a", color="#666666", fontsize=7, va="center", **where)


def legend(figure: Figure, axes: Sequence[Axes], *, marker: float = 1.0) -> None:
    """One legend below all panels, each entry once; the figure grows by its height."""
    handles: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    if handles:
        width = figure.get_figwidth()
        labels, columns, lines = _folded(list(handles), width, 1)
        if lines > LONG_LEGEND and columns == 1:
            labels, columns, lines = _folded(list(handles), width, 2)
        figure.set_figheight(figure.get_figheight() + LEGEND_LINE * lines)
        figure.legend(
            handles.values(), labels, loc="outside lower center", ncols=columns, markerscale=marker
        )


def _folded(texts: Sequence[str], width: float, columns: int) -> tuple[list[str], int, int]:
    """The legend's labels, wrapped where needed, with the number of its columns and lines."""
    room = (width / columns - HANDLE - 0.1) / LEGEND_LETTER
    labels = ["\n".join(_wrapped(text.replace("<=", "≤"), room)) for text in texts]
    longest = max(len(line) for label in labels for line in label.split("\n"))
    columns = max(1, min(len(labels), int(width / (HANDLE + LEGEND_LETTER * longest))))
    return labels, columns, math.ceil(sum(label.count("\n") + 1 for label in labels) / columns)


METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def _rendered(figure: Figure, kind: str) -> bytes:
    """The bytes of a figure in one format; the same figure gives the same bytes."""
    file = BytesIO()
    with style():
        engine = figure.get_layout_engine()
        if engine is not None:
            engine.execute(figure)  # the layout is computed once for all formats
            figure.set_layout_engine("none")
        figure.savefig(file, format=kind, dpi=200, metadata=METADATA[kind])
    return file.getvalue()


def _with_fonts(svg: bytes) -> bytes:
    """The SVG with the glyphs that it uses of the figures' font, so that it looks the same everywhere."""
    text = svg.decode()
    letters = "".join(sorted({*"".join(re.findall(r">([^<]+)<", text))}))
    # matplotlib leaves out the normal weight
    weights = ["normal", *(["bold"] if BOLD.search(text) else [])]
    faces = "".join(_face(letters, weight) for weight in weights)
    return text.replace("<defs>", f"<defs><style>{faces}</style>", 1).encode()


@cache
def _face(letters: str, weight: str) -> str:
    """A CSS font face of some letters."""
    from fontTools.subset import Options, Subsetter, load_font, save_font
    from matplotlib.font_manager import FontProperties, findfont

    path = findfont(FontProperties(family=RC["font.family"], weight=weight))
    options = Options(flavor="woff", recalc_timestamp=False, notdef_outline=True, hinting=False)
    options.drop_tables = [*options.drop_tables, "FFTM"]  # FontForge's time stamps
    font = load_font(path, options)
    subsetter = Subsetter(options)
    subsetter.populate(text=unescape(letters))
    subsetter.subset(font)
    file = BytesIO()
    save_font(font, file, options)
    data = base64.b64encode(file.getvalue()).decode()
    return (
        f'@font-face{{font-family:"{RC["font.family"]}";font-weight:{weight};'
        f"src:url(data:font/woff;base64,{data})}}"
    )
