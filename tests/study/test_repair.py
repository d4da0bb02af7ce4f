"""Damaged files are removed, data made again, and what comes back with the same bytes keeps its time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpgnn.core.checksums import write_checksums
from dpgnn.study.repair import repair
from dpgnn.study.verify import Finding, Group

OLD = 1_600_000_000_000_000_000
TEXTS = {"edges.txt": "0 1\n", "nodes.txt": "0\n1\n"}


def written(folder: Path, texts: dict[str, str]) -> Group:
    """A data group of a folder with these files and their list."""
    for name, text in texts.items():
        (folder / name).write_text(text)
    group = Group(
        listed=folder / "data.sha256", files=tuple(folder / name for name in texts), is_data=True
    )
    write_checksums(group.listed, group.files)
    return group


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("state", ["changed", "missing"])
def test_only_data_that_comes_back_with_the_same_bytes_keeps_its_time(
    tmp_path: Path, state: str, same: bool
) -> None:
    group = written(tmp_path, TEXTS)
    for path in tmp_path.iterdir():
        os.utime(path, ns=(OLD, OLD))
    damaged = tmp_path / "nodes.txt"
    damaged.write_text("damaged") if state == "changed" else damaged.unlink()
    asked = []

    def make(targets: list[str]) -> None:
        asked.append((targets, sorted(path.name for path in tmp_path.iterdir())))
        written(tmp_path, TEXTS if same else TEXTS | {"nodes.txt": "0\n2\n"})

    repair([Finding(path=damaged, state=state, group=group)], root=tmp_path, make=make)  # type: ignore[arg-type]
    assert asked == [(["edges.txt"], ["data.sha256"])]
    times = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert times.keys() == {*TEXTS, "data.sha256"}
    assert {time == OLD for time in times.values()} == {same}
