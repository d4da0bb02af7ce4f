"""Arrays that stay in files: a batch reads only its own rows into memory.

Rows are read by the system's `pread`, not by memory mapping: mapped pages count as this process's memory, and
one access may load two megabytes. The system's page cache still speeds up repeated reads.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from dpgnn.core.storage import DamagedFileError
from dpgnn.data.rows import RowNorm, normalize_rows

RowFunction = Callable[[np.ndarray], np.ndarray]


def write_header(file: IO[bytes], shape: tuple[int, ...], dtype: Any) -> None:
    """Begin a .npy file of one C-ordered array, whose bytes follow.

    Args:
        file: at its beginning.
        shape, dtype: of the array.
    """
    header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


class FileArray:
    """An array that stays in its .npy file.

    Args:
        path: of the file.

    Attributes:
        path: of the file, absolute.
        shape, dtype: of the array.

    Raises:
        DamagedFileError: the file is missing, or is not a complete .npy file of one C-ordered array.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path).resolve()
        try:
            with open(self.path, "rb") as file:
                if np.lib.format.read_magic(file) != (1, 0):
                    raise ValueError("not version 1.0")
                self.shape, fortran, self.dtype = np.lib.format.read_array_header_1_0(file)
                self._offset = file.tell()
                self._width = int(np.prod(self.shape[1:])) * self.dtype.itemsize
                size = os.fstat(file.fileno()).st_size
                wanted = self._offset + len(self) * self._width
                if fortran or size != wanted:
                    raise ValueError(f"{size} bytes where {wanted} are stated")
                self._descriptor = os.dup(file.fileno())
        except (OSError, ValueError) as error:
            raise DamagedFileError(
                f"{self.path} must be a whole .npy file ({error}); delete its folder and rerun"
            ) from None
        weakref.finalize(self, os.close, self._descriptor)

    def __reduce__(self) -> tuple[type[FileArray], tuple[Path]]:
        return FileArray, (self.path,)

    def __len__(self) -> int:
        return int(self.shape[0])

    def read(self, first: int, last: int) -> np.ndarray:
        """Entries first..last-1."""
        return self.runs(np.array([first]), np.array([max(last, first)]))

    def gather(self, index: np.ndarray) -> np.ndarray:
        """Entries at `index`, integers in 0..len-1, shape (n,)."""
        return self.runs(index, index + 1)

    def runs(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Entries first[i]..last[i]-1 for each i, one run after another.

        Args:
            first, last: int64, shape (n,), 0 <= first <= last <= len.

        Raises:
            IndexError: a run is out of range.
            DamagedFileError: the file became shorter.
        """
        first, last = (np.ascontiguousarray(end, dtype=np.int64) for end in (first, last))
        if len(first) and (first.min() < 0 or last.max() > len(self) or (last < first).any()):
            raise IndexError(f"entries of {self.path} lie in 0..{len(self) - 1}")
        total = int((last - first).sum())
        from dpgnn.data import _reading  # numba takes longer to import than a small run

        out = np.empty((total, *self.shape[1:]), dtype=self.dtype)
        flat = out.reshape(-1).view(np.uint8)
        sizes = (last - first) * self._width
        if not _reading.read_runs(self._descriptor, self._offset, first * self._width, sizes, flat):
            raise DamagedFileError(f"{self.path} must stay as it was made; it became shorter")
        return out


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Features in a file instead of an array: float32, dense; no operation reads all of them at once.

    Functions such as normalisation may be applied to rows on reading, each row by itself; the result is bit
    for bit that of the whole array.

    Attributes:
        values: float32, shape (num_nodes, num_features).
        functions: float32 rows -> float32 rows of the same shape, applied in order, each row by itself.
    """

    values: FileArray
    functions: tuple[RowFunction, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """(num_nodes, num_features)."""
        num_rows, width = self.values.shape
        return int(num_rows), int(width)

    @property
    def ndim(self) -> int:
        """Two."""
        return 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32."""
        return np.dtype(np.float32)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> np.ndarray:
        """Rows of a slice of step 1, or at int64 positions: float32, shape (n, num_features)."""
        if isinstance(index, slice):
            first, last, step = index.indices(len(self))
            if step != 1:
                raise IndexError("rows in a file are read by slices of step 1 or by positions")
            return self._changed(self.values.read(first, last))
        return self.gather(np.asarray(index, dtype=np.int64))

    def gather(self, node: np.ndarray) -> np.ndarray:
        """Rows at `node`, int64, shape (n,), in 0..num_nodes-1; float32, shape (n, num_features)."""
        return self._changed(self.values.gather(node))

    def mapped(self, function: RowFunction) -> StoredRows:
        """The same rows with a further `function` applied after the present ones."""
        return StoredRows(self.values, (*self.functions, function))

    def _changed(self, rows: np.ndarray) -> np.ndarray:
        for function in self.functions:
            rows = function(rows)
        return rows


def normalized(x: Any, kind: RowNorm) -> Any:
    """As `data.rows.normalize_rows`; rows in a file are normalised on reading.

    Guarantee: as `normalize_rows`: each row is processed alone.

    Args:
        x: float32, dense, CSR or stored.
        kind: none, l1, l2 or centred.
    """
    if not isinstance(x, StoredRows):
        return normalize_rows(x, kind)
    return x if kind == "none" else x.mapped(partial(normalize_rows, kind=kind))


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredLists:
    """The nodes that each node reads, in files.

    Attributes:
        pointer: int64, shape (num_nodes + 1,): start of each node's list.
        source: int32, shape (num_arcs,): the nodes that are read, in the order of the graph's arcs.

    Both are as sensitive as the graph.
    """

    pointer: FileArray
    source: FileArray

    @cached_property
    def num_arcs(self) -> int:
        """Arcs of all lists."""
        return len(self.source)

    def of(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lists of some nodes.

        Args:
            nodes: int64, shape (n,).

        Returns:
            int64 pointers from 0, shape (n + 1,), and int64 sources, one list after another.
        """
        first, last = self._ends(nodes)
        pointer = np.concatenate([[0], np.cumsum(last - first)])
        return pointer, self.source.runs(first, last).astype(np.int64)

    def lengths(self, nodes: np.ndarray) -> np.ndarray:
        """int64, shape (n,): number of nodes that each of `nodes` reads."""
        first, last = self._ends(nodes)
        return last - first

    def _ends(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ends = self.pointer.runs(nodes, nodes + 2).reshape(-1, 2)
        return ends[:, 0], ends[:, 1]
