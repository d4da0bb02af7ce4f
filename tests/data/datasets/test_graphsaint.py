import dataclasses
import json

import numpy as np
import pytest
import scipy.sparse as sp

from dpgnn.data.datasets import graphsaint
from dpgnn.data.raw.sources import source_of


class Files:
    source = dataclasses.replace(source_of("flickr"), num_edges=None)

    def __init__(self, folder):
        self.folder = folder

    def path(self, file):
        return self.folder / file


@pytest.fixture
def toy(tmp_path):
    """Four nodes in a path; the file lists some edges once, one twice, and a self-loop."""
    adjacency = sp.csr_matrix(([1, 1, 1, 1], ([0, 1, 2, 3], [1, 0, 3, 3])), shape=(4, 4))
    np.savez(
        tmp_path / "adj_full.npz",
        data=adjacency.data,
        indices=adjacency.indices,
        indptr=adjacency.indptr,
        shape=np.array(adjacency.shape),
        format=np.array(b"csr"),
    )
    np.save(tmp_path / "feats.npy", np.arange(8, dtype=np.float64).reshape(4, 2))
    (tmp_path / "class_map.json").write_text(json.dumps({"2": 0, "0": 2, "1": 1, "3": 0}))
    (tmp_path / "role.json").write_text(json.dumps({"tr": [3, 0], "va": [1], "te": [2]}))
    return Files(tmp_path)


def test_a_multiclass_graph_is_read(toy):
    graph = graphsaint.load("flickr", toy, 0)
    np.testing.assert_array_equal(graph.edge_index, [[0, 1, 2, 3], [1, 0, 3, 2]])
    np.testing.assert_array_equal(graph.y, [2, 1, 0, 0])
    np.testing.assert_array_equal(graph.x, np.arange(8).reshape(4, 2))
    np.testing.assert_array_equal(graph.splits["public"]["train"], [0, 3])


def test_label_lists_give_the_multilabel_task(toy):
    labels = {str(node): [node % 2, 1, 0] for node in range(4)}
    (toy.folder / "class_map.json").write_text(json.dumps(labels))
    graph = graphsaint.load("ppi", toy, 0)
    assert (graph.task, graph.num_classes) == ("multilabel", 3)
    np.testing.assert_array_equal(graph.y, [[0, 1, 0], [1, 1, 0], [0, 1, 0], [1, 1, 0]])


BAD = {
    "class_map.json": ({"0": 1, "1": 0}, r"name the nodes 0\.\.3"),
    "role.json": ({"tr": [0], "va": [1]}, "hold the lists tr, va, te"),
}


@pytest.mark.parametrize("file", BAD)
def test_an_incomplete_table_is_named(toy, file):
    content, message = BAD[file]
    (toy.folder / file).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        graphsaint.load("flickr", toy, 0)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("class_map.json", {"0": 1.7, "1": 0, "2": 0, "3": 0}, "node 0 must be the number of a class, got"),
        ("class_map.json", {"0": 1, "1": None, "2": 0, "3": 0}, "node 1 must be the number of a class"),
        ("class_map.json", {"0": -1, "1": 0, "2": 0, "3": 0}, "label of node 0 must be the number"),
        ("class_map.json", {str(n): [0.5, 1] for n in range(4)}, "node 0 must be a list of 0 and 1"),
        ("class_map.json", {"0": [0, 1], "1": [0], "2": [1, 0], "3": [1, 1]}, "node 1 must be a list"),
        ("role.json", {"tr": [0.9, 1], "va": [2], "te": [3]}, r"role\.json: tr must be a list of nodes"),
    ],
)  # fmt: skip
def test_values_that_are_no_whole_numbers_are_named(toy, file, content, message):
    (toy.folder / file).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        graphsaint.load("flickr", toy, 0)


def test_text_that_is_no_json_is_named(toy):
    (toy.folder / "role.json").write_text("{tr: [0]}")
    with pytest.raises(ValueError, match=r"role\.json must be JSON"):
        graphsaint.load("flickr", toy, 0)


def test_another_number_of_entries_than_published_is_refused(toy):
    toy.source = dataclasses.replace(Files.source, num_edges=899756)
    with pytest.raises(ValueError, match=r"entries of adj_full\.npz must be 899756.*got 4"):
        graphsaint.load("flickr", toy, 0)


def test_an_array_of_objects_is_not_opened(toy):
    np.save(toy.folder / "feats.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="must be numeric, got 'object'"):
        graphsaint.load("flickr", toy, 0)
