"""Paper and pens of the printed figures: sizes, fonts, grids of panels, one legend, files."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from html import unescape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn.core.storage import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN, FULL = 3.4, 7.0  # inches: a column and the page of a two-column paper
PANEL = (FULL / 3, 1.9)  # inches
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
    "figure.facecolor": "white",
}


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A drawn figure.

    Attributes:
        name: the files' stem.
        title, caption: for people.
        alt: what is seen, for those who cannot see it.
        figure: laid out and rendered when a file is asked for.
    """

    name: str
    title: str
    caption: str
    alt: str
    figure: Figure = field(repr=False, compare=False)

    @cached_property
    def png(self) -> bytes:
        """The picture at 200 dots an inch."""
        return _rendered(self.figure, "png")

    @cached_property
    def svg(self) -> bytes:
        """The drawing; words stay text and bring the letters of their font that they use."""
        return _with_fonts(_rendered(self.figure, "svg"))

    @cached_property
    def pdf(self) -> bytes:
        """The drawing with its fonts."""
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


# inches of a line of a legend, and how many lines of one a grid has room for
LEGEND_LINE, FREE_LINES = 0.19, 3


def columns_of(num_panels: int) -> int:
    """How many panels stand in a row."""
    return min(3, num_panels) if num_panels != 4 else 2


def grid(num_panels: int, *, title: str) -> tuple[Figure, list[Axes]]:
    """A figure of panels in rows, with a title."""
    from matplotlib.figure import Figure

    columns = columns_of(num_panels)
    rows = math.ceil(num_panels / columns)
    figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows + 0.7), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axis in axes[num_panels:]:
        axis.set_visible(False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    return figure, axes[:num_panels]


def rows_of(num_rows: int, num_columns: int) -> tuple[Figure, list[list[Axes]]]:
    """A figure of a fixed number of panels in each row."""
    from matplotlib.figure import Figure

    size = (PANEL[0] * 1.25 * num_columns, PANEL[1] * 0.95 * num_rows + 0.7)
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(num_rows, num_columns, squeeze=False).tolist()


def legend_columns(width: float, longest: int) -> int:
    """Columns that labels of that many letters fit into, on a figure of a width in inches."""
    return max(1, int(width / max(1.9, 0.6 + 0.075 * longest)))


def legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend below all panels, each entry once; the figure grows where it would cover them."""
    handles: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    if handles:
        longest = max(map(len, handles))
        figure.set_figwidth(max(figure.get_figwidth(), 0.8 + 0.075 * longest))
        columns = min(len(handles), legend_columns(figure.get_figwidth(), longest))
        lines = math.ceil(len(handles) / columns)
        figure.set_figheight(figure.get_figheight() + LEGEND_LINE * max(0, lines - FREE_LINES))
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)


METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def _rendered(figure: Figure, kind: str) -> bytes:
    """One form of a figure; the same figure gives the same bytes."""
    file = BytesIO()
    with style():
        if figure.get_layout_engine() is not None:
            figure.draw_without_rendering()  # lays out once for all forms
            figure.set_layout_engine("none")
        figure.savefig(file, format=kind, dpi=200, metadata=METADATA[kind])
    return file.getvalue()


def _with_fonts(svg: bytes) -> bytes:
    """The drawing with the letters it uses of the figures' font, so that it looks alike everywhere."""
    text = svg.decode()
    letters = "".join(sorted({*"".join(re.findall(r">([^<]+)<", text))}))
    faces = "".join(_face(letters, weight) for weight in ("normal", "bold") if weight in text)
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
