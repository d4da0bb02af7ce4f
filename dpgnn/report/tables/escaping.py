"""Text of a user, such as an entry's title, that must stay text in a file that other programs open."""

from __future__ import annotations

import re

# a spreadsheet takes a cell that begins so for a formula; the wide letters too in some languages
_FORMULA = tuple("=+-@\t\n＝＋－＠")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")


def csv_text(text: str) -> str:
    """A cell that no spreadsheet runs: an apostrophe goes before a text that would begin a formula.

    Numbers stay as they are. A lone carriage return becomes a newline: the csv module quotes only that one.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def markdown_text(text: str) -> str:
    """A text without HTML, links and images of its own; comparisons such as `a < b` stay as they are."""
    return without_tags(text.replace("\\", "\\\\")).replace("[", "\\[").replace("\n", " ")


def without_tags(text: str) -> str:
    """Markdown in which nothing begins an HTML tag or a comment; its links stay links."""
    return _TAG.sub("&lt;", text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not text[0].isspace()
