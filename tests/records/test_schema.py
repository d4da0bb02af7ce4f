"""The record: who may see answers, in records of today and in older ones; events are read as written."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from contract import PRIVATE, planned
from made_runs import make_record

from dpgnn.accountants.events import GaussianRelease, compose
from dpgnn.core.storage import canonical_json
from dpgnn.methods.base import Support
from dpgnn.records.schema import answers_of, event_from, event_of

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


@pytest.mark.parametrize(("name", "mode", "support"), PRIVATE)
def test_every_event_of_every_method_is_read_again_as_it_was(
    name: str, mode: Any, support: Support
) -> None:
    _, _, plan = planned(name, mode, support)
    for mechanism in plan.mechanisms:
        written = json.loads(canonical_json(event_of(mechanism.event)))
        assert event_from(written) == mechanism.event


def test_an_event_of_another_type_or_with_a_wrong_number_is_refused() -> None:
    good = event_of(
        compose(GaussianRelease(relation="add-remove", noise_stddev=1.0, sensitivity=1.0), 3)
    )
    assert event_from(good).parts[0][1] == 3
    with pytest.raises(ValueError, match="event type"):
        event_from(good | {"type": "Event"})
    with pytest.raises(ValueError, match="noise_stddev"):
        event_from(good | {"parts": [[{**good["parts"][0][0], "noise_stddev": -1.0}, 3]]})
