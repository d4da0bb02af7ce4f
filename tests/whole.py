"""The smallest study that has every stage, from a download to the report, and what its tests share."""

from __future__ import annotations

import contextlib
import copy
import csv
import hashlib
import http.server
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from helpers import ROOT, TOY, two_community_graph, write_study
from safetensors import safe_open

FAULTS = ROOT / "tests" / "workflow" / "faults"
NUM_STEPS = 20
# `cora_ml` stands for any data set of one file; the file is a small one of our own
WHOLE: dict[str, Any] = copy.deepcopy(TOY) | {
    "datasets": {"cora_ml": {"settings": ["random"]}},
    "settings": {"random": {"kind": "random", "train_fraction": 0.5, "val_fraction": 0.25}},
    "epsilons": ["8"],
    "baseline": "dp_gnn",
}
WHOLE["entries"]["dp_gnn"] = {
    "method": "dp_gnn",
    "mode": "sound",
    "privacy_unit": "node-record",
    "relation": "add-remove",
    "options": {
        "conv": "gcn", "num_hops": 1, "max_degree": 3, "width": 4,
        "training": {"num_steps": NUM_STEPS, "expected_batch_size": 8},
    },
}  # fmt: skip
del WHOLE["entries"]["dp_mlp"], WHOLE["entries"]["mlp"]


class RangeHandler(http.server.SimpleHTTPRequestHandler):
    """Serves the one file `server.content`, from the byte that is asked for."""

    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        content, asked = self.server.content, self.headers.get("Range", "bytes=0-")
        self.server.ranges.append(asked)
        start = int(asked[6:-1])
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start:])

    def log_message(self, *arguments: Any) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    """An internet of one file: the raw one of the study."""

    content: bytes
    ranges: list[str]

    def connect(self, folder: Path) -> None:
        """Make `folder` a place that fetches its raw file from here."""
        path = folder / "data" / "sources.csv"
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            if row["name"] == "cora_ml":
                row["url"] = f"http://127.0.0.1:{self.server_port}/cora_ml.npz"
                row["sha256"] = hashlib.sha256(self.content).hexdigest()
                row["bytes"] = str(len(self.content))
                row |= dict.fromkeys(("num_nodes", "num_edges", "num_features", "num_classes"), "")
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


@contextlib.contextmanager
def internet() -> Iterator[Server]:
    """A server on this machine, while the block runs."""
    server = Server(("127.0.0.1", 0), RangeHandler)
    server.content, server.ranges = raw_file(), []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def raw_file() -> bytes:
    """A graph of 60 nodes in the format of the data set whose place it takes."""
    import scipy.sparse as sp

    graph = two_community_graph()
    ends = graph.edge_index
    shape = (graph.num_nodes, graph.num_nodes)
    adjacency = sp.csr_array((np.ones(ends.shape[1], dtype=np.float32), tuple(ends)), shape=shape)
    arrays: dict[str, Any] = {"labels": graph.y}
    for prefix, matrix in (("adj", adjacency), ("attr", sp.csr_array(graph.x))):
        for part in ("data", "indices", "indptr", "shape"):
            arrays[f"{prefix}_{part}"] = getattr(matrix, part)
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def make_whole(folder: Path, study: dict[str, Any] | None = None) -> None:
    """Write the study, and let each step of training leave a checkpoint and a line in steps.txt."""
    write_study(folder, study or WHOLE)
    pace = {"step_seconds": 0.0, "checkpoint_seconds": 0.0}
    (folder / "pace.json").write_text(json.dumps(pace))


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start `dpgnn run quick` in a process group of its own, with faults and without a mirror folder."""
    arguments = arguments or ("--", "--cores", "2")
    return start_module(folder, "dpgnn", "run", "quick", *arguments)


def start_module(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a module of this environment in the same way."""
    environment = os.environ | {
        "PYTHONPATH": f"{FAULTS}{os.pathsep}{folder}",
        "OMP_NUM_THREADS": "1",
    }
    environment.pop("DPGNN_MIRROR", None)
    return subprocess.Popen(
        [sys.executable, "-m", *arguments], cwd=folder, env=environment, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def finish(folder: Path, *arguments: str) -> str:
    """Run `dpgnn run quick` to its end, which must be good; what it printed."""
    process = start(folder, *arguments)
    text, _ = process.communicate()
    assert process.returncode == 0, text[-6000:]
    return text


def outcome(folder: Path) -> dict[str, str]:
    """Path -> sha256 of all that a study must make the same each time: all but times, memory and pages.

    Lists of checksums must be right about every file, and are compared without what may differ.
    """
    found = {}
    for path in sorted((folder / "results").rglob("*")):
        if path.is_file() and _lasts(path.name):
            content = path.read_bytes()
            if path.suffix == ".sha256":
                content = b"".join(_lasting_lines(path))
            found[str(path.relative_to(folder))] = hashlib.sha256(content).hexdigest()
    return found


def _lasts(name: str) -> bool:
    """Whether a file of this name is the same each time."""
    return not (name.startswith("cost") or name == "resources.json" or name.endswith(".html"))


def _lasting_lines(path: Path) -> Iterator[bytes]:
    """The lines of a list of checksums about files that are the same each time; all are checked."""
    for line in path.read_text().splitlines(keepends=True):
        sha256, name = line.rstrip("\n").split("  ", 1)
        listed = path.parent / name
        assert hashlib.sha256(listed.read_bytes()).hexdigest() == sha256, listed
        if _lasts(listed.name) and listed.suffix != ".sha256":
            yield line.encode()


def check_whole_files(folder: Path) -> int:
    """Every visible file below results/ and work/ reads as a whole one; how many there were."""
    count = 0
    for path in [*(folder / "results").rglob("*"), *(folder / "work").rglob("*")]:
        if not path.is_file() or any(
            part.startswith(".") for part in path.relative_to(folder).parts
        ):
            continue
        count += 1
        if path.suffix == ".json":
            json.loads(path.read_text())
        elif path.suffix == ".parquet":
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                file.read()
        elif path.suffix == ".safetensors":
            with safe_open(path, framework="numpy") as tensors:
                for name in tensors.keys():  # noqa: SIM118
                    tensors.get_tensor(name)
        elif path.suffix in (".html", ".svg"):
            assert path.read_text().rstrip().endswith((">",)), f"{path} is half written"
        elif path.suffix == ".csv":
            assert path.read_text().endswith("\n"), f"{path} is half written"
    return count


def leftovers(folder: Path) -> list[str]:
    """Temporary files below results/, and checkpoints of finished runs."""
    from dpgnn.core.storage import UNFINISHED

    hidden = [p for p in (folder / "results").rglob(".*") if UNFINISHED.fullmatch(p.name)]
    kept = [p for p in (folder / "work").rglob("*.safetensors*") if "finished" not in p.parts]
    return [str(path) for path in (*hidden, *kept)]


def steps_taken(folder: Path) -> Sequence[int]:
    """Training steps in the order they were taken."""
    return [int(line) for line in (folder / "steps.txt").read_text().split()]
