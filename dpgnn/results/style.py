"""One look for all figures: a colour, a marker and a dash per entry, the same in every figure of a study."""

from __future__ import annotations

from dataclasses import dataclass

from dpgnn.results.info import StudyInfo

# Okabe and Ito's palette, which people with colour vision deficiency can tell apart, without its
# yellow (too pale on white); ordered so that the first ones differ most
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
# solid, dotted, dash-dotted; dashed lines are kept for entries without privacy
DASHES = ("-", ":", "-.")
VEGA_DASHES: dict[str, list[int]] = {"-": [], ":": [2, 2], "-.": [8, 3, 2, 3]}
VEGA_SHAPES = (
    "circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "stroke", "triangle-right",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Look:
    """How one entry is drawn."""

    color: str
    marker: str
    shape: str
    dash: str


def looks(info: StudyInfo) -> dict[str, Look]:
    """Entry name -> look. More than eight entries repeat the colours with another marker and dash."""
    found = {}
    for name, position in info.entry_order.items():
        turn, color = divmod(position, len(PALETTE))
        shift = (color + turn) % len(MARKERS)
        found[name] = Look(
            color=PALETTE[color],
            marker=MARKERS[shift],
            shape=VEGA_SHAPES[shift],
            dash=DASHES[turn % len(DASHES)],
        )
    return found
