"""The study to start from is right for the data set it is made for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from dpgnn.data.datasets.template import release_text, study_text
from dpgnn.study.study import resolve


def own_graph(folder: Path, num_nodes: int, *, split: bool) -> None:
    folder.mkdir(parents=True)
    given = {"x": np.ones((num_nodes, 2)), "y": np.arange(num_nodes) % 2}
    if split:
        train = np.arange(num_nodes) < num_nodes // 2
        given |= {"train_mask": train, "test_mask": ~train}
    edges = np.array([[0], [1]])
    np.savez(folder / "graph.npz", edge_index=edges, **given)


@pytest.mark.parametrize(
    ("num_nodes", "split", "full"),
    [(10, False, True), (2000, False, False), (10, True, True), (2000, True, False)],
)
def test_an_own_graph_runs_in_its_split_and_a_small_one_in_full_batches(
    tmp_path: Path, num_nodes: int, split: bool, full: bool
) -> None:
    own_graph(tmp_path / "mine", num_nodes, split=split)
    study = yaml.safe_load(study_text("mine", own_folder=tmp_path))
    setting = "public" if split else "random"
    assert study["datasets"] == {"mine": {"settings": [setting]}}
    assert study["settings"][setting]["kind"] == setting
    assert ("options" in study["entries"]["dp_mlp"]) == full


def test_a_name_that_cannot_stand_in_a_path_is_refused(tmp_path: Path) -> None:
    own_graph(tmp_path / "my graph", 10, split=False)
    with pytest.raises(ValueError, match="name of a data set must be letters"):
        study_text("my graph", own_folder=tmp_path)


def test_a_release_draws_parts_in_which_no_node_moves_another(tmp_path: Path) -> None:
    own_graph(tmp_path / "mine", 2000, split=False)
    study = resolve(yaml.safe_load(release_text("mine", own_folder=tmp_path)))
    assert study.config.settings["coins"].keeps_others


@pytest.mark.parametrize("num_nodes", [10, 2000])
def test_a_release_is_one_private_run(tmp_path: Path, num_nodes: int) -> None:
    own_graph(tmp_path / "mine", num_nodes, split=True)
    study = resolve(yaml.safe_load(release_text("mine", own_folder=tmp_path)))
    assert [key.folder for key in study.keys] == ["mine.public/dp_mlp/eps=4/0"]
    assert study.config.randomness == "release"
    entry = study.entries["dp_mlp"].for_dataset("mine")
    # the private number of training nodes chooses no option
    assert entry.options.training.expected_batch_size == "full"
