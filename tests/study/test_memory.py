"""What rules ask for follows the size of the graph, and covers what reading it takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpgnn.data.custom import stream
from dpgnn.data.files.graph_files import save_graph
from dpgnn.data.graph import Graph, clean_edges
from dpgnn.study.bounds import COPIES
from dpgnn.study.memory import LEAST, to_prepare, to_read


@pytest.fixture(autouse=True)
def forget() -> None:
    to_prepare.cache_clear()
    to_read.cache_clear()


def tables(folder: Path, *, num_nodes: int, num_edges: int, num_features: int) -> Path:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    columns = {f"f{i}": rng.random(num_nodes, dtype=np.float32) for i in range(num_features)}
    pq.write_table(pa.table({**columns, "label": rng.integers(0, 5, num_nodes)}),
                   folder / "nodes.parquet")  # fmt: skip
    ends = {end: rng.integers(0, num_nodes, num_edges) for end in ("source", "target")}
    pq.write_table(pa.table(ends), folder / "edges.parquet")
    yaml = "num_classes: 5\ndrop_duplicates: true\ndrop_self_loops: true\n"
    (folder / "graph.yaml").write_text(yaml)
    return folder


@pytest.mark.parametrize(("edges", "features"), [(3_000_000, 2), (1000, 40)])
def test_the_estimated_peak_covers_the_measured_one(
    edges: int, features: int, tmp_path: Path
) -> None:
    own = tables(tmp_path / "mine", num_nodes=100_000, num_edges=edges, num_features=features)
    code = (
        "from pathlib import Path; from dpgnn.data import datasets\n"
        f"own, out = Path({str(tmp_path)!r}), Path({str(tmp_path / 'graph')!r})\n"
        "datasets.prepare('mine', out, folder=own, root_seed=0, own_folder=own)\n"
        "status = Path('/proc/self/status').read_text()\n"
        "print(1024 * int(status.split('VmHWM:')[1].split()[0]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    measured, estimated = int(done.stdout), stream.peak_bytes(own)
    assert estimated is not None
    assert measured <= estimated
    assert estimated <= 2.5 * measured


def test_a_table_of_fifty_million_edges_is_streamed_and_asks_for_the_least(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tables(tmp_path / "mine", num_nodes=50, num_edges=500, num_features=2)
    monkeypatch.setattr(stream, "EDGE_BYTES", stream.EDGE_BYTES * 100_000)
    assert stream.is_large(own)
    assert to_prepare("mine", tmp_path) == LEAST


def test_large_tables_that_are_read_at_once_ask_for_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tables(tmp_path / "mine", num_nodes=50, num_edges=500, num_features=2)
    monkeypatch.setattr(stream, "STREAMED_BYTES", 10**12)
    monkeypatch.setattr(stream, "OTHER_BYTES", 7 * 10**9)
    assert to_prepare("mine", tmp_path) == (stream.peak_bytes(own) or 0) // 10**6 + 1 > 7000
    csv = tmp_path / "text"
    csv.mkdir()
    with open(csv / "nodes.csv", "wb") as file:
        file.truncate(10**9)  # a file of this size without its content
    assert to_prepare("text", tmp_path) == 13_500
    assert to_read("text", tmp_path) == 13_500


def test_what_an_archive_unpacks_to_decides(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    edges = np.zeros((2, 25_000_000), dtype=np.int64)  # 400 MB, next to nothing when it is packed
    np.savez_compressed(folder / "graph.npz", edge_index=edges)
    assert (folder / "graph.npz").stat().st_size < 10**6
    assert to_prepare("mine", tmp_path) >= 1500 + 12 * 400
    (folder / "graph.npz").write_bytes(b"PK, and no archive")
    to_prepare.cache_clear()
    assert to_prepare("mine", tmp_path) == LEAST


def test_a_graph_that_is_read_needs_no_second_copy_of_its_edges(tmp_path: Path) -> None:
    """What the rules ask of memory counts the edges three times: read, and sorted in both directions."""
    num_nodes, num_edges = 100_000, 4_000_000
    rng = np.random.default_rng(0)
    edges = clean_edges(*rng.integers(0, num_nodes, (2, num_edges)), num_nodes)
    x = np.zeros((num_nodes, 1), dtype=np.float32)
    y = np.zeros(num_nodes, dtype=np.int64)
    graph = Graph(name="wide", x=x, y=y, edge_index=edges, num_classes=2)
    save_graph(graph, tmp_path / "wide")
    code = (
        "import sys; from pathlib import Path; from dpgnn.data.files.graph_files import read_graph\n"
        "def peak(): return 1024 * int(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])\n"
        "import pyarrow.parquet\n"
        "before = peak(); read_graph(Path(sys.argv[1])); print(peak() - before)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "wide")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(done.stdout) <= COPIES * edges.nbytes


def test_published_sizes_decide_for_data_sets_of_the_table() -> None:
    assert to_prepare("ogbn-products") == LEAST
    assert to_read("cora") == LEAST
    assert to_read("ogbn-products") > 7000
    assert to_read("chains-50") == LEAST


def test_counted_sizes_decide_once_a_graph_is_made(tmp_path: Path) -> None:
    made = tmp_path / "ogbn-products"
    made.mkdir()
    before = to_read("ogbn-products", graphs=tmp_path)
    for text in ("{", "[]", "{}"):
        (made / "graph.json").write_text(text)
        to_read.cache_clear()
        assert to_read("ogbn-products", graphs=tmp_path) == before
    sizes = {"num_nodes": 10**7, "num_features": 100, "num_edges": 10**8}
    (made / "graph.json").write_text(json.dumps(sizes))
    to_read.cache_clear()
    assert to_read("ogbn-products", graphs=tmp_path) == 1500 + 3 * (4000 + 1600)
