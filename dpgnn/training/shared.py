"""Clipped sums computed by several processes, each for a share of the batch's roots.

They are started here, on one machine, or by `torchrun` on several (`ranks`).

The process that trains is rank 0. It alone draws batches and noise, knows the plan and the ledger, updates
the weights and writes checkpoints; the others only compute clipped sums over some roots.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NoReturn

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

from dpgnn.core.checks import at_least, require
from dpgnn.models.network import Network
from dpgnn.models.trees import Trees
from dpgnn.training import ranks
from dpgnn.training.clipping import Clipping
from dpgnn.training.gradients import Execution, RootGradients
from dpgnn.training.modules.masks import Masks

# a process that does not answer for this long is considered dead
SILENCE = timedelta(minutes=30)
STOP, SUM, CLIP, RELEASE = 0, 1, 2, 3


@contextmanager
def root_gradients(
    network: Network,
    x: Any,
    trees: Trees,
    *,
    clipping: Clipping | None,
    execution: Execution,
    num_processes: int = 1,
    masks: Masks | None = None,
) -> Iterator[RootGradients]:
    """Clipped sums of this process or of several, which end with the block.

    Guarantee: as `RootGradients`, for any number of processes.

    Args:
        network, x, trees, clipping, execution, masks: as `RootGradients`.
        num_processes: >= 1, including this one.

    Raises:
        ValueError: several processes on a GPU.
        RuntimeError: a process ended.
    """
    number = ranks.rank()
    if number is not None:
        ranks.check_count(num_processes)
    if number:
        _serve_rank(number, (network, x, trees, clipping, execution))
    if num_processes == 1:
        yield RootGradients(network, x, trees, clipping=clipping, execution=execution, masks=masks)
        return
    gradients = SharedRootGradients(
        network, x, trees, clipping=clipping, execution=execution, num_processes=num_processes
    )
    try:
        yield gradients
    finally:
        gradients.close()


def share_of(roots: np.ndarray, rank: int, num_processes: int) -> np.ndarray:
    """The roots of one process: every num_processes-th; each root belongs to exactly one process."""
    return roots[rank::num_processes]


class SharedRootGradients(RootGradients):
    """`RootGradients` whose sums are computed by several processes, including this one.

    Guarantee: the sum over a batch has one term per root, each of norm at most `clipping.total_norm`: shares
    are disjoint and their union is the batch, every process clips with the same bounds and parameters, and
    the shares' sums are added in the order of the ranks. Compared with one process only the order of
    additions changes, which is rounding; for a fixed number of processes the sum is repeatable bit for bit.
    Nothing but parameters, positions of roots, bounds and sums passes between the processes, over this
    machine's loopback interface; sums are sensitive until rank 0 adds noise, and no other process has a
    generator.

    Args:
        num_processes: processes in all, >= 2; each holds its own copy of trees and features.

    Raises:
        ValueError: the device is not the CPU.
        RuntimeError: another such object is open in this process, or a process ended.
    """

    def __init__(
        self,
        network: Network,
        x: Any,
        trees: Trees,
        *,
        clipping: Clipping | None,
        execution: Execution | None = None,
        num_processes: int,
    ) -> None:
        at_least("num_processes", num_processes, 2)
        execution = execution or Execution()
        require(
            torch.device(execution.device).type == "cpu", "device", "be cpu with num_processes > 1",
            execution.device, "only one process of a run uses a GPU",
        )  # fmt: skip
        self.num_processes, self._workers = 1, ()  # type: tuple[int, tuple[Any, ...]]
        super().__init__(network, x, trees, clipping=clipping, execution=execution)
        remedy = "each process would draw masks of its own"
        require(self.dropout is None, "num_processes", "be 1 with dropout", num_processes, remedy)
        self.num_processes = num_processes
        self._parts = torch.zeros(
            num_processes, network.num_parameters + 1, dtype=execution.torch_dtype
        )
        given = (network, x, trees, clipping, execution)
        folder, workers = "", ()  # type: tuple[str, tuple[Any, ...]]
        if ranks.rank() is None:
            folder, workers = _start(given, num_processes)
        else:
            ranks.join(given, SILENCE)
        self._workers = workers
        self._end = weakref.finalize(self, _stop, folder, workers)

    def close(self) -> None:
        """End the other processes."""
        self._end()

    def clip(self, clipping: Clipping | None) -> None:
        """Use these bounds from now on, in every process."""
        super().clip(clipping)
        if self.num_processes > 1:
            content = np.frombuffer(pickle.dumps(clipping), dtype=np.uint8).copy()
            self._tell(CLIP, len(content), torch.from_numpy(content))

    def sum_for_release(self) -> None:
        """Sum in float64 from now on, in every process."""
        super().sum_for_release()
        self._parts = self._parts.double()
        self._tell(RELEASE, 0)

    def __call__(self, parameters: Tensor, roots: np.ndarray) -> Tensor:
        """The clipped sum over `roots`; see `RootGradients`."""
        roots = np.ascontiguousarray(roots, dtype=np.int64)
        flat = parameters.detach().contiguous()
        self._tell(SUM, len(roots), flat, torch.from_numpy(roots))
        own = super().__call__(flat, share_of(roots, 0, self.num_processes))
        parts = list(self._parts)
        parts[0][:-1].copy_(own)
        parts[0][-1] = self._loss
        self._ask(lambda: dist.gather(parts[0].clone(), parts, dst=0))
        own.copy_(self._parts[0, :-1])
        for part in parts[1:]:
            own.add_(part[:-1])
        self._loss, self._count = self._parts[:, -1].sum(), len(roots)
        return own

    def _tell(self, what: int, size: int, *contents: Tensor) -> None:
        """Send a command with its arguments to every process."""
        order = torch.tensor([what, size, int(self.track_loss)])

        def send() -> None:
            for tensor in (order, *contents):
                if tensor.numel():
                    dist.broadcast(tensor, src=0)

        self._ask(send)

    def _ask(self, exchange: Any) -> None:
        # a message to a process that has ended may wait until SILENCE is over
        if not all(worker.is_alive() for worker in self._workers):
            raise self._ended("it had ended before")
        try:
            exchange()
        except RuntimeError as error:
            raise self._ended(error) from None

    def _ended(self, why: object) -> RuntimeError:
        ended = [rank for rank, worker in enumerate(self._workers, 1) if not worker.is_alive()]
        if not self._workers:
            ended = ranks.silent()
        return RuntimeError(
            f"process {ended or 'unknown'} of {self.num_processes} ended while training; the run goes "
            f"on from its checkpoint when it is started again ({why})"
        )


def _start(given: tuple[Any, ...], num_processes: int) -> tuple[str, tuple[Any, ...]]:
    """Start ranks 1, 2, ... and join them; the folder for their contact holds no data."""
    if dist.is_initialized():
        raise RuntimeError("one set of processes is open already; close it before starting another")
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    folder = tempfile.mkdtemp(prefix="dpgnn-processes-")
    context = mp.get_context("spawn")
    workers = []
    for rank in range(1, num_processes):
        arguments = (rank, num_processes, folder, torch.get_num_threads(), os.getpid(), given)
        worker = context.Process(target=_serve, args=arguments, daemon=True)
        worker.start()
        workers.append(worker)
    _join(0, num_processes, folder)
    return folder, tuple(workers)


def _join(rank: int, num_processes: int, folder: str) -> None:
    store = dist.FileStore(f"{folder}/meet", num_processes)
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=num_processes, timeout=SILENCE
    )


def _stop(folder: str, workers: tuple[Any, ...]) -> None:
    """Tell the processes to end, wait for them, and clean up."""
    import shutil

    if all(worker.is_alive() for worker in workers):  # the others end with the connection
        with suppress(RuntimeError):
            dist.broadcast(torch.tensor([STOP, 0, 0]), src=0)
    dist.destroy_process_group()
    for worker in workers:
        worker.join(timeout=10)
        if worker.is_alive():
            worker.kill()
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


def _serve(
    rank: int,
    num_processes: int,
    folder: str,
    num_threads: int,
    parent: int,
    given: tuple[Any, ...],
) -> None:
    """The work of ranks 1, 2, ...: compute shares until told to stop or rank 0 has ended."""
    for number in (signal.SIGTERM, signal.SIGINT):
        # rank 0 saves a checkpoint first; this process ends with the connection
        signal.signal(number, signal.SIG_IGN)
    torch.set_num_threads(num_threads)
    network, x, trees, clipping, execution = given
    gradients = RootGradients(network, x, trees, clipping=clipping, execution=execution)
    parameters = torch.zeros(network.num_parameters, dtype=execution.torch_dtype)
    _join(rank, num_processes, folder)
    try:
        while _answer(gradients, parameters, rank, num_processes):
            pass
    except RuntimeError:
        if os.getppid() == parent:
            raise


def _serve_rank(rank: int, given: tuple[Any, ...]) -> NoReturn:
    """The work of a torchrun process other than rank 0.

    Raises:
        Served: rank 0 told it to stop.
        RuntimeError: rank 0 has ended.
    """
    network, x, trees, clipping, execution = given
    gradients = RootGradients(network, x, trees, clipping=clipping, execution=execution)
    parameters = torch.zeros(network.num_parameters, dtype=execution.torch_dtype)
    ranks.join(given, SILENCE)
    ranks.beat(rank)
    try:
        while _answer(gradients, parameters, rank, dist.get_world_size()):
            pass
    except RuntimeError as error:
        raise RuntimeError(f"rank 0 has ended, so rank {rank} ends ({error})") from None
    finally:
        dist.destroy_process_group()
    raise ranks.Served


def _answer(gradients: RootGradients, parameters: Tensor, rank: int, num_processes: int) -> bool:
    """Execute one command; False after the last."""
    order = torch.zeros(3, dtype=torch.int64)
    dist.broadcast(order, src=0)
    what, size, gradients.track_loss = int(order[0]), int(order[1]), bool(order[2])
    if what == STOP:
        return False
    if what == CLIP:
        content = torch.zeros(size, dtype=torch.uint8)
        dist.broadcast(content, src=0)
        gradients.clip(pickle.loads(content.numpy().tobytes()))
        return True
    if what == RELEASE:
        gradients.sum_for_release()
        return True
    dist.broadcast(parameters, src=0)
    roots = torch.zeros(size, dtype=torch.int64)
    if size:
        dist.broadcast(roots, src=0)
    total = gradients(parameters, share_of(roots.numpy(), rank, num_processes))
    dist.gather(torch.cat([total, gradients._loss.reshape(1).to(total.dtype)]), dst=0)
    return True
