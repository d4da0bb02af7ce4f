"""A synthetic graph from raw pieces to predictions: rates, memory and disk of each stage.

Each stage is a process of its own, so that its peak memory is its own; processor time is given beside elapsed
time, since other work on the machine disturbs only the latter. A stage that is finished is noted in
FOLDER/stages; after a kill the same command goes on, inside the stage that was cut short too.

python -m benchmarks.scale --arcs 20000000 --folder FOLDER            a few minutes
python -m benchmarks.scale --arcs 1000000000 --folder FOLDER --memory 8GB --out FILE.json
python -m benchmarks.scale --arcs 100000000 --folder FOLDER --kill-after 4
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._scale_graph import (
    DEGREE,
    ENTRY,
    NAME,
    NUM_FEATURES,
    RUN,
    SETTING,
    pieces,
    write_split,
    write_study,
)
from dpgnn.core.storage import read_json, write_json

WIDE = 128  # features of the stage that writes them alone, for one node in 8 of the graph's
ASKED = 1 << 16  # nodes of a file of predictions
DEFAULT = ("graph", "read", "partition", "sample", "store", "train", "predict")
GRAPH = Path("results/graphs") / NAME
SPLIT = Path("results/splits") / f"{NAME}.{SETTING}.0.parquet"
# what a stage leaves in the folder, for the table
LEAVES = {
    "graph": "results/graphs", "features": "features", "partition": "work/partitions",
    "sample": "results/prepared", "store": "work/stored", "train": "results/studies",
    "predict": "predictions",
}  # fmt: skip


def main(words: list[str] | None = None) -> None:
    """Run every stage that is not finished, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arcs", type=int, default=20_000_000)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--memory", default="4GB", help="of preparing, training and predicting")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--stages", nargs="+", choices=STAGE, default=DEFAULT)
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--kill-after",
        type=float,
        metavar="SECONDS",
        help="kill each stage once, and go on with it",
    )
    parser.add_argument("--stage", choices=STAGE, help="this one alone, in this process")
    args = parser.parse_args(words)
    if args.stage:
        os.chdir(args.folder)
        STAGE[args.stage](args)
        return
    args.folder.mkdir(parents=True, exist_ok=True)
    rows = [measured(args, stage) for stage in args.stages]
    found = {
        "arcs": args.arcs, "nodes": args.arcs // DEGREE, "features": NUM_FEATURES,
        "memory": args.memory, "threads": args.threads, "steps": args.steps, "stages": rows,
    }  # fmt: skip
    if args.out:
        write_json(args.out, found)
    print(json.dumps(found, indent=1))


def measured(args: argparse.Namespace, stage: str) -> dict[str, Any]:
    """One stage: seconds, processor seconds, arcs a second of either, peak resident bytes, bytes on disk.

    Of a stage that was killed and gone on with, the last process counts.
    """
    note = args.folder / "stages" / f"{stage}.json"
    if note.exists():
        held: dict[str, Any] = read_json(note)
        return held
    words = [sys.executable, "-m", "benchmarks.scale", "--stage", stage]
    for name in ("arcs", "folder", "memory", "steps", "batch_size", "threads"):
        words += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
    print(f"stage {stage}", file=sys.stderr, flush=True)
    killed = args.kill_after is not None and _killed(words, args.kill_after)
    load, start = os.getloadavg()[0], time.monotonic()
    process = subprocess.Popen(words)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{stage} failed; the same command goes on")
    seconds, cpu = time.monotonic() - start, used.ru_utime + used.ru_stime
    found = {
        "stage": stage, "seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1),
        "arcs_per_second": round(args.arcs / seconds), "arcs_per_cpu_second": round(args.arcs / cpu),
        "peak_bytes": used.ru_maxrss * 1024, "load_average": round(load, 1),
        "disk_bytes": sum(path.stat().st_size for path in _files(args.folder, stage)),
    }  # fmt: skip
    if args.kill_after is not None:
        found["killed_after_seconds"] = args.kill_after if killed else None
    write_json(note, found)
    return found


def _killed(words: list[str], seconds: float) -> bool:
    """Start a stage and kill its whole group of processes after some seconds; False where it had ended."""
    process = subprocess.Popen(words, start_new_session=True)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True
    return False


def _files(folder: Path, stage: str) -> list[Path]:
    if stage not in LEAVES:
        return []
    return [
        path for left in folder.glob(LEAVES[stage]) for path in left.rglob("*") if path.is_file()
    ]


def make_graph(args: argparse.Namespace) -> None:
    """Raw pieces -> graph folder, in 512 MB for sorting; and a split of one percent training nodes."""
    from dpgnn.data.files.pieces import write

    described = pieces(args.arcs, args.arcs // DEGREE)
    write(
        described, GRAPH, memory_bytes=1 << 29, scratch=Path("work/scratch"),
        resume=f"{args.arcs} arcs",
    )  # fmt: skip
    write_split(SPLIT, described.header.num_nodes)


def write_features(args: argparse.Namespace) -> None:
    """Rows of 128 features and next to no arcs: `arcs_per_second` / 80 are its rows a second."""
    from dpgnn.data.files.pieces import write

    described = pieces(1000, args.arcs // DEGREE // 8, WIDE)
    write(described, Path("features"), scratch=Path("work/scratch"))


def read_arcs(args: argparse.Namespace) -> None:
    """The floor: every row group of edges.parquet once."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(GRAPH / "edges.parquet") as file:
        for number in range(file.num_row_groups):
            file.read_row_group(number)


def partition(args: argparse.Namespace) -> None:
    """`dpgnn data partition`, where training looks for partitions."""
    folder, number = _partitions()
    _dpgnn("data", "partition", GRAPH, "--partitions", number, "--out", folder,
           "--threads", args.threads)  # fmt: skip


def _partitions() -> tuple[Path, int]:
    from dpgnn.samplers.partitioned.arcs import place_of

    return place_of(read_json(GRAPH / "graph.json"))


def _entry(args: argparse.Namespace) -> Any:
    from dpgnn.study.study import load_study

    write_study(Path(), args.steps, min(args.batch_size, args.arcs // DEGREE // 200))
    return load_study(Path("config.yaml")).entries[ENTRY].for_dataset(NAME)


def sample(args: argparse.Namespace) -> None:
    """`dpgnn prepare --dask threads`: own lists with K = 7, one hop."""
    from dpgnn import methods
    from dpgnn.core.paths import Paths

    spec = methods.get("dp_gnn").sampler(_entry(args))
    assert spec is not None
    _dpgnn(
        "prepare", "--graph", GRAPH, "--split", SPLIT, "--dataset", NAME, "--setting", SETTING,
        "--repeat", 0, "--root-seed", 0, "--method", "dp_gnn", "--sampler", spec.name,
        "--params-json", json.dumps(dict(spec.params)), "--dask", "threads",
        "--threads", args.threads, "--partitions", _partitions()[0],
        "--out", Paths().prepared(NAME, SETTING, "0", spec.label),  # type: ignore[arg-type]
    )  # fmt: skip


def _stored() -> Any:
    """The graph as a run on disk reads it, and its split."""
    from dpgnn.data.splits import read_split
    from dpgnn.study.on_disk import stored_graph

    meta = read_json(GRAPH / "graph.json")
    split = read_split(SPLIT, num_nodes=meta["num_nodes"])
    return stored_graph(GRAPH, meta, split, Path("work")), split


def store(args: argparse.Namespace) -> None:
    """Features and lists of neighbours as files, as the first run of `dpgnn train --memory` makes them."""
    graph, _ = _stored()
    print(f"{graph.lists(False).num_arcs} arcs in lists")


def train(args: argparse.Namespace) -> None:
    """`dpgnn train --memory`: DP-GNN, evaluated on validation and test nodes."""
    _entry(args)
    _dpgnn("train", "--study", "config.yaml", "--run", RUN, "--memory", args.memory)


def predict(args: argparse.Namespace) -> None:
    """Logits of all test nodes, a file for each 65,536; files that are there are not made again."""
    import pyarrow as pa
    from safetensors.torch import load_file

    from dpgnn import methods
    from dpgnn.core.storage import column_of, write_parquet
    from dpgnn.methods.base import Fitted

    graph, split = _stored()
    entry, method = _entry(args), methods.get("dp_gnn")
    state = load_file(Path("results/studies") / NAME / "runs" / RUN / "model.safetensors")
    nodes, start = split.test_idx, time.monotonic()
    for first in range(0, len(nodes), ASKED):
        path = Path("predictions") / f"part-{first // ASKED:05}.parquet"
        asked = np.array(nodes[first : first + ASKED])
        if not path.exists():
            answer = method.predict(entry, Fitted(state=state), graph, asked)
            logits = answer.logits.numpy()
            columns = {f"logit_{i}": column_of(logits[:, i]) for i in range(logits.shape[1])}
            write_parquet(path, pa.table({"node": column_of(asked), **columns}))
        done, seconds = first + len(asked), time.monotonic() - start
        print(f"predictions: {done:,} of {len(nodes):,}, {seconds:.0f} s", file=sys.stderr)


def _dpgnn(*words: object) -> None:
    from dpgnn.__main__ import main as dpgnn

    code = dpgnn([str(word) for word in words])
    if code:
        sys.exit(code)


STAGE = {
    "graph": make_graph, "features": write_features, "read": read_arcs, "partition": partition,
    "sample": sample, "store": store, "train": train, "predict": predict,
}  # fmt: skip

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
