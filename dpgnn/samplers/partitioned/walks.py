"""Walks and PageRank rows over partitions, with the same bytes as on one machine.

Rows of different roots are independent, so each task computes some. A walk avoids the nodes of all earlier
walks, so the walks are one task, and only the neighbour lists are made in parallel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpgnn.samplers.appr import approximate_pagerank
from dpgnn.samplers.partitioned.adjacency import adjacency_of
from dpgnn.samplers.partitioned.exchange import load, save
from dpgnn.samplers.partitioned.job import Job, once
from dpgnn.samplers.partitioned.parts import PartFacts, write_part
from dpgnn.samplers.partitioned.scheduler import Scheduler
from dpgnn.samplers.walks import Walks


def sample_walks(
    job: Job, sampler: Walks, rng: np.random.Generator, *, scheduler: Scheduler
) -> list[PartFacts]:
    """One partition of the members into walks as parts of the data set; after `induce`.

    Guarantee: that of `Walks`, whose draw it is.

    Args:
        job: its file members.npy holds the graph's nodes, int64, ascending.
        sampler: length and number of walks.
        rng: of the order of roots and of the key, in its state when the task starts.
        scheduler: runs the task.
    """
    asked = _Drawn(job=job, sampler=sampler, rng=rng)
    (facts,) = scheduler.run("walks", _draw, [asked])
    return [PartFacts(**one) for one in facts]


def sample_rows(
    job: Job, num_roots: int, options: Mapping[str, Any], *, scheduler: Scheduler
) -> list[PartFacts]:
    """The PageRank row of each of the first roots as parts of the data set; after `induce`.

    Guarantee: none; rows are as sensitive as the edges.

    Args:
        job: its file members.npy holds ids in the lists, int64, ascending; the first are the roots.
        num_roots: rows.
        options: of `approximate_pagerank`.
        scheduler: runs the tasks; each makes `job.width` rows.
    """
    asked = [
        _Solved(
            job=job, number=number, first=first, stop=min(first + job.width, num_roots),
            options=dict(options),
        )
        for number, first in enumerate(range(0, num_roots, job.width))
    ]  # fmt: skip
    return [PartFacts(**one) for one in scheduler.run("rows", _solve, asked)]


def write_members(job: Job, members: np.ndarray) -> None:
    """Write the graph's nodes, int64, ascending, for tasks."""
    save(job.work / "members.npy", members)


@dataclass(frozen=True, kw_only=True)
class _Drawn:
    job: Job
    sampler: Walks
    rng: np.random.Generator


@dataclass(frozen=True, kw_only=True)
class _Solved:
    job: Job
    number: int
    first: int
    stop: int
    options: dict[str, Any]


@once("walks")
def _draw(drawn: _Drawn) -> list[dict[str, Any]]:
    job = drawn.job
    graph = adjacency_of(job, load(job.work / "members.npy"))
    partition = drawn.sampler.draw(graph, rng=drawn.rng)
    table, starts = partition.to_table(), partition.node_ptr
    facts = []
    for number, first in enumerate(range(0, max(partition.num_subgraphs, 1), job.width)):
        stop = min(first + job.width, partition.num_subgraphs)
        rows = table.slice(int(starts[first]), int(starts[stop] - starts[first]))
        facts.append(asdict(write_part(job.out / f"part-{number:05}.parquet", rows)))
    return facts


@once("rows-{0.number:05}")
def _solve(solved: _Solved) -> dict[str, Any]:
    job, members = solved.job, load(solved.job.work / "members.npy")
    roots = members[solved.first : solved.stop]
    rows = approximate_pagerank(adjacency_of(job, members), roots, **solved.options)
    return asdict(write_part(job.out / f"part-{solved.number:05}.parquet", rows.to_table()))
