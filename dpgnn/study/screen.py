"""The display of a running workflow: a line for each stage, in place of Snakemake's output.

Snakemake's output is in `.snakemake/log`; if it fails without a failed job, its last lines are shown.
"""

from __future__ import annotations

import io
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TextIO

# stages in the order of the workflow, with what each counts
STAGES = {
    "graph": "graphs", "split": "splits", "prepare": "samples", "train": "runs",
    "audit": "audits", "attack": "attacks", "report": "report", "joined_report": "joined report",
}  # fmt: skip
EVERY = 30.0  # seconds between lines of one stage if the output is no terminal
KEPT = 40  # of Snakemake's last lines
WIDEST = 300  # characters of a kept line; a process of many runs has a command of thousands
LOOK = 2.0  # seconds between counts of the runs that processes of many runs have made


class Stages:
    """Jobs done and planned of each stage, read from what Snakemake prints.

    Args:
        runs: rule -> runs that one job of it makes, of rules that make several.
    """

    def __init__(self, runs: Mapping[str, int]) -> None:
        self.runs = runs
        self.planned: dict[str, int] = {}
        self.done: dict[str, int] = {}
        self.kept = 0  # runs made so far by processes that have not ended, which Snakemake does not count yet
        self.failed = 0
        self._in_table = False

    def read(self, line: str) -> bool:
        """Read one line; returns whether it changed a count."""
        if self._in_table:
            found = re.fullmatch(r"(\w+)\s+(\d+)", line)
            if found is None:
                # the table's header and rule; an empty line ends it
                self._in_table = bool(line) and self._in_table
                return False
            rule, jobs = found[1], int(found[2])
            stage = self._stage(rule)
            if stage in STAGES:
                self.planned[stage] = self.planned.get(stage, 0) + jobs * self.runs.get(rule, 1)
                self.done.setdefault(stage, 0)
                return True
            return False
        if line.startswith("Job stats:") and not self.planned:
            self._in_table = True
        elif found := re.match(r"Finished jobid: \d+ \(Rule: (\w+)\)", line):
            stage = self._stage(found[1])
            if stage in self.done:
                self.done[stage] += self.runs.get(found[1], 1)
                return True
        elif line.startswith("Error in rule "):
            self.failed += 1
            return True
        return False

    def shown(self, stage: str) -> int:
        """Jobs done of a stage, or runs made."""
        if stage != "train":
            return self.done[stage]
        return min(max(self.done[stage], self.kept), self.planned[stage])

    def _stage(self, rule: str) -> str:
        return "train" if rule.startswith("train") else rule

    def of_runs(self) -> tuple[int, int]:
        """Runs done, and runs that this workflow makes in all."""
        return self.done.get("train", 0), self.planned.get("train", 0)


def follow(
    lines: Iterable[str],
    runs: Mapping[str, int],
    out: TextIO | None = None,
    kept: Callable[[], int] | None = None,
) -> tuple[Stages, list[str]]:
    """Show the stages while Snakemake runs; in a terminal with a bar for each.

    Args:
        lines: what Snakemake prints, until it ends.
        runs: see `Stages`.
        out: the screen; stderr when None.
        kept: counts the runs that processes have made so far; called every `LOOK` seconds.

    Returns:
        the counts at the end, and Snakemake's last lines.
    """
    out = out or sys.stderr
    stages, last = Stages(runs), deque[str](maxlen=KEPT)
    with ExitStack() as stack:
        show = _Bars(stack, out) if out.isatty() else _Lines(out)
        lock = stack.enter_context(_looking(stages, show, kept))
        for line in lines:
            text = line.rstrip("\n")
            last.append(text if len(text) <= WIDEST else text[: WIDEST - 3] + "...")
            with lock:
                if stages.read(text):
                    show.update(stages)
    return stages, list(last)


@contextmanager
def _looking(
    stages: Stages, show: _Bars | _Lines, kept: Callable[[], int] | None
) -> Iterator[threading.Lock]:
    """Count finished runs from time to time; yields the lock of the stages and the display."""
    lock, over = threading.Lock(), threading.Event()

    def look() -> None:
        while kept is not None and not over.wait(LOOK):
            if stages.done.get("train") == stages.planned.get("train"):
                continue
            found = kept()
            with lock:
                stages.kept = found
                show.update(stages)

    looks = threading.Thread(target=look, daemon=True)
    looks.start()
    try:
        yield lock
    finally:
        over.set()
        looks.join()


class _Bars:
    """A bar for each stage."""

    def __init__(self, stack: ExitStack, out: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

        console = Console(file=out)
        columns: Any = (
            "{task.description:14}",
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._bars = stack.enter_context(Progress(*columns, console=console))
        self._tasks: dict[str, Any] = {}

    def update(self, stages: Stages) -> None:
        for stage, name in STAGES.items():
            if stage not in stages.planned:
                continue
            done, total = stages.shown(stage), stages.planned[stage]
            if stage not in self._tasks:
                self._tasks[stage] = self._bars.add_task(name, total=total, start=False)
            if done:
                self._bars.start_task(self._tasks[stage])
            self._bars.update(self._tasks[stage], completed=done, total=total)


class _Lines:
    """A plain line when a stage is complete, and from time to time before."""

    def __init__(self, out: TextIO) -> None:
        self._out: TextIO = out
        self._start = time.monotonic()
        self._told: dict[str, tuple[int, float]] = {}

    def update(self, stages: Stages) -> None:
        now = time.monotonic()
        for stage in stages.done:
            done = stages.shown(stage)
            before, when = self._told.get(stage, (0, self._start))
            total = stages.planned[stage]
            if done > before and (done == total or now - when > EVERY):
                self._told[stage] = (done, now)
                text = f"{STAGES[stage]}: {done} of {total}, {now - self._start:.0f} s"
                try:
                    print(text, file=self._out, flush=True)
                except BrokenPipeError:  # the reader is gone, like `| head`; the study goes on
                    self._out = io.StringIO()
