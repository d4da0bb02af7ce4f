"""Measured numbers in a page of docs: what stands between two marks is replaced, the rest is text."""

from __future__ import annotations

import re
from pathlib import Path

from dpgnn.core import storage


def fill(path: Path, name: str, text: str) -> None:
    """Write `text` between `<!-- NAME: begin -->` and `<!-- NAME: end -->`.

    Raises:
        ValueError: the page has no such marks.
    """
    page = path.read_text(encoding="utf-8")
    marked = re.compile(rf"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)", re.DOTALL)
    if not marked.search(page):
        raise ValueError(f"{path} must hold the marks <!-- {name}: begin --> and end")
    storage.write_text(path, marked.sub(lambda m: f"{m[1]}\n{text}\n\n{m[2]}", page))
