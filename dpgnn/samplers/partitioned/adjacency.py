"""Neighbour lists of an induced graph from partitions, for walks and PageRank rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpgnn.samplers.adjacency import Adjacency
from dpgnn.samplers.partitioned import _kernels
from dpgnn.samplers.partitioned.arcs import Part, Partitions
from dpgnn.samplers.partitioned.exchange import (
    load,
    num_ranges,
    read_range,
    remove,
    save,
    write_split,
)
from dpgnn.samplers.partitioned.job import Job, arcs_in_setting, once
from dpgnn.samplers.partitioned.scheduler import Scheduler


def induce(
    job: Job, partitions: Partitions, num_members: int, *, mirrored: bool, scheduler: Scheduler
) -> None:
    """Write the neighbour lists of an induced graph, for `adjacency_of`.

    A list has the order of the graph's arcs, or ascends if arcs are mirrored, as in `induced_adjacency`.

    Args:
        job: its mask `place` has the id of each node in the lists, -1 for nodes left out.
        partitions: of the graph.
        num_members: ids in the lists are 0..num_members-1.
        mirrored: add the other direction of each arc, each arc once; for directed graphs.
        scheduler: runs the tasks.
    """
    ranges = num_ranges(num_members, job.width)
    sent = [
        _Sent(
            job=job, folder=partitions.folder.resolve(), part=part, number=number, ranges=ranges,
            mirrored=mirrored,
        )
        for number, part in enumerate(partitions.parts)
    ]  # fmt: skip
    scheduler.run("arcs to their neighbours", _send, sent)
    gathered = [
        _Gathered(
            job=job, before=len(sent), number=n, size=min(job.width, num_members - n * job.width),
            mirrored=mirrored,
        )
        for n in range(ranges)
    ]  # fmt: skip
    scheduler.run("neighbour lists", _gather, gathered)
    remove([_file(job, number) for number in range(len(sent))])
    job.join_lists(ranges)


def adjacency_of(job: Job, members: np.ndarray) -> Adjacency:
    """The lists of `induce`, mapped into memory.

    Args:
        members: int64, ascending: the graph's nodes, by their ids in the lists.
    """
    return Adjacency(
        pointer=load(job.work / "pointer.npy"),
        neighbours=load(job.work / "sources.npy"),
        members=members,
    )


@dataclass(frozen=True, kw_only=True)
class _Sent:
    job: Job
    folder: Path
    part: Part
    number: int
    ranges: int
    mirrored: bool


@dataclass(frozen=True, kw_only=True)
class _Gathered:
    job: Job
    before: int
    number: int
    size: int
    mirrored: bool


def _file(job: Job, number: int) -> Path:
    return job.work / f"ends-{number:05}.npy"


@once("send-{0.number:05}")
def _send(sent: _Sent) -> None:
    job = sent.job
    source, target = arcs_in_setting(job, sent.folder, sent.part)
    place = job.mask("place")
    source, target = place[source], place[target]
    keep = (source >= 0) & (target >= 0)
    source, target = source[keep], target[keep]
    if sent.mirrored:
        source, target = np.concatenate([[source, target], [target, source]], axis=1)
    write_split(_file(job, sent.number), target, source, job.width, sent.ranges)


@once("gather-{0.number:05}")
def _gather(gathered: _Gathered) -> None:
    job, number = gathered.job, gathered.number
    paths = [_file(job, before) for before in range(gathered.before)]
    target, source = read_range(paths, number)
    if gathered.mirrored:
        both = np.unique((target.astype(np.int64) << 32) | source)
        target, source = (both >> 32).astype(np.int32), both.astype(np.int32)
    pointer, sources = _kernels.group_arcs(target, source, number * job.width, gathered.size)
    save(job.work / f"lengths-{number:05}.npy", np.diff(pointer))
    save(job.work / f"sources-{number:05}.npy", sources)
