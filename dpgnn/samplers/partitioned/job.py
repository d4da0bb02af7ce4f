"""Data shared by all tasks of one sample, and the arcs in its setting."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dpgnn.core.storage import write_json
from dpgnn.samplers.partitioned.arcs import Part, read_part
from dpgnn.samplers.partitioned.exchange import join, join_pointer, load, num_ranges, remove, save

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Job:
    """One sample.

    Attributes:
        work: folder of temporary files; it has masks/NAME.npy, one entry for each node, and
            masks/NAME.bits.npy, eight nodes in each byte.
        out: folder of the data set's parts.
        num_nodes: size of the id universe.
        width: number of nodes of a range, and so of a part.
        key: the two words of the sampler's key.
        setting: "inductive" drops arcs between parts, "dropped" arcs of removed nodes, by the mask `setting`
            of codes of `Split.part_of`; None keeps all.
    """

    work: Path
    out: Path
    num_nodes: int
    width: int
    key: tuple[int, int] = (0, 0)
    setting: str | None = None

    @property
    def ranges(self) -> int:
        """Number of ranges of nodes."""
        return num_ranges(self.num_nodes, self.width)

    @property
    def keys(self) -> np.ndarray:
        """uint64, shape (2,)."""
        return np.array(self.key, np.uint64)

    def bounds(self, number: int) -> tuple[int, int]:
        """First node of a range, and its size."""
        first = number * self.width
        return first, min(self.width, self.num_nodes - first)

    def mask(self, name: str) -> np.ndarray:
        """A mask, mapped into memory."""
        return load(self.work / "masks" / f"{name}.npy")

    def bits(self, name: str) -> np.ndarray:
        """A mask of eight nodes a byte, mapped into memory: small enough for a cache."""
        return load(self.work / "masks" / f"{name}.bits.npy")

    def write_bits(self, masks: Mapping[str, np.ndarray]) -> None:
        """Write masks for tasks, eight nodes in each byte."""
        for name, mask in masks.items():
            save(self.work / "masks" / f"{name}.bits.npy", np.packbits(mask, bitorder="little"))

    def write_masks(self, masks: Mapping[str, np.ndarray]) -> None:
        """Write masks for tasks."""
        for name, mask in masks.items():
            save(self.work / "masks" / f"{name}.npy", mask)

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """The result of `make`, now or from before a kill, so that a repeated task ends at once.

        Args:
            name: of the task.
            make: writes files, atomically, and returns a value of JSON.
        """
        path = self.work / "done" / f"{name}.json"
        if path.exists():
            return json.loads(path.read_text(encoding="utf-8"))
        value = make()
        write_json(path, value)
        return value

    def join_lists(self, ranges: int) -> None:
        """Write pointer.npy and sources.npy from lengths-NUMBER.npy and sources-NUMBER.npy of all ranges."""
        lengths, sources = (
            [self.work / f"{kind}-{n:05}.npy" for n in range(ranges)]
            for kind in ("lengths", "sources")
        )

        def make() -> None:
            join(self.work / "sources.npy", sources, np.int32)
            join_pointer(self.work / "pointer.npy", lengths)

        self.once("join", make)
        remove([*lengths, *sources])


def once(name: str) -> Callable[[Callable[[T], R]], Callable[[T], R]]:
    """Decorate a task so that it keeps its result: see `Job.once`.

    Args:
        name: of the task, a format of its item, which has the attribute `job`.
    """

    def decorated(make: Callable[[T], R]) -> Callable[[T], R]:
        @wraps(make)
        def task(item: Any) -> Any:
            return item.job.once(name.format(item), lambda: make(item))

        return task

    return decorated


def arcs_in_setting(job: Job, folder: Path, part: Part) -> tuple[np.ndarray, np.ndarray]:
    """A partition's arcs in the setting, without loops: source and target, int32.

    Raises:
        DamagedFileError: the partition is missing, or not the one that was made.
    """
    source, target = read_part(folder / part.name, part)
    keep = source != target
    if job.setting is not None:
        codes = job.mask("setting")
        keep &= _allowed(codes[source], codes[target], job.setting)
    return source[keep], target[keep]


def _allowed(source: np.ndarray, target: np.ndarray, setting: str) -> np.ndarray:
    """The rule of `data.splits.edges_in_setting`, by the codes of the ends."""
    if setting == "inductive":
        return (source == target) & (source >= 0)
    return (source > -2) & (target > -2)
