import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from dpgnn.data import datasets


def test_digits_are_the_real_ones_joined_to_their_nearest_neighbours():
    graph = datasets.load("digits", folder="unused", root_seed=0)
    raw = load_digits()
    np.testing.assert_array_equal(graph.y, raw.target)
    np.testing.assert_allclose(graph.x, raw.data / 16, rtol=1e-6)
    search = NearestNeighbors(n_neighbors=11).fit(raw.data)
    distance, index = search.kneighbors(raw.data)
    pairs = set(map(tuple, graph.edge_index.T.tolist()))
    for node in range(graph.num_nodes):
        # strictly nearer than the 10th neighbour: no tie can move them
        for other in index[node, 1:][distance[node, 1:] < distance[node, 10] - 1e-9]:
            assert (node, int(other)) in pairs
    degree = np.bincount(graph.edge_index[0], minlength=graph.num_nodes)
    assert degree.min() >= 10


def test_digits_carry_the_preprocessing_caveat():
    assert datasets.provenance("digits")["edge_caveats"] == ["preprocessing"]
