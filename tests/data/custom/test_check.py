"""Each check of an own graph finds its one fault and nothing in a right graph."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dpgnn.data.custom import check
from dpgnn.data.custom.check import Problems, RawGraph
from dpgnn.data.custom.options import Options


def raw(**change: Any) -> RawGraph:
    given: dict[str, Any] = {
        "where": "nodes",
        "where_edges": "edges",
        "num_nodes": 3,
        "x": None,
        "y": None,
        "source": None,
        "target": None,
    }
    return RawGraph(**given | change)


def test_nodes_edges_and_columns_have_the_users_names() -> None:
    batch = raw(first=10, first_edge=5)
    assert (batch.name_of(2), batch.number_of(0), batch.column_name(1)) == ("12", 6, "1")
    named = raw(ids=["a", "b", "c"], columns=["h", "w"])
    assert (named.name_of(2), named.column_name(1)) == ("c", "w")


def test_problems_are_collected_and_the_first_one_is_raised() -> None:
    problems = Problems()
    problems.stop()
    problems.add("x", "be 1", 2, "change it")
    with problems.caught():
        raise OSError("no file")
    assert problems.texts == ["x must be 1, got 2; change it", "no file"]
    with pytest.raises(ValueError, match="x must be 1, got 2"):
        problems.stop()


@pytest.mark.parametrize("sparse", [False, True])
def test_a_feature_that_is_not_finite_is_named_by_its_node(sparse: bool) -> None:
    x = np.array([[1, 0], [0, np.nan], [np.inf, 1]], dtype=np.float32)
    for values, found in ((x, 1), (np.nan_to_num(x), 0)):
        problems = Problems()
        check.check_features(raw(), sp.csr_array(values) if sparse else values, problems)
        assert len(problems.texts) == found
        assert not found or "node 1" in problems.texts[0]
        assert not found or "nan, and 1 more" in problems.texts[0]


@pytest.mark.parametrize(
    ("y", "options", "classes", "faults"),
    [
        ([0, 1, -1], Options(), 2, 0),
        ([0, 1, 1], Options(num_classes=5), 5, 0),
        ([0, 5, -1], Options(), 6, 1),
        ([0, 1, 2], Options(num_classes=2), 2, 1),
        ([1, 1, 1], Options(), 2, 1),
        ([0, -2, 1], Options(num_classes=2), 2, 1),
    ],
)
def test_labels_are_classes(y: list[int], options: Options, classes: int, faults: int) -> None:
    problems = Problems()
    assert check.check_labels(raw(), np.array(y), options, problems) == classes
    assert len(problems.texts) == faults


@pytest.mark.parametrize(
    ("source", "target", "options", "faults"),
    [
        ([0, 1], [1, 2], Options(), 0),
        ([0, 1], [1, 3], Options(), 1),
        ([0, 1], [1, 1], Options(), 1),
        ([0, 1], [1, 1], Options(drop_self_loops=True), 0),
        ([0, 0], [1, 1], Options(), 1),
        ([0, 0], [1, 1], Options(drop_duplicates=True), 0),
        ([0, 1], [1, 0], Options(), 0),
        ([0, 1, 2, 0, 0], [9, 1, 2, 1, 1], Options(), 3),
    ],
)
def test_edges_join_nodes_once_and_are_no_loops(
    source: list[int], target: list[int], options: Options, faults: int
) -> None:
    problems = Problems()
    check.check_edges(raw(), np.array(source), np.array(target), options, problems)
    assert len(problems.texts) == faults


def test_each_kind_of_wrong_edge_is_named_by_its_row() -> None:
    problems = Problems()
    source, target = np.array([0, 1, 0, 0]), np.array([9, 1, 1, 1])
    check.check_edges(raw(), source, target, Options(), problems)
    assert [re.search(r"edge (\d+)", text)[1] for text in problems.texts] == ["1", "2", "3"]  # type: ignore[index]
    assert "0 more" not in problems.texts[1]


def test_a_node_of_a_part_has_a_label_and_parts_are_not_empty() -> None:
    problems = Problems()
    codes = np.array([0, -1, 2], dtype=np.int8)
    check.check_unlabelled(raw(codes=codes), np.array([0, -1, 1]), problems)
    check.check_parts("nodes", {0, -1, 2}, problems)
    assert problems.texts == []
    check.check_unlabelled(raw(codes=codes), np.array([0, 1, -1]), problems)
    check.check_parts("nodes", {0, 1}, problems)
    assert ["node 2" in problems.texts[0], "test nodes" in problems.texts[1]] == [True, True]
