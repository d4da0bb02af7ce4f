r"""A table in LaTeX that fits a page: a longtable of at most `WIDTH` points.

Its document needs \usepackage{array,booktabs,longtable}, and in a two-column document \onecolumn before it.
If lines would be too long, headers break between words, and the widest text columns become paragraphs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = (
    440.0  # points; a page of A4 with margins of 2.5 cm has 455, one of US letter with an inch 470
)
# letters are as wide as Computer Modern's on the whole; figures exactly so
LETTER = 0.55  # of the size
NARROWEST = 34.0  # points that a paragraph keeps
SIZES = ((r"\footnotesize", 8.0, 3.0), (r"\scriptsize", 7.0, 2.0), (r"\tiny", 5.0, 1.5))

_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$",
    "#": r"\#", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$",
    ">": r"$>$", "∞": r"$\infty$", "−": r"$-$", "–": "--", "ε": r"$\varepsilon$", "δ": r"$\delta$",
    "\u202f": r"\,", "±": r"$\pm$", "≤": r"$\le$", "≥": r"$\ge$", "·": r"$\cdot$", "√": r"$\surd$",
    "≠": r"$\ne$", "“": "``", "”": "''", "’": "'", "°": r"$^{\circ}$", "×": r"$\times$",
    "α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "λ": r"$\lambda$", "μ": r"$\mu$",
    "σ": r"$\sigma$", "τ": r"$\tau$", "→": r"$\to$", "²": r"$^2$", "…": r"\dots{}",
}  # fmt: skip
_BREAK = re.compile(r"(?<=[_;:=/~.@*])(?=\S)")
_PIECE = re.compile(r"\s+|(?<=-)|" + _BREAK.pattern)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell of the printed table."""

    text: str
    bold: bool = False


def latex_text(text: str) -> str:
    """The text with LaTeX's special characters escaped."""
    return "".join(_LATEX.get(letter, letter) for letter in text)


def longtable(
    *,
    name: str,
    caption: str,
    heads: Sequence[str],
    is_number: Sequence[bool],
    rows: Sequence[Sequence[Cell]],
    empty: str = "",
) -> str:
    """The table, which breaks over pages.

    Args:
        name: of its label, tab:NAME.
        caption, heads: as printed, not escaped.
        is_number: for each column, whether it is right-aligned and never broken.
        rows: the body; without any, `empty` is shown.
    """
    texts = [[row[place].text for row in rows] for place in range(len(heads))]
    size, separation, widths = _layout(heads, texts, is_number)
    spec = "".join(
        ("r" if number else "l")
        if width is None
        else rf">{{\raggedright\arraybackslash}}p{{{width:.0f}pt}}"
        for number, width in zip(is_number, widths)
    )
    titles = " & ".join(_head(*column) for column in zip(heads, texts, is_number, widths)) + r" \\"
    lines = [
        rf"\begingroup{size}\setlength{{\tabcolsep}}{{{separation:g}pt}}",
        rf"\begin{{longtable}}{{{spec}}}",
        rf"\caption{{{latex_text(caption)}}}",
        rf"\label{{tab:{name}}} \\",
    ]
    if rows:
        lines += [r"\toprule", titles, r"\midrule", r"\endfirsthead"]
        lines += [r"\toprule", titles, r"\midrule", r"\endhead", r"\bottomrule", r"\endfoot"]
        lines += [" & ".join(map(_cell, row, widths)) + r" \\" for row in rows]
    else:
        lines.append(rf"\multicolumn{{{len(heads)}}}{{l}}{{{latex_text(empty)}}} \\")
    return "\n".join([*lines, r"\end{longtable}", r"\endgroup"]) + "\n"


def _layout(
    heads: Sequence[str], texts: Sequence[Sequence[str]], is_number: Sequence[bool]
) -> tuple[str, float, list[float | None]]:
    """The largest font size that fits: its command, column separation, and widths of paragraph columns."""
    for command, size, separation in SIZES:
        letter, room = LETTER * size, WIDTH - 2 * separation * len(heads)
        content = [max(map(len, column), default=0) * letter for column in texts]
        words = [_longest(head, column) * letter for head, column in zip(heads, texts)]
        natural = list(map(max, content, words))
        cap = _cap(natural, words, is_number, room)
        if cap is not None or size == SIZES[-1][1]:
            widest = [max(cap or NARROWEST, word) for word in words]
            widths = [
                None if number or width <= most else most
                for number, width, most in zip(is_number, natural, widest)
            ]
            return command, separation, widths
    raise AssertionError("the smallest size returns")


def _longest(head: str, texts: Sequence[str]) -> int:
    """Number of letters in the longest unbreakable piece of a column."""
    pieces = (piece for text in (*texts, *head.split()) for piece in _PIECE.split(text))
    return max(map(len, pieces), default=0)


def _cap(
    natural: Sequence[float], words: Sequence[float], is_number: Sequence[bool], room: float
) -> float | None:
    """The largest width of text columns at which all columns fit; None if there is none."""
    low, high = NARROWEST, max(natural, default=NARROWEST)

    def needed(cap: float) -> float:
        return sum(
            width if number else min(width, max(cap, word))
            for width, word, number in zip(natural, words, is_number)
        )

    if needed(low) > room:
        return None
    while high - low > 0.5:
        middle = (low + high) / 2
        low, high = (middle, high) if needed(middle) <= room else (low, middle)
    return low if needed(high) > room else high


def _head(head: str, texts: Sequence[str], is_number: bool, width: float | None) -> str:
    """A header; its words are stacked if it is wider than its column."""
    most = max([*map(len, texts), *map(len, head.split())], default=0)
    if width is not None or len(head) <= most:
        return latex_text(head)
    lines = [""]
    for word in head.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    side = "r" if is_number else "l"
    below = r"\\".join(map(latex_text, lines))
    return rf"\begin{{tabular}}[b]{{@{{}}{side}@{{}}}}{below}\end{{tabular}}"


def _cell(cell: Cell, width: float | None) -> str:
    parts = [cell.text] if width is None else _BREAK.split(cell.text)
    text = r"\allowbreak{}".join(map(latex_text, parts))
    return rf"\textbf{{{text}}}" if cell.bold else text
