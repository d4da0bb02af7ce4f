import numpy as np
import pytest
import scipy.sparse as sp

from dpgnn.data.datasets import npz_graphs


class OneFile:
    def __init__(self, path):
        self.path = path

    def only_path(self):
        return self.path


def write(path, adjacency, features, labels):
    arrays = {"labels": np.array(labels)}
    for prefix, matrix in (("adj", sp.csr_matrix(adjacency)), ("attr", sp.csr_matrix(features))):
        for part in ("data", "indices", "indptr"):
            arrays[f"{prefix}_{part}"] = getattr(matrix, part)
        arrays[f"{prefix}_shape"] = np.array(matrix.shape)
    np.savez(path, **arrays)
    return OneFile(path)


def test_edges_are_made_symmetric_and_features_binary(tmp_path):
    adjacency = np.array([[1, 1, 0], [0, 0, 1], [0, 1, 0]])
    features = np.array([[0, 2.5], [0, 0], [-1.0, 7]])
    graph = npz_graphs.load("toy", write(tmp_path / "a.npz", adjacency, features, [0, 1, 1]), 0)
    pairs = list(map(tuple, graph.edge_index.T.tolist()))
    assert pairs == [(0, 1), (1, 0), (1, 2), (2, 1)]
    np.testing.assert_array_equal(graph.dense_x(), [[0, 1], [0, 0], [0, 1]])


def test_an_adjacency_of_another_size_is_refused(tmp_path):
    files = write(tmp_path / "a.npz", np.zeros((4, 4)), np.ones((3, 2)), [0, 1, 1])
    with pytest.raises(ValueError, match=r"adj_shape must be \(3, 3\)"):
        npz_graphs.load("toy", files, 0)
