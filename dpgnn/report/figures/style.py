"""One look for all figures: a colour, a marker and dashes per entry, the same in every figure of a study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpgnn.records.info import StudyInfo

MAJORITY = "majority class"  # how its line is called
# Okabe and Ito's palette, which people with colour vision deficiency can tell apart, without its
# yellow (too pale on white); ordered so that the first ones differ most
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
# the same outlines for the screen, as SVG paths in a square from -1 to 1; Vega fills its points, so each
# has an area
VEGA_SHAPES = (
    "M-1,0A1,1,0,1,1,1,0A1,1,0,1,1,-1,0Z",
    "M-.9,-.9H.9V.9H-.9Z",
    "M0,-1L1,.8H-1Z",
    "M0,-1.1L1.1,0L0,1.1L-1.1,0Z",
    "M0,1L1,-.8H-1Z",
    "M-.35,-1H.35V-.35H1V.35H.35V1H-.35V.35H-1V-.35H-.35Z",
    "M-1,-.5L-.5,-1L0,-.5L.5,-1L1,-.5L.5,0L1,.5L.5,1L0,.5L-.5,1L-1,.5L-.5,0Z",
    "M0,-1.1L.3,-.35L1.1,-.3L.45,.2L.7,1L0,.5L-.7,1L-.45,.2L-1.1,-.3L-.3,-.35Z",
)
# lengths of dash and gap at a width of two pixels: solid, dotted, dash-dotted, dash-dot-dotted; and of
# entries without privacy, which are always dashed
DASHES: tuple[tuple[int, ...], ...] = ((), (2, 2), (8, 3, 2, 3), (8, 3, 2, 3, 2, 3))
FREE_DASHES: tuple[tuple[int, ...], ...] = ((6, 3), (14, 4), (3, 5), (14, 3, 5, 3))


@dataclass(frozen=True, kw_only=True)
class Look:
    """How one entry is drawn.

    Attributes:
        color: as #RRGGBB.
        marker, shape: of its points, in print and on the screen.
        dash, free_dash: of its lines with and without privacy, see `DASHES`.
    """

    color: str
    marker: str
    shape: str
    dash: tuple[int, ...]
    free_dash: tuple[int, ...]

    def line(self, *, free: bool = False) -> Any:
        """Matplotlib's line style."""
        dash = self.free_dash if free else self.dash
        return (0, tuple(0.8 * length for length in dash)) if dash else "-"

    def legend(self, *, free: bool, marked: bool = True, lined: bool = True) -> dict[str, Any]:
        """What the page's legend draws: colour, dashes ("" solid, None no line), shape ("" none).

        A marker without a line is hollow where there is no privacy.
        """
        dash = " ".join(map(str, self.free_dash if free else self.dash))
        shape, hollow = self.shape if marked else "", free and not lined
        return {
            "color": self.color,
            "dash": dash if lined else None,
            "shape": shape,
            "hollow": hollow,
        }


def look_at(position: int) -> Look:
    """The look of the entry at a position; when colours repeat, dashes and markers differ."""
    turn, color = divmod(position, len(PALETTE))
    shift = (color + turn) % len(MARKERS)
    return Look(
        color=PALETTE[color],
        marker=MARKERS[shift],
        shape=VEGA_SHAPES[shift],
        dash=DASHES[turn % len(DASHES)],
        free_dash=FREE_DASHES[turn % len(FREE_DASHES)],
    )


def looks(info: StudyInfo) -> Mapping[str, Look]:
    """Entry name -> look; entries that the study states come before the points of sweeps."""
    ordered = sorted(info.entry_order, key=lambda name: ("~" in name, info.entry_order[name]))
    return {name: look_at(position) for position, name in enumerate(ordered)}


def beside(position: int, count: int) -> float:
    """Horizontal shift of one entry's dots from those of the others, in distances between values."""
    return (position - (count - 1) / 2) * min(0.12, 0.6 / max(count, 1))


def shifted(value: float, shift: float, *, log: bool) -> float:
    """A value moved along its axis, which may be logarithmic with base 2."""
    return value * 2**shift if log else value + shift
