"""Sizes of the arrays of a step: few fixed ones, so that many batches share one graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpgnn.models.trees import Trees
from dpgnn.training.chunks import summed_rows

# the Gram matrices of a root with more rows would be larger than the rest of the step
LARGEST_TREE = 256
# sizes grow by 2^(1/STEPS_PER_DOUBLING), so at most 9 % of the slots are empty on average
STEPS_PER_DOUBLING = 8
SMALLEST = 8


@dataclass(frozen=True)
class Shape:
    """Sizes of the arrays of a step, each at least as large as the batch needs.

    Attributes:
        num_slots: slots for roots; the last one is always empty and holds padding.
        rows: rows of each level, 0..r; the last level has one row for each slot.
        entries: entries of each hop, 1..r.
        members: for each level, (largest number of rows, places) of each class of roots whose norms are
            taken together; () for the last level, where every root has one row.
    """

    num_slots: int
    rows: tuple[int, ...]
    entries: tuple[int, ...]
    members: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def packed_size(self) -> int:
        """How many numbers describe a batch: slots, then the members of every class."""
        return self.num_slots + sum(places for level in self.members for _, places in level)


class Shapes:
    """Shapes of batches of some trees.

    A shape depends only on the batch and on all trees, not on free memory or earlier batches, so that a run
    gives the same sums after a restart.

    Args:
        trees: trees of all roots.
    """

    def __init__(self, trees: Trees) -> None:
        self.trees = trees
        self._level_rows = trees.level_rows.astype(np.int64)
        first = trees.row_ptr[:-1, None]
        self._entries = (
            trees.entry_ptr[first + self._level_rows[:, 1:]] - trees.entry_ptr[first]
        ).astype(np.int64)
        largest = self._level_rows.max(axis=1, initial=0)
        self.fits = largest <= LARGEST_TREE
        self._classes = [self._classes_of(level) for level in range(trees.num_hops + 1)]

    def _classes_of(self, level: int) -> tuple[np.ndarray, tuple[int, ...]]:
        """Class of each root at a level, and the largest number of rows in each class."""
        counts = self._level_rows[self.fits, level]
        sizes = np.zeros(len(self.fits), dtype=np.int64)
        if len(counts) and counts.min() < counts.max():
            counts = 2 ** np.ceil(np.log2(counts)).astype(np.int64)
        named, sizes[self.fits] = np.unique(counts, return_inverse=True)
        return sizes, tuple(int(size) for size in named)

    @cached_property
    def _needs(self) -> np.ndarray:
        """Rows, entries and members that each root adds; int64, shape (num_roots, numbers)."""
        hops = self.trees.num_hops
        columns = [self._level_rows[:, :hops], self._entries]
        for level in range(hops):
            owner, sizes = self._classes[level]
            columns.append((owner[:, None] == np.arange(len(sizes))) & self.fits[:, None])
        return np.ascontiguousarray(np.concatenate(columns, axis=1, dtype=np.int64))

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and mean square of `_needs` over the roots that fit."""
        needs = np.ascontiguousarray(self._needs[self.fits].T, dtype=np.float64)
        return needs.mean(axis=1), (needs**2).mean(axis=1)

    def shape_of(self, roots: np.ndarray) -> Shape:
        """The smallest allowed shape that holds these roots.

        Args:
            roots: int64 positions of roots that fit.
        """
        needed = summed_rows(self._needs, roots)
        mean, square = self._moments
        doublings = max(0.0, np.log2(max(len(roots), 1) / SMALLEST))
        step = int(np.ceil(doublings * STEPS_PER_DOUBLING))
        while True:
            num = int(np.ceil(SMALLEST * 2 ** (step / STEPS_PER_DOUBLING)))
            # four standard deviations of a sum over so many roots, and one place for padding
            room = np.ceil(mean * num + 4.0 * np.sqrt(square * num)) + 1
            room = 8 * np.ceil(room / 8).astype(np.int64)
            if num >= len(roots) and (needed + 1 <= room).all():
                return self._shape(8 * -(-(num + 1) // 8), room)
            step += 1

    def _shape(self, num_slots: int, room: np.ndarray) -> Shape:
        hops = self.trees.num_hops
        rows, entries = room[:hops].tolist(), room[hops : 2 * hops].tolist()
        members, at = [], 2 * hops
        for level in range(hops):
            sizes = self._classes[level][1]
            places = room[at : at + len(sizes)].tolist()
            members.append(tuple(zip(sizes, places)))
            at += len(sizes)
        return Shape(num_slots, (*rows, num_slots), tuple(entries), (*members, ()))

    def pack(
        self, shape: Shape, roots: np.ndarray, out: np.ndarray, *, members: bool = True
    ) -> None:
        """Write a batch as one array: the root of each slot, -1 where empty, then the members of classes.

        Args:
            shape: from `shape_of`.
            roots: int64 positions.
            out: int64, shape (shape.packed_size,).
            members: False leaves them out, where nothing reads them.
        """
        out[: shape.num_slots] = -1
        out[: len(roots)] = roots
        if not members:
            return
        at = shape.num_slots
        out[at:] = shape.num_slots - 1  # the empty slot stands for missing members
        for level, classes in enumerate(shape.members):
            owner = self._classes[level][0][roots]
            for number, (_, places) in enumerate(classes):
                slots = np.flatnonzero(owner == number)
                out[at : at + len(slots)] = slots
                at += places
