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
        brief: each study's summary, paper tables and figures only; the rest stands on its own page.
        max_rows: a longer table gives way to a link to its CSV file; None is no limit.
    """

    printed: tuple[str, ...] | None = ()
    brief: bool = False
    max_rows: int | None = None

    def is_live(self, figure: str) -> bool:
        """Whether a figure keeps its interactive form."""
        return self.printed is not None and figure not in self.printed

    def has_room(self, num_rows: int) -> bool:
        """Whether a table of that many rows stands on the page."""
        return self.max_rows is None or num_rows <= self.max_rows

    @property
    def words(self) -> str:
        """What is left out, in one line; "" for nothing."""
        parts = []
        if self.printed is None:
            parts.append("figures are shown in their printed form")
        elif self.printed:
            parts.append(f"{' and '.join(self.printed)} are shown in their printed form")
        if self.brief:
            parts.append("comparisons, claims and all cells stand on the studies' own pages")
        if self.max_rows is not None:
            parts.append(f"tables of more than {self.max_rows} rows are linked as CSV files")
        return f"to keep the page small, {'; '.join(parts)}" if parts else ""


def forms(*, joined: bool) -> list[Form]:
    """The forms of a page from whole to smallest; only a page that joins studies has a brief one."""
    found = [Form(printed=LARGEST[:number]) for number in range(len(LARGEST) + 1)]
    if joined:
        found.append(Form(printed=LARGEST, brief=True))
    found += [Form(printed=LARGEST, brief=joined, max_rows=rows) for rows in (1000, 100)]
    return [*found, Form(printed=None, brief=joined, max_rows=20)]
