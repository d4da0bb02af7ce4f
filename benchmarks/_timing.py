"""Interleaved timing: variants take turns in one process, so that a change of load meets all of them."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds of each round of one variant, scaled to a whole step."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median seconds."""
        return statistics.median(self.seconds)


def interleaved(
    variants: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    scale: Mapping[str, float] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Run all variants once as a warm-up, then `rounds` times in turn.

    Args:
        variants: name -> one step.
        rounds: measured runs of each.
        scale: factor for variants that run on a part of the batch (a tenth of it: 10).
        clock: seconds; `time.process_time` leaves out what other processes take, for one thread only.
    """
    for step in variants.values():
        step()
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        # a collection takes longer than a short step, so none may fall into one
        gc.collect()
        gc.disable()
        for name, step in variants.items():
            start = clock()
            step()
            seconds[name].append(clock() - start)
        gc.enable()
    factors = scale or {}
    return {
        name: Timing(seconds=tuple(value * factors.get(name, 1.0) for value in values))
        for name, values in seconds.items()
    }


def ratios(timings: Mapping[str, Timing], name: str, over: str) -> float:
    """Median over rounds of the ratio within a round: steadier than the ratio of medians."""
    pairs = zip(timings[name].seconds, timings[over].seconds)
    return statistics.median(first / second for first, second in pairs)


def peak_extra_bytes(prepare: Callable[[], Callable[[], object]], repeats: int = 2) -> int:
    """Peak resident memory of a step above the level before it, in a fresh process.

    `prepare` builds the inputs and returns the step; it runs in the child.
    """
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_measure, args=(prepare, repeats, there))
    child.start()
    result: int = here.recv()
    child.join()
    return result


def _measure(prepare: Callable[[], Callable[[], object]], repeats: int, pipe) -> None:  # type: ignore[no-untyped-def]
    step = prepare()
    gc.collect()
    # pages the preparation freed would be used again by the step and hide its needs
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    for _ in range(repeats):
        step()
    pipe.send(_status("VmHWM") - before)
    pipe.close()
    os._exit(0)


def _status(field: str) -> int:
    """Bytes of a field of this process's status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")
