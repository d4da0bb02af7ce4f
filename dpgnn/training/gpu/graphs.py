"""CUDA streams, pinned memory and graphs."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

_ONE_CAPTURE = threading.Lock()


class Staging:
    """Arrays on their way to the device, in pinned buffers that take turns.

    Args:
        size: numbers in the largest array.
        dtype: of the numbers.
        num_pieces: number of buffers.
    """

    def __init__(self, size: int, dtype: torch.dtype = torch.int64, num_pieces: int = 4) -> None:
        self.size = size
        self._pieces = [torch.empty(size, dtype=dtype, pin_memory=True) for _ in range(num_pieces)]
        self._done: list[Any] = [torch.cuda.Event() for _ in range(num_pieces)]
        self._turn = 0

    def send(self, write: Callable[[np.ndarray], None], into: Tensor) -> None:
        """Copy what `write` writes to `into` on the device, without waiting for the device."""
        piece, done = self._pieces[self._turn][: len(into)], self._done[self._turn]
        done.synchronize()  # the copy of four sends ago
        write(piece.numpy())
        into.copy_(piece, non_blocking=True)
        done.record()
        self._turn = (self._turn + 1) % len(self._pieces)


class Graph:
    """A function of tensors at fixed addresses, captured at its second call and then replayed.

    It keeps no reference to the function, whose owner usually holds the graph: memory of the device is freed
    with the owner, without a search for cycles.

    Args:
        pool: memory for inner tensors; graphs that never run at the same time may share one.
        capture: False calls the function each time.
    """

    def __init__(self, pool: Any, *, capture: bool = True) -> None:
        self._pool, self._capture = pool, capture
        self._graph: Any = None
        self._calls = 0

    def __call__(self, body: Callable[[], None]) -> None:
        """Run it.

        Args:
            body: the same function at each call; reads and writes tensors at fixed addresses on the current
                device and must not wait for it.
        """
        if not self._capture:
            body()
            return
        self._calls += 1
        if self._calls == 1:
            # the first call makes handles and workspaces, on a separate stream as capture requires
            side, here = torch.cuda.Stream(), torch.cuda.current_stream()
            side.wait_stream(here)
            with torch.cuda.stream(side):
                body()
            here.wait_stream(side)
            return
        if self._graph is None:
            self._graph = _captured(body, self._pool)
        self._graph.replay()


def _captured(body: Callable[[], None], pool: Any) -> Any:
    graph = torch.cuda.CUDAGraph()
    # other threads of this process (noise, other runs) may use the device at the same time
    with (
        _ONE_CAPTURE,
        without_collection(),
        torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"),
    ):
        body()
    return graph


@contextmanager
def without_collection() -> Iterator[None]:
    """Stop the search for cycles: what it frees may call the driver, which spoils a capture."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
