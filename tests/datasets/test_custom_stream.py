import numpy as np
import polars as pl
import pytest
import yaml

from dpgnn import datasets
from dpgnn.datasets import custom_stream
from dpgnn.datasets.content import content_hash

OPTIONS = {"num_classes": 3, "drop_duplicates": True}


def write(folder, *, seed=0, options=OPTIONS, **change):
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    part = rng.choice(["train", "val", "test", None], 300)
    label = [None if y < 0 else int(y) for y in rng.integers(-1, 3, 300)]
    nodes = {
        "a": rng.random(300),
        "b": rng.integers(0, 9, 300),
        "label": label,
        "split": [p if y is not None else None for p, y in zip(part, label)],
    } | change
    pl.DataFrame(nodes).write_parquet(folder / "nodes.parquet")
    source, target = rng.integers(0, 300, (2, 900))
    keep = source != target
    edges = {"source": source[keep], "target": target[keep]}
    pl.DataFrame(edges).write_parquet(folder / "edges.parquet")
    (folder / "graph.yaml").write_text(yaml.safe_dump(options))


@pytest.fixture
def large(monkeypatch, tmp_path):
    """Every graph counts as large, batches are small, and scratch files go to a folder of the test."""
    monkeypatch.setattr(custom_stream, "STREAMED_BYTES", 0)
    monkeypatch.setattr(custom_stream, "ROWS_AT_ONCE", 64)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def prepare(folder):
    return datasets.prepare("mine", folder / "out", folder=folder, root_seed=0, own_folder=folder)


def test_a_streamed_own_graph_is_the_one_read_at_once(large):
    write(large / "mine")
    meta = prepare(large)
    whole = datasets.load("mine", folder=large, root_seed=0, own_folder=large)
    assert meta["content_sha256"] == content_hash(whole)
    assert content_hash(datasets.read_graph(large / "out", full_check=True)) == content_hash(whole)


BAD = {
    "classes not stated": ({"options": {"drop_duplicates": True}}, "num_classes must be stated"),
    "duplicates not settled": ({"options": {"num_classes": 3}}, "drop_duplicates must be true"),
    "ids": ({"id": list(range(300))}, "column id must not be there"),
    "an empty cell": ({"a": [None] + [0.0] * 299}, "column a of row 0 must be a number"),
    "not finite": ({"a": [0.0] * 299 + [np.inf]}, "x of node 299 must be finite"),
    "a word": ({"a": ["x"] * 300}, "column a must hold numbers"),
    "a label beyond the classes": ({"label": [3] * 300}, "y of node 0 must lie in -1..2, got 3"),
    "labels with decimals": ({"label": [0.5] * 300}, "label must be integers"),
    "an unknown part": ({"split": ["trian"] * 300}, "split of row 0 must be train, val, test"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_value_is_named_and_nothing_is_left(large, case):
    change, message = BAD[case]
    write(large / "mine", **change)
    with pytest.raises(ValueError, match=message):
        prepare(large)
    assert not [path for path in (large / "out").rglob("*") if path.is_file()]


def test_a_small_graph_is_read_at_once(tmp_path):
    write(tmp_path / "mine")
    assert not custom_stream.is_large(tmp_path / "mine")
