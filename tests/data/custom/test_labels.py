"""Which columns hold labels, and which class each cell means."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from helpers import tells

from dpgnn.data.custom.check import Problems
from dpgnn.data.custom.columns import Rows
from dpgnn.data.custom.labels import label_columns, labels
from dpgnn.data.custom.options import Options

PATH = Path("nodes.csv")
MANY = Options(task="multilabel")


def read(cells: list[object], options: Options) -> tuple[list[int] | None, list[str]]:
    problems = Problems()
    rows = Rows(path=PATH, frame=pl.DataFrame({"label": cells}))
    found = labels(rows, ["label"], options, problems)
    return None if found is None else found.tolist(), problems.texts


@pytest.mark.parametrize(
    ("names", "options", "found", "faults"),
    [
        (["id", "label"], Options(), ["label"], 0),
        (["label_10", "label_2", "h"], MANY, ["label_2", "label_10"], 0),
        (["h"], Options(), [], 1),
        (["h"], MANY, [], 1),
        (["label", "label_0"], Options(), ["label"], 1),
        (["label", "label_0"], MANY, ["label_0"], 1),
    ],
)
def test_label_columns_are_those_of_the_task(
    names: list[str], options: Options, found: list[str], faults: int
) -> None:
    problems = Problems()
    assert label_columns(PATH, names, options, problems) == found
    assert len(problems.texts) == faults


@pytest.mark.parametrize(
    ("cells", "options", "wanted"),
    [
        (["0", "2", "", "-1"], Options(), [0, 2, -1, -1]),
        (["3.0", "1.0"], Options(), [3, 1]),
        ([1.0, None, float("nan")], Options(), [1, -1, -1]),
        ([True, False], Options(), [1, 0]),
        (["film", "book", ""], Options(), [1, 0, -1]),
        (["film", "book"], Options(classes=("film", "book")), [0, 1]),
    ],
)
def test_cells_are_classes(cells: list[object], options: Options, wanted: list[int]) -> None:
    assert read(cells, options) == (wanted, [])


@pytest.mark.parametrize(
    ("cells", "options"),
    [
        (["0", "film"], Options()),
        (["-2", "0"], Options()),
        ([0.5, 1.0], Options()),
        (["song"], Options(classes=("film", "book"))),
        (["film", "book"], Options(num_classes=2)),
        (["9" * 19, "0"], Options()),
    ],
)
def test_a_cell_that_is_no_class_is_named(cells: list[object], options: Options) -> None:
    found, texts = read(cells, options)
    assert found is None
    assert len(texts) == 1
    assert "label of node" in texts[0]


def test_several_labels_are_zero_or_one() -> None:
    frame = pl.DataFrame({"label_0": ["0", "1"], "label_1": ["1", "2"]})
    problems = Problems()
    assert labels(Rows(path=PATH, frame=frame), ["label_0", "label_1"], MANY, problems) is None
    (problem,) = problems.texts
    tells(problem, "nodes.csv", "label_1", "node 1", "0 or 1", 2.0)
    found = labels(Rows(path=PATH, frame=frame[:1]), ["label_0", "label_1"], MANY, Problems())
    np.testing.assert_array_equal(found, np.array([[0, 1]], dtype=np.uint8))
