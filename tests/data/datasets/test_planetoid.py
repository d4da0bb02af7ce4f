import collections
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from dpgnn.data.datasets import planetoid


class Folder:
    """Stands for RawFiles over a folder of made files."""

    def __init__(self, folder):
        self.folder = folder

    def path(self, file):
        return self.folder / file


@pytest.fixture
def toy(tmp_path):
    """6 nodes: 0, 1 train, 2 other, test 5, 3; node 4 stands in no file, as in CiteSeer."""
    x = sp.csr_matrix(np.arange(12, dtype=np.float64).reshape(6, 2))
    onehot = np.eye(3, dtype=np.int32)[[0, 1, 2, 0, 0, 1]]
    parts = {
        "x": x[:2], "allx": x[:3], "tx": x[[5, 3]],
        "y": onehot[:2], "ally": onehot[:3], "ty": onehot[[5, 3]],
        "graph": collections.defaultdict(list, {0: [1, 1, 0], 1: [0], 2: [3], 5: [0]}),
    }  # fmt: skip
    for part, value in parts.items():
        (tmp_path / f"ind.toy.{part}").write_bytes(pickle.dumps(value, protocol=2))
    (tmp_path / "ind.toy.test.index").write_text("5\n3\n")
    return tmp_path


def test_rows_labels_and_edges_land_on_their_nodes(toy, monkeypatch):
    monkeypatch.setattr(planetoid, "NUM_VAL", 1)
    graph = planetoid.load("toy", Folder(toy), 0)
    wanted = np.arange(12).reshape(6, 2)
    wanted[4] = 0
    np.testing.assert_array_equal(graph.dense_x(), wanted)
    np.testing.assert_array_equal(graph.y, [0, 1, 2, 0, 0, 1])
    pairs = list(map(tuple, graph.edge_index.T.tolist()))
    assert pairs == [(0, 1), (0, 5), (1, 0), (2, 3), (3, 2), (5, 0)]
    np.testing.assert_array_equal(graph.splits["public"]["test"], [3, 5])


def test_an_edge_to_an_unknown_node_is_refused(toy):
    lists = collections.defaultdict(list, {0: [17]})
    (toy / "ind.toy.graph").write_bytes(pickle.dumps(lists, protocol=2))
    with pytest.raises(ValueError, match=r"graph must name nodes 0\.\.5"):
        planetoid.load("toy", Folder(toy), 0)


OTHERS = {
    "x": {"a": [1]}, "allx": np.ones((3, 2)), "tx": [1, 2], "y": sp.csr_matrix(np.eye(3)[:2]),
    "ally": np.ones(3, np.int32), "ty": np.ones((3, 3), np.int32), "graph": {0: 1},
}  # fmt: skip


@pytest.mark.parametrize("part", OTHERS)
def test_a_pickle_of_something_else_is_named(toy, part):
    (toy / f"ind.toy.{part}").write_bytes(pickle.dumps(OTHERS[part], protocol=2))
    with pytest.raises(ValueError, match=rf"/ind\.toy\.{part} must (hold|have shape)"):
        planetoid.load("toy", Folder(toy), 0)


@pytest.mark.parametrize("lists", [[], {0: ["1"]}, {"0": [1]}, {0: [0.5]}, {}])
def test_lists_of_something_else_are_named(toy, lists):
    (toy / "ind.toy.graph").write_bytes(pickle.dumps(lists, protocol=2))
    with pytest.raises(ValueError, match=r"/ind\.toy\.graph(: graph)? must (hold|name)"):
        planetoid.load("toy", Folder(toy), 0)


@pytest.mark.parametrize("text", ["5\nthree\n", "5\n3\u0663\n", "5\n" + "9" * 30, ""])
def test_a_test_index_that_is_not_numbers_is_refused(toy, text):
    (toy / "ind.toy.test.index").write_text(text)
    with pytest.raises(
        ValueError, match=r"/ind\.toy\.test\.index must hold one node position a line"
    ):
        planetoid.load("toy", Folder(toy), 0)
