"""One row of the fault table: what is tried, and what must happen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Row:
    """A fault, and the function that brings it about and asserts what must happen.

    Attributes:
        what: what is tried, a few words; they name the test and begin the line of the page.
        must: what must happen, a few words.
        run: does both; it is given an empty folder, which is the working folder too.
        slow: whether it takes more than a few seconds; `make test-slow` runs it then.
    """

    what: str
    must: str
    run: Callable[[Path], None]
    slow: bool = False
