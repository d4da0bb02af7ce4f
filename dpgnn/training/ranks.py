"""The processes of one run, started by `torchrun` on any number of machines.

Every process reads the files of the run by itself, until clipped sums are needed. Then rank 0 trains; the
others compute their shares of each batch until they are told to stop, and write nothing.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from dpgnn.core.checks import fail, require

STARTED = "TORCHELASTIC_RUN_ID"  # variables that torchrun sets in each process
ALIVE, BEAT = "dpgnn/alive/", 1.0  # key under which a process counts up, and seconds between counts


class Served(Exception):
    """Raised in ranks 1, 2, ... when rank 0 told them to stop."""


def rank() -> int | None:
    """The number of this process under torchrun; None without torchrun."""
    return int(os.environ["RANK"]) if STARTED in os.environ else None


def check_count(num_processes: int) -> None:
    """Refuse a number of processes other than the study's: the order of sums, so their bytes, depends on it.

    Args:
        num_processes: of the study.

    Raises:
        ValueError: torchrun started another number.
    """
    world = int(os.environ["WORLD_SIZE"])
    remedy = f"set nnodes times nproc-per-node to it, or set num_processes: {world}"
    require(
        world == num_processes, "torchrun", f"start num_processes = {num_processes}", world, remedy
    )


def join(given: tuple[Any, ...], silence: timedelta) -> None:
    """Join the other processes, and compare what each has read.

    Args:
        given: network, features, trees, clipping and execution of this process.
        silence: time after which a process that does not answer is considered dead.

    Raises:
        ValueError: a process has read trees, features or options that differ from those of rank 0.
        RuntimeError: the other processes do not answer.
    """
    dist.init_process_group("gloo", timeout=silence)
    own = torch.frombuffer(bytearray(_digest(given)), dtype=torch.uint8)
    all_of_them = [torch.zeros_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(all_of_them, own)
    other = [
        number for number, one in enumerate(all_of_them) if not torch.equal(one, all_of_them[0])
    ]
    if other:
        dist.destroy_process_group()
        rule = "read the same graph, split, sample and study in every process"
        fail(
            "torchrun",
            rule,
            f"others in ranks {other}",
            "give all machines access to the same folder",
        )


def silent() -> list[int]:
    """The ranks that give no sign of life; called by rank 0 after a failed exchange."""
    store, others = _store(), range(1, int(os.environ["WORLD_SIZE"]))
    before = [store.add(f"{ALIVE}{number}", 0) for number in others]
    time.sleep(4 * BEAT)
    after = [store.add(f"{ALIVE}{number}", 0) for number in others]
    return [number for number, one, two in zip(others, before, after) if one == two]


def beat(number: int) -> None:
    """Give a sign of life every second, until this process ends."""
    store = _store()

    def count() -> None:
        with suppress(RuntimeError):  # torchrun's store has ended, and so has rank 0
            while True:
                store.add(f"{ALIVE}{number}", 1)
                time.sleep(BEAT)

    threading.Thread(target=count, daemon=True).start()


def _store() -> dist.TCPStore:
    """A separate connection to the store of torchrun, which holds no data."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return dist.TCPStore(address, port, is_master=False)


def _digest(given: tuple[Any, ...]) -> bytes:
    """sha256 of the values that were read."""
    return hashlib.sha256(pickle.dumps(given, protocol=5)).digest()
