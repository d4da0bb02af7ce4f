"""Figures drawn by several processes at once: each is the same bytes whoever draws it."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence

Job = Callable[[], None]


def run_all(jobs: Sequence[Job], processes: int | None = None) -> None:
    """Run jobs that write files, in copies of this process; they see what it holds, and leave it as it is.

    Args:
        jobs: in any order.
        processes: how many; None is one for each core that this one may use. Where the system does not copy
            processes safely (it is no Linux), jobs run one after another.

    Raises:
        RuntimeError: a process failed; its own words are on standard error.
    """
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
    count = min(processes or cores, len(jobs))
    if count < 2 or sys.platform != "linux":
        _run(jobs)
        return
    context = multiprocessing.get_context("fork")
    made = [context.Process(target=_run, args=(jobs[first::count],)) for first in range(count)]
    for process in made:
        process.start()
    for process in made:
        process.join()
    failed = [process.exitcode for process in made if process.exitcode]
    if failed:
        raise RuntimeError(f"a process that draws figures ended with status {failed[0]}")


def _run(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job()
