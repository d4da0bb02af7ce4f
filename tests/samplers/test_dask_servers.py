"""A real `dask scheduler` and real workers: the same bytes, and what happens when one of them dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed", reason="distributed is not installed: make setup EXTRAS=cluster")

from helpers import ROOT, two_community_graph

from dpgnn.core import locks
from dpgnn.data.files.graph_files import save_graph
from dpgnn.samplers.own_list import OwnList
from dpgnn.samplers.partitioned import sample
from dpgnn.samplers.partitioned.arcs import Partitions, write_partitions
from dpgnn.samplers.partitioned.scheduler import InTurn, connected

pytestmark = pytest.mark.slow
SAMPLER = OwnList(max_degree=3, num_hops=1)
NUM_NODES = 4000


class Servers:
    """A scheduler and its workers as processes; `folder` holds their logs."""

    def __init__(self, folder: Path, *, nanny: bool, failures: int = 3) -> None:
        self.folder, self.nanny, self.processes = folder, nanny, []  # type: tuple[Any, bool, list[Any]]
        self.file = folder / "scheduler.json"
        self.env = os.environ | {
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(failures), "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        self.start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        for _ in range(200):
            if self.file.exists():
                break
            time.sleep(0.3)
        self.address = json.loads(self.file.read_text())["address"]

    def start(self, kind: str, *options: str) -> subprocess.Popen[bytes]:
        """One of them."""
        log = (self.folder / f"{kind}{len(self.processes)}.log").open("wb")
        words = [sys.executable, "-m", "dask", kind, "--scheduler-file", str(self.file), *options]
        process = subprocess.Popen(
            words, cwd=self.folder, env=self.env, stdout=log, stderr=log, start_new_session=True
        )
        self.processes.append(process)
        return process

    def worker(self, name: str) -> subprocess.Popen[bytes]:
        """A worker of one thread."""
        nanny = "--nanny" if self.nanny else "--no-nanny"
        return self.start("worker", "--nthreads", "1", "--name", name, nanny, "--no-dashboard")

    def stop(self) -> None:
        """End all of them."""
        for process in reversed(self.processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def servers(tmp_path: Path, request: Any) -> Iterator[Servers]:
    """A scheduler; workers are started by the tests."""
    made = Servers(tmp_path, **getattr(request, "param", {"nanny": False}))
    yield made
    made.stop()


def drawn(folder: Path, where: str, out: str, cuts: int) -> dict[str, bytes]:
    """The files of one sample."""
    with connected(where, folder) as scheduler:
        partitions = write_partitions(
            folder / "graph", folder / out / "cut", cuts, scheduler=scheduler
        )
        place = sample.Place(
            partitions=partitions, out=folder / out / "data", scheduler=scheduler, width=300
        )
        sample.sample_trees(place, SAMPLER, np.arange(0, NUM_NODES, 2), np.random.default_rng(0))
    return {path.name: path.read_bytes() for path in (folder / out / "data").iterdir()}


def test_two_workers_give_the_bytes_of_one_process(servers: Servers, tmp_path: Path) -> None:
    save_graph(two_community_graph(NUM_NODES), tmp_path / "graph")
    for name in ("a", "b"):
        servers.worker(name)
    there = drawn(tmp_path, servers.address, "there", 5)
    assert there == drawn(tmp_path, "sync", "here", 1)
    assert len(there) == 14 + 2


def test_a_worker_that_is_killed_costs_no_sample(servers: Servers, tmp_path: Path) -> None:
    """It is killed after its first task; the other one takes over."""
    save_graph(two_community_graph(NUM_NODES), tmp_path / "graph")
    first, _ = servers.worker("a"), servers.worker("b")

    def kill() -> None:
        while not list(tmp_path.glob("there/.data.*/work/done/*.json")):
            time.sleep(0.01)
        os.kill(first.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    there = drawn(tmp_path, servers.address, "there", 40)
    killer.join()
    assert first.wait() == -signal.SIGKILL
    assert there == drawn(tmp_path, "sync", "here", 1)


@pytest.mark.parametrize("servers", [{"nanny": True, "failures": 1}], indirect=True)
def test_a_task_that_kills_each_worker_is_named(servers: Servers, tmp_path: Path) -> None:
    """As the system does where memory is short."""

    def dies(item: int) -> int:  # nested, so that workers get it by value
        if item == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    servers.worker("a")
    with (
        connected(servers.address, tmp_path) as scheduler,
        pytest.raises(RuntimeError, match=r"^lists 3: its worker died 2 times, the last at tcp:"),
    ):
        scheduler.run("lists", dies, [0, 1, 2, 3])


def test_a_scheduler_that_ends_is_named(servers: Servers, tmp_path: Path) -> None:
    servers.worker("a")
    with connected(servers.address, tmp_path) as scheduler:
        threading.Timer(3, lambda: os.killpg(servers.processes[0].pid, signal.SIGKILL)).start()
        with pytest.raises(RuntimeError, match=r"^scheduler tcp://\S+ ended during waits"):
            scheduler.run("waits", time.sleep, [120])


def a_place(out: Path) -> sample.Place:
    """Where a sample of an empty graph is to be made."""
    nothing = Partitions(folder=out, graph={"num_nodes": 1}, parts=())
    return sample.Place(partitions=nothing, out=out, scheduler=InTurn())


def test_a_second_driver_in_another_process_is_refused(tmp_path: Path) -> None:
    """Two drivers on one sample: the kernel's lock names the first one's process."""
    out = tmp_path / "data"
    code = (
        "import time; from pathlib import Path; from samplers.test_dask_servers import a_place, sample\n"
        f"with sample.unfinished(a_place(Path({str(out)!r})), 'first'):\n"
        "    print('held', flush=True); time.sleep(9)"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests")))}
    first = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT, env=env
    )
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == b"held\n"
        with (
            pytest.raises(locks.BusyError, match=rf"being made \(process {first.pid} on"),
            sample.unfinished(a_place(out), "second"),
        ):
            pass
    finally:
        first.kill()
        first.wait()
