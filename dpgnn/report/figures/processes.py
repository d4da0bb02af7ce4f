"""Figures drawn by several processes at once; the bytes do not depend on the number of processes.

On systems other than Linux, where forking is not safe, jobs run one after another.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Job = Callable[[], None]
Given = TypeVar("Given")
Made = TypeVar("Made")


@contextmanager
def running(jobs: Sequence[Job], processes: int | None = None) -> Iterator[None]:
    """Run jobs that write files in forked processes while the body runs.

    Args:
        jobs: in any order.
        processes: how many; None is one for each core that this process may use.

    Raises:
        RuntimeError: a process failed; its message is on standard error.
    """
    count = _processes(len(jobs), processes)
    if count < 2:
        _run(jobs)
        yield
        return
    context = multiprocessing.get_context("fork")
    made = [context.Process(target=_run, args=(jobs[first::count],)) for first in range(count)]
    for process in made:
        process.start()
    try:
        yield
    finally:
        for process in made:
            process.join()
    failed = [process.exitcode for process in made if process.exitcode]
    if failed:
        raise RuntimeError(f"a process that draws figures ended with status {failed[0]}")


def map_in_processes(
    function: Callable[[Given], Made], values: Sequence[Given], processes: int | None = None
) -> list[Made]:
    """`function` of each value, in order, computed in forked processes.

    Args:
        function: a function of a module, so that it can be pickled.
        values: its arguments.
        processes: as of `running`.
    """
    count = _processes(len(values), processes)
    if count < 2:
        return [function(value) for value in values]
    with ProcessPoolExecutor(count, multiprocessing.get_context("fork")) as pool:
        return list(pool.map(function, values))


def _processes(num_jobs: int, stated: int | None) -> int:
    if sys.platform != "linux":
        return 1
    return min(stated or len(os.sched_getaffinity(0)), num_jobs)


def _run(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job()
