import json

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from dpgnn.data import datasets
from dpgnn.data.datasets import facebook100


class OneFile:
    def __init__(self, path):
        self.path = path

    def only_path(self):
        return self.path


def test_one_hot_gives_a_column_for_each_value_and_none_for_missing():
    codes = np.array([[1, 7], [0, 9], [3, 0], [1, 9]])
    found = facebook100.one_hot(codes).toarray()
    # columns: first 1, first 3, second 7, second 9
    np.testing.assert_array_equal(found, [[1, 0, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0], [1, 0, 0, 1]])


def test_the_recipe_on_a_graph_small_enough_to_draw(tmp_path, monkeypatch):
    """0-1, 1-2, 2-3, 3-4, 5-5: year 2006 has one member, node 4 no year, node 5 no friend but itself."""
    monkeypatch.setattr(facebook100, "MIN_CLASS_SIZE", 2)
    adjacency = np.zeros((6, 6))
    for a, b in [(0, 1), (1, 2), (2, 3), (3, 4), (5, 5)]:
        adjacency[a, b] = adjacency[b, a] = 1
    info = np.zeros((6, 7), dtype=np.uint16)
    info[:, facebook100.YEAR] = [2005, 2004, 2005, 2006, 0, 2004]
    info[:, facebook100.GENDER] = [1, 2, 0, 1, 2, 1]
    path = tmp_path / "Toy.mat"
    scipy.io.savemat(path, {"A": sp.csc_matrix(adjacency), "local_info": info})
    graph = facebook100.load("facebook-Toy", OneFile(path), 0)
    np.testing.assert_array_equal(graph.y, [1, 0, 1])
    np.testing.assert_array_equal(graph.edge_index, [[0, 1, 1, 2], [1, 0, 2, 1]])
    np.testing.assert_array_equal(graph.dense_x(), [[1, 0], [0, 1], [0, 0]])


@pytest.mark.parametrize("damage", ["truncate", "text", "no variable"])
def test_a_damaged_file_is_named(tmp_path, damage):
    path = tmp_path / "Toy.mat"
    content = {"A": sp.csc_matrix(np.eye(500)), "local_info": np.zeros((500, 7))}
    if damage == "no variable":
        del content["local_info"]
    scipy.io.savemat(path, content)
    if damage == "truncate":
        path.write_bytes(path.read_bytes()[:3000])
    elif damage == "text":
        path.write_text("no MATLAB file at all " * 20)
    with pytest.raises(ValueError, match=r"Toy\.mat.* must be (a whole MATLAB|in the file)"):
        facebook100.read_school(path)


@pytest.mark.data
def test_rutgers_has_the_counts_of_the_manifest(mirror, tmp_path):
    manifest = json.loads((mirror / "MANIFEST.json").read_text())["datasets"]
    wanted = {item["name"]: item for item in manifest}["facebook100-Rutgers89"]
    adjacency, info = facebook100.read_school(mirror / "facebook100/raw/Rutgers89.mat")
    assert adjacency.shape[0] == wanted["num_nodes"]
    assert adjacency.nnz == wanted["num_edges_directed"]
    assert facebook100.one_hot(info[:, :5]).shape[1] == wanted["num_features"]
    for year, count in wanted["class_counts"].items():
        assert (info[:, facebook100.YEAR] == int(year)).sum() == count
    graph = datasets.load("facebook-Rutgers89", folder=tmp_path, root_seed=0)
    recipe = wanted["gap_recipe_counts"]
    found = (graph.num_nodes, graph.num_edges, graph.num_classes, graph.num_features)
    assert found == tuple(recipe[k] for k in ("nodes", "directed_edges", "classes", "features"))
