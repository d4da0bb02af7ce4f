import numpy as np

from dpgnn.samplers.adjacency import induced_adjacency


def test_neighbours_are_those_inside_the_chosen_nodes():
    arcs = np.array([[0, 1, 1, 2, 2, 3, 3], [1, 0, 2, 1, 3, 2, 3]])
    graph = induced_adjacency(arcs, num_nodes=4, node_idx=np.array([3, 1, 2]))
    lists = [
        graph.neighbours[start:stop].tolist()
        for start, stop in zip(graph.pointer[:-1], graph.pointer[1:])
    ]
    assert lists == [[], [2], [1, 3], [2]]
    assert graph.members.tolist() == [1, 2, 3]


def test_absent_nodes_have_no_edges_and_chunks_do_not_matter():
    rng = np.random.default_rng(0)
    arcs = np.argwhere(rng.random((30, 30)) < 0.3).T
    present = rng.random(30) < 0.8
    options = {"num_nodes": 30, "node_idx": np.arange(30), "present": present}
    whole = induced_adjacency(arcs, **options)
    parts = induced_adjacency(lambda: iter(np.array_split(arcs, 4, axis=1)), **options)
    assert np.array_equal(whole.neighbours, parts.neighbours)
    assert np.array_equal(whole.members, np.flatnonzero(present))
    assert not np.diff(whole.pointer)[~present].any()
    assert not np.isin(whole.neighbours, np.flatnonzero(~present)).any()
