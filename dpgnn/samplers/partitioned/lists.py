"""Sampled lists over partitions: own lists and S*, with the same bytes as on one machine.

Lists of the K smallest keyed priorities can be merged: the K smallest of a union are among the K smallest of
each part, and a priority is a hash of (key, pair). So tasks of partitions keep candidates, and tasks of
ranges of nodes merge them, for any number of partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpgnn.samplers.lists import Lists, trees
from dpgnn.samplers.own_list import OwnList
from dpgnn.samplers.partitioned import _kernels
from dpgnn.samplers.partitioned.arcs import Part, Partitions, read_pieces
from dpgnn.samplers.partitioned.exchange import (
    by_range,
    load,
    read_range,
    remove,
    save,
    write_split,
)
from dpgnn.samplers.partitioned.job import Job, once
from dpgnn.samplers.partitioned.parts import PartFacts, write_part
from dpgnn.samplers.partitioned.scheduler import Scheduler
from dpgnn.samplers.stable import Stable


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Keep the `bound` smallest priorities of each group.

    Attributes:
        by: "source" groups arcs by their source, "target" by their target.
        group_ok, item_ok: names of `Job.bits`; arcs with an end outside are not offered.
        by_item: the priority is that of (item, group).
    """

    by: str
    bound: int
    group_ok: str
    item_ok: str
    by_item: bool = False


def choices_of(sampler: OwnList | Stable) -> tuple[Choice, ...]:
    """The steps of a sampler; masks are `present`, `train` and `readers` (both).

    Guarantee: none by itself; the steps are those of the sampler's proof.
    """
    if isinstance(sampler, OwnList):
        return (Choice(by="source", bound=sampler.max_degree, group_ok="present", item_ok="train"),)
    return (
        Choice(by="target", bound=sampler.max_out_degree, group_ok="readers", item_ok="everyone"),
        Choice(
            by="source", bound=sampler.max_in_degree, group_ok="present", item_ok="readers",
            by_item=True,
        ),
    )  # fmt: skip


def sample_lists(
    job: Job, sampler: OwnList | Stable, partitions: Partitions, *, scheduler: Scheduler
) -> int:
    """Draw the lists, which `Job.join_lists` joins.

    Args:
        job: with the bits of `present`, `train`, `readers` (both) and `everyone`.
        sampler: whose lists; `job.key` is its key.
        partitions: of the graph.
        scheduler: runs the tasks.

    Returns:
        number of arcs in the setting (without loops).
    """
    steps = choices_of(sampler)
    sent = [
        _Sent(
            job=job, folder=partitions.folder.resolve(), part=part, number=number, choice=steps[0]
        )
        for number, part in enumerate(partitions.parts)
    ]
    num_arcs = sum(scheduler.run("arcs to their lists", _offer, sent))
    before = len(sent)
    for step in range(len(steps)):
        merged = [
            _Merged(job=job, step=step, before=before, number=n, choices=steps[step:])
            for n in range(job.ranges)
        ]
        scheduler.run(f"lists, step {step + 1} of {len(steps)}", _choose, merged)
        remove([_file(job, step, number) for number in range(before)])
        before = job.ranges
    limit = sampler.max_list_size if isinstance(sampler, OwnList) else None
    last = [
        _Merged(job=job, step=len(steps), before=before, number=n, limit=limit)
        for n in range(job.ranges)
    ]
    scheduler.run("lists of readers", _pull, last)
    remove([_file(job, len(steps), number) for number in range(before)])
    return num_arcs


def lists_of(job: Job) -> Lists:
    """All lists, mapped into memory; made by `Job.join_lists` after `sample_lists`."""
    return Lists(pointer=load(job.work / "pointer.npy"), sources=load(job.work / "sources.npy"))


def sample_trees(
    job: Job, *, num_hops: int, max_occurrences: int, scheduler: Scheduler
) -> list[PartFacts]:
    """The subgraph of every training node with a record as parts of the data set; after `Job.join_lists`."""
    asked = [
        _Grown(job=job, number=n, num_hops=num_hops, max_occurrences=max_occurrences)
        for n in range(job.ranges)
    ]
    return [PartFacts(**one) for one in scheduler.run("trees", _grow, asked)]


@dataclass(frozen=True, kw_only=True)
class _Sent:
    job: Job
    folder: Path
    part: Part
    number: int
    choice: Choice


@dataclass(frozen=True, kw_only=True)
class _Merged:
    job: Job
    step: int
    before: int
    number: int
    choices: tuple[Choice, ...] = ()
    limit: int | None = None

    def arcs(self) -> tuple[np.ndarray, np.ndarray]:
        """The range's arcs from all files of the step: groups and items."""
        paths = [_file(self.job, self.step, number) for number in range(self.before)]
        return read_range(paths, self.number)


@dataclass(frozen=True, kw_only=True)
class _Grown:
    job: Job
    number: int
    num_hops: int
    max_occurrences: int


def _file(job: Job, step: int, number: int) -> Path:
    return job.work / f"step{step}-{number:05}.npy"


@once("offer-{0.number:05}")
def _offer(sent: _Sent) -> int:
    """A partition's candidates for the first choice, ordered by range; returns the number of arcs."""
    job, choice = sent.job, sent.choice
    pieces = read_pieces(sent.folder / sent.part.name, sent.part)
    num_arcs, group, item = _offered(job, choice, pieces, job.setting)
    group, item, starts = by_range(group, item, job.width, job.ranges)
    ways = [np.zeros((2, 0), np.int32)]
    for r in np.flatnonzero(np.diff(starts)):
        own = slice(starts[r], starts[r + 1])
        ways.append(np.stack(_smallest(job, choice, int(r), group[own], item[own])))
    kept, items = np.concatenate(ways, axis=1)
    write_split(_file(job, 0, sent.number), kept, items, job.width, job.ranges)
    return num_arcs


@once("step{0.step}-{0.number:05}")
def _choose(merged: _Merged) -> None:
    """One range's kept arcs, regrouped for the next step."""
    job, choice, more = merged.job, merged.choices[0], merged.choices[1:]
    group, item = _smallest(job, choice, merged.number, *merged.arcs())
    source, target = (group, item) if choice.by == "source" else (item, group)
    group, item = target, source
    if more:
        _, group, item = _offered(job, more[0], [(source, target)])
    write_split(_file(job, merged.step + 1, merged.number), group, item, job.width, job.ranges)


RULES = {None: 0, "inductive": 1, "dropped": 2}


def _offered(
    job: Job,
    choice: Choice,
    arcs: Iterable[tuple[np.ndarray, np.ndarray]],
    setting: str | None = None,
) -> tuple[int, np.ndarray, np.ndarray]:
    """Number of arcs in the setting, and groups and items of the offered ones."""
    codes = np.zeros(0, np.int8) if setting is None else job.mask("setting")
    masks = job.bits(choice.group_ok), job.bits(choice.item_ok)
    allowed, kept, out = 0, [np.zeros((2, 0), np.int32)], np.zeros((2, 0), np.int32)
    for ends in arcs:
        group, item = ends if choice.by == "source" else ends[::-1]
        if len(group) > out.shape[1]:
            out = np.empty((2, len(group)), np.int32)
        found = _kernels.offered(group, item, *masks, codes, RULES[setting], out[0], out[1])
        allowed += int(found[0])
        kept.append(out[:, : found[1]].copy())
    groups, items = np.concatenate(kept, axis=1)
    return allowed, groups, items


def _smallest(
    job: Job, choice: Choice, number: int, group: np.ndarray, item: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    first, size = job.bounds(number)
    pointer, items = _kernels.group_arcs(group, item, first, size)
    kept: tuple[np.ndarray, np.ndarray] = _kernels.smallest(
        pointer, items, first, choice.bound, job.keys, choice.by_item
    )
    return kept


@once("pull-{0.number:05}")
def _pull(merged: _Merged) -> None:
    """One range's readers with their sources, ascending."""
    job, number = merged.job, merged.number
    first, size = job.bounds(number)
    reader, source = merged.arcs()
    order = np.lexsort((source, reader))
    reader, source = reader[order], source[order]
    if merged.limit is not None:
        pointer, items = _kernels.group_arcs(reader, source, first, size)
        reader, source = _kernels.smallest(pointer, items, first, merged.limit, job.keys, True)
    lengths = np.bincount(reader - first, minlength=size).astype(np.int32)
    save(job.work / f"lengths-{number:05}.npy", lengths)
    save(job.work / f"sources-{number:05}.npy", source)


@once("trees-{0.number:05}")
def _grow(grown: _Grown) -> dict[str, Any]:
    job = grown.job
    first, size = job.bounds(grown.number)
    inside = slice(first // 8, -(-(first + size) // 8))
    reads = np.unpackbits(job.bits("readers")[inside], bitorder="little")
    roots = first + np.flatnonzero(reads[first % 8 : first % 8 + size])
    table = trees(
        lists_of(job), roots, num_hops=grown.num_hops, max_occurrences=grown.max_occurrences
    ).to_table()
    return asdict(write_part(job.out / f"part-{grown.number:05}.parquet", table))
