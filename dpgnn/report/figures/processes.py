"""Figures drawn by several processes at once; the bytes do not depend on the number of processes."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence

Job = Callable[[], None]


def run_all(jobs: Sequence[Job], processes: int | None = None) -> None:
    """Run jobs that write files in forked processes; these see this process's state and do not change it.

    Args:
        jobs: in any order.
        processes: how many; None is one for each core that this process may use. On systems other than Linux
            jobs run one after another.

    Raises:
        RuntimeError: a process failed; its message is on standard error.
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
