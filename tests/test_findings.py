"""Pages on votes hold what their script makes of the committed records and attacks."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks import votes_note


def test_the_note_on_votes_is_made_from_records(tmp_path: Path) -> None:
    committed = (votes_note.PAGE, votes_note.METHOD_PAGE)
    pages = [tmp_path / "note.md", tmp_path / "method.md"]
    for source, page in zip(committed, pages):
        shutil.copy(source, page)
    votes_note.main(*pages)
    assert [page.read_text() for page in pages] == [page.read_text() for page in committed]
