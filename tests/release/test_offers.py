from __future__ import annotations

import json

import pytest
from contract import CASES, NOT_THERE

from dpgnn import methods
from dpgnn.__main__ import main
from dpgnn.release.offers import Offer, offers


@pytest.fixture(scope="module")
def table() -> list[Offer]:
    return offers()


def test_every_way_to_run_every_method_has_a_line(table: list[Offer]) -> None:
    ways = {
        (name, mode, *((pair.privacy_unit, pair.relation) if pair else (None, None)))
        for name, mode, pair in (case.values for case in CASES)
    }
    found = [(one.method, one.mode, one.privacy_unit, one.relation) for one in table]
    assert len(found) == len(set(found))
    assert set(found) == ways - NOT_THERE


def test_answers_and_seconds_are_those_of_records(table: list[Offer]) -> None:
    by_way = {(one.method, one.mode, one.privacy_unit, one.relation): one for one in table}
    edge = by_way["gap", "sound", "edge", "add-remove"]
    assert edge.answers == ("everyone",)
    assert by_way["votes", "sound", "node-record", "add-remove"].answers == ("own-record",)
    assert by_way["gcn", "nonprivate", None, None].answers == ("none",)
    for one in table:
        assert (one.seconds is None) == (one.graphs == 0)
        if one.seconds is not None:
            assert 0 < one.seconds[0] <= one.seconds[1]
    assert edge.graphs >= 9


def test_methods_are_named_as_people_write_them_and_units_choose(table: list[Offer]) -> None:
    assert {one.method for one in offers(["DP-MLP", "votes"])} == {"dp_mlp", "votes"}
    assert list(offers(unit="edge")) == [one for one in table if one.privacy_unit == "edge"]
    with pytest.raises(ValueError, match=r"did you mean votes"):
        offers(["vote"])


def test_the_command_prints_a_line_for_each(
    table: list[Offer], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["methods", "GAP", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert [one["mode"] for one in values] == [one.mode for one in table if one.method == "gap"]
    assert main(["methods"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines[1:] if line.startswith("  ")]) == len(table)
    assert len([line for line in lines if line and line[0] != " "]) == len(methods.TABLE)
    assert main(["methods", "--unit", "nodes"]) == 1
    assert "unknown unit 'nodes'" in capsys.readouterr().err
