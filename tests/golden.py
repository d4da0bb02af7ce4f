"""One golden page of a kind: what a person reads, whole, in a file that a change of words changes.

`DPGNN_GOLDEN=write python -m pytest FILE` writes pages anew; look at the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def assert_golden(name: str, text: str) -> None:
    """The text is that of tests/golden/NAME, to the letter."""
    path = FOLDER / name
    if os.environ.get("DPGNN_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text
