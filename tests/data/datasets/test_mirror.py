"""Every graph of the mirror's manifest loads with the counts there."""

import json

import numpy as np
import pytest

from dpgnn.data import datasets

NAMES = {
    "cora": "cora",
    "citeseer": "citeseer",
    "cora_ml": "cora_ml",
    "photo": "amazon-photo",
    "computers": "amazon-computers",
    "cs": "coauthor-cs",
    "physics": "coauthor-physics",
}


@pytest.mark.data
@pytest.mark.parametrize("name", NAMES)
def test_a_graph_of_the_manifest_loads_with_the_counts_there(mirror, tmp_path, name):
    manifest = json.loads((mirror / "MANIFEST.json").read_text())["datasets"]
    wanted = {item["name"]: item for item in manifest}[NAMES[name]]
    graph = datasets.load(name, folder=tmp_path, root_seed=0)
    assert graph.num_nodes == wanted["num_nodes"]
    assert graph.num_edges == wanted["num_edges_directed"] == 2 * wanted["num_edges_undirected"]
    assert graph.num_features == wanted["num_features"]
    assert graph.num_classes == wanted["num_classes"]
    assert np.bincount(graph.y).tolist() == wanted["class_counts"]


@pytest.mark.data
@pytest.mark.parametrize("name", ["cora", "photo", pytest.param("cs", marks=pytest.mark.slow)])
def test_values_equal_those_of_the_pyg_loader(mirror, tmp_path, name):
    """A second reader of the same files, written by others."""
    import shutil

    from torch_geometric.datasets import Amazon, Coauthor, Planetoid

    folder = {"cora": "cora", "photo": "Photo", "cs": "CS"}[name]
    shutil.copytree(mirror / folder, tmp_path / "pyg" / folder)
    for item in (tmp_path / "pyg").rglob("*"):
        item.chmod(0o755)
    make = {
        "cora": lambda root: Planetoid(root, "cora"),
        "photo": lambda root: Amazon(root, "photo"),
        "cs": lambda root: Coauthor(root, "cs"),
    }[name]
    theirs = make(str(tmp_path / "pyg"))[0]
    ours = datasets.load(name, folder=tmp_path, root_seed=0)
    np.testing.assert_array_equal(ours.dense_x(), theirs.x.numpy())
    np.testing.assert_array_equal(ours.y, theirs.y.numpy())
    edges = theirs.edge_index.numpy()
    np.testing.assert_array_equal(ours.edge_index, edges[:, np.lexsort((edges[1], edges[0]))])
    if name == "cora":
        public = ours.splits["public"]
        for part in ("train", "val", "test"):
            mask = theirs[f"{part}_mask"].numpy()
            np.testing.assert_array_equal(public[part], np.flatnonzero(mask))
