import argparse
import dataclasses
import json

import numpy as np
import pytest

from dpgnn.cli import data, split
from dpgnn.core import seeds
from dpgnn.core.config import ConfigError
from dpgnn.core.storage import parquet_metadata
from dpgnn.data import datasets
from dpgnn.data.files.graph_files import read_meta
from dpgnn.data.splits import SplitConfig, make_split, read_split


def run(*words):
    parser = argparse.ArgumentParser()
    subparsers = parser.add_subparsers(required=True)
    data.add_parser(subparsers)
    split.add_parser(subparsers)
    args = parser.parse_args([str(word) for word in words])
    return args.func(args)


@pytest.fixture
def graph_folder(tmp_path):
    folder = tmp_path / "results" / "graphs" / "chains-s"
    assert run("data", "prepare", "chains-s", "--out", folder, "--raw", tmp_path / "raw") == 0
    return folder


def split_command(folder, out, *more):
    axes = ["--dataset", "chains-s", "--setting", "s", "--repeat", 2, "--root-seed", 7]
    return run("split", "--graph", folder, *axes, "--out", out, *more)


def test_the_flags_are_the_fields_of_the_recipe():
    assert set(split.FLAGS) == {field.name for field in dataclasses.fields(SplitConfig)}


def test_flags_and_json_give_the_same_split_drawn_from_the_named_stream(graph_folder, tmp_path):
    out, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    recipe = {"kind": "random", "train_fraction": 0.5, "inductive": True}
    split_command(graph_folder, out, "--kind", "random", "--train-fraction", ".5", "--inductive")
    split_command(graph_folder, other, "--setting-json", json.dumps(recipe))
    assert out.read_bytes() == other.read_bytes()
    rng = seeds.child(7, "split", dataset="chains-s", setting="s", repeat=2)
    graph = datasets.read_graph(graph_folder)
    wanted = make_split(graph, SplitConfig(**recipe), rng=rng)
    np.testing.assert_array_equal(read_split(out).train_idx, wanted.train_idx)
    kept = parquet_metadata(out)
    assert kept["graph_sha256"] == read_meta(graph_folder)["content_sha256"]
    assert kept["config"]["train_fraction"] == 0.5


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("{", "--setting-json must be JSON"),
        ("[]", "--setting-json must be a JSON object"),
        ('{"knd": "random"}', "setting.knd is not a known key; did you mean kind"),
        ('{"train_fraction": "half"}', "setting.train_fraction must be a number"),
        ('{"train_fraction": 2}', "setting: train_fraction must be in"),
    ],
)
def test_a_bad_recipe_is_named_by_its_key(graph_folder, tmp_path, recipe, message):
    with pytest.raises((ConfigError, ValueError), match=message):
        split_command(graph_folder, tmp_path / "a.parquet", "--setting-json", recipe)
    assert not (tmp_path / "a.parquet").exists()


def test_too_few_nodes_name_data_set_setting_and_remedy(tmp_path):
    import numpy as np

    from dpgnn.data.datasets import save_graph
    from dpgnn.data.graph import Graph

    graph = Graph(
        name="three", x=np.ones((3, 1), np.float32), y=np.array([0, 1, -1]), num_classes=2,
        edge_index=np.zeros((2, 0), np.int64), task="multiclass", directed=False, splits={},
    )  # fmt: skip
    save_graph(graph, tmp_path / "graph")
    words = ["--dataset", "mine", "--setting", "first", "--repeat", "0", "--root-seed", "0"]
    words += ["--train-fraction", "0.9", "--val-fraction", "0.05"]
    says = (
        r"data set mine, setting first: .*number of test nodes must be >= 1, got 0; 2 of .*train_fr"
    )
    with pytest.raises(ValueError, match=says):
        run("split", "--graph", tmp_path / "graph", *words, "--out", tmp_path / "s.parquet")
