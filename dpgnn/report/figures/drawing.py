"""Paper and pens of the printed figures: sizes, fonts, grids of panels, one legend, files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn.core.storage import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (3.3, 2.5)  # inches
RC: dict[str, Any] = {
    "svg.hashsalt": "dpgnn",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e2e2e2",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
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
        png, svg: the files' bytes.
    """

    name: str
    title: str
    caption: str
    alt: str
    png: bytes
    svg: bytes


def write_picture(folder: str | Path, picture: Picture) -> None:
    """Write NAME.png and NAME.svg."""
    for suffix, content in ((".png", picture.png), (".svg", picture.svg)):
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


def to_bytes(figure: Figure) -> tuple[bytes, bytes]:
    """PNG and SVG of a figure; the same figure gives the same bytes."""
    figure.draw_without_rendering()  # lays out once for both forms
    figure.set_layout_engine("none")
    png, svg = BytesIO(), BytesIO()
    figure.savefig(png, format="png", dpi=160, metadata={"Software": None})
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    return png.getvalue(), svg.getvalue()
