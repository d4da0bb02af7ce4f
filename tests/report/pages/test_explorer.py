"""The table that the site's explorer reads: every cell, with the size of its graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpgnn.report.pages.explorer import _num_edges, explorer_table
from dpgnn.report.pages.study_results import StudyResults


def test_every_cell_that_no_sweep_made_is_a_row(documented: tuple[StudyResults, Path]) -> None:
    results = documented[0]
    rows = explorer_table([results]).rows
    stated = [cell for cell in results.cells if "~" not in cell.entry]
    assert [(row.dataset, row.entry, row.epsilon) for row in rows] == [
        (cell.dataset, cell.entry, cell.epsilon) for cell in stated
    ]
    assert [row.mean for row in rows] == [cell.interval.mean for cell in stated]


@pytest.mark.parametrize(
    ("dataset", "edges"),
    # ppi's published number is of raw edges; stand-ins and a user's own graph have none
    [("cora", 10556), ("photo", 238162), ("ppi", None), ("synthetic-arxiv", None), ("mine", None)],
)
def test_edges_are_those_that_were_published_of_the_whole_graph(
    dataset: str, edges: int | None
) -> None:
    assert _num_edges(dataset) == edges
