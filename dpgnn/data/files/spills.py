"""Spilled edges: appended to files by range of their source, then sorted one range at a time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from dpgnn.core import locks
from dpgnn.core.storage import explain_os_errors, read_json, sha256_json, write_json
from dpgnn.data.graph import distinct_keys

PROGRESS = "progress.json"
# pieces between two progress notes, for files that can be resumed
NOTE_EVERY = 32


class Spills:
    """Files of keys source * num_nodes + target, one for each range of sources.

    Args:
        folder: of the files; exists.
        num_nodes: larger than every id.
        num_ranges: number of ranges of nodes.
        kept: resume from the files in the folder, and note the progress there.
    """

    def __init__(self, folder: Path, num_nodes: int, num_ranges: int, *, kept: bool) -> None:
        self.folder, self.num_nodes, self.num_ranges = folder, num_nodes, num_ranges
        self._width, self._kept = -(-num_nodes // num_ranges), kept
        self._files: dict[int, IO[bytes]] = {}
        self._pieces, self._done = 0, 0
        if kept and (folder / PROGRESS).exists():
            self._go_on(read_json(folder / PROGRESS))

    def __enter__(self) -> Spills:
        return self

    def __exit__(self, *error: Any) -> None:
        for file in self._files.values():
            file.close()

    def begin(self) -> bool:
        """Begin the next piece; False if its edges are already stored."""
        self._pieces += 1
        return self._pieces > self._done

    def add(self, source: np.ndarray, target: np.ndarray) -> None:
        """More edges; int64, shape (n,)."""
        keys = source * self.num_nodes + target
        number = source // self._width
        order = np.argsort(number, kind="stable")
        starts = np.searchsorted(number[order], np.arange(self.num_ranges + 1))
        with explain_os_errors(self.folder):
            for n in np.flatnonzero(np.diff(starts)).tolist():
                self._file(n).write(keys[order[starts[n] : starts[n + 1]]].tobytes())

    def end(self) -> None:
        """End the piece: all its edges are stored."""
        if self._kept and self._pieces % NOTE_EVERY == 0:
            self._note()

    def ranges(self) -> Iterator[tuple[int, np.ndarray]]:
        """Number and keys of each range with edges; keys ascend and are unique."""
        if self._kept:
            self._note()
        for n in sorted(self._files):
            self._files[n].close()
            path = self.folder / f"{n}.keys"
            yield n, distinct_keys(np.fromfile(path, dtype=np.int64))
            if not self._kept:
                path.unlink()

    def _file(self, n: int) -> IO[bytes]:
        if n not in self._files:
            self._files[n] = open(self.folder / f"{n}.keys", "wb")  # noqa: SIM115  closed by __exit__
        return self._files[n]

    def _note(self) -> None:
        with explain_os_errors(self.folder):
            for file in self._files.values():
                file.flush()
                os.fsync(file.fileno())
            sizes = {str(n): file.tell() for n, file in self._files.items()}
            pieces = max(self._pieces, self._done)
            write_json(self.folder / PROGRESS, {"pieces": pieces, "sizes": sizes})

    def _go_on(self, noted: dict[str, Any]) -> None:
        """Open the files at the state of the last note."""
        self._done = int(noted["pieces"])
        for n, size in noted["sizes"].items():
            file = open(self.folder / f"{n}.keys", "r+b")  # noqa: SIM115  closed by __exit__
            file.truncate(size)
            file.seek(size)
            self._files[int(n)] = file


@contextmanager
def scratch_folder(root: Path, name: str, resume: str | None) -> Iterator[Path]:
    """A folder for spilled edges, removed at the end.

    Args:
        root: parent folder.
        name: of the graph.
        resume: name of the folder, which is kept after an error or a kill: the next call with the same name
            resumes from it, a call with another name removes it. None starts with an empty folder.
    """
    if resume is None:
        with locks.held_folder(root, name) as folder:
            yield folder
        return
    with explain_os_errors(root):
        root.mkdir(parents=True, exist_ok=True)
        with locks.exclusive(root / f".{name}.lock", f"{name} is being written"):
            folder = root / f"{name}-{sha256_json(resume)[:16]}"
            for left in root.glob(f"{name}-{'[0-9a-f]' * 16}"):
                if left != folder:
                    shutil.rmtree(left)
            folder.mkdir(exist_ok=True)
            yield folder
            shutil.rmtree(folder)
