import json

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from dpgnn.core.checksums import OF_FOLDER
from dpgnn.core.storage import DamagedFileError
from dpgnn.data.custom.read import problems_of
from dpgnn.data.files import graph_files
from dpgnn.data.files.content import content_hash
from dpgnn.data.files.graph_files import read_graph, save_graph
from dpgnn.data.graph import Graph


def toy(*, sparse=False, multilabel=False):
    rng = np.random.default_rng(0)
    x = (rng.random((8, 20)) * (rng.random((8, 20)) < 0.2)).astype(np.float32)
    y = rng.integers(0, 3, 8)
    labels = (rng.random((8, 4)) < 0.5).astype(np.uint8)
    ring = np.arange(8)
    edges = np.stack([np.r_[ring, (ring + 1) % 8], np.r_[(ring + 1) % 8, ring]])
    parts = {"train": np.array([0, 1]), "val": np.array([2]), "test": np.array([3, 7])}
    return Graph(
        name="toy",
        x=sp.csr_array(x) if sparse else x,
        edge_index=edges,
        y=labels if multilabel else y,
        num_classes=4 if multilabel else 3,
        task="multilabel" if multilabel else "multiclass",
        splits={"public": parts},
    )


@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_graph_comes_back_equal(tmp_path, sparse, multilabel):
    graph = toy(sparse=sparse, multilabel=multilabel)
    meta = save_graph(graph, tmp_path / "toy", provenance={"licence": "MIT"})
    found = read_graph(tmp_path / "toy", full_check=True)
    assert sp.issparse(found.x) == sparse
    assert meta["x_layout"] == ("csr" if sparse else "dense")
    np.testing.assert_array_equal(found.dense_x(), graph.dense_x())
    np.testing.assert_array_equal(found.edge_index, graph.edge_index)
    np.testing.assert_array_equal(found.y, graph.y)
    assert found.y.dtype == graph.y.dtype
    assert (found.task, found.num_classes, found.name) == (graph.task, graph.num_classes, "toy")
    for part in ("train", "val", "test"):
        np.testing.assert_array_equal(found.splits["public"][part], graph.splits["public"][part])


def test_the_same_graph_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        save_graph(toy(), tmp_path / name)
    for file in ("nodes.parquet", "edges.parquet", "graph.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_the_content_hash_ignores_layout_and_edge_order_and_sees_values():
    graph = toy()
    assert content_hash(graph) == content_hash(toy(sparse=True))
    x = graph.x.copy()
    x[0, 0] += 1
    changed = Graph(name="toy", x=x, edge_index=graph.edge_index, y=graph.y, num_classes=3)
    same = Graph(
        name="toy", x=graph.x, edge_index=graph.edge_index[:, ::-1].copy(), y=graph.y, num_classes=3
    )
    without_splits = Graph(
        name="toy", x=graph.x, edge_index=graph.edge_index, y=graph.y, num_classes=3
    )
    assert content_hash(same) == content_hash(without_splits)
    assert len({content_hash(graph), content_hash(changed), content_hash(without_splits)}) == 3


@pytest.mark.parametrize("file", ["nodes.parquet", "edges.parquet"])
@pytest.mark.parametrize("damage", ["truncate", "flip", "remove"])
def test_a_damaged_file_is_named_with_the_remedy(tmp_path, file, damage):
    save_graph(toy(), tmp_path)
    path = tmp_path / file
    content = bytearray(path.read_bytes())
    if damage == "remove":
        path.unlink()
    else:
        content[len(content) // 2] ^= 16
        path.write_bytes(content[:-7] if damage == "truncate" else content)
    with pytest.raises(DamagedFileError, match=rf"{file} (must have|does not exist).*; "):
        read_graph(tmp_path)


def test_every_flipped_bit_is_found(tmp_path):
    save_graph(toy(), tmp_path)
    path = tmp_path / "edges.parquet"
    content = path.read_bytes()
    for position in range(0, len(content), 37):
        damaged = bytearray(content)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(DamagedFileError):
            read_graph(tmp_path)


def test_an_unfinished_folder_is_not_a_graph(tmp_path):
    save_graph(toy(), tmp_path)
    (tmp_path / "graph.json").unlink()
    with pytest.raises(DamagedFileError, match=r"graph.json does not exist; run the stage"):
        read_graph(tmp_path)
    (problem,) = problems_of(tmp_path)
    assert "must hold graph.json, got none; it is unfinished: make it again" in problem


def test_graph_json_of_another_version_or_content_is_refused(tmp_path):
    save_graph(toy(), tmp_path)
    meta = json.loads((tmp_path / "graph.json").read_text())
    (tmp_path / "graph.json").write_text(json.dumps(meta | {"schema_version": 99}))
    with pytest.raises(DamagedFileError, match=r"graph\.json must be as it was made"):
        read_graph(tmp_path)
    (tmp_path / OF_FOLDER).unlink()
    with pytest.raises(DamagedFileError, match="schema_version 1, got 99"):
        read_graph(tmp_path)
    for key in ("num_edges", "num_features", "num_classes", "task", "directed", "provenance"):
        less = {name: value for name, value in meta.items() if name != key}
        (tmp_path / "graph.json").write_text(json.dumps(less))
        with pytest.raises(
            DamagedFileError, match=rf"graph\.json must have the keys {key}; make it"
        ):
            read_graph(tmp_path)
    (tmp_path / "graph.json").write_text(json.dumps(meta | {"files": {}}))
    with pytest.raises(
        DamagedFileError, match=r"keys files: nodes\.parquet, files: edges\.parquet"
    ):
        read_graph(tmp_path)
    (tmp_path / "graph.json").write_text(json.dumps(meta | {"num_nodes": 9}))
    with pytest.raises(DamagedFileError, match="must hold 9 nodes"):
        read_graph(tmp_path)
    (tmp_path / "graph.json").write_text(json.dumps(meta | {"content_sha256": "0" * 64}))
    with pytest.raises(DamagedFileError, match=r"graph\.json describes"):
        read_graph(tmp_path, full_check=True)


def test_lists_that_are_a_slice_or_hold_nulls_are_read_as_arrow_flattens_them():
    rows = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    fixed = pa.array(rows, pa.list_(pa.float32(), 2))
    ragged = pa.array([[1], [], [2, 3], [4]], pa.list_(pa.int32()))
    with_null = pa.array([[1], None, [2, 3]], pa.list_(pa.int32()))
    for whole in (fixed, ragged, ragged.cast(pa.large_list(pa.int32())), with_null):
        for part in (whole, whole.slice(1), whole.slice(1, 1), whole.slice(0, 0), whole.slice(2)):
            assert graph_files._inner(part).equals(part.flatten())
