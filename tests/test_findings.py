"""docs/findings/votes.md holds what its script makes of the committed records and attacks."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks import votes_note


def test_the_note_on_votes_is_made_from_records(tmp_path: Path) -> None:
    page = tmp_path / "votes.md"
    shutil.copy(votes_note.PAGE, page)
    votes_note.main(page)
    assert page.read_text() == votes_note.PAGE.read_text()
