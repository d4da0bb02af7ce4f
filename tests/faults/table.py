"""Every fault that is tried, by area, and the page that lists them.

A new fault is a `Row` in the list of its area, or a `Case` of tests/bad_input. `make faults` writes the page
docs/reliability.md anew.
"""

from __future__ import annotations

from pathlib import Path

from bad_input import test_files, test_own_graphs, test_studies
from faults import downloads, places
from faults.row import Row

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
FIRST, LAST = "<!-- made by `make faults` -->\n", "<!-- end of what is made -->\n"
# rows with a function each, run by tests/faults/test_faults.py
AREAS: dict[str, list[Row]] = {
    "Downloads": downloads.ROWS,
    "Memory, folders, locks": places.ROWS,
}
# commands with bad input, run by the modules themselves: one error line, no file changed or left
CASES = {
    "Own graphs": test_own_graphs.CASES,
    "Study files": test_studies.CASES,
    "Files, raw data, places": test_files.CASES,
}


def made() -> str:
    """The table of each area, as Markdown."""
    lines = []
    for area, rows in AREAS.items():
        lines += _table(area, [(row.what, row.must) for row in rows])
    for area, cases in CASES.items():
        said = {name: " … ".join(map(_code, case.says)) for name, case in cases.items()}
        lines += _table(area, [(name, f"error: {text}") for name, text in said.items()])
    return FIRST + "\n".join(lines) + LAST


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _table(area: str, rows: list[tuple[str, str]]) -> list[str]:
    cells = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    head = [f"## {area}: {len(rows)}", "", "| what is tried | what must happen |", "| --- | --- |"]
    return [*head, *(f"| {row} |" for row in cells), ""]


def main() -> None:
    """Write the page's tables anew."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(FIRST)
    PAGE.write_text(before + made() + rest.partition(LAST)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
