"""Exchange of arcs between tasks: files ordered by range of nodes.

A file is written under another name and renamed when complete. So two workers may make the same file at once,
and a killed task leaves no partial file.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import numpy as np

from dpgnn.core.storage import atomic_write
from dpgnn.data.stored import write_header


def num_ranges(num_nodes: int, width: int) -> int:
    """Ranges of `width` nodes that make up 0..num_nodes-1."""
    return -(-num_nodes // width)


def write_split(path: Path, group: np.ndarray, item: np.ndarray, width: int, ranges: int) -> None:
    """Write arcs ordered by the range of `group`, stable inside a range.

    Args:
        path: of the .npy file, int32 of shape (2, n): groups and items; its ranges' starts stand beside it.
        group, item: int32, shape (n,).
        width: nodes of a range.
        ranges: number of ranges.
    """
    group, item, starts = by_range(group, item, width, ranges)
    save(path.with_suffix(".starts.npy"), starts)
    save(path, np.stack([group, item]))


def by_range(
    group: np.ndarray, item: np.ndarray, width: int, ranges: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arcs ordered by the range of `group`, stable inside a range; and the start of each range."""
    number: np.ndarray = (group // width).astype(np.uint16 if ranges <= 1 << 16 else np.int32)
    starts = np.concatenate([[0], np.cumsum(np.bincount(number, minlength=ranges))])
    if np.any(number[1:] < number[:-1]):
        order = np.argsort(number, kind="stable")
        group, item = group[order], item[order]
    return group, item, starts.astype(np.int64)


def read_range(paths: list[Path], number: int) -> tuple[np.ndarray, np.ndarray]:
    """All arcs of one range, those of the first file first: groups and items, int32."""
    pieces = [np.zeros((2, 0), np.int32)]
    for path in paths:
        start, stop = np.load(path.with_suffix(".starts.npy"))[number : number + 2]
        if start < stop:
            pieces.append(np.load(path, mmap_mode="r")[:, start:stop])
    both = np.concatenate(pieces, axis=1)
    return both[0], both[1]


def save(path: Path, values: np.ndarray) -> None:
    """Write one array atomically."""
    with atomic_write(path) as file:
        np.save(_Writes(file), values)


def join(path: Path, pieces: list[Path], dtype: Any) -> None:
    """Concatenate arrays of files into one file, with one of them in memory at a time."""
    size = sum(len(load(piece)) for piece in pieces)
    with atomic_write(path) as file:
        write_header(file, (size,), dtype)
        for piece in pieces:
            file.write(np.load(piece).astype(dtype, copy=False).data)


def join_pointer(path: Path, pieces: list[Path]) -> None:
    """Write the starts of lists whose lengths are in files: int64, from 0 to the sum of all."""
    size = sum(len(load(piece)) for piece in pieces)
    last = np.zeros(1, np.int64)
    with atomic_write(path) as file:
        write_header(file, (size + 1,), np.int64)
        file.write(last.data)
        for piece in pieces:
            ends = np.cumsum(np.load(piece), dtype=np.int64) + last[0]
            file.write(ends.data)
            last = ends[-1:] if len(ends) else last


class _Writes:
    """A file object that makes numpy use `write`, whose errors state the cause."""

    def __init__(self, file: IO[bytes]) -> None:
        self.write = file.write


def load(path: Path) -> np.ndarray:
    """An array of a file, mapped into memory."""
    return np.asarray(np.load(path, mmap_mode="r"))


def remove(paths: list[Path]) -> None:
    """Delete files that no later task needs."""
    for path in paths:
        path.unlink(missing_ok=True)
        path.with_suffix(".starts.npy").unlink(missing_ok=True)
