"""Arrays in files give what the arrays give, bit for bit, and leave memory again."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpgnn.core.storage import DamagedFileError
from dpgnn.data.rows import normalize_rows
from dpgnn.data.stored import FileArray, StoredLists, StoredRows, normalized

RNG = np.random.default_rng(0)


def kept(path: Path, values: np.ndarray) -> FileArray:
    np.save(path, values)
    return FileArray(path)


@pytest.mark.parametrize("kind", ["none", "l1", "l2", "centred"])
def test_rows_of_a_file_are_those_of_the_array_normalised_at_once(
    tmp_path: Path, kind: Any
) -> None:
    x = RNG.standard_normal((5000, 37)).astype(np.float32)
    x[7], x[9], x[11] = 0, 1e-30, 1e30
    rows = normalized(StoredRows(kept(tmp_path / "x.npy", x)), kind)
    wanted = normalize_rows(x, kind)
    at = np.concatenate([RNG.integers(0, len(x), 3000), [7, 9, 11]])
    assert rows.shape == x.shape
    assert rows[at].tobytes() == wanted[at].tobytes()
    assert rows[5:77].tobytes() == wanted[5:77].tobytes()
    assert rows[:0].shape == (0, 37)
    again = pickle.loads(pickle.dumps(rows))  # as another process gets it
    assert again[at].tobytes() == wanted[at].tobytes()


def test_rows_of_an_array_are_normalised_as_ever() -> None:
    x = RNG.standard_normal((50, 4)).astype(np.float32)
    assert normalized(x, "l2").tobytes() == normalize_rows(x, "l2").tobytes()
    assert normalized(x, "none") is x


def resident() -> int:
    """Bytes of this process's memory, files that it has mapped counted."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_no_read_leaves_pages_of_the_file_behind(tmp_path: Path) -> None:
    x = RNG.standard_normal((1 << 21, 16)).astype(np.float32)  # 134 MB
    rows = kept(tmp_path / "x.npy", x)
    rows.gather(np.arange(3))
    before = resident()
    for _ in range(20):
        at = RNG.integers(0, len(x), 50_000)
        assert (rows.gather(at) == x[at]).all()
    assert resident() - before < 64 << 20


def test_lists_of_some_nodes(tmp_path: Path) -> None:
    pointer = kept(tmp_path / "pointer.npy", np.array([0, 2, 2, 5]))
    source = kept(tmp_path / "source.npy", np.array([1, 2, 0, 1, 2], np.int32))
    lists = StoredLists(pointer=pointer, source=source)
    ptr, sources = lists.of(np.array([2, 1, 0]))
    assert ptr.tolist() == [0, 3, 3, 5]
    assert sources.tolist() == [0, 1, 2, 1, 2]
    assert lists.lengths(np.array([0, 1, 2])).tolist() == [2, 0, 3]
    assert lists.num_arcs == 5
    none = StoredLists(pointer=pointer, source=kept(tmp_path / "e.npy", np.zeros(0, np.int32)))
    assert none.num_arcs == 0


@pytest.mark.parametrize("damage", ["missing", "cut", "other", "fortran"])
def test_a_file_that_is_not_whole_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.ones((9, 3), np.float32))
    if damage == "missing":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-4])
    elif damage == "other":
        path.write_bytes(b"no array")
    else:
        np.save(path, np.asfortranarray(np.ones((9, 3), np.float32)))
    with pytest.raises(DamagedFileError, match=r"x\.npy must be a whole \.npy file"):
        FileArray(path)


def test_rows_are_read_by_slices_or_positions_only(tmp_path: Path) -> None:
    rows = StoredRows(kept(tmp_path / "x.npy", np.ones((9, 3), np.float32)))
    with pytest.raises(IndexError, match="step 1"):
        rows[::2]


def test_entries_outside_and_a_file_that_shrank_are_named(tmp_path: Path) -> None:
    rows = kept(tmp_path / "x.npy", np.ones((9, 3), np.float32))
    for at in ([-1], [9]):
        with pytest.raises(IndexError, match=r"lie in 0\.\.8"):
            rows.gather(np.array(at))
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-12])
    with pytest.raises(DamagedFileError, match="became shorter"):
        rows.gather(np.array([8]))
