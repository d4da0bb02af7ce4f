"""Tables that a phone can show: each cell knows its column's name, so that a row can stand as a card.

`site.css` makes cards of tables with the class `cards` on narrow screens. Which tables need it is decided
when the site is built, by how wide their words are.
"""

from __future__ import annotations

from typing import Any

LETTERS = 40  # of a table's letters, that a phone of 390 pixels shows beside each other
HALF, WHOLE = 17, 42  # letters of a name and its value on half a card's width, and on all of it
READABLE = 26  # letters a line that a column of sentences needs


def with_labels(body: str) -> str:
    """A page's HTML whose wide tables have the class `cards`, labelled cells and stated roles.

    Roles are stated because browsers forget that a table is one where its parts are not laid out as such.
    """
    from bs4 import BeautifulSoup

    if "<table" not in body:
        return body
    soup = BeautifulSoup(body, "html.parser")
    for table in soup.find_all("table"):
        columns = _columns(table)
        if table.thead is not None and _is_wide(columns):
            _label(table, columns)
    return str(soup)


def _text(cell: Any) -> str:
    return " ".join(cell.get_text(" ").split())


def _columns(table: Any) -> list[list[str]]:
    """The texts of each column, its name first."""
    rows = [[_text(cell) for cell in row.find_all(["th", "td"])] for row in table.find_all("tr")]
    return [list(column) for column in zip(*rows, strict=False)]


def _is_wide(columns: list[list[str]]) -> bool:
    """Whether a phone would cut it off, or break its sentences into columns of a word or two."""
    longest = [
        max(len(word) for text in column for word in ["", *text.split()]) for column in columns
    ]
    sentences = sum(any(len(text) > READABLE for text in column) for column in columns)
    needed = sum(max(word, 3) + 2 for word in longest)
    return needed > LETTERS or len(columns) > 5 or (len(columns) > 2 and sentences > 0)


def _places(columns: list[list[str]]) -> list[str]:
    """How each column's values stand on a card: two on a line, one on a line, or below their name."""
    places, open_half = ["line"], False
    for column in columns[1:]:
        letters = max(len(column[0]) + len(text) for text in column[1:] or [""])
        place = "half" if letters <= HALF else "line" if letters <= WHOLE else "long"
        if place != "half" and open_half:
            places[-1] = "line"  # nothing stands beside it
        open_half = place == "half" and not open_half
        places.append(place)
    if open_half:
        places[-1] = "line"
    return places


def _label(table: Any, columns: list[list[str]]) -> None:
    """Mark the table, and put its columns' names on its cells."""
    table["class"] = [*table.get("class", []), "cards"]
    table["role"] = "table"
    for group in table.find_all(["thead", "tbody"]):
        group["role"] = "rowgroup"
    places = _places(columns)
    for row in table.find_all("tr"):
        row["role"] = "row"
        for column, place, cell in zip(columns, places, row.find_all(["th", "td"]), strict=False):
            if row.find_parent("thead"):
                cell["role"] = "columnheader"
                continue
            cell["role"] = "rowheader" if cell.name == "th" else "cell"
            cell["data-label"] = column[0]
            cell["class"] = [*cell.get("class", []), place]
