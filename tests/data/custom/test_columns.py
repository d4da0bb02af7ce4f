"""Names and cells of own tables."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from helpers import tells

from dpgnn.data.custom import columns
from dpgnn.data.custom.check import Problems
from dpgnn.data.custom.columns import Rows
from dpgnn.data.custom.options import MAX_FEATURES
from dpgnn.data.custom.read import problems_of

PATH = Path("nodes.csv")


def rows(**cells: object) -> Rows:
    return Rows(path=PATH, frame=pl.DataFrame(cells), first=10)


def test_every_repeated_name_is_told() -> None:
    with pytest.raises(ValueError, match="have different names, got 'a, c twice'"):
        columns.check_names(PATH, ["c", "a", "b", "a", "c", "c"])
    columns.check_names(PATH, ["a", "b"])


def test_names_are_checked_in_linear_time() -> None:
    """200,000 names; comparing each with all others took 14 s for a tenth of them."""
    start = time.process_time()
    columns.check_names(PATH, [f"f{i}" for i in range(200_000)])
    assert time.process_time() - start < 5


def test_more_columns_than_a_model_can_have_are_refused() -> None:
    names = ["f"] * (MAX_FEATURES + 1)
    with pytest.raises(ValueError, match="be 1000000 or fewer, got 1000001"):
        columns.check_names(PATH, names)


def test_features_are_all_columns_but_id_labels_and_split() -> None:
    names = ["id", "h", "label", "label_3", "label_x", "split", "w"]
    assert columns.feature_columns(PATH, names, Problems()) == ["h", "label_x", "w"]
    problems = Problems()
    assert columns.feature_columns(PATH, ["id", "label"], problems) == []
    (problem,) = problems.texts
    tells(problem, "nodes.csv", "features must", "'none'")


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "__index_level_0__"])
def test_the_index_of_a_pandas_table_is_no_feature(name: str, tmp_path: Path) -> None:
    problems = Problems()
    columns.feature_columns(PATH, [name, "h", "label"], problems)
    (problem,) = problems.texts
    tells(problem, "nodes.csv: columns must hold a feature", "write with index=False")
    (tmp_path / "nodes.csv").write_text(f"{name},h,label\n0,1,0\n1,2,1\n2,3,1\n")
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n")
    (problem,) = problems_of(tmp_path)
    tells(problem, "write with index=False")


@pytest.mark.parametrize("name", ["ID", "Label", "Split", "LABEL_3", "label "])
def test_a_name_in_other_case_is_neither_a_feature_nor_read_as_another(name: str) -> None:
    problems = Problems()
    columns.feature_columns(PATH, [name, "h"], problems)
    (problem,) = problems.texts
    tells(problem, f"column {name} must", f"did you mean {name.strip().lower()}?")


def test_cells_become_texts_without_blanks() -> None:
    cells = pl.Series("c", [" a ", None, "b"])
    assert columns.texts_of(cells).to_list() == ["a", "", "b"]
    assert columns.texts_of(pl.Series("c", [1.5, float("nan"), None])).to_list() == ["1.5", "", ""]


def test_whole_floats_name_the_same_nodes_as_integers(tmp_path: Path) -> None:
    """As pandas writes a column of integers that had an empty cell."""
    cells = pl.Series("c", [3.0, -1.0, 2.0**60, float("inf"), 0.1])
    assert columns.texts_of(cells).to_list() == ["3", "-1", "1.152921504606847e+18", "inf", "0.1"]
    # a float of 32 bits holds whole numbers below 2^24, each by itself
    short = pl.Series("c", [2.0**24 - 1, 2.0**24, 2.0**24 + 4], dtype=pl.Float32)
    assert columns.texts_of(short).to_list() == ["16777215", "16777216.0", "16777220.0"]
    nodes = {"id": [7.0, 8.0, 9.0], "h": [1, 2, 3], "label": [0, 1, 1]}
    pl.DataFrame(nodes).write_parquet(tmp_path / "nodes.parquet")
    pl.DataFrame({"source": [7, 8], "target": [8.0, 9.0]}).write_parquet(tmp_path / "edges.parquet")
    assert problems_of(tmp_path) == []
    pl.DataFrame({"h": [1, 2, 3], "label": [0, 1, 1]}).write_parquet(tmp_path / "nodes.parquet")
    pl.DataFrame({"source": [0.0, 1.0], "target": [1, 2]}).write_parquet(tmp_path / "edges.parquet")
    assert problems_of(tmp_path) == []


def test_a_cell_that_is_no_number_is_named_by_its_node() -> None:
    problems = Problems()
    assert columns.numbers(rows(h=["1", "x", "y"]), "h", problems) is None
    (problem,) = problems.texts
    tells(problem, "nodes.csv", "column h", "node 11", "must be a number", "'x", 1)
    found = columns.numbers(rows(h=[" 1.5", "2", "-3e2"]), "h", Problems())
    np.testing.assert_array_equal(found, [1.5, 2.0, -300.0])


def test_parts_of_the_split_are_codes() -> None:
    table = rows(split=["test", "train", "", "val"])
    found = columns.codes(table, Problems())
    assert found is not None
    assert found.dtype == np.int8
    np.testing.assert_array_equal(found, [2, 0, -1, 1])
    assert columns.codes(rows(h=[1.0]), Problems()) is None


def test_ends_are_positions_of_ids_or_rows() -> None:
    edges = Rows(path=PATH, frame=pl.DataFrame({"source": ["a", "c"], "target": ["b", "a"]}))
    source, target = columns.ends(edges, {"a": 0, "b": 1, "c": 2}, 3, Problems())
    np.testing.assert_array_equal(source, [0, 2])
    np.testing.assert_array_equal(target, [1, 0])
    problems = Problems()
    edges = Rows(path=PATH, frame=pl.DataFrame({"source": ["0", "3"], "target": ["1", "0"]}))
    assert columns.ends(edges, None, 3, problems) == (None, None)
    tells(problems.texts[0], "source", "edge 2", "0..2", "'3'")
