"""Schedulers of tasks: Dask in this process, or a Dask scheduler with workers on any number of machines."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from dpgnn.core.checks import at_least, fail, one_line, require
from dpgnn.core.version import VERSION

T = TypeVar("T")
R = TypeVar("R")
LOCAL = {"sync": "synchronous", "threads": "threads"}
REMEDY = "run `make setup EXTRAS=cluster`"
CONNECT = 10.0  # seconds for a first answer
# seconds without any worker after which a run ends; SLURM may start them late
PATIENCE = float(os.environ.get("DPGNN_DASK_PATIENCE", "300"))


class Scheduler:
    """Runs one function on many items and returns the results in their order."""

    def __init__(self, where: str, num_workers: int) -> None:
        self.where, self.num_workers = where, num_workers

    def run(self, what: str, task: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Results of `task` on every item.

        Args:
            what: for messages, such as "lists".
            task: a function of a module; writes its output atomically, so it may be run again.
            items: small values that can be pickled.

        Raises:
            Exception: the exception of a task.
        """
        import dask
        from dask.callbacks import Callback

        line = _Line(what, len(items))
        named = [dask.delayed(partial(task, item), pure=False)() for item in items]
        with Callback(posttask=lambda *_: line.one_more()):
            done = dask.compute(
                *named, scheduler=LOCAL[self.where], num_workers=self.num_workers,
                optimize_graph=False,
            )  # fmt: skip
        return list(done)


class InTurn(Scheduler):
    """One task after another in this process; needs no Dask."""

    def __init__(self) -> None:
        super().__init__("in turn", 1)

    def run(self, what: str, task: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """As `Scheduler.run`."""
        line, found = _Line(what, len(items)), []
        for item in items:
            found.append(task(item))
            line.one_more()
        return found


class RemoteScheduler(Scheduler):
    """Tasks run on a `dask scheduler`; a task whose worker died is given to others, at most three times.

    Args:
        client: connected.
    """

    def __init__(self, where: str, client: Any) -> None:
        super().__init__(where, 0)
        self.client = client
        self._seen: set[str] = set()
        self._last_worker = time.monotonic()

    def run(self, what: str, task: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """As `Scheduler.run`.

        Raises:
            RuntimeError: a task's workers died repeatedly, no worker is left, or the scheduler ended.
        """
        from distributed import wait

        line = _Line(what, len(items))
        work = [partial(task, item) for item in items]
        futures = [
            self.client.submit(one, key=f"{what} {number} {time.time_ns()}", pure=False)
            for number, one in enumerate(work, 1)
        ]
        waiting = list(futures)
        try:
            while waiting:
                try:
                    with self.client.as_current():
                        wait(waiting, timeout=2, return_when="FIRST_COMPLETED")
                except TimeoutError:
                    self._look_after_workers(what)
                waiting = [future for future in waiting if not future.done()]
                self._stop_at_first_error(futures)
                line.now(len(futures) - len(waiting))
            return [future.result() for future in futures]
        except (asyncio.CancelledError, concurrent.futures.CancelledError):
            raise RuntimeError(f"scheduler {self.where} ended during {what}; {AGAIN}") from None

    def _stop_at_first_error(self, futures: list[Any]) -> None:
        bad = next((future for future in futures if future.status in ("error", "cancelled")), None)
        if bad is None:
            return
        for future in futures:
            if not future.done():
                future.cancel()
        if bad.status == "cancelled":
            raise asyncio.CancelledError
        error = bad.exception()
        if type(error).__name__ != "KilledWorker":
            raise error
        name, worker = " ".join(str(error.task).split()[:-1]), error.last_worker
        raise RuntimeError(
            f"{name}: its worker died {error.allowed_failures + 1} times, the last at "
            f"{getattr(worker, 'address', worker)}; look at that worker's log (memory?); {AGAIN}"
        )

    def _look_after_workers(self, what: str) -> None:
        try:
            there = set(self.client.nthreads())
        except (OSError, RuntimeError, TimeoutError) as error:
            raise RuntimeError(
                f"scheduler {self.where} ended during {what} ({one_line(error)}); {AGAIN}"
            ) from None
        for gone in sorted(self._seen - there):
            print(f"worker {gone} is gone; its tasks are given to others", file=sys.stderr)
        self._seen = there
        if there:
            self._last_worker = time.monotonic()
        elif time.monotonic() - self._last_worker > PATIENCE:
            raise RuntimeError(
                f"scheduler {self.where} must have workers, had none for {PATIENCE:.0f} s during {what}; "
                f"{AGAIN}"
            )


AGAIN = "start again: what is finished is kept"


@contextmanager
def connected(where: str, folder: Path, *, num_workers: int = 1) -> Iterator[Scheduler]:
    """A scheduler to run tasks with.

    Args:
        where: "sync", "threads", or the address of a Dask scheduler (tcp://HOST:PORT, tls://HOST:PORT).
        folder: existing folder that all workers share.
        num_workers: threads, for "threads".

    Raises:
        ValueError: Dask is not installed, `where` is none of these, no scheduler answers there, or a worker
            does not see the folder or has another version of this project.
    """
    at_least("num_workers", num_workers, 1)
    remote = where.startswith(("tcp://", "tls://"))
    rule = "be sync, threads or the address of a Dask scheduler (tcp://HOST:PORT)"
    require(remote or where in LOCAL, "--dask", rule, where)
    try:
        import dask  # noqa: F401

        if remote:
            import distributed  # noqa: F401
    except ModuleNotFoundError as error:
        fail("--dask", f"find the package {error.name}", "none", REMEDY)
    if not remote:
        yield Scheduler(where, num_workers)
        return
    client = _client(where)
    try:
        _check_workers(client, folder)
        yield RemoteScheduler(where, client)
    finally:
        client.close(timeout=CONNECT)


def _client(where: str) -> Any:
    """A client of the scheduler at an address.

    Raises:
        ValueError: no scheduler answers there.
    """
    import distributed

    try:
        return distributed.Client(where, timeout=CONNECT, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        fail("--dask", "be the address of a scheduler that answers", f"{where} ({one_line(error)})",
             "start one with `dask scheduler` and give its address")  # fmt: skip


def _check_workers(client: Any, folder: Path) -> None:
    """Check that every worker sees the folder and has this version; later workers are not checked."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        fail("--dask", "be a scheduler with workers", "none", "start some: `dask worker ADDRESS`")
    for worker, (sees, version) in client.run(_looked, str(folder.resolve())).items():
        remedy = "choose a folder on a file system that all machines share"
        require(sees, f"worker {worker}", f"see the folder {folder.resolve()}", "no folder", remedy)
        require(version == VERSION, f"worker {worker}", f"have dpgnn {VERSION}", version)


def _looked(folder: str) -> tuple[bool, str]:
    return Path(folder).is_dir(), VERSION


class _Line:
    """A line on standard error every two seconds."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done, self.last = what, total, 0, time.monotonic()

    def one_more(self) -> None:
        self.now(self.done + 1)

    def now(self, done: int) -> None:
        self.done = done
        if time.monotonic() - self.last > 2:
            self.last = time.monotonic()
            print(f"{self.what}: {done} of {self.total}", file=sys.stderr, flush=True)
