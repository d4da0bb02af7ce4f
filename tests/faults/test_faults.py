"""Every row of the fault table, and the page that lists them."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.row import Row
from faults.table import AREAS, PAGE, made

PARAMETERS = [
    pytest.param(row, id=f"{area}: {row.what}", marks=[pytest.mark.slow] if row.slow else [])
    for area, rows in AREAS.items()
    for row in rows
]


@pytest.mark.parametrize("row", PARAMETERS)
def test_what_must_happen_happens(
    row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    row.run(tmp_path)


def test_no_row_stands_twice() -> None:
    for rows in AREAS.values():
        assert len({row.what for row in rows}) == len(rows)


def test_the_page_lists_every_row() -> None:
    assert made() in PAGE.read_text(encoding="utf-8"), "make faults"
