"""The record's schema: who may see answers, in records of today and in older ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_runs import make_record

from dpgnn.records.schema import answers_of

AGGREGATES = "an answer reads the asked node's own features and its own noisy rows; it is for that node alone"


@pytest.mark.parametrize(
    ("told", "unit", "expected"),
    [
        ({"answers": "everyone"}, "node", "everyone"),
        ({"answers": "none"}, "edge", "none"),
        ({"covered": True, "note": "own features"}, "node-features", "own-record"),
        ({"covered": True, "note": "noisy release"}, "edge", "everyone"),
        ({"covered": False, "note": AGGREGATES}, "node-bounded", "own-record"),
        ({"covered": False, "note": "own-record: reads the board"}, "node-record", "own-record"),
        ({"covered": False, "note": "reads features within 2 hops"}, "node", "none"),
        ({}, "node", "none"),
    ],
)
def test_who_may_see_answers_is_read_from_records_of_either_form(
    told: dict[str, Any], unit: str, expected: str
) -> None:
    made = make_record("alpha", "gap", "8", 0, 0.5)
    record = replace(made, prediction=told, entry={**made.entry, "privacy_unit": unit})
    assert answers_of(record) == expected


def test_without_privacy_no_claim_holds_for_answers() -> None:
    made = make_record("alpha", "mlp", "inf", 0, 0.5)
    assert answers_of(replace(made, prediction={"covered": True})) == "none"
