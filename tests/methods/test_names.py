"""Methods are found by their names as people write them."""

from __future__ import annotations

import pytest

from dpgnn import methods


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("DP-GNN", "dp_gnn"),
        ("dpgnn", "dp_gnn"),
        ("dp gnn", "dp_gnn"),
        ("CARIBOU", "caribou"),
        ("gap", "gap"),
        ("DP-MLP, answers averaged", "dp_mlp_smooth"),
    ],
)
def test_a_name_is_read_however_it_is_written(written: str, name: str) -> None:
    assert methods.name_of(written) == name


def test_every_title_that_is_a_name_finds_its_method() -> None:
    for name in methods.TABLE:
        assert methods.name_of(methods.get(name).title) == name
        assert methods.get(methods.get(name).title).name == name


def test_a_near_miss_is_suggested() -> None:
    with pytest.raises(ValueError, match=r"unknown method 'DPMPL'.*did you mean dp_mlp"):
        methods.name_of("DPMPL")


def test_a_name_unlike_its_line_in_the_table_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(methods.TABLE, "mine", "dpgnn.methods.mlp")
    with pytest.raises(
        ValueError, match=r"name of METHOD of dpgnn.methods.mlp must be mine.*TABLE"
    ):
        methods.get("mine")
    monkeypatch.setitem(methods.TABLE, "mine", "dpgnn.methods.queries")
    with pytest.raises(ValueError, match=r"METHOD of dpgnn.methods.queries must be a Method"):
        methods.get("mine")
