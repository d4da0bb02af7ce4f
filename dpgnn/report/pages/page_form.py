"""What a page leaves out if it would be too large to open, the least important first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

# figures with the most data, by the stem of their names, the first to give up its interactive form
LARGEST = ("training-curves", "class-accuracy")


@dataclass(frozen=True, kw_only=True)
class Form:
    """A form of the page.

    Attributes:
        printed: figures shown in printed form only; None is all of them.
        linked: figures replaced by a link to their file beside the page.
        brief: each study's summary, paper tables and figures only; the study's own page has the rest.
        max_rows: a longer table is replaced by a link to its CSV file; None is no limit.
        cells: form of the table of all cells, which is cut last: "whole" at any length, "short" (without
            options and points of sweeps), or "limited" to `max_rows` like other tables.
    """

    printed: tuple[str, ...] | None = ()
    linked: tuple[str, ...] = ()
    brief: bool = False
    max_rows: int | None = None
    cells: Literal["whole", "short", "limited"] = "whole"

    def is_live(self, figure: str) -> bool:
        """Whether a figure keeps its interactive form."""
        return self.printed is not None and not figure.startswith(self.printed)

    def is_linked(self, figure: str) -> bool:
        """Whether a figure is replaced by a link to its file."""
        return figure.startswith(self.linked)

    def has_room(self, num_rows: int) -> bool:
        """Whether a table of that many rows is shown on the page."""
        return self.max_rows is None or num_rows <= self.max_rows

    @property
    def words(self) -> str:
        """What the page leaves out, in one line; "" if nothing."""
        parts = []
        if self.printed is None:
            parts.append("figures are shown in their printed form")
        elif self.printed:
            parts.append(f"{' and '.join(self.printed)} are shown in their printed form")
        if self.linked:
            parts.append(f"{' and '.join(self.linked)} are linked as files")
        if self.brief:
            parts.append("comparisons, claims and all cells stand on the studies' own pages")
        if self.max_rows is not None:
            kept = "" if self.cells == "limited" else ", but for that of all cells,"
            parts.append(f"tables of more than {self.max_rows} rows{kept} are linked as CSV files")
        if self.cells == "short":
            parts.append("all cells stand without options, and without the points of sweeps")
        return f"to keep the page small, {'; '.join(parts)}" if parts else ""


def forms(*, joined: bool) -> list[Form]:
    """The forms of a page from whole to smallest; only a page of several studies has a brief one."""
    found = [Form(printed=LARGEST[:number]) for number in range(len(LARGEST) + 1)]
    found.append(Form(linked=LARGEST, brief=joined))
    if not joined:
        found.append(Form(linked=LARGEST, max_rows=1000))
        found.append(Form(linked=LARGEST, max_rows=1000, cells="short"))
    small = Form(linked=LARGEST, brief=joined, cells="limited")
    found += [replace(small, max_rows=rows) for rows in (1000, 100)]
    return [*found, replace(small, printed=None, max_rows=20)]
