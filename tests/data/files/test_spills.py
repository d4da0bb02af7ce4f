"""A graph that is written in pieces goes on after a kill, to the same bytes."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpgnn.core.locks import BusyError
from dpgnn.data.files import graph_files, spills
from dpgnn.data.files.pieces import Pieces, write
from dpgnn.data.files.spills import Spills, scratch_folder
from dpgnn.data.files.streaming import Header

NUM_NODES, NUM_PIECES = 500, 9
FILES = ("nodes.parquet", "edges.parquet", "graph.json")


def pieces(stop: int | None = None, *, in_rows: bool = False) -> Pieces:
    """A graph of nine pieces; a process that is killed before piece `stop`, or in the rows."""

    def edges() -> Iterator[Any]:
        for number in range(NUM_PIECES):
            if number == stop:
                raise KeyboardInterrupt
            yield np.random.default_rng(number).integers(0, NUM_NODES, (2, 300))

    def nodes() -> Iterator[Any]:
        if in_rows:
            raise KeyboardInterrupt
        rng = np.random.default_rng(99)
        yield rng.standard_normal((NUM_NODES, 2), dtype=np.float32), np.zeros(NUM_NODES, int), {}

    header = Header(
        name="many", num_nodes=NUM_NODES, num_features=2, num_classes=2, expected_edges=2700
    )
    return Pieces(header=header, nodes=nodes, edges=edges)


def content(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in FILES]


@pytest.mark.parametrize(("stop", "in_rows"), [(0, False), (5, False), (8, False), (None, True)])
def test_a_graph_that_was_cut_short_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int | None, in_rows: bool
) -> None:
    monkeypatch.setattr(spills, "NOTE_EVERY", 2)
    small: dict[str, Any] = {"memory_bytes": 6 * 8 * 700}  # several ranges
    write(pieces(), tmp_path / "whole", scratch=tmp_path / "a", **small)
    again: dict[str, Any] = {"scratch": tmp_path / "b", "resume": "this graph", **small}
    with pytest.raises(KeyboardInterrupt):
        write(pieces(stop, in_rows=in_rows), tmp_path / "graph", **again)
    added, add = [], Spills.add

    def seen(self: Spills, *ends: np.ndarray) -> None:
        added.append(ends)
        add(self, *ends)

    monkeypatch.setattr(Spills, "add", seen)
    write(pieces(), tmp_path / "graph", **again)
    kept = 8 if in_rows else (stop or 0) // 2 * 2
    assert len(added) == 2 * (NUM_PIECES - kept)  # both directions
    assert content(tmp_path / "graph") == content(tmp_path / "whole")
    assert not [path for path in (tmp_path / "b").iterdir() if path.is_dir()]


def test_a_kill_while_ranges_are_sorted_spills_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(pieces(), tmp_path / "whole", scratch=tmp_path / "a")
    facts = graph_files.file_facts

    def killed(path: Path) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(graph_files, "file_facts", killed)
    with pytest.raises(KeyboardInterrupt):
        write(pieces(), tmp_path / "graph", scratch=tmp_path / "b", resume="this graph")
    monkeypatch.setattr(graph_files, "file_facts", facts)
    monkeypatch.setattr(Spills, "add", lambda *words: pytest.fail("spilled again"))
    write(pieces(), tmp_path / "graph", scratch=tmp_path / "b", resume="this graph")
    assert content(tmp_path / "graph") == content(tmp_path / "whole")


def test_another_graph_of_that_name_begins_anew(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(pieces(5), tmp_path / "graph", scratch=tmp_path / "b", resume="this graph")
    write(pieces(), tmp_path / "graph", scratch=tmp_path / "b", resume="another")
    assert not [path for path in (tmp_path / "b").iterdir() if path.is_dir()]
    write(pieces(), tmp_path / "whole", scratch=tmp_path / "a")
    assert content(tmp_path / "graph") == content(tmp_path / "whole")


def test_two_who_write_one_graph_are_refused(tmp_path: Path) -> None:
    with (
        scratch_folder(tmp_path, "many", "x"),
        pytest.raises(BusyError, match="many is being written"),
    ):
        write(pieces(), tmp_path / "graph", scratch=tmp_path, resume="x")


def test_a_full_disk_is_one_line_and_gone_on_from(tmp_path: Path, monkeypatch: Any) -> None:
    def full(*words: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Spills, "_file", full)
        with pytest.raises(OSError, match=r"many-\w+ must be writable, got No space left"):
            write(pieces(), tmp_path / "graph", scratch=tmp_path, resume="x")
    assert write(pieces(), tmp_path / "graph", scratch=tmp_path, resume="x")["num_nodes"] == 500
