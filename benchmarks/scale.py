"""A synthetic graph from raw pieces to a sample over partitions: rates, memory and disk of each stage.

Each stage is a process of its own, so that its peak memory is its own; processor time is given beside elapsed
time, since other work on the machine disturbs only the latter.

python -m benchmarks.scale --arcs 20000000 --folder /tmp/scale-run            a minute or two
python -m benchmarks.scale --arcs 100000000 --folder /tmp/scale-run --out FILE.json
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dpgnn.core.storage import write_json

PIECE = 1 << 20
NUM_FEATURES, DEGREE = 16, 10
WIDE = 128  # features of the stage that writes them alone, for one node in 8 of the graph's
STAGES = ("graph", "features", "read", "partition", "sample")


def main(words: list[str] | None = None) -> None:
    """Run every stage and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arcs", type=int, default=20_000_000)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--partitions", type=int, default=0, help="0: one for each 2^23 arcs")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--stage", choices=STAGES, help="this one alone, in this process")
    args = parser.parse_args(words)
    args.partitions = args.partitions or max(1, -(-args.arcs // (1 << 23)))
    if args.stage:
        STAGE[args.stage](args)
        return
    args.folder.mkdir(parents=True, exist_ok=True)
    rows = [measured(args, stage) for stage in STAGES]
    found = {
        "arcs": args.arcs, "nodes": args.arcs // DEGREE, "features": NUM_FEATURES,
        "partitions": args.partitions, "threads": args.threads, "stages": rows,
    }  # fmt: skip
    if args.out:
        write_json(args.out, found)
    print(json.dumps(found, indent=1))


def measured(args: argparse.Namespace, stage: str) -> dict[str, Any]:
    """One stage: seconds, processor seconds, arcs a second of either, peak resident bytes, bytes on disk."""
    words = [sys.executable, "-m", "benchmarks.scale", "--stage", stage]
    for name in ("arcs", "folder", "partitions", "threads"):
        words += [f"--{name}", str(getattr(args, name))]
    load, start = os.getloadavg()[0], time.monotonic()
    process = subprocess.Popen(words)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{stage} failed")
    seconds, cpu = time.monotonic() - start, used.ru_utime + used.ru_stime
    return {
        "stage": stage, "seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1),
        "arcs_per_second": round(args.arcs / seconds), "arcs_per_cpu_second": round(args.arcs / cpu),
        "peak_bytes": used.ru_maxrss * 1024, "load_average": round(load, 1),
        "disk_bytes": sum(path.stat().st_size for path in _files(args.folder, stage)),
    }  # fmt: skip


def _files(folder: Path, stage: str) -> list[Path]:
    below = {
        "graph": "graph",
        "features": "features",
        "partition": "cut",
        "sample": "sample.parts",
    }.get(stage)
    return [path for path in (folder / below).rglob("*") if path.is_file()] if below else []


def pieces(num_arcs: int, num_nodes: int, num_features: int = NUM_FEATURES) -> Any:
    """A directed graph: heavy-tailed sources (rank^-0.6), uniform targets."""
    from dpgnn.data.files.pieces import Pieces
    from dpgnn.data.files.streaming import Header

    def nodes() -> Iterator[Any]:
        for first in range(0, num_nodes, 1 << 16):
            size = min(1 << 16, num_nodes - first)
            rng = np.random.default_rng([1, first])
            x = rng.standard_normal((size, num_features), dtype=np.float32)
            y = rng.integers(0, 4, size)
            x[np.arange(size), y] += 1  # so that there is something to learn
            yield x, y, {}

    def edges() -> Iterator[Any]:
        for first in range(0, num_arcs, PIECE):
            size = min(PIECE, num_arcs - first)
            rng = np.random.default_rng([2, first])
            rank = (rng.random(size) ** 2.5 * num_nodes).astype(np.int64)
            yield (rank * 2_654_435_761) % num_nodes, rng.integers(0, num_nodes, size)

    header = Header(
        name="scale", num_nodes=num_nodes, num_features=num_features, num_classes=4,
        expected_edges=num_arcs, directed=True,
    )  # fmt: skip
    return Pieces(header=header, nodes=nodes, edges=edges)


def make_graph(args: argparse.Namespace) -> None:
    """Raw pieces -> graph folder, in 512 MB for sorting; and a split of one percent training nodes."""
    from dpgnn.data.files.pieces import write
    from dpgnn.data.splits import Split, write_split

    described = pieces(args.arcs, args.arcs // DEGREE)
    write(described, args.folder / "graph", memory_bytes=1 << 29, scratch=args.folder / "scratch")
    num_nodes = described.header.num_nodes
    order = np.random.default_rng(3).permutation(num_nodes)
    few = max(num_nodes // 100, 10)
    split = Split(
        train_idx=np.sort(order[:few]), val_idx=np.sort(order[few : 2 * few]),
        test_idx=np.sort(order[2 * few : 3 * few]), inductive=False,
    )  # fmt: skip
    write_split(args.folder / "split.parquet", split, num_nodes=num_nodes)


def write_features(args: argparse.Namespace) -> None:
    """Rows of 128 features and next to no arcs: `arcs_per_second` / 80 are its rows a second."""
    from dpgnn.data.files.pieces import write

    described = pieces(1000, args.arcs // DEGREE // 8, WIDE)
    write(described, args.folder / "features", scratch=args.folder / "scratch")


def read_arcs(args: argparse.Namespace) -> None:
    """The floor: every row group of edges.parquet once."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(args.folder / "graph" / "edges.parquet") as file:
        for number in range(file.num_row_groups):
            file.read_row_group(number)


def partition(args: argparse.Namespace) -> None:
    """`dpgnn data partition`."""
    from dpgnn.__main__ import main as dpgnn

    words = ["data", "partition", args.folder / "graph", "--partitions", args.partitions]
    code = dpgnn(
        [str(w) for w in (*words, "--out", args.folder / "cut", "--threads", args.threads)]
    )
    sys.exit(code)


def sample(args: argparse.Namespace) -> None:
    """`dpgnn prepare --dask threads`: own lists with K = 7, one hop."""
    from dpgnn.__main__ import main as dpgnn

    options = {"max_degree": 7, "num_hops": 1, "degree_bound": None, "max_list_size": None}
    words = [
        "prepare", "--graph", args.folder / "graph", "--split", args.folder / "split.parquet",
        "--dataset", "scale", "--setting", "s", "--repeat", 0, "--root-seed", 0,
        "--method", "dp_gnn", "--sampler", "own_list",
        "--params-json", json.dumps(options | {"symmetrize": False}),
        "--dask", "threads", "--threads", args.threads, "--partitions", args.folder / "cut",
        "--parts", args.folder / "sample.parts", "--out", args.folder / "sample.parquet",
    ]  # fmt: skip
    sys.exit(dpgnn([str(word) for word in words]))


STAGE = {
    "graph": make_graph, "features": write_features, "read": read_arcs,
    "partition": partition, "sample": sample,
}  # fmt: skip

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
