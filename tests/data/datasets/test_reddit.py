import zipfile

import numpy as np
import pytest

from dpgnn.data.datasets import reddit


class OneFile:
    def __init__(self, path):
        self.path = path

    def only_path(self):
        return self.path


@pytest.fixture
def toy(tmp_path):
    """Nodes 0..19 on a ring; classes 0..9, class k on nodes k and 10 + k except one of class 9."""
    label = np.arange(20) % 10
    label[19], label[18] = 0, 0
    np.savez(
        tmp_path / "reddit_data.npz",
        feature=np.arange(40.0).reshape(20, 2),
        label=label,
        node_types=np.repeat([1, 2, 3], [10, 4, 6]),
    )
    ring = np.arange(20)
    np.savez(tmp_path / "reddit_graph.npz", row=ring, col=(ring + 1) % 20, data=np.ones(20))
    archive = tmp_path / "reddit.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("reddit_data.npz", "reddit_graph.npz"):
            file.write(tmp_path / name, name)
    return OneFile(archive), label


def test_reddit_is_read_from_the_archive(toy):
    files, label = toy
    graph = reddit.load("reddit", files, 0)
    np.testing.assert_array_equal(graph.y, label)
    assert graph.num_edges == 40
    assert [len(graph.splits["public"][part]) for part in ("train", "val", "test")] == [10, 4, 6]


def test_the_subset_keeps_the_largest_classes_and_the_edges_among_them(toy):
    files, label = toy
    graph = reddit.load("reddit-dpar", files, 0)
    kept = np.flatnonzero(label < 8)
    assert graph.num_classes == 8
    np.testing.assert_array_equal(graph.y, label[kept])
    np.testing.assert_array_equal(graph.x[:, 0], 2 * kept)
    pairs = {(int(kept[a]), int(kept[b])) for a, b in graph.edge_index.T}
    ring = {(a, (a + 1) % 20) for a in range(20)}
    assert pairs == {p for a, b in ring for p in ((a, b), (b, a)) if label[a] < 8 and label[b] < 8}


def test_an_archive_without_the_graph_is_refused(tmp_path):
    path = tmp_path / "reddit.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("readme.txt", "nothing")
    with pytest.raises(ValueError, match=r"must hold reddit_data\.npz"):
        reddit.load("reddit", OneFile(path), 0)
