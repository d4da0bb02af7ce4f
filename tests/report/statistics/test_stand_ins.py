"""Graphs drawn as stand-ins are left out where there are real ones."""

from __future__ import annotations

from dpgnn.data.datasets import is_drawn
from dpgnn.report.statistics.stand_ins import on_real_graphs, on_real_graphs_if_any

MIXED = ["cora", "synthetic-reddit", "photo"]


def test_stand_ins_are_left_out_in_order() -> None:
    assert on_real_graphs(MIXED, str) == ["cora", "photo"]
    assert on_real_graphs_if_any(MIXED, str) == ["cora", "photo"]


def test_where_there_are_no_others_they_stay() -> None:
    assert on_real_graphs(MIXED[1:2], str) == []
    assert on_real_graphs_if_any(MIXED[1:2], str) == ["synthetic-reddit"]


def test_the_chains_of_caribou_are_drawn_and_no_stand_ins() -> None:
    assert on_real_graphs(["chains-s"], str) == ["chains-s"]
    drawn = [name for name in ("chains-s", "synthetic-reddit", "digits", "cora") if is_drawn(name)]
    assert drawn == ["chains-s", "synthetic-reddit"]
