"""Trees of roots that stay in files: a process holds only the trees of one chunk in memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from dpgnn.core.checks import require
from dpgnn.core.storage import DamagedFileError, read_json, sha256_file, write_json
from dpgnn.data.stored import FileArray
from dpgnn.models.trees import Trees

MANIFEST = "trees.json"
# arrays that a batch reads, and arrays held for every root
IN_FILES = {"node": "<i8", "entry_ptr": "<i8", "entry_row": "<i4", "entry_weight": "<f4"}
HELD = ("roots", "row_ptr", "level_rows")


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredTrees(Trees):
    """Trees with only sizes and labels in memory: 20 + 4 r bytes for each root.

    `node` and the entries are empty; `of` reads those of some roots.

    Attributes:
        files: by name, the arrays of `Trees` that stay in files.
        made_of: hash of the sample and its layout.
    """

    files: dict[str, FileArray]
    made_of: str

    def __post_init__(self) -> None:
        num_roots = len(self.row_ptr) - 1
        require(len(self.y) == num_roots, "y", f"have {num_roots} rows", len(self.y))

    def of(self, roots: np.ndarray) -> tuple[Trees, np.ndarray]:
        """Trees of some roots, read from files, and the positions of the roots in them."""
        first, last = self.row_ptr[roots], self.row_ptr[roots + 1]
        starts = self.files["entry_ptr"].runs(first, last + 1)
        lengths = last - first
        row_ptr = np.concatenate([[0], np.cumsum(lengths)])
        begins = row_ptr[:-1] + np.arange(len(roots))  # a root has one pointer more than rows
        ends = begins + lengths
        entries = [
            self.files[name].runs(starts[begins], starts[ends])
            for name in ("entry_row", "entry_weight")
        ]
        inner = np.ones(len(starts), dtype=bool)
        inner[ends] = False
        counts = np.diff(starts)[inner[:-1]] if len(roots) else np.zeros(0, np.int64)
        trees = Trees(
            num_hops=self.num_hops, node=self.files["node"].runs(first, last), row_ptr=row_ptr,
            level_rows=self.level_rows[roots], entry_ptr=np.concatenate([[0], np.cumsum(counts)]),
            entry_row=entries[0], entry_weight=entries[1], y=self.y[roots],
        )  # fmt: skip
        return trees, np.arange(len(roots))


def open_trees(folder: Path, made_of: str, y: np.ndarray) -> StoredTrees | None:
    """The trees of a folder; None if there are none.

    Args:
        folder: of `write_trees`.
        made_of: the expected hash.
        y: labels of all nodes.

    Raises:
        DamagedFileError: they have another hash, or are incomplete.
    """
    if not (folder / MANIFEST).exists():
        return None
    stated, remedy = read_json(folder / MANIFEST), f"delete {folder} and rerun"
    if stated["made_of"] != made_of:
        raise DamagedFileError(f"{folder} must hold trees of this sample, got others; {remedy}")
    for name, known in stated["sha256"].items():
        if sha256_file(folder / f"{name}.npy") != known:
            raise DamagedFileError(
                f"{folder / name}.npy must be as it was made, got other bytes; {remedy}"
            )
    files = {name: FileArray(folder / f"{name}.npy") for name in IN_FILES}
    held = {name: np.load(folder / f"{name}.npy") for name in HELD}
    sizes = {name: len(values) for name, values in (files | held).items()}
    if sizes != stated["sizes"]:
        raise DamagedFileError(f"{folder} must hold {stated['sizes']}, got {sizes}; {remedy}")
    labels = y[held["roots"]]
    return StoredTrees(
        num_hops=held["level_rows"].shape[1] - 1, node=np.zeros(0, np.int64),
        row_ptr=held["row_ptr"], level_rows=held["level_rows"], entry_ptr=np.zeros(1, np.int64),
        entry_row=np.zeros(0, np.int32), entry_weight=np.zeros(0, np.float32),
        y=np.array(labels, dtype=np.int64 if labels.ndim == 1 else np.float32), files=files,
        made_of=made_of,
    )  # fmt: skip


def write_trees(
    folder: Path, made_of: str, blocks: Iterable[tuple[np.ndarray, Trees]], num_hops: int
) -> None:
    """Write trees block by block; the folder appears when they are complete.

    Args:
        folder: of the trees.
        made_of: hash that is stored with them.
        blocks: roots and their trees, in the order of the roots; one block is held at a time.
        num_hops: depth of the trees.

    Raises:
        OSError: the folder cannot be written, or the disk is full.
    """
    unfinished = folder.with_name(f".{folder.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    held: dict[str, list[np.ndarray]] = {
        "roots": [np.zeros(0, np.int64)], "row_ptr": [np.zeros(1, np.int64)],
        "level_rows": [np.zeros((0, num_hops + 1), np.int32)],
    }  # fmt: skip
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(open(unfinished / f"{name}.npy", "w+b")) for name in IN_FILES
        }
        sizes = _append(files, held, blocks)
        for name, file in files.items():
            file.seek(0)
            _header(file, sizes[name], IN_FILES[name])
            file.flush()
            os.fsync(file.fileno())
    for name, pieces in held.items():
        values = np.concatenate(pieces)
        np.save(unfinished / f"{name}.npy", values)
        sizes[name] = len(values)
    sums = {name: sha256_file(unfinished / f"{name}.npy") for name in sizes}
    write_json(unfinished / MANIFEST, {"made_of": made_of, "sizes": sizes, "sha256": sums})
    os.replace(unfinished, folder)


def _append(
    files: Mapping[str, IO[bytes]], held: dict[str, list[np.ndarray]],
    blocks: Iterable[tuple[np.ndarray, Trees]],
) -> dict[str, int]:  # fmt: skip
    """Write all blocks after headers that are rewritten at the end; returns the arrays' lengths."""
    for name, file in files.items():
        _header(file, 0, IN_FILES[name])
    files["entry_ptr"].write(np.zeros(1, np.int64).data)
    rows, entries = 0, 0
    for roots, trees in blocks:
        files["node"].write(trees.node.data)
        files["entry_ptr"].write((trees.entry_ptr[1:] + entries).data)
        files["entry_row"].write(trees.entry_row.data)
        files["entry_weight"].write(trees.entry_weight.data)
        held["roots"].append(roots)
        held["row_ptr"].append(trees.row_ptr[1:] + rows)
        held["level_rows"].append(trees.level_rows)
        rows, entries = rows + len(trees.node), entries + len(trees.entry_row)
    return {"node": rows, "entry_ptr": rows + 1, "entry_row": entries, "entry_weight": entries}


def _header(file: IO[bytes], length: int, kind: str) -> None:
    """The header of an array; numpy pads it, so that its size does not depend on the length."""
    stated: dict[str, Any] = {"descr": kind, "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(file, stated)
