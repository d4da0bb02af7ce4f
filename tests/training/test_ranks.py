"""`torchrun` on two machines, for which two network namespaces of one machine stand."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import ROOT

from dpgnn.core.storage import read_json

pytestmark = pytest.mark.slow
NAMES = ("dpgnn-a", "dpgnn-b")
RUN = "digits.random/dp_mlp/eps=4/0"
GNN_RUN = "digits.random/gnn/eps=4/0"
FILES = ("model.safetensors", "history.parquet")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def namespaces() -> Iterator[None]:
    """Two namespaces joined by one cable, 10.77.0.1 and 10.77.0.2; neither sees anything else."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the program ip")
    try:
        for name in NAMES:
            ip("netns", "add", name)
        ip(
            "link",
            "add",
            "cable-a",
            "netns",
            NAMES[0],
            "type",
            "veth",
            "peer",
            "cable-b",
            "netns",
            NAMES[1],
        )
        for number, (name, end) in enumerate(zip(NAMES, "ab"), 1):
            ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", f"cable-{end}")
            ip("-n", name, "link", "set", f"cable-{end}", "up")
            ip("-n", name, "link", "set", "lo", "up")
    except subprocess.CalledProcessError as error:
        remove()
        pytest.skip(f"this machine makes no network namespaces: {error.stderr.decode().strip()}")
    yield
    remove()


def remove() -> None:
    for name in NAMES:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    """A graph, its split, and what two processes of one machine make of the run today."""
    here = tmp_path_factory.mktemp("ranks")
    write_study(here, num_steps=6)
    graph, part = "results/graphs/digits", "results/splits/digits.random.0.parquet"
    axes = ["--dataset", "digits", "--setting", "random", "--repeat", "0", "--root-seed", "2026"]
    dpgnn(here, "data", "prepare", "digits", "--out", graph)
    dpgnn(here, "split", "--graph", graph, *axes, "--kind", "random", "--out", part)
    dpgnn(here, "train", "--study", "study.yaml", "--run", RUN)
    shutil.move(run_folder(here), here / "today")
    return here


def write_study(here: Path, *, num_steps: int, num_processes: int = 2) -> None:
    """A study of one private run."""
    stated = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    entry = stated["entries"]["dp_mlp"]
    entry["options"] = {
        "width": 16,
        "training": {"num_steps": num_steps, "expected_batch_size": 64},
    }
    entry.pop("options_for")
    stated |= {
        "datasets": {"digits": {"settings": ["random"]}}, "entries": {"dp_mlp": entry},
        "epsilons": ["4"], "attacks": [], "audits": [], "num_processes": num_processes,
    }  # fmt: skip
    stated["entries"]["gnn"] = {
        "method": "dp_gnn", "mode": "sound", "privacy_unit": "node-record", "relation": "add-remove",
        "options": {
            "width": 8, "max_degree": 3, "num_hops": 1, "training": dict(entry["options"]["training"]),
        },
    }  # fmt: skip
    for name in ("baseline", "comparisons", "questions", "paper"):
        stated.pop(name, None)
    (here / "study.yaml").write_text(yaml.safe_dump(stated))


def run_folder(here: Path, run: str = RUN) -> Path:
    (found,) = (here / "results" / "studies").glob(f"*/runs/{run}")
    return found


def dpgnn(here: Path, *words: str) -> None:
    subprocess.run([sys.executable, "-m", "dpgnn", *words], cwd=here, check=True, env=environment())


def environment(**more: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | more


def start(here: Path, number: int, *more: str, run: str = RUN) -> subprocess.Popen[str]:
    """`torchrun` of one machine, by the documented command."""
    words = [
        "ip", "netns", "exec", NAMES[number], sys.executable, "-m", "torch.distributed.run",
        "--nnodes", "2", "--nproc-per-node", "1", "--node-rank", str(number),
        "--master-addr", "10.77.0.1", "--master-port", "29577", "-m", "--", "dpgnn", "train",
        "--study", "study.yaml", "--run", run, *more,
    ]  # fmt: skip
    env = environment(GLOO_SOCKET_IFNAME=f"cable-{'ab'[number]}")
    return subprocess.Popen(
        words, cwd=here, env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        start_new_session=True,
    )  # fmt: skip


def sent(number: int) -> int:
    """Bytes that have left a namespace by the cable."""
    counter = f"/sys/class/net/cable-{'ab'[number]}/statistics/tx_bytes"
    words = ["ip", "netns", "exec", NAMES[number], "cat", counter]
    return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def finish(both: list[subprocess.Popen[str]]) -> list[str]:
    """What both said, at the end."""
    try:
        return [process.communicate(timeout=400)[1] for process in both]
    finally:
        for process in both:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.usefixtures("namespaces")
def test_two_machines_give_the_bytes_of_two_processes(folder: Path) -> None:
    """Nothing of the data crosses the cable: less is sent than the features take."""
    write_study(folder, num_steps=6)
    before = [sent(0), sent(1)]
    both = [start(folder, number) for number in (0, 1)]
    said = finish(both)
    assert [process.returncode for process in both] == [0, 0], said
    assert "rank 1 has served" in said[1]
    made = run_folder(folder)
    for name in FILES:
        assert (made / name).read_bytes() == (folder / "today" / name).read_bytes(), name
    first, second = (read_json(place / "record.json") for place in (folder / "today", made))
    assert first["metrics"] == second["metrics"]
    assert first["config_sha256"] == second["config_sha256"]
    crossed = [sent(number) - before[number] for number in (0, 1)]
    parameters = 4 * (64 * 16 + 16 + 16 * 10 + 10)
    assert crossed[1] >= 6 * parameters
    assert max(crossed) < 1797 * 64 * 4
    shutil.rmtree(made)


@pytest.mark.usefixtures("namespaces")
def test_two_machines_that_read_features_from_disk_give_the_same_bytes(folder: Path) -> None:
    """The graph takes 1.5026 GB in memory by the rule of --memory, 1.5002 GB with its features on disk."""
    write_study(folder, num_steps=6)
    both = [start(folder, number, "--memory", "1501MB") for number in (0, 1)]
    said = finish(both)
    assert [process.returncode for process in both] == [0, 0], said
    assert list((folder / "work" / "stored").rglob("x.npy"))
    made = run_folder(folder)
    for name in FILES:
        assert (made / name).read_bytes() == (folder / "today" / name).read_bytes(), name
    shutil.rmtree(made)


@pytest.mark.usefixtures("namespaces")
def test_two_machines_that_read_trees_from_disk_give_the_same_bytes(folder: Path) -> None:
    """As above; the trees of DP-GNN's sample are laid out once, and each rank reads those of its share."""
    from dpgnn import methods
    from dpgnn.study.study import load_study

    write_study(folder, num_steps=6)
    entry = load_study(folder / "study.yaml").entries["gnn"].for_dataset("digits")
    spec = methods.get("dp_gnn").sampler(entry)
    assert spec is not None
    sample = f"results/prepared/digits.random.0/{spec.label}.parquet"
    axes = ["--dataset", "digits", "--setting", "random", "--repeat", "0", "--root-seed", "2026"]
    dpgnn(
        folder, "prepare", *axes, "--graph", "results/graphs/digits", "--split",
        "results/splits/digits.random.0.parquet", "--method", "dp_gnn", "--sampler", spec.name,
        "--params-json", json.dumps(dict(spec.params)), "--out", sample,
    )  # fmt: skip
    dpgnn(folder, "train", "--study", "study.yaml", "--run", GNN_RUN)
    today = folder / "today-gnn"
    shutil.move(run_folder(folder, GNN_RUN), today)
    both = [start(folder, number, "--memory", "1501MB", run=GNN_RUN) for number in (0, 1)]
    said = finish(both)
    assert [process.returncode for process in both] == [0, 0], said
    assert len(list((folder / "work" / "stored").rglob("trees.json"))) == 1
    made = run_folder(folder, GNN_RUN)
    for name in FILES:
        assert (made / name).read_bytes() == (today / name).read_bytes(), name
    shutil.rmtree(made)


@pytest.mark.usefixtures("namespaces")
def test_a_rank_that_is_killed_is_named_and_the_run_goes_on(folder: Path) -> None:
    write_study(folder, num_steps=4000)
    both = [start(folder, number) for number in (0, 1)]
    while not list(
        (folder / "work").rglob("train.safetensors")
    ):  # a checkpoint, five seconds after the first step
        assert both[0].poll() is None
        time.sleep(0.2)
    children = Path(f"/proc/{both[1].pid}/task/{both[1].pid}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    said = finish(both)
    assert both[0].returncode != 0
    assert (
        "process [1] of 2 ended while training; the run goes on from its checkpoint" in said[0]
    ), said
    assert not list((folder / "results" / "studies").glob(f"*/runs/{RUN}/record.json"))
    both = [start(folder, number) for number in (0, 1)]
    said = finish(both)
    assert [process.returncode for process in both] == [0, 0], said
    resumed = run_folder(folder)
    content = (resumed / "model.safetensors").read_bytes()
    shutil.rmtree(resumed)
    dpgnn(folder, "train", "--study", "study.yaml", "--run", RUN)
    assert content == (run_folder(folder) / "model.safetensors").read_bytes()


@pytest.mark.usefixtures("namespaces")
def test_another_number_of_processes_is_refused(folder: Path) -> None:
    write_study(folder, num_steps=6, num_processes=3)
    both = [start(folder, number) for number in (0, 1)]
    said = finish(both)
    assert all("torchrun must start num_processes = 3, got 2" in text for text in said)
