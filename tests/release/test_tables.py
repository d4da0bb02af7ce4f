"""Ids of asked nodes are found in bundles of earlier versions."""

from __future__ import annotations

from dpgnn.release.tables import _of_ids


def test_a_whole_number_is_also_the_node_that_was_called_by_a_float() -> None:
    assert _of_ids(("7.0", "8.00", "9", "1.5", "a.0")) == {
        "7": 0, "8": 1, "7.0": 0, "8.00": 1, "9": 2, "1.5": 3, "a.0": 4,
    }  # fmt: skip
    assert _of_ids(("7.0", "7")) == {"7": 1, "7.0": 0}
