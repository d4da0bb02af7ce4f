"""The loop of every minibatch run: exactly T steps, checkpoints, history, progress, clean stops.

A step depends only on the parameters, the optimiser's state and the random streams of the step, so a run that
is killed at any moment and restarted gives the same bytes (in studies).
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from dpgnn.core.checks import at_least
from dpgnn.training.optimizers import Optimizer

if TYPE_CHECKING:
    from dpgnn.core.storage import Store

Row = dict[str, Any]
# seconds between two reads of a loss on a GPU
GPU_SECONDS = 0.5


class ProgressLine(Protocol):
    """Shows progress, such as `methods.base.Progress`."""

    def update(self, step: int, **shown: Any) -> None:
        """Show a step and public values."""


def seldom(read: Callable[[], str], seconds: float) -> Callable[[], str]:
    """The result of `read`, called at most once in this many seconds: reading a loss waits for a GPU."""
    held: tuple[float, str] | None = None

    def reader() -> str:
        nonlocal held
        if held is None or time.monotonic() - held[0] >= seconds:
            held = (time.monotonic(), read())
        return held[1]

    return reader


def shown_loss(gradients: Any, *, study: bool) -> Callable[[], dict[str, str]]:
    """The loss of the batch for the progress line; nothing in a release, since it is sensitive.

    Args:
        gradients: sums that keep their loss; another object may have none.
        study: False shows nothing.
    """
    if not study or not hasattr(type(gradients), "mean_loss"):
        return dict
    gradients.track_loss = True
    seconds = GPU_SECONDS if gradients.device.type == "cuda" else 0.0
    read = seldom(lambda: f"{gradients.mean_loss:.3f}", seconds)
    return lambda: {"loss": read()}


class Stopped(SystemExit):
    """SIGTERM was received; the state is saved and the run can be resumed. Exit code 143."""

    def __init__(self) -> None:
        super().__init__(143)


def run_steps(
    take_step: Callable[[int], None],
    optimizer: Optimizer,
    num_steps: int,
    *,
    name: str,
    store: Store,
    progress: ProgressLine,
    row: Callable[[int], Row],
    shown: Callable[[int], Mapping[str, Any]] = lambda step: {},
    num_rows: int = 10,
    checkpoint_seconds: float = 5.0,
) -> list[Row]:
    """Take steps 1..num_steps, starting after the last checkpoint if there is one.

    Guarantee: exactly num_steps steps are taken, each once. A crash leaves only the last checkpoint, which
    holds no generator state and no sum before noise.

    Args:
        take_step: takes a step's number and updates `optimizer`; draws only from streams of that step.
        optimizer: its parameters and state are saved in checkpoints.
        num_steps: T, fixed before the first step; never fewer, never more.
        name: of the checkpoint in the store.
        store: where checkpoints are saved.
        progress: updated at every step.
        row: step -> a row of the history; called at `num_rows` evenly spaced steps and the last.
        shown: step -> values for the progress line.
        checkpoint_seconds: at least this long between two checkpoints.

    Returns:
        the history, rows of all steps including those before a restart.

    Raises:
        Stopped: SIGTERM was received; a checkpoint was saved first.
        KeyboardInterrupt: Ctrl-C, after a checkpoint was saved; the second Ctrl-C stops at once.
    """
    at_least("num_steps", num_steps, 1)
    history: list[Row] = []
    held = store.load(name)
    if held is not None:
        arrays, values = held
        optimizer.restore(arrays, int(values["step"]))
        history = list(values["history"])
    every = max(1, num_steps // num_rows)
    saved = time.monotonic()
    with _signals_as_flag() as came:
        for step in range(optimizer.count + 1, num_steps + 1):
            take_step(step)
            if step % every == 0 or step == num_steps:
                history.append(_plain({"step": step, **row(step)}))
            progress.update(step, **shown(step))
            stopping, last = bool(came), step == num_steps
            if stopping or last or time.monotonic() - saved >= checkpoint_seconds:
                store.save(name, optimizer.arrays(), {"step": step, "history": history})
                saved = time.monotonic()
            if stopping:
                raise Stopped if signal.SIGTERM in came else KeyboardInterrupt
    return history


def _plain(row: Row) -> Row:
    """The row as a checkpoint would return it, so that a restart changes no byte of the history."""
    return {
        key: None if isinstance(value, float) and math.isnan(value) else value
        for key, value in sorted(row.items())
    }


@contextmanager
def _signals_as_flag() -> Iterator[list[int]]:
    """A list of SIGTERM and SIGINT received in the block; always empty outside the main thread.

    A second SIGINT interrupts at once. SIGINT stays ignored if it was ignored before.
    """
    came: list[int] = []

    def note(number: int, frame: object) -> None:
        if number == signal.SIGINT and number in came:
            raise KeyboardInterrupt
        came.append(number)
        # a handler may run during a buffered write, so this write is not buffered
        with suppress(OSError):
            os.write(2, b"\nstopping after this step\n")

    in_main = threading.current_thread() is threading.main_thread()
    caught = (signal.SIGTERM, signal.SIGINT) if in_main else ()
    handlers = {number: signal.getsignal(number) for number in caught}
    before = {n: h for n, h in handlers.items() if h not in (signal.SIG_IGN, None)}
    try:
        for number in before:
            signal.signal(number, note)
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
