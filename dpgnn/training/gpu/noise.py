"""Noise for sums on a GPU: drawn on the host ahead of time, copied by a separate stream, added on the GPU.

No generator of the device is used: noise comes from the named stream of the step, which in a release is a
cryptographic generator keyed by the operating system.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

import numpy as np
import torch
from torch import Tensor

from dpgnn.core.checks import require
from dpgnn.core.rounded_noise import LARGEST_SUM, Ahead, draw_ahead

# steps drawn ahead: as many as a GiB of pinned memory holds, within these bounds. Each has its own thread
# where there are cores: numpy releases the interpreter's lock while it draws
FEWEST, MOST, PINNED = 3, 8, 2**30


class _Place:
    """Pinned memory for the noise of one step, and its place on the device."""

    def __init__(self, num_rows: int, size: int, dtype: torch.dtype, device: torch.device) -> None:
        self.pinned = torch.empty(num_rows, size, dtype=dtype, pin_memory=True)
        self.there = torch.empty(num_rows, size, dtype=dtype, device=device)
        self.copied, self.used = torch.cuda.Event(), torch.cuda.Event()
        self.used.record(torch.cuda.current_stream())


class NoiseAhead:
    """The noise of the steps of one run; a context manager that ends its threads.

    Guarantee: the noise of a step is that of `noise.add_noise` or `noise.add_rounded_noise` with the same
    generator: independent of the sum and of other steps, used at most once and not kept. Noise that is drawn
    ahead but not used when a run stops is dropped; a resumed run draws again.

    Args:
        stddev: one deviation, or float64 (size,).
        size: number of coordinates.
        draw: step=number -> the step's generator.
        num_steps: of the run; nothing is drawn beyond them.
        rounded: as in a release, with noise in real numbers and the sum rounded to a public grid.
        dtype: of the sums outside a release.
        device: of the sums.
    """

    def __init__(
        self,
        stddev: Tensor | float,
        size: int,
        draw: Callable[..., np.random.Generator],
        *,
        num_steps: int,
        rounded: bool,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._stddev = torch.as_tensor(stddev, dtype=torch.float64).cpu().numpy()
        self._size, self._draw, self._num_steps = size, draw, num_steps
        self._rounded = rounded
        rows, kind = (2, torch.float64) if rounded else (1, dtype)
        fit = PINNED // max(1, rows * size * kind.itemsize)
        self._depth = max(FEWEST, min(MOST, fit))
        self._places = [_Place(rows, size, kind, device) for _ in range(self._depth)]
        self._stream = torch.cuda.Stream(device)
        num_threads = max(2, min(self._depth, torch.get_num_threads()))
        self._threads = ThreadPoolExecutor(num_threads, thread_name_prefix="noise")
        self._coming: dict[int, Future[Ahead | None]] = {}
        self._grid: Tensor | None = None

    def __enter__(self) -> NoiseAhead:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._coming.clear()

    def add(self, total: Tensor, step: int) -> Tensor:
        """total + noise of this step, a new tensor; this is released.

        Args:
            total: flat clipped sum on the device; float64 where noise is rounded.
            step: its number; each is requested once, in order.

        Raises:
            ValueError: noise is rounded, and the sum is not finite.
        """
        self._ask(step)
        drawn = self._coming.pop(step).result()
        place, here = self._places[step % self._depth], torch.cuda.current_stream()
        with torch.cuda.stream(self._stream):
            self._stream.wait_event(place.used)
            place.there.copy_(place.pinned, non_blocking=True)
            place.copied.record(self._stream)
        here.wait_event(place.copied)
        noisy = total + place.there[0] if drawn is None else self._rounded_sum(total, place, drawn)
        place.used.record(here)
        # the host is ahead of the device by at most the number of places, then waits here
        place.copied.synchronize()
        self._ask(step + 1)
        return noisy

    def _ask(self, first: int) -> None:
        """Start drawing the noise of the next steps."""
        for step in range(first, min(first + self._depth, self._num_steps + 1)):
            if step not in self._coming:
                self._coming[step] = self._threads.submit(self._fill, step)

    def _fill(self, step: int) -> Ahead | None:
        """Draw the noise of a step into its place; runs in a thread that does not use the device."""
        rng, pinned = self._draw(step=step), self._places[step % self._depth].pinned.numpy()
        if not self._rounded:
            noise = rng.standard_normal(self._size)
            noise *= self._stddev
            pinned[0] = noise
            return None
        drawn = draw_ahead(self._stddev, self._size, rng=rng)
        pinned[0], pinned[1] = drawn.moved, drawn.room
        return drawn

    def _rounded_sum(self, total: Tensor, place: _Place, drawn: Ahead) -> Tensor:
        """g round((S + sigma Z) / g): see `core.rounded_noise.draw_ahead`."""
        if self._grid is None:
            grid = np.broadcast_to(drawn.grid, (self._size,)).copy()
            self._grid = torch.from_numpy(grid).to(total.device)
        moved, room = place.there
        scaled = (total / self._grid).clamp(-LARGEST_SUM, LARGEST_SUM)
        whole = scaled.round()
        value = (scaled - whole) + moved
        step = value.round()
        unsure = ~((value - step).abs() <= room)
        # the only value of a step for which the host waits
        wrong, finite = torch.stack([unsure.any(), total.isfinite().all()]).cpu().tolist()
        require(finite, "the sum", "be finite", "another")
        nearest = whole + step
        if wrong:
            here, steps = scaled.cpu().numpy(), step.cpu().numpy()
            exact = nearest.cpu().numpy()
            for i in np.flatnonzero(unsure.cpu().numpy()):
                exact[i] = drawn.decide(int(i), float(here[i]), int(steps[i]))
            nearest = torch.from_numpy(exact).to(total.device)
        return nearest * self._grid
