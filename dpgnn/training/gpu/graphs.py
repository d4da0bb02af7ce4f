"""CUDA streams, pinned memory and graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor


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

    Args:
        body: reads and writes tensors at fixed addresses on the current device; must not wait for it.
        pool: memory for its inner tensors; graphs that never run at the same time may share one.
        capture: False calls the function each time.
    """

    def __init__(self, body: Callable[[], None], pool: Any, *, capture: bool = True) -> None:
        self._body, self._pool, self._capture = body, pool, capture
        self._graph: Any = None
        self._calls = 0

    def __call__(self) -> None:
        """Run it."""
        if not self._capture:
            self._body()
            return
        self._calls += 1
        if self._calls == 1:
            # the first call makes handles and workspaces, on a separate stream as capture requires
            side, here = torch.cuda.Stream(), torch.cuda.current_stream()
            side.wait_stream(here)
            with torch.cuda.stream(side):
                self._body()
            here.wait_stream(side)
            return
        if self._graph is None:
            graph = torch.cuda.CUDAGraph()
            # other threads of this process (noise, other runs) may use the device at the same time
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                self._body()
            self._graph = graph
        self._graph.replay()
