"""Figures drawn by several processes at once; the bytes do not depend on the number of processes.

On systems other than Linux, where forking is not safe, jobs run one after another.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from typing import Any, TypeVar

Job = Callable[[], None]
Given = TypeVar("Given")
Made = TypeVar("Made")


@contextmanager
def background(processes: int | None = None) -> Iterator[Callable[[Sequence[Job]], None]]:
    """A function that starts jobs in forked processes while the body goes on; all are done at its end.

    An error of the body ends them.

    Args:
        processes: how many jobs run at once; None is one for each core that this process may use.

    Raises:
        RuntimeError: a process failed; its message is on standard error.
    """
    count = _processes(processes)
    if count < 2:
        yield _run
        return
    context = multiprocessing.get_context("fork")
    turns, made = context.Semaphore(count), list[ForkProcess]()

    def start(jobs: Sequence[Job]) -> None:
        for first in range(min(count, len(jobs))):
            made.append(context.Process(target=_run, args=(jobs[first::count], turns)))
            made[-1].start()

    try:
        yield start
    except BaseException:
        for process in made:
            process.terminate()
        raise
    finally:
        _join(made)
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
        processes: as of `background`.
    """
    count = min(_processes(processes), len(values))
    if count < 2:
        return [function(value) for value in values]
    with ProcessPoolExecutor(count, multiprocessing.get_context("fork")) as pool:
        return list(pool.map(function, values))


def _join(made: Sequence[ForkProcess]) -> None:
    """Wait for all; one that is killed ends the others, which may wait for its turn."""
    left = list(made)
    while left:
        wait([process.sentinel for process in left])
        if any((process.exitcode or 0) < 0 for process in left):
            for process in left:
                process.terminate()
                process.join()
        left = [process for process in left if process.exitcode is None]


def _processes(stated: int | None) -> int:
    if sys.platform != "linux":
        return 1
    return stated or len(os.sched_getaffinity(0))


def _run(jobs: Sequence[Job], turns: AbstractContextManager[Any] | None = None) -> None:
    for job in jobs:
        with turns or nullcontext():
            job()
