import decimal
import re

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from helpers import tells

from dpgnn.data import datasets
from dpgnn.data.custom import read as custom
from dpgnn.data.custom import stream as custom_stream
from dpgnn.data.custom.read import problems_of
from dpgnn.data.files.content import content_hash

OPTIONS = {"num_classes": 3, "drop_duplicates": True}


def write(folder, *, seed=0, options=OPTIONS, ends=None, **change):
    """300 nodes with features a and b; a column that is None is left out."""
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
    nodes = {name: cells for name, cells in nodes.items() if cells is not None}
    pl.DataFrame(nodes).write_parquet(folder / "nodes.parquet")
    source, target = rng.integers(0, 300, (2, 900))
    keep = source != target
    edges = {"source": source[keep], "target": target[keep]}
    pl.DataFrame(ends or edges).write_parquet(folder / "edges.parquet")
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


LABELS = {
    "names": ({"classes": ["book", "film"]}, ["film", "book", None, "-1", ""] * 60),
    "booleans": ({"num_classes": 2}, [True, False, None] * 100),
    "floats, as pandas writes whole numbers beside empty cells": (
        {"num_classes": 3},
        [2.0, float("nan"), None, 0.0] * 75,
    ),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_every_kind_are_those_read_at_once(large, kind):
    options, label = LABELS[kind]
    write(large / "mine", options=options | {"drop_duplicates": True}, label=label, split=None)
    assert problems_of(large / "mine") == []
    prepare(large)
    whole = datasets.load("mine", folder=large, root_seed=0, own_folder=large)
    assert len(np.unique(whole.y)) == 3  # two classes, and -1
    assert content_hash(datasets.read_graph(large / "out", full_check=True)) == content_hash(whole)


ASKED = {
    "classes not stated": ({"options": {"drop_duplicates": True}}, "num_classes must be stated"),
    "duplicates not settled": ({"options": {"num_classes": 3}}, "drop_duplicates must be true"),
    "ids": ({"id": list(range(300))}, "column id must not be there"),
}


def nothing_is_left(folder):
    return not [path for path in (folder / "out").rglob("*") if path.is_file()]


@pytest.mark.parametrize("case", ASKED)
def test_what_a_large_graph_must_state_is_asked_for(large, case):
    change, message = ASKED[case]
    write(large / "mine", **change)
    with pytest.raises(ValueError, match=message):
        prepare(large)
    (problem,) = problems_of(large / "mine")
    assert message in problem
    assert nothing_is_left(large)


MULTILABEL = {"num_classes": 2, "drop_duplicates": True, "task": "multilabel"}
ZERO_ONE = [0, 1] * 150
TWO = {"label": None, "split": None, "label_0": ZERO_ONE, "label_1": ZERO_ONE}
FIVE = MULTILABEL | {"num_classes": 5}
ENDS = {"source": [0, 1], "target": [1, 2]}
BAD = {
    "an empty cell": ({"a": [0.0] * 299 + [None]}, "column a of node 299 must be a number"),
    "not finite": ({"a": [0.0] * 299 + [np.inf]}, "feature of node 299, column a must be finite"),
    "beyond float32": ({"a": [0.0] * 299 + [1e39]}, "feature of node 299, column a must be finite"),
    "a word": ({"a": [*["0"] * 298, "x", "0"]}, "column a of node 298 must be a number, got 'x'"),
    "lists": ({"a": [[1.0]] * 300}, "column a must hold numbers"),
    "no feature": ({"a": None, "b": None}, "features must be one column or more"),
    "a label beyond": ({"label": [0] * 299 + [3]}, "label of node 299 must be a class in 0..2, or"),
    "labels with decimals": ({"label": [0.0] * 299 + [0.5]}, "label of node 299 must be a whole"),
    "labels that are lists": ({"label": [[0]] * 300}, "label must hold numbers or texts"),
    "names without classes": ({"label": ["x"] * 300}, "label of node 0 must be a whole number, as"),
    "one class": ({"label": [1] * 300}, "labels must name two classes or more, got '1 class'"),
    "an unknown part": (
        {"split": [None] * 299 + ["trian"]},
        "split of node 299 must be train, val",
    ),
    "no test nodes": ({"split": ["train"] * 300, "label": ZERO_ONE}, "split must have test nodes"),
    "a part without a label": (
        {"split": ["train", "test"] * 150, "label": [*ZERO_ONE[:299], None]},
        "split of node 299 must be empty: it has no label",
    ),
    "no label": ({"label": None}, "column label must be there"),
    "a label beside label": (
        {"label_1": ZERO_ONE},
        "column label_1 must not be there beside label",
    ),
    "ends with decimals": (
        {"ends": {"source": [0.5], "target": [1.0]}},
        "source of edge 1 must be",
    ),
    "ends cut off": (
        {"ends": {"source": [0, 1], "target": [1.0, 2.5]}},
        "target of edge 2 must be",
    ),
    "ends true or false": (
        {"ends": {"source": [0, 1], "target": [True, False]}},
        "target of edge 1 must be a node in 0..299, got 'True, and 1 more'",
    ),
    "an empty end": ({"ends": {"source": [0, None], "target": [1, 2]}}, "got 'an empty cell'"),
    "an end outside": (
        {"ends": {"source": [0] * 99, "target": [*range(1, 99), 300]}},
        "target of edge 99 must be a node in 0..299, got '300'",
    ),
    "a loop": ({"ends": {"source": [0] * 99, "target": [*range(1, 99), 0]}}, "edge 99 must be no"),
    "a weight": ({"ends": ENDS | {"w": [1, 1]}}, "column w must not be there"),
    "no source": ({"ends": {"from": [0], "target": [1]}}, "column source must be there"),
    "label columns other than stated": (
        TWO | {"options": FIVE},
        "labels must be 5 columns, as graph.yaml says, got 2",
    ),
    "label beside label columns": (
        TWO | {"label": ZERO_ONE, "options": MULTILABEL},
        "column label must not be there beside label_0",
    ),
    "no label columns": (
        {"label": None, "options": MULTILABEL},
        "labels must be columns label_0, label_1, ..., got 'none'",
    ),
    "another number in a label column": (
        TWO | {"label_1": [*ZERO_ONE[:299], 2], "options": MULTILABEL},
        "label_1 of node 299 must be 0 or 1, got 2.0",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_value_is_named_as_in_memory_and_nothing_is_left(large, case):
    change, message = BAD[case]
    write(large / "mine", **change)
    (problem,) = custom.read_folder(large / "mine", "mine")[1]
    assert message in problem
    with pytest.raises(ValueError, match=re.escape(problem)):
        prepare(large)
    assert problems_of(large / "mine") == [problem]
    assert nothing_is_left(large)


@pytest.mark.parametrize("table", ["nodes", "edges"])
def test_a_column_name_twice_is_refused_as_in_memory(large, table):
    write(large / "mine")
    path = large / "mine" / f"{table}.parquet"
    found = pq.read_table(path)
    pq.write_table(found.append_column(found.column_names[0], found[0]), path)
    (problem,) = custom.read_folder(large / "mine", "mine")[1]
    tells(problem, f"{table}.parquet", "columns must", "names")
    with pytest.raises(ValueError, match=re.escape(problem)):
        prepare(large)


def test_numbers_of_256_bits_are_refused_as_in_memory(large):
    write(large / "mine")
    path = large / "mine" / "nodes.parquet"
    wide = pa.array([decimal.Decimal("1.5")] * 300, pa.decimal256(50, 2))
    pq.write_table(pq.read_table(path).set_column(0, "a", wide), path)
    (problem,) = custom.read_folder(large / "mine", "mine")[1]
    tells(problem, "column a must", "'decimal256(50, 2)'")
    assert problems_of(large / "mine") == [problem]


def test_a_folder_of_two_formats_is_refused_however_large(large):
    write(large / "mine")
    (large / "mine" / "nodes.csv").write_text("a,label\n1,0\n")
    with pytest.raises(
        ValueError, match=r"must hold one of .*, got \['nodes.csv', 'nodes.parquet'\]"
    ):
        prepare(large)


def test_a_small_graph_is_read_at_once(tmp_path):
    write(tmp_path / "mine")
    assert not custom_stream.is_large(tmp_path / "mine")
