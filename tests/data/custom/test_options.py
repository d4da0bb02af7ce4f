"""graph.yaml and the file of a folder that holds the graph."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import tells

from dpgnn.data.custom.options import (
    FORMATS,
    Options,
    graph_file,
    read_options,
)
from dpgnn.data.custom.read import READERS, problems_of
from dpgnn.data.datasets import own_provenance


def test_a_folder_without_a_file_of_options_has_the_defaults(tmp_path: Path) -> None:
    assert read_options(tmp_path) == Options()
    assert Options().stated_classes is None


def test_options_are_read_and_classes_are_counted_from_their_names(tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").write_text("classes: [a, b, c]\ndirected: true\n")
    found = read_options(tmp_path)
    assert found == Options(classes=("a", "b", "c"), directed=True)
    assert found.stated_classes == 3
    assert read_options(tmp_path).caveats == ()


def test_classes_that_are_counted_from_labels_carry_a_caveat(tmp_path: Path) -> None:
    assert read_options(tmp_path).caveats == ("preprocessing",)


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_classes": 1},
        {"num_classes": 1_000_001},
        {"classes": ("a", "a")},
        {"classes": ("a", "b"), "num_classes": 3},
        {"task": "regression"},
    ],
)
def test_impossible_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"({next(iter(wrong))}|num_classes).*got|unknown task"):
        Options(**wrong)  # type: ignore[arg-type]


def test_the_format_is_the_one_file_that_is_there(tmp_path: Path) -> None:
    assert tuple(READERS) == FORMATS
    with pytest.raises(ValueError, match=r"must hold one of .*, got 'none'"):
        graph_file(tmp_path)
    for name in FORMATS:
        (tmp_path / name).touch()
        assert graph_file(tmp_path) == tmp_path / name
        (tmp_path / name).unlink()
    (tmp_path / "graph.npz").touch()
    (tmp_path / "graph.pt").touch()
    with pytest.raises(ValueError, match=r"graph\.npz"):
        graph_file(tmp_path)


@pytest.mark.parametrize(
    ("stated", "says"),
    [("[posts, age]", "another order"), ("[age]", "posts"), ("[age, posts, size]", "no size")],
)
def test_features_that_are_stated_are_the_columns(stated: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,age,posts,label\n0,1,2,0\n1,2,3,1\n")
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n")
    (tmp_path / "graph.yaml").write_text(f"num_classes: 2\nfeatures: {stated}\n")
    (found,) = problems_of(tmp_path)
    tells(found, "features must", "graph.yaml", "got")
    assert says in found.partition(", got ")[2]
    (tmp_path / "graph.yaml").write_text("num_classes: 2\nfeatures: [age, posts]\n")
    assert problems_of(tmp_path) == []
    assert read_options(tmp_path).public_names == {"features": ["age", "posts"]}


def test_ids_that_are_public_are_there(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("age,label\n1,0\n2,1\n")
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n")
    (tmp_path / "graph.yaml").write_text("num_classes: 2\npublic_ids: true\n")
    (found,) = problems_of(tmp_path)
    tells(found, "graph.yaml", "public_ids must", "`id`", "'none in")
    (tmp_path / "nodes.csv").write_text("id,age,label\nanna,1,0\nbo,2,1\n")
    (tmp_path / "edges.csv").write_text("source,target\nanna,bo\n")
    assert problems_of(tmp_path) == []
    assert read_options(tmp_path).public_ids
    assert own_provenance(tmp_path)["public_ids"] is True
    (tmp_path / "graph.yaml").write_text("num_classes: 2\n")
    assert "public_ids" not in own_provenance(tmp_path)
