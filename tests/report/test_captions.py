"""Every table and figure has its caption for the workflow's own report."""

from __future__ import annotations

import re
from pathlib import Path

CAPTIONS = Path(__file__).resolve().parents[2] / "workflow" / "report"


def test_every_table_and_figure_has_one_short_caption(written: Path) -> None:
    folder = written / "studies" / "toy"
    made = {path.stem for path in (folder / "tables").glob("*.csv")}
    made |= {path.stem for path in (folder / "figures").glob("*.svg")}
    names = {re.sub(r"^accuracy-epsilon-.*", "accuracy-epsilon", name) for name in made}
    captions = {path.stem: path.read_text(encoding="utf-8") for path in CAPTIONS.glob("*.rst")}
    assert names <= set(captions)
    for name in names:
        assert 20 < len(captions[name]) < 400, name
