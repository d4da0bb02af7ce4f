import signal
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgnn.core.checksums import OF_FOLDER
from dpgnn.data import datasets
from dpgnn.data.files.graph_files import read_graph, save_graph
from dpgnn.data.files.streaming import GraphWriter, Header
from dpgnn.data.graph import Graph, clean_edges


def made(seed=0, *, sparse=False, multilabel=False, directed=False):
    rng = np.random.default_rng(seed)
    num_nodes, num_features = 97, 12
    x = (
        rng.random((num_nodes, num_features)) * (rng.random((num_nodes, num_features)) < 0.2)
    ).astype(np.float32)
    if multilabel:
        y, num_classes = (rng.random((num_nodes, 5)) < 0.5).astype(np.uint8), 5
    else:
        y, num_classes = rng.integers(-1, 3, num_nodes), 3
    raw = rng.integers(0, num_nodes, (2, 800))
    parts = {"train": np.arange(30), "val": np.arange(30, 40), "test": np.arange(50, 97)}
    graph = Graph(
        name="toy",
        x=sp.csr_array(x) if sparse else x,
        edge_index=clean_edges(*raw, num_nodes, undirected=not directed),
        y=y,
        num_classes=num_classes,
        task="multilabel" if multilabel else "multiclass",
        directed=directed,
        splits={"public": parts},
    )
    return graph, raw


def stream(graph, raw, folder, scratch, *, batch=10, memory_bytes=1 << 30):
    from dpgnn.data.files.content import part_codes
    from dpgnn.data.files.graph_files import feature_layout

    header = Header(
        name=graph.name,
        num_nodes=graph.num_nodes,
        num_features=graph.num_features,
        num_classes=graph.num_classes,
        expected_edges=2 * raw.shape[1],
        task=graph.task,
        directed=graph.directed,
        x_layout=feature_layout(graph.x),
        splits=("public",),
    )
    codes = part_codes(graph, "public")
    with GraphWriter(folder, header, scratch=scratch, memory_bytes=memory_bytes) as writer:
        for start in range(0, raw.shape[1], 7 * batch):
            writer.add_edges(*raw[:, start : start + 7 * batch])
        for start in range(0, graph.num_nodes, batch):
            rows = slice(start, start + batch)
            writer.add_nodes(graph.x[rows], graph.y[rows], {"public": codes[rows]})
        return writer.finish({"licence": "MIT"})


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 1000),
    sparse=st.booleans(),
    multilabel=st.booleans(),
    directed=st.booleans(),
    batch=st.integers(1, 120),
    memory=st.sampled_from([1000, 5000, 1 << 30]),
)
def test_a_streamed_graph_is_the_one_written_at_once(
    tmp_path_factory, seed, sparse, multilabel, directed, batch, memory
):
    folder = tmp_path_factory.mktemp("streaming")
    graph, raw = made(seed, sparse=sparse, multilabel=multilabel, directed=directed)
    meta = stream(graph, raw, folder / "a", folder / "work", batch=batch, memory_bytes=memory)
    wanted = save_graph(graph, folder / "b", provenance={"licence": "MIT"})
    assert {k: v for k, v in meta.items() if k != "files"} == {
        k: v for k, v in wanted.items() if k != "files"
    }
    found = read_graph(folder / "a", full_check=True)
    np.testing.assert_array_equal(found.dense_x(), graph.dense_x())
    np.testing.assert_array_equal(found.edge_index, graph.edge_index)
    assert list((folder / "work").iterdir()) == []


def test_a_bad_row_names_the_node_and_leaves_nothing_behind(tmp_path):
    graph, raw = made()
    x = graph.x.copy()
    x[42, 3] = np.nan
    bad = Graph.__new__(Graph)
    for name in ("name", "edge_index", "y", "num_classes", "task", "directed", "splits"):
        object.__setattr__(bad, name, getattr(graph, name))
    object.__setattr__(bad, "x", x)
    with pytest.raises(ValueError, match="x of node 42 must be finite, got nan; replace or drop"):
        stream(bad, raw, tmp_path / "a", tmp_path / "work")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_edge_to_an_unknown_node_leaves_nothing_behind(tmp_path):
    graph, raw = made()
    raw = raw.copy()
    raw[1, 700] = 97
    with pytest.raises(ValueError, match=r"edge target must be a node in 0\.\.96, got 97"):
        stream(graph, raw, tmp_path / "a", tmp_path / "work")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_missing_rows_are_refused(tmp_path):
    header = Header(name="t", num_nodes=3, num_features=1, num_classes=1, expected_edges=0)

    def write_too_few():
        with GraphWriter(tmp_path / "a", header, scratch=tmp_path / "work") as writer:
            writer.add_nodes(np.ones((1, 1), np.float32), np.zeros(1, int))
            writer.finish()

    with pytest.raises(ValueError, match="rows must be 3, as its header says, got 1"):
        write_too_few()
    assert not (tmp_path / "a" / "nodes.parquet").exists()


# the call after which the process is killed, and how often it is called before
KILLED = {
    "while rows are written": ("streaming.GraphWriter", "add_nodes", 2),
    "while the files are hashed": ("graph_files", "file_facts", 2),
    # three files are renamed when they are whole, and two of them are then put in place
    "while they are put in place": ("os", "replace", 3 + 2),
}
KILL = """
import os, signal
from pathlib import Path
import numpy as np
from dpgnn.data.files import graph_files, pieces, streaming

before, calls = {owner}.{call}, []
def counted(*args, **more):
    found = before(*args, **more)
    calls.append(1)
    if len(calls) == {number}:
        os.kill(os.getpid(), signal.SIGTERM)
    return found
{owner}.{call} = counted
header = streaming.Header(name="toy", num_nodes=4, num_features=1, num_classes=2, expected_edges=4)
rows = lambda: ((np.ones((2, 1), np.float32), np.array([0, 1]), dict()) for _ in range(2))
ends = lambda: iter([(np.array([0, 1]), np.array([1, 2]))])
pieces.write(pieces.Pieces(header=header, nodes=rows, edges=ends), Path("out"))
"""


@pytest.mark.parametrize("moment", KILLED)
def test_a_killed_write_can_be_repeated_and_what_it_left_is_removed(tmp_path, moment):
    owner, call, number = KILLED[moment]

    def write(number):
        code = KILL.format(owner=owner, call=call, number=number)
        return subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode

    assert write(number) == -signal.SIGTERM
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert left
    assert "graph.json" not in left
    datasets.check_out(tmp_path / "out", tmp_path / "own")
    assert write(0) == 0
    found = {path.name for path in (tmp_path / "out").iterdir()}
    assert found == {"graph.json", "nodes.parquet", "edges.parquet", OF_FOLDER}
    assert list((tmp_path / "work" / "streaming").iterdir()) == []
    assert read_graph(tmp_path / "out", full_check=True).num_edges == 4


@pytest.mark.slow
def test_memory_stays_bounded_while_the_graph_is_larger(tmp_path):
    """8 million edges and 1 GB of rows pass through a process that may grow by 400 MB."""
    code = f"""
import resource, numpy as np
from pathlib import Path
from dpgnn.data.files.streaming import GraphWriter, Header
rng = np.random.default_rng(0)
header = Header(name="big", num_nodes=1_000_000, num_features=256, num_classes=4, expected_edges=16_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
folder = Path({str(tmp_path)!r})
with GraphWriter(folder / "big", header, scratch=folder / "work", memory_bytes=128 << 20) as writer:
    for _ in range(80):
        writer.add_edges(*rng.integers(0, 1_000_000, (2, 100_000)))
    for _ in range(100):
        x = np.repeat(rng.random((100, 256), dtype=np.float32), 100, axis=0)
        writer.add_nodes(x, rng.integers(0, 4, 10_000))
    writer.finish()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(found.stdout) < 400
