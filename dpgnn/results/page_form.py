"""What a page leaves out where it would be too large to open, the least missed first."""

from __future__ import annotations

from dataclasses import dataclass

# figures with the most data, the first to give up its interactive form
LARGEST = ("training-curves", "class-accuracy")


@dataclass(frozen=True, kw_only=True)
class Form:
    """A form of the page.

    Attributes:
        printed: figures that give up their interactive form; None is all of them.
        linked: figures that give way to a link to their file beside the page.
        brief: each study's summary, paper tables and figures only; the rest stands on its own page.
        max_rows: a longer table gives way to a link to its CSV file; None is no limit.
        short_cells: the table of all cells leaves out options and the points of sweeps.
        max_cells: as `max_rows` for the table of all cells, which is given up after the others.
    """

    printed: tuple[str, ...] | None = ()
    linked: tuple[str, ...] = ()
    brief: bool = False
    max_rows: int | None = None
    short_cells: bool = False
    max_cells: int | None = None

    def is_live(self, figure: str) -> bool:
        """Whether a figure keeps its interactive form."""
        return self.printed is not None and figure not in self.printed

    def has_room_for_cells(self, num_cells: int) -> bool:
        """Whether the table of all cells stands on the page."""
        return self.max_cells is None or num_cells <= self.max_cells

    @property
    def words(self) -> str:
        """What is left out, in one line; "" for nothing."""
        parts = []
        if self.printed is None:
            parts.append("figures are shown in their printed form")
        elif self.printed:
            parts.append(f"{' and '.join(self.printed)} are shown in their printed form")
        if self.linked and not self.brief:
            parts.append(f"{' and '.join(self.linked)} are linked as files")
        if self.brief:
            parts.append("comparisons, claims and all cells stand on the studies' own pages")
        if self.max_rows is not None:
            kept = ", but for that of all cells," if self.max_cells is None else ""
            parts.append(f"tables of more than {self.max_rows} rows{kept} are linked as CSV files")
        if self.short_cells:
            parts.append("all cells stand without options, and without the points of sweeps")
        return f"to keep the page small, {'; '.join(parts)}" if parts else ""


def forms(*, joined: bool) -> list[Form]:
    """The forms of a page from whole to smallest; only a page that joins studies has a brief one."""
    found = [Form(printed=LARGEST[:number]) for number in range(len(LARGEST) + 1)]
    if joined:
        found.append(Form(printed=LARGEST, brief=True))
    else:
        found.append(Form(linked=LARGEST))
        found.append(Form(linked=LARGEST, max_rows=1000))
        found.append(Form(linked=LARGEST, max_rows=1000, short_cells=True))
    found += [
        Form(linked=LARGEST, brief=joined, max_rows=rows, max_cells=rows) for rows in (1000, 100)
    ]
    return [*found, Form(printed=None, linked=LARGEST, brief=joined, max_rows=20, max_cells=20)]
