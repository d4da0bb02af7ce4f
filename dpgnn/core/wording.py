"""Words for numbers and lists in messages and pages."""

from __future__ import annotations

from collections.abc import Sequence


def listed(words: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of a table as lines, their columns below each other."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def count(number: int, singular: str, plural: str = "") -> str:
    """ "1 run", "3 runs"."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
